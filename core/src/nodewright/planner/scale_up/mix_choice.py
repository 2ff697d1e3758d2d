"""Choose a mix of groups: with zero-or-max groups as a whole, few new groups, and as many pods as the limits allow.

The mix itself is found by planner/scale_up/least_cost.py.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from nodewright.estimator.pod_group import PodGroup
from nodewright.model.group import GroupRef
from nodewright.optimizer.mix import FEW_PODS
from nodewright.planner.context import PlanningContext, deadline
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.least_cost import MixTerms, PlannedMix, limit_share, plan_mix
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit

# If a limit binds, mixes are tried in which the whole rest of the limit costs these multiples of the price of the mix.
_SURCHARGES = (1.0, 10.0, 1000.0)
_Planner = Callable[..., PlannedMix | None]


def choose_mix(
    context: PlanningContext,
    pod_groups: Sequence[PodGroup],
    fit: NodeGroupFit,
    may_grow: Sequence[GroupRef],
    probation: Probation,
) -> PlannedMix | None:
    """Return the mix that helps most pods, at the least price; None if none helps a pod. All groups have prices."""
    plan = partial(plan_mix, context, pod_groups, fit, probation=probation)
    options = {ref: context.state.groups[ref].seen.options for ref in may_grow}
    single = [ref for ref in may_grow if not options[ref].zero_or_max_node_scaling]
    left = [ref for ref in may_grow if options[ref].zero_or_max_node_scaling]
    is_small = sum(len(group.pods) for group in pod_groups) <= FEW_PODS
    whole = _worth_buying(context, plan, single, left, time_share=0.5 / (len(left) + 1) if is_small else 0.0)
    mix = plan([*single, *whole], terms=MixTerms(whole=whole))
    dropped = _too_many_new(context, mix)
    if dropped:
        single = [ref for ref in single if ref not in dropped]
        mix = plan([*single, *whole], terms=MixTerms(whole=whole))
    if mix is not None and len(single) < len(may_grow):
        mix = replace(mix, bound=None)
    if mix is None or not mix.is_limited:
        return mix
    shares = {ref: limit_share(context, ref) for ref in (*single, *whole)}
    for factor in _SURCHARGES:
        surcharges = {ref: factor * mix.price * share for ref, share in shares.items()}
        tried = plan([*single, *whole], terms=MixTerms(whole=whole, surcharges=surcharges, time_share=0.0))
        if tried is not None and _rank(tried) < _rank(mix):
            mix = tried
    return replace(mix, bound=None)


def _worth_buying(
    context: PlanningContext,
    plan: _Planner,
    single: Sequence[GroupRef],
    left: Sequence[GroupRef],
    *,
    time_share: float,
) -> frozenset[GroupRef]:
    """Return the zero-or-max groups with which a mix helps more pods or is cheaper, each with all its machines.

    They are added one by one, the best first, while there is time. ``time_share`` is that of each mix: if there are few
    pods, the first mix of a search may be far from the best one.
    """
    whole = frozenset[GroupRef]()
    if not left:
        return whole
    is_over = deadline(context.state.elapsed, context.settings.scale_up.least_cost_budget)
    best = _rank(plan(single, terms=MixTerms(time_share=time_share)))
    while left and not is_over():
        ranked = [
            (
                _rank(plan([*single, *whole, ref], terms=MixTerms(whole=whole | {ref}, time_share=time_share))),
                place,
                ref,
            )
            for place, ref in enumerate(left)
        ]
        better = [one for one in ranked if one[0] < best]
        if not better:
            break
        best, _, chosen = min(better)
        whole |= {chosen}
        left = [ref for _, _, ref in better if ref != chosen]
    return whole


def _too_many_new(context: PlanningContext, mix: PlannedMix | None) -> frozenset[GroupRef]:
    """Return the groups that may not be created if the mix would create too many. Those with the most pods are kept."""
    new = [ref for ref in context.new_groups if not context.state.groups[ref].seen.target]
    grown = {expansion.group for expansion in mix.expansions}.intersection(new) if mix is not None else set()
    if mix is None or len(grown) <= context.new_groups_left:
        return frozenset()
    pods = Counter[GroupRef]()
    for node in mix.nodes:
        pods[node.group] += len(node.pods)
    kept = sorted(grown, key=lambda ref: (-pods[ref], ref))[: context.new_groups_left]
    return frozenset(new).difference(kept)


def _rank(mix: PlannedMix | None) -> tuple[int, float]:
    """Return a smaller value for a mix that helps more pods, or as many for less money."""
    return (-sum(len(node.pods) for node in mix.nodes), mix.price) if mix is not None else (0, 0.0)
