"""Check a plan independently before it is carried out. This package shares no code with the planner."""

from nodewright.validate.actions import NodesOfMachines, PlanViolation, check_actions
from nodewright.validate.removals import check_moves, check_removals

__all__ = ["NodesOfMachines", "PlanViolation", "check_actions", "check_moves", "check_removals"]
