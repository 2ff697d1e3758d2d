"""Is the loop alive, and does it succeed? CA's rules (behaviour/up.md §7.4)."""

from dataclasses import dataclass

from nodewright.model.clock import Clock
from nodewright.model.duration import format_duration


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """Seconds without a loop, without a successful one, and before the first success."""

    inactivity: float
    failing: float
    startup: float


class HealthCheck:
    """Watches from ``begin`` on: a process that waits to become leader is healthy."""

    def __init__(self, limits: HealthLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._active: float | None = None
        self._succeeded: float | None = None
        self._began = 0.0

    def begin(self) -> None:
        self._began = self._active = self._clock.now()

    def ran(self, *, succeeded: bool) -> None:
        """A loop ended."""
        self._active = self._clock.now()
        if succeeded:
            self._succeeded = self._active

    def problem(self) -> str:
        """Why the process should be started anew; empty: it should not."""
        if self._active is None:
            return ""
        now, limits = self._clock.now(), self._limits
        startup = max(limits.startup, limits.inactivity, limits.failing)
        idle, failing = now - self._active, now - (self._succeeded or self._began)
        if self._succeeded is None:
            if failing <= startup:
                return ""
            return f"no loop has succeeded since the start {format_duration(round(failing))} ago"
        if idle > limits.inactivity:
            return f"the last loop ended {format_duration(round(idle))} ago"
        if failing > limits.failing:
            return f"the last successful loop ended {format_duration(round(failing))} ago"
        return ""
