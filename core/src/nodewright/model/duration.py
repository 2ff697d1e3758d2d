"""Durations in Go's format (``10m``, ``1h30m``, ``1.5s``). nodewright holds them in seconds."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from fractions import Fraction

_NANO = 10**9
MAX_NANOSECONDS = 2**63 - 1
_MAX_TEXT = 64
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # Go accepts the micro sign and the Greek letter
    "μs": 10**3,
    "ms": 10**6,
    "s": _NANO,
    "m": 60 * _NANO,
    "h": 3600 * _NANO,
}
_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[-+]?(?:{_PART.pattern.replace('?P<number>', '?:').replace('?P<unit>', '?:')})+")


def parse_duration(text: str) -> float:
    """Return the seconds. Raise ValueError if the text is not a duration or exceeds Go's limit of about 292 years."""
    if text in ("0", "+0", "-0"):
        return 0.0
    if len(text) > _MAX_TEXT or not _WHOLE.fullmatch(text):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(f"{shown!r} is not a duration (like 10s, 1.5m or 1h30m)")
    total = sum(Fraction(part["number"]) * _UNITS[part["unit"]] for part in _PART.finditer(text))
    if total > MAX_NANOSECONDS:
        raise ValueError(f"{text!r} is too long a duration")
    seconds = int(total) / _NANO
    return -seconds if text.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """Return the shortest text for the duration. From one second up it is rounded to milliseconds."""
    sign = "-" if seconds < 0 else ""
    nanoseconds = round(abs(seconds) * _NANO)
    if nanoseconds < _NANO:
        return sign + _format_short(nanoseconds)
    milliseconds = round(nanoseconds / 10**6)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest:
        parts.append(f"{rest / 1000:g}s" if rest % 1000 == 0 else f"{rest / 1000:.3f}".rstrip("0") + "s")
    return sign + "".join(parts)


def _format_short(nanoseconds: int) -> str:
    """Return a duration below one second, in the largest unit that gives a whole number."""
    if nanoseconds == 0:
        return "0s"
    for unit in ("ms", "us"):
        if nanoseconds % _UNITS[unit] == 0:
            return f"{nanoseconds // _UNITS[unit]}{unit}"
    return f"{nanoseconds}ns"


# Whether virtual time is shown: a simulation begins at 0, which would read as a time of 1970.
_IS_VIRTUAL: ContextVar[bool] = ContextVar("is_virtual", default=False)


@contextmanager
def virtual_moments() -> Iterator[None]:
    """Make ``format_moment`` count from the start of a simulation, for what is shown in this thread meanwhile."""
    token = _IS_VIRTUAL.set(True)
    try:
        yield
    finally:
        _IS_VIRTUAL.reset(token)


def format_moment(epoch_seconds: float) -> str:
    """Return the time (seconds since the epoch) as RFC 3339 text in UTC, to the second."""
    if _IS_VIRTUAL.get():
        return f"{format_duration(round(epoch_seconds))} after the start"
    return datetime.fromtimestamp(epoch_seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
