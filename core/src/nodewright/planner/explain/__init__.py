"""Explain the state of nodes, pods, requests and buffers, from a cluster state and the plan made for it."""

from nodewright.planner.explain.custom_resources import (
    BufferFacts,
    BufferState,
    RequestFacts,
    RequestPhase,
    buffers_planned,
    requests_planned,
    requests_seen,
)
from nodewright.planner.explain.node import (
    GroupFacts,
    NodeExplanation,
    NodeOutcome,
    Timers,
    Usage,
    explain_node,
    facts_of,
    outcome_finder,
    outcome_of,
)
from nodewright.planner.explain.planned_snapshot import NodeRejections, node_with_room, rejections_of_pending_pod
from nodewright.planner.explain.pods import GrowthCost, PodAfterDrain, SingleGroup, find_growth_cost

__all__ = [
    "BufferFacts",
    "BufferState",
    "GroupFacts",
    "GrowthCost",
    "NodeExplanation",
    "NodeOutcome",
    "NodeRejections",
    "PodAfterDrain",
    "RequestFacts",
    "RequestPhase",
    "SingleGroup",
    "Timers",
    "Usage",
    "buffers_planned",
    "explain_node",
    "facts_of",
    "find_growth_cost",
    "node_with_room",
    "outcome_finder",
    "outcome_of",
    "rejections_of_pending_pod",
    "requests_planned",
    "requests_seen",
]
