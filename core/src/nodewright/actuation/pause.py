"""A pause that somebody ordered: until it ends nothing in any cloud is written (design.md §6)."""

import msgspec

from nodewright.model.timestamps import format_moment


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """No writes from ``since`` until ``until``, epoch seconds."""

    since: float
    until: float

    def holds(self, now: float) -> bool:
        return now < self.until

    def __str__(self) -> str:
        return f"paused until {format_moment(self.until)}"
