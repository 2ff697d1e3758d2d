"""The problem of which nodes to remove, in numbers: classes of pods, nodes and their room, and kinds of new nodes.

Pods that only amounts of resources restrict may go anywhere. Pods that spread over the domains of a label stay in their
domain, so that no skew changes. Nodes with pods whose place depends on other pods in another way are not removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nodewright.model.group import GroupRef
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.optimizer.problem import Ints, Problem
from nodewright.optimizer.relaxation import ClosingProblem
from nodewright.planner.consolidation.sources import NodePool
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.least_cost import alike_groups, most_per_node
from nodewright.planner.scale_up.misfits import bars_of
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import skip_reason
from nodewright.predicates import static_fit
from nodewright.predicates.pod_topology_spread import hard_constraints
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS
from nodewright.snapshot.snapshot import Snapshot

_ANY = 10**9


class MovingDemand(NamedTuple):
    """Pods of one class; ``key`` and ``domain``: they stay where this label has this value (empty: anywhere)."""

    pod_class: PodClass
    key: str = ""
    domain: str = ""


class NewNodeKind(NamedTuple):
    """Groups whose new nodes are alike for these pods and cost the same, in USD an hour."""

    refs: tuple[GroupRef, ...]
    price: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Consolidation:
    """A problem, and what its numbers stand for: ``demands`` are its classes, ``rows`` its nodes, ``kinds`` its kinds of new nodes."""

    problem: ClosingProblem
    demands: Sequence[MovingDemand]
    rows: Sequence[int]
    kinds: Sequence[NewNodeKind]


class GroupsToGrow:
    """The groups that may grow now, and which of them take which pods."""

    def __init__(self, context: PlanningContext) -> None:
        self.context = context
        self.fit = NodeGroupFit(context.snapshot, context.templates, context.barred)
        groups = context.state.groups
        refs = [ref for ref in context.templates if ref in groups and ref not in context.new_groups]
        self.refs = [
            ref
            for ref in refs
            if groups[ref].seen.hourly_price
            and not groups[ref].seen.options.zero_or_max_node_scaling
            and groups[ref].seen.reserved is None
            and skip_reason(context, ref) is None
        ]
        probation = Probation(context, groups.keys(), self.fit)
        self.refs = [ref for ref in self.refs if probation.most(ref) is None]

    def taking(self, demand: MovingDemand) -> frozenset[GroupRef]:
        """Return the groups whose new nodes take such pods."""
        fits = (self.fit.fits_alone if demand.key else self.fit.fits)(demand.pod_class)
        found = fits.difference(bars_of(self.context, [demand.pod_class]).get(demand.pod_class, ()))
        templates = self.context.templates
        return frozenset(
            ref
            for ref in self.refs
            if ref in found and (not demand.key or templates[ref].node.metadata.labels.get(demand.key) == demand.domain)
        )


def make_problem(
    context: PlanningContext,
    sources: NodePool,
    growing: GroupsToGrow,
    weight: float,
    most: int,
    stuck: frozenset[PodClass],
) -> Consolidation | None:
    """Return the problem; None if no node may be given up.

    ``weight``: the weight of disruption, a factor of the pool's price for each unit of disruption. ``most``: how many nodes go at most.
    ``stuck``: classes whose pods must not move.
    """
    snapshot = context.snapshot
    limits = _MovingLimits(snapshot, stuck)
    may_go = np.array(
        [not node.held and all(limits.may_move(one) for one in node.classes) for node in sources.nodes], dtype=bool
    )
    if not may_go.any():
        return None
    rows = np.array([*(node.row for node in sources.nodes), *sources.destinations], dtype=np.int64)
    counts: dict[MovingDemand, dict[int, int]] = {}
    for at, node in enumerate(sources.nodes):
        for pod_class, count in node.classes.items() if may_go[at] else ():
            counts.setdefault(limits.demand(pod_class, node.row), {})[at] = count
    demands = list(counts)
    pods = np.zeros((len(demands), len(rows)), dtype=np.int64)
    for number, held in enumerate(counts.values()):
        pods[number, list(held)] = list(held.values())
    names = list(dict.fromkeys((PODS, *(name for demand in demands for name in demand.pod_class.requests))))
    requests = np.array([_amounts(demand.pod_class, names) for demand in demands], dtype=float).reshape(-1, len(names))
    columns = [snapshot.vocabulary.resources.get(name) for name in names]
    free = np.array(
        [snapshot.free[rows, column] if column is not None else np.zeros(len(rows)) for column in columns], dtype=float
    ).T
    takes = np.array([limits.takes(demand, rows) for demand in demands], dtype=np.int64).reshape(
        len(demands), len(rows)
    )
    kinds, fits = _kinds(context, growing, demands)
    offered = [dict(growing.fit.free(kind.refs[0])) for kind in kinds]
    buying = Problem(
        requests=requests,
        pods=pods.sum(axis=1).tolist(),
        per_node=[limits.most(demand.pod_class) for demand in demands],
        free=np.array([[max(0, one.get(name, 0)) for name in names] for one in offered], dtype=float).reshape(
            -1, len(names)
        ),
        prices=np.array([kind.price for kind in kinds], dtype=float),
        rooms=[sum(map(context.room, kind.refs)) for kind in kinds],
        fits=fits,
    )
    padding = np.zeros(len(sources.destinations))
    prices = np.concatenate([np.array([node.price for node in sources.nodes]), padding])
    costs = np.concatenate(
        [np.array([node.disruption for node in sources.nodes]) * weight * sources.pool.rate, padding]
    )
    groups = list(sources.most_of_group)
    number_of = {ref: number for number, ref in enumerate(groups)}
    return Consolidation(
        problem=ClosingProblem(
            buying=buying,
            pods=pods,
            free=np.maximum(free, 0.0),
            takes=takes,
            prices=prices,
            costs=costs,
            may_close=np.concatenate([may_go, padding.astype(bool)]),
            kinds=np.array(
                [*(number_of[node.group] for node in sources.nodes), *(len(groups) for _ in padding)], dtype=np.int64
            ),
            most_of_kind=np.array([*sources.most_of_group.values(), 0], dtype=np.int64),
            most=most,
        ),
        demands=demands,
        rows=rows.tolist(),
        kinds=kinds,
    )


def _amounts(pod_class: PodClass, names: Iterable[str]) -> list[int]:
    """Return the requests of a pod: the larger of the amounts while it is pending and once it runs."""
    asked, held = pod_class.requests, pod_class.placed_requests
    return [1 if name == PODS else max(asked.get(name, 0), held.get(name, 0)) for name in names]


class _MovingLimits:
    """Limits besides amounts: the number of pods of a class that a node takes, and the nodes where its pods may go."""

    def __init__(self, snapshot: Snapshot, stuck: frozenset[PodClass]) -> None:
        self._snapshot, self._stuck = snapshot, stuck
        self._most: dict[PodClass, int] = {}
        self._spread: dict[PodClass, str] = {}

    def most(self, pod_class: PodClass) -> int:
        """Return how many pods of a class a new node takes, amounts aside; 0: they cannot be moved."""
        known = self._most.get(pod_class)
        if known is None:
            spread = [one.topology_key for one in hard_constraints(pod_class) if one.topology_key != HOSTNAME_LABEL]
            self._spread[pod_class] = spread[0] if spread else ""
            can_move = len(spread) < 2 and pod_class not in self._stuck
            known = self._most[pod_class] = most_per_node(self._snapshot, pod_class) if can_move else 0
        return known

    def may_move(self, pod_class: PodClass) -> bool:
        return self.most(pod_class) > 0

    def demand(self, pod_class: PodClass, row: int) -> MovingDemand:
        """Return the demand of a class's pods on a node."""
        self.most(pod_class)
        key = self._spread[pod_class]
        return (
            MovingDemand(pod_class, key, self._snapshot.node(row).metadata.labels.get(key, ""))
            if key
            else MovingDemand(pod_class)
        )

    def takes(self, demand: MovingDemand, rows: Ints) -> Ints:
        """Return how many more pods each node may have, amounts aside."""
        snapshot, pod_class = self._snapshot, demand.pod_class
        most = self.most(pod_class)
        found = np.where(static_fit(snapshot, pod_class, slice(0, len(snapshot))), most, 0)
        if most < _ANY:
            for row, count in snapshot.rows_of(pod_class).items():
                found[row] = max(0, found[row] - count)
        if demand.key:
            found[snapshot.labels(demand.key) != snapshot.vocabulary.value_id(demand.key, demand.domain)] = 0
        taken: Ints = found[rows]
        return taken


def _kinds(
    context: PlanningContext, growing: GroupsToGrow, demands: Sequence[MovingDemand]
) -> tuple[list[NewNodeKind], np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Return the kinds of new nodes, and which demands they take (C × K)."""
    taking = [growing.taking(demand) for demand in demands]
    prices = {ref: context.state.groups[ref].seen.hourly_price or 0.0 for ref in growing.refs}
    kinds = [NewNodeKind(refs, prices[refs[0]]) for refs in alike_groups(growing.fit, taking, prices)]
    fits = np.array([[kind.refs[0] in refs for kind in kinds] for refs in taking], dtype=bool)
    return kinds, fits.reshape(len(demands), len(kinds))
