"""All writes to the world."""

from nodewright.actuation.actor import Actor
from nodewright.actuation.audit import AuditLog, AuditRecord, AuditSink
from nodewright.actuation.events import EventFilter, alerts, draw_events, loss_of_state, wall_clock_jumped
from nodewright.actuation.inbox import Inbox
from nodewright.actuation.pause import Pause
from nodewright.actuation.ports import (
    ClusterWrites,
    Event,
    EventSink,
    Eviction,
    EvictionAnswer,
    NodeView,
    ProviderWrites,
    ServesRequests,
)
from nodewright.actuation.restraint import WriteGate

__all__ = [
    "Actor",
    "AuditLog",
    "AuditRecord",
    "AuditSink",
    "ClusterWrites",
    "Event",
    "EventFilter",
    "EventSink",
    "Eviction",
    "EvictionAnswer",
    "Inbox",
    "NodeView",
    "Pause",
    "ProviderWrites",
    "ServesRequests",
    "WriteGate",
    "alerts",
    "draw_events",
    "loss_of_state",
    "wall_clock_jumped",
]
