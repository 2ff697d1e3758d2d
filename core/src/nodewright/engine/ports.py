"""The ports through which the engine meets the world; adapters implement them."""

from dataclasses import dataclass, field
from typing import Protocol

from nodewright.actuation import (
    AuditSink,
    ClusterWrites,
    Event,
    EventSink,
    Eviction,
    EvictionAnswer,
    NodeReader,
    NodeView,
    Pause,
    ProviderWrites,
    ServesRequests,
)
from nodewright.clusterstate.memory import Memory
from nodewright.model.write_fence import WriteFence
from nodewright.observe.ports import ClusterPicture, ClusterReader, ProviderReads

__all__ = [
    "AuditSink",
    "ClusterPicture",
    "ClusterPort",
    "ClusterReader",
    "ClusterWrites",
    "Event",
    "EventSink",
    "Eviction",
    "EvictionAnswer",
    "Loaded",
    "NodeReader",
    "NodeView",
    "Pause",
    "Ports",
    "ProviderPort",
    "ProviderReads",
    "ProviderWrites",
    "StateStore",
]


class ClusterPort(ClusterReader, NodeReader, ClusterWrites, Protocol):
    """All that the engine asks of the API server."""


class ProviderPort(ProviderReads, ProviderWrites, ServesRequests, Protocol):
    """All that the engine asks of one provider."""

    # Both sides declare it; said once more so that the two agree.
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a store held; ``warning`` says what of it could not be used, and where that is now."""

    memory: Memory = field(default_factory=Memory)
    warning: str = ""


class StateStore(Protocol):
    """Where memory survives a restart. Raises NodewrightError when it cannot be reached."""

    def load(self) -> Loaded:
        """What was saved last; empty if nothing was, or if it cannot be understood."""

    def save_if_changed(self, memory: Memory) -> None:
        """Keep ``memory``; nothing is written when what must last is as it was."""

    def load_pause(self) -> Pause | None:
        """The pause that somebody ordered last, also one that is over. Somebody else writes it, at any time."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Everything outside, as one argument; ``gate`` is asked before each write to a cloud."""

    cluster: ClusterPort
    providers: tuple[ProviderPort, ...]
    store: StateStore
    events: EventSink
    audit: AuditSink
    gate: WriteFence = field(default_factory=WriteFence)
