"""Time on the charts: counted from the start, in the unit that suits the span; and fewer points where many."""

from collections.abc import Sequence
from dataclasses import dataclass

from nodewright.adapters.simulated.result import Series

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_MOST_POINTS = 1500


@dataclass(frozen=True)
class TimeAxis:
    """Turns epoch seconds into the numbers on the axis, and into words."""

    start: float
    unit: str
    seconds: float

    @staticmethod
    def spanning(start: float, end: float) -> "TimeAxis":
        """Minutes up to two hours, hours up to three days, then days."""
        span = end - start
        if span <= 2 * _HOUR:
            return TimeAxis(start, "minutes", _MINUTE)
        return TimeAxis(start, "hours", _HOUR) if span <= 3 * _DAY else TimeAxis(start, "days", _DAY)

    def place(self, at: float) -> float:
        return round((at - self.start) / self.seconds, 4)

    def say(self, at: float) -> str:
        """``2d 03:04:05`` since the start."""
        seconds = round(at - self.start)
        days, rest = divmod(seconds, int(_DAY))
        hours, rest = divmod(rest, 3600)
        clock = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        return f"{days}d {clock}" if days else clock


def pick_points(series: Series, most: int = _MOST_POINTS) -> Sequence[int]:
    """The samples to draw: all of them, or those that keep the outline.

    Of each of many slices of time the last sample stays, and those with the most pending and the most running
    pods.
    """
    times = series.times
    if len(times) <= most:
        return range(len(times))
    width = (times[-1] - times[0]) / (most / 3) or 1.0
    chosen: set[int] = {0, len(times) - 1}
    first = 0
    for index in range(1, len(times) + 1):
        if index < len(times) and (times[index] - times[0]) // width == (times[first] - times[0]) // width:
            continue
        piece = range(first, index)
        chosen |= {index - 1, max(piece, key=series.pending.__getitem__), max(piece, key=series.running.__getitem__)}
        first = index
    return sorted(chosen)
