"""The ports of the engine; adapters implement them."""

from dataclasses import dataclass, field
from typing import Protocol

from nodewright.actuation import (
    AuditSink,
    ClusterWrites,
    Event,
    EventSink,
    Eviction,
    EvictionAnswer,
    GangView,
    NodeReader,
    NodeView,
    Pause,
    ProviderWrites,
    ServesRequests,
)
from nodewright.clusterstate.memory import Memory
from nodewright.model.write_fence import WriteFence
from nodewright.observe.ports import (
    ClusterObservation,
    ClusterReader,
    DisruptionReader,
    NoDisruption,
    NoPrices,
    PriceReader,
    ProviderReads,
)

__all__ = [
    "AuditSink",
    "ClusterObservation",
    "ClusterPort",
    "ClusterReader",
    "ClusterWrites",
    "Event",
    "EventSink",
    "Eviction",
    "EvictionAnswer",
    "GangView",
    "Loaded",
    "NodeReader",
    "NodeView",
    "Pause",
    "Ports",
    "PriceReader",
    "ProviderPort",
    "ProviderReads",
    "ProviderWrites",
    "StateStore",
]


class ClusterPort(ClusterReader, NodeReader, ClusterWrites, Protocol):
    """All calls of the engine to the API server."""


class ProviderPort(ProviderReads, ProviderWrites, ServesRequests, Protocol):
    """All calls of the engine to one provider."""

    # Both bases declare it; this declaration makes them agree.
    @property
    def name(self) -> str: ...
    def note_last_write(self, at: float) -> None:
        """Note when a former process may last have written (epoch seconds; -inf: never)."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The content of a store. ``warning`` names the part that could not be used, and its place now (empty: none)."""

    memory: Memory = field(default_factory=Memory)
    warning: str = ""


class StateStore(Protocol):
    """Keeps memory over a restart. Its methods raise NodewrightError if it cannot be reached."""

    def load(self) -> Loaded:
        """Return what was saved last; empty if nothing was saved or it cannot be decoded."""

    def save_if_changed(self, memory: Memory) -> None:
        """Save ``memory``, unless the saved parts of it are unchanged."""

    def load_pause(self) -> Pause | None:
        """Return the last pause that an operator ordered, even if it is over. Another process may write it at any time."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """All ports of the engine. ``gate`` is asked before each write to a cloud. ``prices`` and ``disruption`` are the operator's."""

    cluster: ClusterPort
    providers: tuple[ProviderPort, ...]
    store: StateStore
    events: EventSink
    audit: AuditSink
    gate: WriteFence = field(default_factory=WriteFence)
    prices: PriceReader = field(default_factory=NoPrices)
    disruption: DisruptionReader = field(default_factory=NoDisruption)
