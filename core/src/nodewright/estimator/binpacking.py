"""Estimate how many copies of one template node pending pods need (CA's binpacking estimator, first-fit-decreasing)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nodewright.estimator.new_nodes import IsOver, NodeBudget, never
from nodewright.estimator.packing import Packing
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.pod import Pod, PodAffinityTerm
from nodewright.predicates.selectors import matches_selector
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import node_amounts
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Template:
    """The node that a group would add, and the DaemonSet pods and static pods that it starts with."""

    node: Node
    pods: tuple[Pod, ...] = ()


class Estimate:
    """Result of an estimate. The lists of pods are built when they are first read.

    ``pods`` are all pods that found a place, including those on existing nodes; ``helped`` counts them by class.
    ``packing`` lists the pods of each new node; an unused node has none. ``new_nodes`` counts new nodes with pods.
    ``node_count`` counts as CA does: it includes existing nodes that took a pod. ``is_partial``: the time limit passed
    before all pods had been tried.
    """

    def __init__(self, packing: Packing, *, is_partial: bool) -> None:
        self._packing = packing
        self.node_count = packing.node_count
        self.new_nodes = packing.new_nodes
        self.is_partial = is_partial

    @cached_property
    def helped(self) -> Mapping[PodClass, int]:
        return self._packing.helped

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        return self._packing.pods

    @cached_property
    def packing(self) -> tuple[tuple[Pod, ...], ...]:
        return self._packing.packed


def estimate(
    snapshot: Snapshot,
    template: Template,
    groups: Sequence[PodGroup],
    limit: int,
    *,
    fastpath: bool = False,
    is_over: IsOver = never,
) -> Estimate:
    """Pack the pod groups on new nodes. The snapshot is forked, never changed.

    ``limit`` is a result of ``new_nodes.node_limit``. ``is_over`` returns whether the time limit has passed.
    With ``fastpath`` (CA: --fastpath-binpacking-enabled) the group with the largest saving is packed last: one node is
    filled pod by pod, and the number of nodes is computed from it.
    """
    budget = NodeBudget(limit, is_over)
    packing = Packing(snapshot, template.node, template.pods, budget)
    ordered = decreasing(groups, template.node)
    fast: PodGroup | None = None
    if fastpath:
        ordered = [single for group in ordered for single in _singly(group)]
        ordered, fast = _move_fastest_last(ordered, template.node)
    packing.add(_merged(group for group in ordered if group is not fast), fast)
    return Estimate(packing, is_partial=budget.was_late)


def decreasing(groups: Iterable[PodGroup], node: Node) -> list[PodGroup]:
    """Return the groups sorted by the share of ``node`` that one pod requests, largest first; ties keep their order."""
    share = share_of(node)
    return sorted(groups, key=lambda group: share(group.pod_class), reverse=True)


def share_of(node: Node) -> Callable[[PodClass], float]:
    """Return a function from a class to the share of the node's CPU that one of its pods requests, plus that of its memory."""
    offered = node_amounts(node.allocatable)
    cpu, memory = (offered.get(name) or math.inf for name in ("cpu", "memory"))

    def share(pod_class: PodClass) -> float:
        asked = pod_class.requests
        return asked.get("cpu", 0) / cpu + asked.get("memory", 0) / memory

    return share


def _merged(groups: Iterable[PodGroup]) -> list[PodGroup]:
    """Join neighbouring groups of single pods (``alone``) of one plain class into one group."""
    merged: list[PodGroup] = []
    last: PodGroup | None = None
    copied: PodGroup | None = None
    for group in groups:
        if not group.alone or not group.pod_class.is_plain:
            merged.append(group)
            last = None
        elif last is None or last.pod_class is not group.pod_class:
            merged.append(group)
            last = group
        else:
            if last is not copied:
                last = copied = merged[-1] = replace(last, pods=[*last.pods])
            last.pods += group.pods
    return merged


def _singly(group: PodGroup) -> list[PodGroup]:
    """Split a group of single pods into one group for each pod, as CA groups them."""
    return [PodGroup(group.pod_class, [pod], alone=True) for pod in group.pods] if group.alone else [group]


def _move_fastest_last(groups: Sequence[PodGroup], node: Node) -> tuple[list[PodGroup], PodGroup | None]:
    """Move the group for which the fast path saves most to the end (of equals the later one); return the groups and it."""
    fast, best = None, -1
    for group in groups:
        saving = _saving(group, node.status.capacity)
        if saving is not None and saving >= best:
            fast, best = group, saving
    if fast is None:
        return list(groups), None
    return [group for group in groups if group is not fast] + [fast], fast


def _saving(group: PodGroup, capacity: Resources) -> int | None:
    """Return how many pods the fast path need not simulate; None if it may not be used for the group."""
    spec = group.pod_class.spec
    terms = _anti_affinity(group.pod_class)
    if spec.topology_spread_constraints or any(term.topology_key != HOSTNAME_LABEL for term in terms):
        return None
    pods = len(group.pods)
    nodes = pods if _repels_itself(group.pod_class, terms) else 1
    requests = spec.containers[0].resources.requests if spec.containers else {}
    for name in ("cpu", "memory"):
        if name in requests and name in capacity and capacity[name].nano:
            nodes = max(nodes, -(-pods * requests[name].nano // capacity[name].nano))
    return pods - pods // nodes


def _anti_affinity(pod_class: PodClass) -> tuple[PodAffinityTerm, ...]:
    affinity = pod_class.spec.affinity
    return affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()


def _repels_itself(pod_class: PodClass, terms: Sequence[PodAffinityTerm]) -> bool:
    return any(
        term.label_selector is not None and matches_selector(pod_class.labels, term.label_selector) for term in terms
    )
