"""Pure decisions: from ClusterState to a Plan with its reasons."""

from nodewright.planner.make_plan import make_plan
from nodewright.planner.plan import Expansion, OptionSummary, Plan, PlanMemory, ScaleUpReport

__all__ = ["Expansion", "OptionSummary", "Plan", "PlanMemory", "ScaleUpReport", "make_plan"]
