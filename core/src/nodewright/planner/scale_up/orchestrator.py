"""Plan one scale-up: a mix of groups, or options, the expander's choice, limits, balancing, probation."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from nodewright.estimator.pod_group import PodGroup, group_pods
from nodewright.expander import (
    LEAST_COST,
    ExpanderContext,
    Option,
    choose,
    find_unit_prices,
    keep_best,
    priority_problem,
)
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Expansion, MixCost, OptionSummary, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import GroupReasons, Rejection, ScaleUpResult, SkipCode, SkipReason, Unhelped
from nodewright.planner.context import PlanningContext, deadline, with_targets
from nodewright.planner.scale_up.balancing import balance_over, find_similar
from nodewright.planner.scale_up.failover import (
    Probation,
    ProbationPlan,
    is_cut,
    may_fail_again,
    prefer_other_failure_domain,
    without_risk,
    without_same_failure_domain,
)
from nodewright.planner.scale_up.least_cost import PlannedMix
from nodewright.planner.scale_up.mix_choice import choose_mix
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import make_option, may_help_more, most_nodes, skip_reason
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.planner.scale_up.planned_nodes import add_unplanned, fill_machines, place_planned
from nodewright.snapshot.pod_class import PodClass

_NOT_CHOSEN = SkipReason(code=SkipCode.NOT_CHOSEN, message="another group was chosen in this loop")
_NO_ROOM_LEFT = SkipReason(code=SkipCode.NO_ROOM, message="the group may not grow by enough for this pod")
_NO_TIME = SkipReason(
    code=SkipCode.NO_TIME,
    message="time was up (--max-binpacking-time) before it was evaluated: the next loop evaluates it",
)
_CUT_SHORT = SkipReason(
    code=SkipCode.NO_TIME,
    message="time was up (--max-nodegroup-binpacking-duration) before all pods had been tried: it goes on in the next loop",
)

# The most pods that are named as the reason why a group grew.
_NAMED_PODS = 3
_POSTPONED = {
    ScaleUpResult.NODE_LIMIT: SkipReason(code=SkipCode.NODE_LIMIT, message="max total nodes in cluster reached"),
    ScaleUpResult.IN_COOLDOWN: SkipReason(
        code=SkipCode.WAITING, message="all pending pods are new: they wait a moment"
    ),
}


class ScaleUp:
    """One scale-up. Groups in ``barred`` are left out for that reason. Without ``mixes`` one group is chosen."""

    def __init__(
        self,
        context: PlanningContext,
        pods: Sequence[Pod],
        random: Random,
        barred: Mapping[GroupRef, SkipReason] | None = None,
        *,
        mixes: bool = True,
    ) -> None:
        self._context = context
        self._barred = dict(barred or {})
        self._mixes = mixes
        self._expanders = expanders_in_force(context)
        self._random = random
        self._groups = group_pods(pods, context.snapshot)
        reasons = {ref: skip_reason(context, ref) for ref in context.state.groups}
        self._skipped = {ref: reason for ref, reason in reasons.items() if reason is not None} | self._barred
        self._fit = NodeGroupFit(context.snapshot, context.templates, context.barred)
        self._probation = self._make_probation(context.state.groups.keys() - self._skipped.keys())
        self._unhelped: dict[PodClass, GroupReasons] = {}
        self._postponed: Rejection | SkipReason | None = None
        # The groups of which one is chosen; None: all of them.
        self._considered: frozenset[GroupRef] | None = None
        # Why one group is chosen although a mix of groups was wanted.
        self._why_not_mixed = ""

    def plan(self) -> tuple[list[IncreaseSize], ScaleUpReport]:
        """Return the increases, and the report that explains them."""
        refs = self._mixable()
        if refs is not None:
            mix = choose_mix(self._context, self._groups, self._fit, refs, self._probation)
            if mix is not None:
                return self._plan_most(mix)
            self._why_not_mixed = "no mix of groups is possible"
        options = self._options()
        chosen = self._choose(options)
        if chosen is None:
            return [], self._report(ScaleUpResult.NO_OPTIONS, options)
        expansions, is_probe = self._spread(chosen)
        if not expansions:
            return [], self._report(ScaleUpResult.NO_OPTIONS, options)
        if is_probe:
            nodes = sum(expansion.added for expansion in expansions)
            probation_plan = self._probation.try_out(chosen, self._probation.offered(chosen.group, self._groups), nodes)
            if probation_plan.rest:
                return self._probe(options, chosen, probation_plan, expansions)
        report = self._report(ScaleUpResult.SUCCESSFUL, options, chosen, expansions)
        return increases(expansions, chosen.pods), report

    def postpone(self, result: ScaleUpResult) -> ScaleUpReport:
        """Return the report for a loop in which nothing may grow."""
        self._postponed = _POSTPONED.get(result)
        return self._report(result, [])

    def _make_probation(self, may_grow: Collection[GroupRef]) -> Probation:
        return Probation(self._context, may_grow, self._fit)

    # A mix of groups

    def _mixable(self) -> list[GroupRef] | None:
        """Return the groups for a mix; None if the expander makes no mix, or if a single group is to be chosen."""
        if not self._mixes or LEAST_COST not in self._expanders:
            return None
        context, before = self._context, self._expanders[: self._expanders.index(LEAST_COST)]
        helping = self._helping()
        refs = [ref for ref in context.templates if ref in helping and ref not in self._skipped]
        refs = list(without_risk(context, refs))
        self._why_not_mixed = self._find_unpriced(refs)
        if self._why_not_mixed:
            return None
        if before or may_fail_again(context):
            options = prefer_other_failure_domain(context, self._options())
            kept = {option.group for option in keep_best(options, before, self._expander_context())}
            refs = [ref for ref in refs if ref in kept]
        return refs

    def _helping(self) -> frozenset[GroupRef]:
        """Return the groups whose new nodes take one of the pods."""
        return frozenset[GroupRef]().union(*{self._fit.fits_alone(group.pod_class) for group in self._groups})

    def _find_unpriced(self, refs: Iterable[GroupRef]) -> str:
        """Return which missing price prevents a mix; empty: none is missing. A price of 0 counts as missing."""
        unpriced = [ref for ref in refs if not self._context.state.groups[ref].seen.hourly_price]
        return f"group {unpriced[0]} has no price" if unpriced else ""

    def _plan_most(self, mix: PlannedMix) -> tuple[list[IncreaseSize], ScaleUpReport]:
        """Plan the mix, or a single group if the mix leaves pods without a node and that group helps more pods."""
        quota = self._context.quota
        before = quota.fork()
        found = self._plan_mix(mix)
        _, report = found
        if not any(self._fit.fits_alone(pod_class) - self._skipped.keys() for pod_class in self._unhelped_by(report)):
            return found
        after = quota.fork()
        quota.take_over(before)
        counts = Counter[PodClass]()
        for group in self._groups:
            counts[group.pod_class] += len(group.pods)
        refs = [ref for ref in self._context.templates if ref not in self._skipped]
        helped = len(report.triggered) + len(report.awaiting)
        considered = may_help_more(self._context, self._fit, refs, counts, helped)
        if not considered:
            quota.take_over(after)
            return found
        pods = [pod for group in self._groups for pod in group.pods]
        one = ScaleUp(self._context, pods, self._random, self._barred, mixes=False)
        one._expanders = ["most-pods", *self._expanders]
        # Do not restrict the groups if some are put after others: which ones is not known before the options are made.
        one._considered = None if self._context.at_risk or may_fail_again(self._context) else considered
        one._why_not_mixed = "it helps more pods within the limits"
        instead = one.plan()
        # If limits cut the growth of the group, its report names more pods than get room.
        helped_by_one, _ = fill_machines(replace(self._context, snapshot=self._context.snapshot.fork()), instead[1])
        if len(helped_by_one) > helped:
            return instead
        quota.take_over(after)
        return found

    def _unhelped_by(self, report: ScaleUpReport) -> set[PodClass]:
        return {self._context.snapshot.class_of(unhelped.pod) for unhelped in report.unhelped}

    def _plan_mix(self, mix: PlannedMix) -> tuple[list[IncreaseSize], ScaleUpReport]:
        """Plan the mix, and nodes of one more group for pods that the mix does not take."""
        context = self._context
        for expansion in mix.expansions:
            context.quota.consume(context.templates[expansion.group].node, expansion.added)
        pods = [pod for group in self._groups for pod in group.pods]
        planned = {id(pod) for node in mix.nodes for pod in node.pods}
        in_mix = planned.union(map(id, mix.later)) if mix.later else planned
        others = [pod for pod in pods if id(pod) not in in_mix] if len(in_mix) < len(pods) else []
        snapshot = context.snapshot
        if others:
            snapshot = mix.snapshot or snapshot.fork()
            if mix.snapshot is None:
                place_planned(snapshot, mix.nodes, context.templates)
            add_unplanned(snapshot, mix.expansions, mix.nodes, context.templates)
        fitting, rest = take_fitting(snapshot, others) if others else ([], [])
        first = ScaleUpReport(
            result=ScaleUpResult.SUCCESSFUL,
            expansions=mix.expansions,
            options=_mixed_options(mix),
            triggered=tuple(pods if len(planned) == len(pods) else (pod for pod in pods if id(pod) in planned))
            + tuple(fitting),
            awaiting=mix.later,
            skipped=self._skipped,
            warnings=self._warnings(),
            expander=LEAST_COST,
            nodes=mix.nodes,
            cost=MixCost(price=mix.price, bound=mix.bound, is_cut=mix.is_cut),
            unwanted=self._helping().difference(expansion.group for expansion in mix.expansions),
            probed={
                ref: why for ref, why in self._probation.reasons.items() if ref in {e.group for e in mix.expansions}
            },
        )
        if not rest:
            return increases_of(first), first
        left = context.growth_limit
        grown = with_targets(
            replace(
                context,
                snapshot=snapshot,
                growth_limit=None if left is None else left - sum(e.added for e in mix.expansions),
            ),
            {expansion.group: expansion.target for expansion in mix.expansions},
        )
        one = ScaleUp(grown, rest, self._random, self._barred, mixes=False)
        is_full = grown.nodes_left is not None and grown.nodes_left <= 0
        second = one.postpone(ScaleUpResult.NODE_LIMIT) if is_full else one.plan()[1]
        report = _with_rest(first, second)
        return increases_of(report), report

    # One group

    def _options(self) -> list[Option]:
        """Return the option of growing each group; when time is up, only the options of the groups evaluated so far."""
        context, fit, found = self._context, self._fit, list[Option]()
        settings, elapsed = context.settings.scale_up, context.state.elapsed
        for ref in [ref for ref in context.state.groups if ref not in self._skipped]:
            if self._considered is not None and ref not in self._considered:
                continue
            if found and 0 < settings.max_binpacking_time < elapsed():
                self._skipped[ref] = _NO_TIME
                continue
            offered = self._probation.offered(ref, self._groups)
            pods = [group for group in offered if ref in fit.fits(group.pod_class)]
            if not pods:
                continue
            most = most_nodes(context, ref, self._similar(ref, offered))
            is_over = deadline(elapsed, settings.max_nodegroup_binpacking_duration)
            estimate = fit.estimate(ref, pods, most, fastpath=settings.fastpath_binpacking_enabled, is_over=is_over)
            option = make_option(context, ref, estimate)
            if option is not None:
                found.append(option)
        return found

    def _similar(self, ref: GroupRef, groups: Sequence[PodGroup]) -> Sequence[GroupRef]:
        """Return the other groups over which growth of one for these pods is spread."""
        similar = find_similar(self._context, ref, groups, self._fit)
        at_risk = self._context.at_risk
        similar = [other for other in similar if other not in at_risk or ref in at_risk] if at_risk else similar
        pods = [group.pods for group in groups if ref in self._fit.fits(group.pod_class)] if similar else ()
        return without_same_failure_domain(self._context, ref, similar, pods)

    def _choose(self, options: Sequence[Option]) -> Option | None:
        options = prefer_other_failure_domain(self._context, options)
        safe = set(without_risk(self._context, [option.group for option in options]))
        options = [option for option in options if option.group in safe]
        return choose(options, self._expanders, self._expander_context(), self._random)

    def _expander_context(self) -> ExpanderContext:
        context, prices = self._context, []
        for ref, template in context.templates.items():
            price, capacity = context.state.groups[ref].seen.hourly_price, template.node.status.capacity
            if price is not None and "cpu" in capacity and "memory" in capacity:
                prices.append((price, capacity["cpu"].milli, capacity["memory"].value))
        return ExpanderContext(
            unit_prices=find_unit_prices(prices),
            cluster_nodes=context.node_count,
            priorities=context.state.observation.priorities,
        )

    def _spread(self, chosen: Option) -> tuple[tuple[Expansion, ...], bool]:
        """Return the chosen nodes, capped by the cluster's limits and balanced over similar groups.

        Return also whether a group on probation among them may have been wanted for more.
        """
        context = self._context
        left = context.nodes_left
        wanted = chosen.node_count if left is None else min(chosen.node_count, left)
        wanted, _ = context.quota.allowed(chosen.node, wanted)
        similar = self._similar(chosen.group, self._groups)
        refs = [chosen.group, *(ref for ref in similar if ref not in self._skipped)]
        refs.sort(key=list(context.state.groups).index)
        limits = self._probation.limits(chosen.group, refs, self._groups)
        expansions = balance_over(context, refs, wanted, limits)
        return expansions, is_cut(expansions, limits)

    def _probe(
        self,
        options: Sequence[Option],
        chosen: Option,
        probation_plan: ProbationPlan,
        expansions: tuple[Expansion, ...],
    ) -> tuple[list[IncreaseSize], ScaleUpReport]:
        """Plan the probe, and the rest of its pods on groups that are neither on probation nor growing."""
        barred = {expansion.group: _NO_ROOM_LEFT for expansion in expansions} | self._probation.reasons
        # A group that the probe creates counts for the limit on new groups.
        grown = with_targets(probation_plan.context, {expansion.group: expansion.target for expansion in expansions})
        others = ScaleUp(grown, probation_plan.rest, self._random, barred, mixes=False)
        more, second = others.plan()
        planned = {id(pod) for pod in probation_plan.rest}
        shown = [probation_plan.option if option is chosen else option for option in options]
        first = self._report(ScaleUpResult.SUCCESSFUL, shown, probation_plan.option, expansions, planned)
        return [*increases(expansions, probation_plan.option.pods), *more], _joined(
            first, second, self._probation.reasons
        )

    def _report(
        self,
        result: ScaleUpResult,
        options: Sequence[Option],
        chosen: Option | None = None,
        expansions: tuple[Expansion, ...] = (),
        planned: Collection[int] = (),
    ) -> ScaleUpReport:
        """Return the report; ``planned`` are pods, by identity, that another report covers."""
        awaiting, unhelped = list[Pod](), list[Unhelped]()
        helps_all = chosen is not None and len(chosen.pods) == sum(len(group.pods) for group in self._groups)
        helped = set(planned) if chosen is None or helps_all else {*planned, *map(id, chosen.pods)}
        for group in () if helps_all else self._groups:
            rest = [pod for pod in group.pods if id(pod) not in helped] if helped else group.pods
            if not rest:
                continue
            if chosen is not None and self._is_for_others(group.pod_class, chosen.group):
                awaiting += rest
            else:
                reasons = self._reasons(group.pod_class, chosen)
                unhelped += [Unhelped(pod=pod, reasons=reasons) for pod in rest]
        return ScaleUpReport(
            result=result,
            expansions=expansions,
            options=_summaries(options, chosen),
            triggered=chosen.pods if chosen is not None else (),
            awaiting=tuple(awaiting),
            unhelped=tuple(unhelped),
            skipped=self._skipped,
            partial=self._partial(),
            warnings=self._warnings(),
            expander=self._chosen_by() if chosen is not None else "",
        )

    def _chosen_by(self) -> str:
        by = ",".join(self._expanders)
        return f"{by} (one group, since {self._why_not_mixed})" if self._why_not_mixed else by

    def _partial(self) -> str:
        passed_by = sum(reason is _NO_TIME for reason in self._skipped.values())
        cut = ", ".join(map(str, self._fit.cut_short))
        said = [f"{passed_by} groups were not looked at"] if passed_by else []
        said += [f"not all pods were tried on {cut}"] if cut else []
        return f"time was up: {' and '.join(said)}" if said else ""

    def _warnings(self) -> tuple[str, ...]:
        problem = priority_problem(self._context.state.observation.priorities)
        return (problem,) if problem and "priority" in self._expanders else ()

    def _is_for_others(self, pod_class: PodClass, chosen: GroupRef) -> bool:
        """Return whether other groups that may grow fit pods of the class, and the chosen one does not."""
        fits = self._fit.fits(pod_class)
        if chosen in fits and chosen not in self._skipped:
            return False
        return any(ref not in self._skipped for ref in fits)

    def _reasons(self, pod_class: PodClass, chosen: Option | None) -> GroupReasons:
        """Return a reason for every group. Pods of a class share them."""
        held = self._unhelped.get(pod_class)
        if held is None:
            held = self._unhelped[pod_class] = {
                ref: self._reason(pod_class, ref, chosen) for ref in self._context.state.groups
            }
        return held

    def _reason(self, pod_class: PodClass, ref: GroupRef, chosen: Option | None) -> Rejection | SkipReason:
        known = self._skipped.get(ref) or self._fit.rejection(pod_class, ref) or self._probation.reason(ref, pod_class)
        if known is not None:
            return known
        if ref in self._fit.cut_short and (chosen is None or chosen.group == ref):
            return _CUT_SHORT
        return self._postponed or (_NO_ROOM_LEFT if chosen is None or chosen.group == ref else _NOT_CHOSEN)


def increases(expansions: Iterable[Expansion], pods: Sequence[Pod] = ()) -> list[IncreaseSize]:
    """Return one increase for each expansion."""
    named = tuple(pod.key for pod in pods[:_NAMED_PODS])
    return [
        IncreaseSize(group=e.group, expected_target=e.current, target=e.target, pods=named, pod_count=len(pods))
        for e in expansions
    ]


def increases_of(report: ScaleUpReport) -> list[IncreaseSize]:
    """Return one increase for each expansion of a report, with the pods of its nodes and those on no planned node."""
    by_group: dict[GroupRef, list[Pod]] = {}
    for node in report.nodes:
        by_group.setdefault(node.group, []).extend(node.pods)
    others: Sequence[Pod] = report.triggered
    if by_group:
        planned = {id(pod) for pods in by_group.values() for pod in pods}
        others = [pod for pod in others if id(pod) not in planned] if len(planned) < len(others) else ()
    found = []
    for expansion in report.expansions:
        found += increases([expansion], [*by_group.get(expansion.group, ()), *others])
    return found


def expanders_in_force(context: PlanningContext) -> list[str]:
    """Return the chain of expanders in force."""
    named = context.settings.scale_up.expander
    default = f"{LEAST_COST},least-waste" if context.settings.policy.mixes_groups else "least-waste"
    return [name.strip() for name in (named or default).split(",")]


def _mixed_options(mix: PlannedMix) -> tuple[OptionSummary, ...]:
    pods = Counter[GroupRef]()
    for node in mix.nodes:
        pods[node.group] += len(node.pods)
    return tuple(OptionSummary(group=e.group, nodes=e.added, pods=pods[e.group], chosen=True) for e in mix.expansions)


def _with_rest(first: ScaleUpReport, second: ScaleUpReport) -> ScaleUpReport:
    """Return one report of a mix and of the growth for pods that the mix does not take."""
    expansions = {expansion.group: expansion for expansion in first.expansions}
    mixed = frozenset(expansions)
    for expansion in second.expansions:
        before = expansions.get(expansion.group)
        expansions[expansion.group] = replace(expansion, current=before.current) if before else expansion
    return replace(
        first,
        expansions=tuple(expansions.values()),
        options=(*first.options, *(one for one in second.options if one.chosen or one.group not in mixed)),
        triggered=first.triggered + second.triggered,
        awaiting=first.awaiting + second.awaiting,
        unhelped=second.unhelped,
        partial=second.partial,
        probed={**first.probed, **second.probed},
    )


def _joined(first: ScaleUpReport, second: ScaleUpReport, probed: Mapping[GroupRef, SkipReason]) -> ScaleUpReport:
    """Return one report of a probe and of the growth for the rest of its pods."""
    chosen = {option.group: option for option in second.options if option.chosen}
    grown = {expansion.group for expansion in first.expansions}
    return replace(
        first,
        expansions=first.expansions + second.expansions,
        options=tuple(chosen.get(option.group, option) for option in first.options),
        triggered=first.triggered + second.triggered,
        awaiting=first.awaiting + second.awaiting,
        unhelped=first.unhelped + second.unhelped,
        probed={ref: reason for ref, reason in probed.items() if ref in grown},
    )


def _summaries(options: Sequence[Option], chosen: Option | None) -> tuple[OptionSummary, ...]:
    return tuple(
        OptionSummary(group=o.group, nodes=o.node_count, pods=len(o.pods), chosen=o is chosen) for o in options
    )
