"""First-fit-decreasing packing of pending pods on copies of one template node (behaviour/up.md §4.6b)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    lists, per new node, its pods; an unused node has none. ``node_count`` counts nodes with pods, as CA does: an
    existing node that took a pod in place of a new one is counted too. ``is_partial``: time was up before all had
    been tried.
    """

    def __init__(self, packing: Packing, *, is_partial: bool = False) -> None:
        self._packing = packing
        self.node_count = packing.node_count
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
    for group in _merged(group for group in ordered if group is not fast):
        packing.add(group)
    if fast is not None:
        packing.multiply(fast)
    return Estimate(packing, is_partial=budget.was_late)


def decreasing(groups: Iterable[PodGroup], node: Node) -> list[PodGroup]:
    """Groups by share of the template that one pod asks, largest first; ties keep their order."""
    amounts = node_amounts(node.allocatable)
    offered = [(name, amounts[name]) for name in ("cpu", "memory") if amounts.get(name)]

    def score(group: PodGroup) -> float:
        asked = group.pod_class.requests
        return sum([asked.get(name, 0) / amount for name, amount in offered])

    return sorted(groups, key=score, reverse=True)


def _merged(groups: Iterable[PodGroup]) -> list[PodGroup]:
    """Neighbouring groups of pods of one plain class that all stand alone, as one."""
    runs: list[list[PodGroup]] = []
    last: PodClass | None = None
    for group in groups:
        if group.alone and group.pod_class is last and last.is_plain:
            runs[-1].append(group)
        else:
            runs.append([group])
        last = group.pod_class if group.alone else None
    return [run[0] if len(run) == 1 else _joined(run) for run in runs]


def _singly(group: PodGroup) -> list[PodGroup]:
    """The groups as CA sees them."""
    return [PodGroup(group.pod_class, [pod], alone=True) for pod in group.pods] if group.alone else [group]


def _joined(groups: Sequence[PodGroup]) -> PodGroup:
    return PodGroup(groups[0].pod_class, [pod for group in groups for pod in group.pods], alone=True)
