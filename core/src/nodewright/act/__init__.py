"""All writes to the world."""

from nodewright.act.actor import Actor
from nodewright.act.audit import AuditLog, AuditRecord, AuditSink
from nodewright.act.events import EventFilter, alerts, draw_events, loss_of_state, wall_clock_jumped
from nodewright.act.inbox import Inbox
from nodewright.act.pause import Pause
from nodewright.act.ports import (
    ClusterWrites,
    Event,
    EventSink,
    Eviction,
    EvictionAnswer,
    ProviderWrites,
    ServesRequests,
    Sight,
)
from nodewright.act.restraint import Restraint

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
    "Pause",
    "ProviderWrites",
    "Restraint",
    "ServesRequests",
    "Sight",
    "alerts",
    "draw_events",
    "loss_of_state",
    "wall_clock_jumped",
]
