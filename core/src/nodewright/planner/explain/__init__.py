"""Why things are as they are: pure answers drawn from a state and its plan, for whoever shows them."""

from nodewright.planner.explain.node import explain_node
from nodewright.planner.explain.picture import planned_picture, refusals
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
    "GroupFacts",
    "NodeExplanation",
    "NodeFate",
    "PodOutlook",
    "Refusal",
    "Timers",
    "Usage",
    "explain_node",
    "planned_picture",
    "refusals",
]
