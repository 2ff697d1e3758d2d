"""Failing over to other groups: probation after a backoff, and other failure domains after a timeout."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.clusterstate.backoff import allowance, allowance_left, is_active
from nodewright.estimator.binpacking import estimate
from nodewright.estimator.pod_group import PodGroup
from nodewright.expander import Option
from nodewright.model.group import GroupRef
from nodewright.model.node import INSTANCE_TYPE_LABEL, ZONE_LABEL, Node
from nodewright.model.plan import Expansion
from nodewright.model.pod import Pod
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.planner.scale_up.templates import place_daemons
from nodewright.snapshot.pod_class import PodClass


@dataclass(frozen=True, kw_only=True)
class ProbationPlan:
    """A chosen option reduced to what a group on probation may get, and the pods that other groups must take.

    ``context`` has the option's nodes and their pods.
    """

    option: Option
    rest: tuple[Pod, ...]
    context: PlanningContext


class Probation:
    """The groups on probation and the silent ones among those that may grow.

    A pod is used as a probe only if a group fits it that is not on probation; pods without another place get all the
    nodes they need. A zero-or-max group is never probed. The pods of a probe are also planned elsewhere in the next
    loop (planner/scale_up/hedging.py), so no more is probed than may be bought twice. A silent group gets only pods
    without another place.
    """

    def __init__(self, context: PlanningContext, may_grow: Collection[GroupRef], fit: NodeGroupFit) -> None:
        self._context = context
        self._fit = fit
        self._left: dict[GroupRef, int] = {}
        for ref in may_grow if context.settings.policy.probes_after_backoff else ():
            group = context.state.groups[ref]
            left = allowance_left(group, context.state.now)
            if left is not None and not group.seen.options.zero_or_max_node_scaling:
                self._left[ref] = left - _planned(context, ref)
        hedges_left = context.hedges_left - sum(_planned(context, ref) for ref in self._left)
        self._left = {ref: max(0, min(left, hedges_left)) for ref, left in self._left.items()}
        if may_grow:
            self._left |= {ref: 0 for ref, silence in context.silent.items() if silence.is_silent and ref in may_grow}
        self._others = frozenset(may_grow) - self._left.keys()

    @property
    def reasons(self) -> dict[GroupRef, SkipReason]:
        """Return why each group on probation is not asked for more."""
        return {ref: self._reason(ref) for ref in self._left}

    def reason(self, ref: GroupRef, pod_class: PodClass) -> SkipReason | None:
        """Return why a group does not get a pod that others may take; None if it may get it."""
        return self._reason(ref) if ref in self._left and self._has_other_place(pod_class) else None

    def offered(self, ref: GroupRef, groups: Sequence[PodGroup]) -> Sequence[PodGroup]:
        """Return the pods that may be planned for a group.

        A group on probation gets pods without another place. Until its probe is under way it also gets pods that have
        waited for less than its provision time.
        """
        if ref not in self._left:
            return groups
        return [kept for group in groups if (kept := self._offered(ref, group)).pods]

    def _offered(self, ref: GroupRef, group: PodGroup) -> PodGroup:
        if not self._has_other_place(group.pod_class):
            return group
        patience = self._context.state.groups[ref].seen.options.max_node_provision_seconds
        latest = self._context.state.now - patience
        pods = [pod for pod in group.pods if _created(pod) > latest] if self._left[ref] > 0 else []
        return replace(group, pods=pods)

    def taking(self, refs: frozenset[GroupRef], group: PodGroup) -> frozenset[GroupRef]:
        """Return those of the groups to which a mix may give these pods.

        A group on probation gets pods only as a probe: all of them have another place, and have not waited for this group.
        """
        return refs.difference(ref for ref in self._left if ref in refs and not self._probes_with(ref, group))

    def _probes_with(self, ref: GroupRef, group: PodGroup) -> bool:
        is_probe = self._left[ref] > 0 and self._has_other_place(group.pod_class)
        return is_probe and len(self._offered(ref, group).pods) == len(group.pods)

    def most(self, ref: GroupRef) -> int | None:
        """Return by how many nodes a group on probation may grow; None if it is not on probation."""
        return self._left.get(ref)

    @property
    def probes_left(self) -> int:
        """Return how many nodes all groups on probation may get together."""
        return max(0, self._context.hedges_left - sum(_planned(self._context, ref) for ref in self._left))

    def limits(self, chosen: GroupRef, refs: Iterable[GroupRef], groups: Sequence[PodGroup]) -> dict[GroupRef, int]:
        """Return by how much each of ``refs`` may grow if it is on probation; other groups are not limited."""
        bound, others = self._split(chosen, groups)
        if not others:
            return {}
        limits = {ref: self._left[ref] for ref in refs if ref in self._left}
        if bound and chosen in limits:
            needed = estimate(self._context.snapshot, self._context.templates[chosen], bound, 0).node_count
            limits[chosen] = max(limits[chosen], needed)
        return limits

    def try_out(self, chosen: Option, groups: Sequence[PodGroup], nodes: int) -> ProbationPlan:
        """Return the option with ``nodes`` nodes. Pods without another place go first, then others that fit."""
        context, template = self._context, self._context.templates[chosen.group]
        bound, others = self._split(chosen.group, groups)
        packing = estimate(context.snapshot, template, bound or others, nodes).packing
        snapshot = context.snapshot.fork()
        rows = snapshot.add_copies(template.node, nodes)
        place_daemons(snapshot, template, range(rows.start, rows.stop))
        for row, pods in zip(range(rows.start, rows.stop), packing, strict=False):
            for pod in pods:
                snapshot.place(snapshot.class_of(pod), row)
        placed = {id(pod) for pods in packing for pod in pods}
        _, left = take_fitting(snapshot, [pod for pod in chosen.pods if id(pod) not in placed])
        without = {id(pod) for pod in left}
        helped = tuple(pod for pod in chosen.pods if id(pod) not in without)
        return ProbationPlan(
            option=replace(chosen, node_count=nodes, pods=helped),
            rest=tuple(left),
            context=replace(context, snapshot=snapshot),
        )

    def _split(self, ref: GroupRef, groups: Sequence[PodGroup]) -> tuple[list[PodGroup], list[PodGroup]]:
        """Return the pods that fit the group: those without another place, and the others."""
        fitting = [group for group in groups if ref in self._fit.fits(group.pod_class)]
        bound = [group for group in fitting if not self._has_other_place(group.pod_class)]
        return bound, [group for group in fitting if self._has_other_place(group.pod_class)]

    def _has_other_place(self, pod_class: PodClass) -> bool:
        return not self._others.isdisjoint(self._fit.fits(pod_class))

    def _reason(self, ref: GroupRef) -> SkipReason:
        silence = self._context.silent.get(ref)
        if silence is not None and silence.is_silent:
            return SkipReason(code=SkipCode.SILENT, message=f"silent: it {silence.reason}")
        most = allowance(self._context.state.groups[ref].backoff, self._context.state.now) or 0
        message = f"on probation after a failure: at most {most} node{'s' if most > 1 else ''}"
        return SkipReason(code=SkipCode.PROBATION, message=message)


def _planned(context: PlanningContext, ref: GroupRef) -> int:
    """Return by how much this plan already grows the group."""
    seen = context.state.observation.groups.get(ref)
    return (context.state.groups[ref].seen.target or 0) - (seen.target or 0) if seen is not None else 0


def _created(pod: Pod) -> float:
    """Return when the pod was created (epoch seconds); infinity if it does not say."""
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else math.inf


def is_cut(expansions: Iterable[Expansion], limits: Mapping[GroupRef, int]) -> bool:
    """Return whether a group on probation got all that it may be asked for, so that more may have been wanted."""
    grown = {expansion.group: expansion.added for expansion in expansions}
    return any(grown.get(ref, 0) >= most for ref, most in limits.items())


def without_risk(context: PlanningContext, refs: Sequence[GroupRef]) -> Sequence[GroupRef]:
    """Return the groups whose machines the cloud does not take away; all of them if there is no other."""
    return [ref for ref in refs if ref not in context.at_risk] or refs


def may_fail_again(context: PlanningContext) -> bool:
    """Return whether ``prefer_other_failure_domain`` may leave out an option."""
    if not context.settings.policy.prefers_other_failure_domains:
        return False
    return bool(context.silent) or any(group.backoff is not None for group in context.state.groups.values())


def prefer_other_failure_domain(context: PlanningContext, options: Sequence[Option]) -> Sequence[Option]:
    """Return the options that share least with groups whose machines did not appear in time.

    If the cloud names a zone or machine type, its groups are backed off together. A timeout names no cause: pods that
    waited for such a group are not sent to another group of its zone and type while a different one exists; among groups
    that are equal in this, to one that draws on fewer of its quotas and pools of capacity. They go back to a group that failed while they waited only if no other group may grow. For other pods the expander decides.
    """
    if not context.settings.policy.prefers_other_failure_domains:
        return options
    in_vain = _waited_for_in_vain(context, [option.pods for option in options])
    likeness = [
        (len(_FAILURE_DOMAIN_LABELS) + 1, 0)
        if _has_failed(context, option)
        else _shared_domains(context, option.group, in_vain)
        for option in options
    ]
    least = min(likeness, default=(0, 0))
    return [option for option, shared in zip(options, likeness, strict=True) if shared == least]


def without_same_failure_domain(
    context: PlanningContext, chosen: GroupRef, similar: Sequence[GroupRef], pods: Sequence[Sequence[Pod]]
) -> Sequence[GroupRef]:
    """Return those of ``similar`` that share no more with timed-out groups than ``chosen`` does.

    Only those timed-out groups count for which these pods waited.
    """
    in_vain = _waited_for_in_vain(context, pods) if similar else []
    if not in_vain:
        return similar
    most = _shared_domains(context, chosen, in_vain)
    return [other for other in similar if _shared_domains(context, other, in_vain) <= most]


def _waited_for_in_vain(context: PlanningContext, pods: Iterable[Sequence[Pod]]) -> list[GroupRef]:
    if not context.settings.policy.prefers_other_failure_domains:
        return []
    silent = list(_silent_requests(context))
    return [ref for ref, asked in silent if any(_waited(some, asked) for some in pods)] if silent else []


def _silent_requests(context: PlanningContext) -> Iterator[tuple[GroupRef, float]]:
    """Yield groups that are silent, or backed off after a timeout, and when they were asked (epoch seconds)."""
    for ref, silence in context.silent.items():
        yield ref, silence.asked
    for ref, group in context.state.groups.items():
        backoff = group.backoff
        if backoff is not None and backoff.asked and is_active(backoff, context.state.now):
            yield ref, backoff.asked


def _has_failed(context: PlanningContext, option: Option) -> bool:
    """Return whether the option's own group failed while some of its pods waited."""
    backoff = context.state.groups[option.group].backoff
    return backoff is not None and not backoff.shared_from and _waited(option.pods, backoff.last_failure)


def _waited(pods: Sequence[Pod], since: float) -> bool:
    return any(0.0 < pod.created <= since for pod in pods)


def _shared_domains(context: PlanningContext, ref: GroupRef, failed: Iterable[GroupRef]) -> tuple[int, int]:
    """Return what a group shares at most with one failed group of its provider.

    That is the number of failure domains (zone, machine type), then that of quotas and pools of capacity.
    """
    node, buckets = context.templates[ref].node, _buckets(context, ref)
    others = [other for other in failed if _is_comparable(context, ref, other)]
    return max(
        (
            (_shared_labels(node, context.templates[other].node), len(buckets & _buckets(context, other)))
            for other in others
        ),
        default=(0, 0),
    )


def _shared_labels(node: Node, other: Node) -> int:
    return sum(_value(node, label) == _value(other, label) != "" for label in _FAILURE_DOMAIN_LABELS)


def _buckets(context: PlanningContext, ref: GroupRef) -> frozenset[str]:
    return context.state.groups[ref].seen.group.buckets


def _is_comparable(context: PlanningContext, ref: GroupRef, failed: GroupRef) -> bool:
    return failed in context.templates and failed.provider == ref.provider


def _value(node: Node, label: str) -> str:
    return node.metadata.labels.get(label, "")


_FAILURE_DOMAIN_LABELS = (ZONE_LABEL, INSTANCE_TYPE_LABEL)
