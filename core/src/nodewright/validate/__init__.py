"""An independent check of a plan; shares no code with the planner."""

from nodewright.validate.check import Violation, check_actions
from nodewright.validate.evidence import NodesOfMachines
from nodewright.validate.removals import check_removals

__all__ = ["NodesOfMachines", "Violation", "check_actions", "check_removals"]
