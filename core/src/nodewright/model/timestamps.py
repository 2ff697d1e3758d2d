"""Times as text for operators."""

from datetime import UTC, datetime


def format_moment(epoch_seconds: float) -> str:
    """Return the time (seconds since the epoch) as RFC 3339 text in UTC, to the second."""
    return datetime.fromtimestamp(epoch_seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
