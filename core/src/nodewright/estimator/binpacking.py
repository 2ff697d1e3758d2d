"""First-fit-decreasing packing of pending pods on copies of one template node (behaviour/up.md §4.6b)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nodewright.estimator.fastpath import move_fastest_last
from nodewright.estimator.limits import IsOver, NodeBudget, never
from nodewright.estimator.packing import Packing
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import node_amounts
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Template:
    """The node that a group would add, and the pods that it starts with."""

    node: Node
    pods: tuple[Pod, ...] = ()


class Estimate:
    """What an expansion would hold; laid out when asked for.

    ``pods`` are all pods helped, those put on existing nodes included; ``helped`` counts them by class. ``packing``
    lists, per new node, its pods; an unused node has none. ``new_nodes`` counts new nodes with pods, ``node_count`` counts as
    CA does: an existing node that took a pod in place of a new one is counted too. ``is_partial``: time was up before all had
    been tried.
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
    """Pack the groups on new nodes; ``limit`` is a node limit as of ``limits.node_limit``, ``is_over`` tells that time
    is up.

    The snapshot is forked, never changed. With ``fastpath`` the group that saves most is packed last, by
    arithmetic on one node (CA: --fastpath-binpacking-enabled).
    """
    budget = NodeBudget(limit, is_over)
    packing = Packing(snapshot, template.node, template.pods, budget)
    ordered = decreasing(groups, template.node)
    fast: PodGroup | None = None
    if fastpath:
        ordered = [single for group in ordered for single in _singly(group)]
        ordered, fast = move_fastest_last(ordered, template.node)
    packing.add(_merged(group for group in ordered if group is not fast), fast)
    return Estimate(packing, is_partial=budget.was_late)


def decreasing(groups: Iterable[PodGroup], node: Node) -> list[PodGroup]:
    """Groups by share of the template that one pod asks, largest first; ties keep their order."""
    offered = node_amounts(node.allocatable)
    cpu, memory = (offered.get(name) or math.inf for name in ("cpu", "memory"))

    def score(group: PodGroup) -> float:
        asked = group.pod_class.requests
        return asked.get("cpu", 0) / cpu + asked.get("memory", 0) / memory

    return sorted(groups, key=score, reverse=True)


def _merged(groups: Iterable[PodGroup]) -> list[PodGroup]:
    """Neighbouring groups of pods of one plain class that all stand alone, as one."""
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
    """The groups as CA sees them."""
    return [PodGroup(group.pod_class, [pod], alone=True) for pod in group.pods] if group.alone else [group]
