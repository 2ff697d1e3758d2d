"""Name the pods and nodes of a move, and check each place with all filters of kube-scheduler."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nodewright.model.group import GroupRef
from nodewright.model.plan import PlannedNode
from nodewright.model.pod import Pod
from nodewright.optimizer.closing import Closing
from nodewright.planner.consolidation.problem import Consolidation, MovingDemand
from nodewright.planner.consolidation.sources import PoolNode
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.planned_nodes import PlannedPod, add_planned, place_in_rounds
from nodewright.predicates import feasible, is_countable, static_fit
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Relocation:
    """The destinations of the pods of removed nodes.

    ``places``: the node of each pod (``namespace/name``) that goes to an existing node. ``misplaced``: classes of pods that
    filters reject everywhere; if there are any, the rest is unusable.
    """

    places: Mapping[str, str]
    new_nodes: tuple[PlannedNode, ...]
    misplaced: frozenset[PodClass] = frozenset()


class _PodsOnRow(NamedTuple):
    """Pods of a class that are planned on the node of a row."""

    pod_class: PodClass
    row: int
    pods: Sequence[Pod]


def place(
    context: PlanningContext, plan: Consolidation, sources: Sequence[PoolNode], closing: Closing
) -> Relocation | None:
    """Return the places of all pods of the closed nodes; None if a limit of the cluster forbids the new nodes."""
    pods = _pods_by_demand(plan, context.snapshot, sources)
    taken = Counter[MovingDemand]()

    def take(demand: MovingDemand, count: int) -> list[Pod]:
        start = taken[demand]
        taken[demand] += count
        return pods[demand][start : start + count]

    planned = [
        _PodsOnRow(demand.pod_class, plan.rows[at], take(demand, int(closing.moved[number, at])))
        for number, demand in enumerate(plan.demands)
        for at in np.flatnonzero(closing.moved[number]).tolist()
    ]
    fresh = list[tuple[GroupRef, list[tuple[MovingDemand, list[Pod]]]]]()
    refs = _turns(context, plan)
    for pattern in closing.bought.patterns:
        for _ in range(pattern.copies):
            ref = next(refs[pattern.kind], None)
            if ref is None:
                return None
            held = [(plan.demands[one], take(plan.demands[one], count)) for one, count in pattern.pods]
            fresh.append((ref, held))
    most = context.settings.scale_up.max_nodes_per_scaleup
    if (most and len(fresh) > most) or not context.allows(Counter(ref for ref, _ in fresh)):
        return None
    snapshot = context.snapshot.fork()
    for source in sources:
        snapshot.remove_node(source.row)
    rows = add_planned(snapshot, [PlannedNode(group=ref, pods=()) for ref, _ in fresh], context.templates)
    planned += [
        _PodsOnRow(demand.pod_class, row, held)
        for row, (_, nodes) in zip(rows, fresh, strict=True)
        for demand, held in nodes
    ]
    may_take = np.zeros(len(snapshot), dtype=np.bool_)
    may_take[plan.rows] = True
    may_take[rows] = True
    return _placed(snapshot, planned, may_take, dict(zip(rows, (ref for ref, _ in fresh), strict=True)))


def _pods_by_demand(
    plan: Consolidation, snapshot: Snapshot, sources: Sequence[PoolNode]
) -> dict[MovingDemand, list[Pod]]:
    """Return the pods of the nodes to remove, by demand."""
    known = {(demand.pod_class, demand.domain): demand for demand in plan.demands}
    keys = {demand.pod_class: demand.key for demand in plan.demands}
    found: dict[MovingDemand, list[Pod]] = {demand: [] for demand in plan.demands}
    for source in sources:
        labels = snapshot.node(source.row).metadata.labels
        for pod, kind in zip(source.moving.pods, source.moving.kinds, strict=True):
            key = keys[kind.pod_class]
            found[known[kind.pod_class, labels.get(key, "") if key else ""]].append(pod)
    return found


def _turns(context: PlanningContext, plan: Consolidation) -> list[Iterator[GroupRef]]:
    """Return for each kind the groups of its new nodes, as far as they have room."""
    return [(ref for ref in kind.refs for _ in range(context.room(ref))) for kind in plan.kinds]


def _placed(
    snapshot: Snapshot, planned: Sequence[_PodsOnRow], may_take: Mask, fresh: Mapping[int, GroupRef]
) -> Relocation:
    """Place pods; those that a filter rejects at their place go to another node that takes them."""
    found: dict[int, list[Pod]] = {}
    misplaced: set[PodClass] = set()
    # Countable pods first: no place of theirs depends on the others.
    depending = [one for one in planned if not is_countable(snapshot, one.pod_class)]
    for pod_class, row, pods in planned:
        if is_countable(snapshot, pod_class):
            snapshot.place_many(pod_class, np.array([row]), np.array([len(pods)]))
            if (snapshot.free[row] < 0).any() or not _admits(snapshot, pod_class, row):
                misplaced.add(pod_class)
            found.setdefault(row, []).extend(pods)
    placed, waiting = place_in_rounds(snapshot, [PlannedPod(*one[:2], pod) for one in depending for pod in one.pods])
    for _, row, pod in placed:
        found.setdefault(row, []).append(pod)
    for pod_class, _, pod in waiting:
        others = np.flatnonzero(feasible(snapshot, pod_class) & may_take)
        if not len(others):
            misplaced.add(pod_class)
            continue
        snapshot.place(pod_class, int(others[0]))
        found.setdefault(int(others[0]), []).append(pod)
    places = {pod.key: snapshot.name(row) for row, pods in found.items() if row not in fresh for pod in pods}
    nodes = tuple(PlannedNode(group=fresh[row], pods=tuple(pods)) for row, pods in found.items() if row in fresh)
    return Relocation(places=places, new_nodes=nodes, misplaced=frozenset(misplaced))


def _admits(snapshot: Snapshot, pod_class: PodClass, row: int) -> bool:
    """Return whether the static filters take the class on a node."""
    return bool(static_fit(snapshot, pod_class, slice(row, row + 1))[0])
