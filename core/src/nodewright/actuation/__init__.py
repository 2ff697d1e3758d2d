"""All writes to clouds and to the API server."""

from nodewright.actuation.audit import AuditLog, AuditRecord, AuditSink
from nodewright.actuation.cloud_writes import CloudWriter, Inbox
from nodewright.actuation.event_filter import EventFilter
from nodewright.actuation.events import loop_events, saved_state_events, violation_events, wall_clock_event
from nodewright.actuation.ports import (
    ClusterWrites,
    Event,
    EventSink,
    Eviction,
    EvictionAnswer,
    GangView,
    NodeReader,
    NodeView,
    ProviderWrites,
    ServesRequests,
)
from nodewright.actuation.write_gate import Pause, WriteGate

__all__ = [
    "AuditLog",
    "AuditRecord",
    "AuditSink",
    "CloudWriter",
    "ClusterWrites",
    "Event",
    "EventFilter",
    "EventSink",
    "Eviction",
    "EvictionAnswer",
    "GangView",
    "Inbox",
    "NodeReader",
    "NodeView",
    "Pause",
    "ProviderWrites",
    "ServesRequests",
    "WriteGate",
    "loop_events",
    "saved_state_events",
    "violation_events",
    "wall_clock_event",
]
