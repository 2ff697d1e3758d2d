"""Why things are as they are: pure answers drawn from a state and its plan, for whoever shows them."""

from nodewright.planner.explain.buffers import BufferFacts, BufferState, buffers_planned
from nodewright.planner.explain.node import explain_node, facts_of, fate_of
from nodewright.planner.explain.picture import pending_refusals, place_of
from nodewright.planner.explain.requests import RequestFacts, RequestPhase, requests_planned, requests_seen
from nodewright.planner.explain.values import (
    GroupFacts,
    NodeExplanation,
    NodeFate,
    PodOutlook,
    Refusal,
    Timers,
    Usage,
)

__all__ = [
    "BufferFacts",
    "BufferState",
    "GroupFacts",
    "NodeExplanation",
    "NodeFate",
    "PodOutlook",
    "Refusal",
    "RequestFacts",
    "RequestPhase",
    "Timers",
    "Usage",
    "buffers_planned",
    "explain_node",
    "facts_of",
    "fate_of",
    "pending_refusals",
    "place_of",
    "requests_planned",
    "requests_seen",
]
