"""Pure decisions: from ClusterState to a Plan with its reasons."""

from nodewright.planner.make_plan import make_plan

__all__ = ["make_plan"]
