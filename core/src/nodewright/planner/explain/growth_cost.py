"""Explain what growth for pending pods costs: beside the bound, beside a plan of one group, and in sum. For display only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.pod_group import group_pods
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.planner.context import PlanningContext
from nodewright.planner.cost import Offer, find_bound
from nodewright.planner.scale_up.balancing import find_similar
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import most_nodes, paid_nodes
from nodewright.snapshot.observation import HourlyCost, hourly_cost, paid_machines


@dataclass(frozen=True, kw_only=True)
class SingleGroup:
    """A number of nodes of one group (and of groups similar to it) that take all pods, with their price in USD an hour."""

    group: GroupRef
    nodes: int
    price: float


@dataclass(frozen=True, kw_only=True)
class GrowthCost:
    """What growth for pods costs, in USD an hour.

    ``price`` is that of the ``nodes`` that are bought for pods; None: a group that grows has no price. ``bound``: no nodes of
    the groups that may grow are cheaper for these pods; None: a group that takes one of them has no price. ``single`` is the
    cheapest plan of one group for them; None: no group with a price takes them all. ``expander`` chose, and ``is_cut`` says that
    its time was up. ``before`` and ``after`` the plan: all machines. ``sources`` say where the prices come from.
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
        """Return by which part of the bound the price is above it; None if either is not known, or the bound is zero."""
        return self.price / self.bound - 1.0 if self.price is not None and self.bound else None


def find_growth_cost(
    state: ClusterState, context: PlanningContext | None, plan: Plan, reports: Sequence[ScaleUpReport]
) -> GrowthCost:
    """Return what the ``reports`` of growth for pods cost. ``context``: what they were planned in; None: nothing was."""
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
