"""Which selectors are valid and what they match; hostile ones neither raise nor match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.meta import LabelSelector, Requirement
from nodewright.predicates.selectors import is_label_key, is_label_value, matches_selector, parse_int64


@pytest.mark.parametrize(
    ("key", "legal"),
    [
        ("app", True),
        ("example.com/app", True),
        ("A_b.c-9", True),
        ("", False),
        ("/app", False),
        ("example.com/", False),
        ("a/b/c", False),
        ("UPPER.com/app", False),
        ("-app", False),
        ("app-", False),
        ("app\n", False),
        ("x" * 63, True),
        ("x" * 64, False),
        (f"{'y' * 253}/app", True),
        (f"{'y' * 254}/app", False),
    ],
)
def test_label_keys(key: str, legal: bool) -> None:
    assert is_label_key(key) == legal


@pytest.mark.parametrize(
    ("value", "legal"),
    [("", True), ("a", True), ("a.b_c-d", True), ("x" * 63, True), ("x" * 64, False), ("-3", False), ("a b", False)],
)
def test_label_values(value: str, legal: bool) -> None:
    assert is_label_value(value) == legal


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("1_000", None),
        ("٣", None),
        ("", None),
        ("1.0", None),
        ("9" * 100_000, None),
    ],
)
def test_integers_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


def test_nothing_and_everything() -> None:
    assert not matches_selector({"a": "b"}, None)
    assert matches_selector({}, LabelSelector())


def test_all_conditions_must_hold() -> None:
    selector = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=(Requirement(key="tier", operator="NotIn", values=("front", "back")),),
    )
    assert matches_selector({"app": "web"}, selector)
    assert matches_selector({"app": "web", "tier": "db"}, selector)
    assert not matches_selector({"app": "web", "tier": "back"}, selector)
    assert not matches_selector({"tier": "db"}, selector)


def test_selectors_know_no_comparison() -> None:
    selector = LabelSelector(match_expressions=(Requirement(key="size", operator="Gt", values=("3",)),))
    assert not matches_selector({"size": "5"}, selector)


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
    st.builds(
        LabelSelector,
        match_labels=st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
        match_expressions=st.lists(
            st.builds(Requirement, key=st.text(), operator=st.text(), values=st.lists(st.text()).map(tuple))
        ).map(tuple),
    ),
)
def test_no_selector_raises(labels: dict[str, str], selector: LabelSelector) -> None:
    assert matches_selector(labels, selector) in (True, False)
