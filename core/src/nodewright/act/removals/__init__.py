"""Nodes on their way out: a removal is a small state machine, stepped when it is due (docs/adr/0009-scale-down.md)."""

from nodewright.act.removals.called_off import CalledOff
from nodewright.act.removals.cleanup import Leftovers, clean_up, find_leftovers
from nodewright.act.removals.removals import Outlet, Removals
from nodewright.act.removals.soft import move_soft_taints

__all__ = [
    "CalledOff",
    "Leftovers",
    "Outlet",
    "Removals",
    "clean_up",
    "find_leftovers",
    "move_soft_taints",
]
