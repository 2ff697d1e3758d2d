"""All writes to the world."""

from nodewright.act.actor import Actor
from nodewright.act.events import EventFilter, alerts, draw_events
from nodewright.act.inbox import Inbox
from nodewright.act.ports import Event, EventSink, ProviderWrites

__all__ = ["Actor", "Event", "EventFilter", "EventSink", "Inbox", "ProviderWrites", "alerts", "draw_events"]
