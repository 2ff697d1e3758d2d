"""kube-scheduler's filters, one file each: a mask over many nodes, and an explanation for one node."""

from nodewright.predicates.check import NODE_FILTERS, capacity, explain, feasible, is_admitted, static_fit, static_key
from nodewright.predicates.inter_pod_affinity import has_guards, is_countable
from nodewright.predicates.node_resources_fit import amounts_fit, amounts_room

__all__ = [
    "NODE_FILTERS",
    "amounts_fit",
    "amounts_room",
    "capacity",
    "explain",
    "feasible",
    "has_guards",
    "is_admitted",
    "is_countable",
    "static_fit",
    "static_key",
]
