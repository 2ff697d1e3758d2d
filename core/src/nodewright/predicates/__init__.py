"""kube-scheduler's filters: one file each, as a mask over nodes and an explanation for one (design.md §5)."""

from nodewright.predicates.check import capacity, explain, feasible, static_fit

__all__ = ["capacity", "explain", "feasible", "static_fit"]
