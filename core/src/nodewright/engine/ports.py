"""The ports through which the engine meets the world; adapters implement them."""

from dataclasses import dataclass
from typing import Protocol

from nodewright.act.ports import Event, EventSink, ProviderWrites
from nodewright.observe.ports import ClusterPicture, ClusterReader, ProviderReads
from nodewright.planner.plan import Plan
from nodewright.registry.state import Memory

__all__ = [
    "ClusterPicture",
    "ClusterReader",
    "Event",
    "EventSink",
    "ProviderPort",
    "ProviderReads",
    "ProviderWrites",
    "StateStore",
    "World",
]


class ProviderPort(ProviderReads, ProviderWrites, Protocol):
    """All that the engine asks of one provider."""

    # Both sides declare it; said once more so that the two agree.
    @property
    def name(self) -> str: ...


class StateStore(Protocol):
    """Where memory survives a restart. Raises NodewrightError when it cannot be reached."""

    def load(self) -> Memory | None:
        """What was saved last; None if nothing was."""

    def save(self, memory: Memory, plan: Plan) -> None:
        """Keep ``memory``, which contains what ``plan`` is about to ask for; a store may skip what did not change."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything outside, as one argument."""

    cluster: ClusterReader
    providers: tuple[ProviderPort, ...]
    store: StateStore
    events: EventSink
