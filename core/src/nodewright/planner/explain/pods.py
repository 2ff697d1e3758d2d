"""Explain the drain of a node pod by pod, and compare the cost of growth with that of a single group."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from msgspec.structs import replace

from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.pod_group import group_pods
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.reason import BlockingCode, Unremovable, UnremovableCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.context import PlanningContext
from nodewright.planner.cost import Offer, find_bound
from nodewright.planner.explain.planned_snapshot import (
    NodeRejections,
    destinations,
    group_rejections,
    rejection_text,
    without_unneeded,
)
from nodewright.planner.scale_down.drainability import DrainabilityRules, DrainOutcome, PodDrainability
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import is_being_replaced
from nodewright.planner.scale_down.simulation import replace_with_tainted_copy
from nodewright.planner.scale_up.balancing import find_similar
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import most_nodes, paid_nodes
from nodewright.planner.scale_up.pending_pods import Hints
from nodewright.predicates import feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.observation import HourlyCost, hourly_cost, paid_machines
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_GOES_ITSELF = "could go, too"
_LATER = "had no room for it when that was tried"
_FILLED = "with the other pods of the node: "


class PodAfterDrain(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for a pod if its node were drained: the drain rule that decides, and its reason if it blocks.

    For a pod to be moved, ``place`` is the node it would move to, ``choices`` how many nodes would take it, and
    ``refusals`` why no node does. ``arrives``: the pod is not on the node yet. It is pending and fits there, or it comes
    from an unneeded node that may be removed before this one.
    """

    pod: str
    outcome: DrainOutcome
    arrives: bool = False
    rule: str = ""
    code: BlockingCode | None = None
    message: str = ""
    place: str = ""
    choices: int = 0
    refusals: tuple[NodeRejections, ...] = ()


@dataclass(kw_only=True)
class _Drain:
    """Snapshots in which the pods of one node look for places. The node is an empty, tainted copy, as in the simulation.

    ``now`` is the cluster as it is. In ``rest`` all other unneeded nodes are gone too. ``filling`` is a fork of it in which
    the pods are placed, on ``open_rows``. Rows are the same in all three. ``stuck`` is the pod for which the plan found
    no place; ``goes``: the plan found places for all pods.
    """

    now: Snapshot
    rest: Snapshot
    filling: Snapshot
    open_rows: Mask
    unneeded: frozenset[str]
    hints: Hints
    stuck: str
    goes: bool
    known: dict[PodClass, tuple[NodeRejections, ...]] = field(default_factory=dict)


def explain_pods(
    snapshot: Snapshot, name: str, state: ClusterState, plan: Plan, settings: DrainSettings, policy: Policy
) -> tuple[PodAfterDrain, ...]:
    """Explain the pods of a node, and those that the plan moves to it.

    Unlike the simulation this goes on after a pod that may not be moved.
    """
    workloads = state.observation.workloads
    rest, left = without_unneeded(snapshot, name, state, plan, settings, policy)
    holder = snapshot if name in plan.scale_down.unneeded else rest
    pods = holder.pods(holder.row(name))
    reason = plan.scale_down.unremovable.get(name)
    budgets = left if _is_after_others(reason) else DisruptionBudgets.of(workloads, policy)
    rules = DrainabilityRules(workloads, budgets, settings, state.now, policy.applies_all_drain_rules)
    found = (rules.evaluate(pod) for pod in pods)
    evaluated = [
        _as_it_ends(_as_planned(drain, pod, reason), pod, policy) for pod, drain in zip(pods, found, strict=True)
    ]
    drained = _prepare(snapshot, rest, name, state, plan)
    moving = [pod for pod, drain in zip(pods, evaluated, strict=True) if drain.outcome is DrainOutcome.MOVE]
    places = dict(_place(drained, moving))
    return tuple(
        replace(
            places.get(pod.key, PodAfterDrain(pod=pod.key, outcome=drain.outcome)),
            arrives=pod.spec.node_name != name,
            rule=drain.rule,
            code=drain.code,
            message=drain.message,
        )
        for pod, drain in zip(pods, evaluated, strict=True)
    )


def _is_after_others(reason: Unremovable | None) -> bool:
    """Return whether evictions from other unneeded nodes count against the disruption budgets.

    They do if the plan says that a budget keeps the node, or if it has not simulated the node again.
    """
    if reason is None:
        return False
    return reason.pod_code == BlockingCode.NOT_ENOUGH_PDB or reason.code == UnremovableCode.RECENTLY_UNREMOVABLE


def _as_planned(drain: PodDrainability, pod: Pod, reason: Unremovable | None) -> PodDrainability:
    """Return the plan's reason for the pod that it names: the plan knew the order of the nodes, which is not known here."""
    if reason is None or reason.pod_code is None or reason.pod != pod.key or reason.pod_code == drain.code:
        return drain
    return PodDrainability(DrainOutcome.BLOCK, "", reason.pod_code, reason.message)


def _as_it_ends(drain: PodDrainability, pod: Pod, policy: Policy) -> PodDrainability:
    """Return the outcome AWAIT for a terminating pod that is being replaced: it needs no place."""
    if drain.outcome is not DrainOutcome.MOVE or not policy.replaced_pods_need_no_place or not is_being_replaced(pod):
        return drain
    return PodDrainability(DrainOutcome.AWAIT, "Terminating")


def _prepare(snapshot: Snapshot, rest: Snapshot, name: str, state: ClusterState, plan: Plan) -> _Drain:
    now = snapshot.fork()
    for one in (now, rest):
        replace_with_tainted_copy(one, one.row(name), state.now)
    unneeded, reason = frozenset(plan.scale_down.unneeded), plan.scale_down.unremovable.get(name)
    return _Drain(
        now=now,
        rest=rest,
        filling=rest.fork(),
        open_rows=destinations(rest, state, name),
        unneeded=unneeded - {name},
        goes=name in unneeded,
        hints=Hints(before=state.memory.scale_down.hints if name in unneeded else {}),
        stuck=reason.pod if reason is not None and reason.code == UnremovableCode.NO_PLACE else "",
    )


def _place(drained: _Drain, moving: Iterable[Pod]) -> Iterator[tuple[str, PodAfterDrain]]:
    """Yield the result for each pod to be moved, highest priority first. Go on after a pod without a place."""
    for pod in sorted(moving, key=lambda pod: pod.spec.priority or 0, reverse=True):
        result = PodAfterDrain(pod=pod.key, outcome=DrainOutcome.MOVE)
        pod_class = drained.filling.class_of(pod, placed=True)
        row, choices = _choose(drained, drained.filling, pod, pod_class)
        if row is not None and pod.key != drained.stuck:
            drained.filling.place(pod_class, row, pod=pod)
        elif drained.goes:
            # The plan's destination may be overwritten: a node that was simulated later moved the same pod again.
            row, choices = _choose(drained, drained.now, pod, pod_class)
        else:
            row = None
        if row is None:
            yield pod.key, replace(result, refusals=_rejections(drained, pod_class))
        else:
            yield pod.key, replace(result, place=drained.filling.name(row), choices=choices)


def _choose(drained: _Drain, snapshot: Snapshot, pod: Pod, pod_class: PodClass) -> tuple[int | None, int]:
    """Return the row of the plan's destination, or of the first node that takes the pod; and how many nodes take it."""
    fits = feasible(snapshot, pod_class) & (drained.open_rows | _rows(snapshot, drained.unneeded))
    hinted = drained.hints.get(pod)
    row = snapshot.find_row(hinted) if hinted is not None else None
    free = np.flatnonzero(fits & snapshot.schedulable)
    if row is not None and fits[row]:
        return row, len(free)
    return (int(free[0]) if len(free) else None), len(free)


def _rejections(drained: _Drain, pod_class: PodClass) -> tuple[NodeRejections, ...]:
    """Return why no node takes a pod of the class (computed once for a class)."""
    if pod_class not in drained.known:
        open_rows = drained.open_rows | _rows(drained.now, drained.unneeded)
        rows = np.flatnonzero(open_rows).tolist()
        found = ((drained.now.name(row), _why(drained, pod_class, row)) for row in rows)
        drained.known[pod_class] = group_rejections(found)
    return drained.known[pod_class]


def _why(drained: _Drain, pod_class: PodClass, row: int) -> str:
    if drained.now.name(row) in drained.unneeded:
        return rejection_text(drained.now, pod_class, row) or _GOES_ITSELF
    at_first = rejection_text(drained.rest, pod_class, row)
    if at_first:
        return at_first
    filled = rejection_text(drained.filling, pod_class, row)
    return _FILLED + filled if filled else _LATER


def _rows(snapshot: Snapshot, names: Iterable[str]) -> Mask:
    rows = np.zeros(len(snapshot), dtype=np.bool_)
    rows[[row for name in names if (row := snapshot.find_row(name)) is not None]] = True
    return rows


@dataclass(frozen=True, kw_only=True)
class SingleGroup:
    """A number of nodes of one group (and of groups similar to it) that take all pods, with their price in USD an hour."""

    group: GroupRef
    nodes: int
    price: float


@dataclass(frozen=True, kw_only=True)
class GrowthCost:
    """The cost of growth for pods, in USD an hour.

    ``price`` is that of the ``nodes`` that are bought for pods; None: a group that grows has no price. ``bound``: no nodes of
    the groups that may grow are cheaper for these pods; None: a group that takes one of them has no price. ``single`` is the
    cheapest plan of one group for them; None: no group with a price takes them all. ``expander`` chose the nodes; ``is_cut``:
    its time was up. ``before`` and ``after``: the cost of all machines before and after the plan. ``sources`` say where the
    prices come from.
    """

    expander: str = ""
    is_cut: bool = False
    nodes: int = 0
    price: float | None = None
    bound: float | None = None
    single: SingleGroup | None = None
    before: HourlyCost
    after: HourlyCost
    sources: tuple[str, ...] = ()

    @property
    def gap(self) -> float | None:
        """Return by which share of the bound the price exceeds it; None if either is not known, or the bound is zero."""
        return self.price / self.bound - 1.0 if self.price is not None and self.bound else None


def find_growth_cost(
    state: ClusterState, context: PlanningContext | None, plan: Plan, reports: Sequence[ScaleUpReport]
) -> GrowthCost:
    """Return the cost of the growth in ``reports``. ``context``: what it was planned in (None: no growth was planned)."""
    groups = (context.state if context is not None else state).groups
    seen = {ref: group.seen for ref, group in groups.items()}
    sizes = {ref: one.target or 0 for ref, one in seen.items()}
    before, after = hourly_cost(seen.values(), sizes), hourly_cost(seen.values(), _sizes_after(sizes, plan))
    grown = [expansion for report in reports for expansion in report.expansions]
    pods = [pod for report in reports for pod in report.triggered]
    sources = tuple(dict.fromkeys(one.price.source for one in seen.values() if one.price is not None))
    if context is None or not grown:
        return GrowthCost(before=before, after=after, sources=sources)
    added = hourly_cost(seen.values(), sizes | {expansion.group: expansion.target for expansion in grown})
    is_priced = all(seen[expansion.group].hourly_price is not None for expansion in grown)
    return GrowthCost(
        expander="; ".join(dict.fromkeys(report.expander for report in reports if report.expander)),
        is_cut=any(report.cost is not None and report.cost.is_cut for report in reports),
        nodes=sum(expansion.added for expansion in grown),
        price=added.total - before.total if is_priced else None,
        bound=_bound(context, pods, reports[0]),
        single=_cheapest_single(context, pods, reports[0]),
        before=before,
        after=after,
        sources=sources,
    )


def _sizes_after(sizes: dict[GroupRef, int], plan: Plan) -> dict[GroupRef, int]:
    """Return the sizes that the plan leads to."""
    found = dict(sizes)
    for action in plan.actions:
        if isinstance(action, IncreaseSize | DecreaseTargetSize):
            found[action.group] = action.target
    for action in plan.actions:
        if isinstance(action, DeleteInstances):
            found[action.group] = found.get(action.group, 0) - len(action.instance_ids)
    for removal in plan.scale_down.removals:
        found[removal.group] = found.get(removal.group, 0) - 1
    return found


def _may_grow(context: PlanningContext, report: ScaleUpReport) -> list[GroupRef]:
    return [ref for ref in context.templates if ref not in report.skipped]


def _bound(context: PlanningContext, pods: Iterable[Pod], report: ScaleUpReport) -> float | None:
    seen = {ref: group.seen for ref, group in context.state.groups.items()}
    reservations = {one.reserved.name: one.reserved for one in seen.values() if one.reserved is not None}
    may_grow = _may_grow(context, report)
    offer = Offer(
        groups=seen,
        templates={ref: context.templates[ref] for ref in may_grow},
        rooms={ref: context.room(ref) for ref in may_grow},
        paid={name: paid_machines(one, seen.values()) for name, one in reservations.items()},
    )
    classes = context.snapshot.vocabulary.classes.sort(pods)
    return find_bound(context.snapshot, offer, {pod_class: len(alike) for pod_class, alike in classes.items()})


def _cheapest_single(context: PlanningContext, pods: Sequence[Pod], report: ScaleUpReport) -> SingleGroup | None:
    groups, found = group_pods(pods, context.snapshot), list[SingleGroup]()
    fit = NodeGroupFit(context.snapshot, context.templates, context.barred)
    for ref in _may_grow(context, report):
        seen = context.state.groups[ref].seen
        if seen.hourly_price is None or any(ref not in fit.fits(group.pod_class) for group in groups):
            continue
        similar = [one for one in find_similar(context, ref, groups, fit) if one not in report.skipped]
        made = fit.estimate(ref, groups, most_nodes(context, ref, similar), fastpath=False)
        if len(made.pods) < len(pods):
            continue
        count = seen.group.max_size if seen.options.zero_or_max_node_scaling else made.new_nodes
        price = seen.hourly_price * max(0, count - paid_nodes(context, ref))
        found.append(SingleGroup(group=ref, nodes=count, price=price))
    return min(found, key=lambda one: (one.price, one.nodes), default=None)
