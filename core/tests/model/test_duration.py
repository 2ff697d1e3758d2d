import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.duration import format_duration, format_moment, parse_duration, virtual_moments


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5h", 1800),
        ("1.h", 3600),
        ("100ms", 0.1),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),  # the Greek letter: Go takes both
        ("3ns", 3e-9),
        ("87600h", 315360000),
        ("-3s", -3),
        ("+3s", 3),
        ("1s1s", 2),
    ],
)
def test_go_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "1d", "s", ".s", "1h 3m", "1e3s", "10 m", "1H", "--1s", "9999999h", "1m" * 40, "1\u0661s"]
)
def test_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="duration") as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (600, "10m"),
        (5400, "1h30m"),
        (3723.25, "1h2m3.25s"),
        (0.1, "100ms"),
        (0.0005, "500us"),
        (3e-9, "3ns"),
        (7200, "2h"),
        (-90, "-1m30s"),
        (0.9999999999, "1s"),
        (59.9999, "1m"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(10**12), 10**12))
def test_whole_milliseconds_read_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == seconds


def test_virtual_time_counts_from_the_start() -> None:
    with virtual_moments():
        assert format_moment(720.4) == "12m after the start"
    assert format_moment(720.4) == "1970-01-01T00:12:00Z"
