"""Whether removals wait because something happened of late (behaviour/down.md A1)."""

from nodewright.clusterstate.state import ScaleDownMemory
from nodewright.model.settings import ScaleDownSettings

# A new engine takes it that everything last happened so many seconds before it began.
_BEFORE_START = 3600.0


def cooldown_until(memory: ScaleDownMemory, settings: ScaleDownSettings) -> tuple[float, str]:
    """Until when (epoch seconds) no removal begins, in the whole cluster, and why; at that moment it may."""
    if settings.scale_down_delay_type_local:
        return 0.0, ""
    begin = memory.engine_started - _BEFORE_START
    grown = max(begin, *memory.grown_at.values(), memory.room_found_at)
    waits = (
        (grown + settings.scale_down_delay_after_add, "nodes were added"),
        (max(begin, memory.marking_failed_at) + settings.scale_down_delay_after_failure, "a removal failed to begin"),
        (max(begin, memory.removal_started_at) + settings.scale_down_delay_after_delete, "a removal began"),
    )
    until, why = max(waits)
    return until, f"{why} too short a time ago"
