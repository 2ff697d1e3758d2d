"""How the header Retry-After of a cloud is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.spec.meter import LONGEST_RETRY_AFTER, read_retry_after

NOON = "Sun, 06 Nov 1994 12:00:00 GMT"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("", 0),
        ("-3", 0),
        ("nan", 0),
        ("inf", LONGEST_RETRY_AFTER),
        ("soon", 0),
        ("Sun, 06 Nov 1994 12:01:30 GMT", 90),
        ("Sunday, 06-Nov-94 12:01:30 GMT", 90),
        ("Sun Nov  6 12:01:30 1994", 90),
        ("Sun, 06 Nov 1994 11:00:00 GMT", 0),
        ("Sun, 06 Nov 9994 12:00:00 GMT", LONGEST_RETRY_AFTER),
        ("Sun, 06 Nov 1994 99:00:00 GMT", 0),
    ],
)
def test_seconds_and_all_forms_of_dates_are_read(text: str, seconds: float) -> None:
    assert read_retry_after({"retry-after": text, "DATE": NOON}) == seconds


def test_a_date_without_the_date_of_the_response_is_not_readable() -> None:
    assert read_retry_after({"Retry-After": NOON}) == 0
    assert read_retry_after({}) == 0


@given(st.text(), st.text())
def test_no_text_raises(asked: str, answered: str) -> None:
    assert 0 <= read_retry_after({"Retry-After": asked, "Date": answered}) <= LONGEST_RETRY_AFTER
