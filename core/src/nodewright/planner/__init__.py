"""Pure decisions: from ClusterState to a Plan with its reasons."""

from nodewright.planner.make_plan import find_growth_context, make_plan

__all__ = ["find_growth_context", "make_plan"]
