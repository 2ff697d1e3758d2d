"""Nodes on their way out: a removal is a small state machine, stepped when it is due (docs/adr/0009-scale-down.md)."""

from nodewright.actuation.removals.called_off import AbandonedRemovals
from nodewright.actuation.removals.cleanup import StaleTaints, clean_up, find_leftovers
from nodewright.actuation.removals.removals import Actuator, ActuatorPorts
from nodewright.actuation.removals.soft import move_soft_taints

__all__ = [
    "AbandonedRemovals",
    "Actuator",
    "ActuatorPorts",
    "StaleTaints",
    "clean_up",
    "find_leftovers",
    "move_soft_taints",
]
