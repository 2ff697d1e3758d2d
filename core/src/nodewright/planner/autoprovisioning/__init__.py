"""Node groups that are made for pods, and deleted when they are empty (docs/autoprovisioning.md)."""

from nodewright.planner.autoprovisioning.offer import offer_groups
from nodewright.planner.autoprovisioning.writes import delete_empty_groups, with_creations

__all__ = ["delete_empty_groups", "offer_groups", "with_creations"]
