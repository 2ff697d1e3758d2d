"""Failing over to other groups: probation after a backoff, and other failure domains after a timeout."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.clusterstate.backoff import INSTANCE_TYPE_LABEL, allowance, is_active, left_to_ask
from nodewright.estimator.binpacking import estimate
from nodewright.estimator.pod_group import PodGroup
from nodewright.expander.option import Option
from nodewright.model.group import GroupRef
from nodewright.model.node import ZONE_LABEL, Node
from nodewright.model.plan import Expansion
from nodewright.model.pod import Pod
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.planner.scale_up.context import ScaleUpContext
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.planner.scale_up.templates import place_daemons
from nodewright.snapshot.pod_class import PodClass


@dataclass(frozen=True, kw_only=True)
class ProbationPlan:
    """A chosen option cut down to what a group on probation may show, and what others must take in the same loop.

    ``ground`` is the picture with the trial's nodes and their pods.
    """

    option: Option
    rest: tuple[Pod, ...]
    context: ScaleUpContext


class Probation:
    """The groups on probation, and silent ones, among those that may grow.

    A pod is probed with only where a group fits that is not on probation: pods that have no other place get all
    the nodes that they need. A group that grows by all or nothing is never probed. The pods of a probe are planned
    elsewhere too in the next loop (planner/scale_up/hedging.py), so that no more is probed than may be bought twice. A silent
    group gets only pods with no other place.
    """

    def __init__(self, context: ScaleUpContext, may_grow: Collection[GroupRef], fit: NodeGroupFit) -> None:
        self._context = context
        self._fit = fit
        self._left: dict[GroupRef, int] = {}
        for ref in may_grow if context.settings.policy.probes_after_backoff else ():
            group = context.state.groups[ref]
            left = left_to_ask(group, context.state.now)
            if left is not None and not group.seen.options.zero_or_max_node_scaling:
                self._left[ref] = left - _planned(context, ref)
        hedges_left = context.hedges_left - sum(_planned(context, ref) for ref in self._left)
        self._left = {ref: max(0, min(left, hedges_left)) for ref, left in self._left.items()}
        if may_grow:
            self._left |= {ref: 0 for ref, silence in context.silent.items() if silence.is_silent and ref in may_grow}
        self._others = frozenset(may_grow) - self._left.keys()

    @property
    def reasons(self) -> dict[GroupRef, SkipReason]:
        """Why no more is asked of each group on probation."""
        return {ref: self._reason(ref) for ref in self._left}

    def reason(self, ref: GroupRef, pod_class: PodClass) -> SkipReason | None:
        """Why a group does not get a pod that others may take."""
        return self._reason(ref) if ref in self._left and self._has_other_place(pod_class) else None

    def offered(self, ref: GroupRef, groups: Sequence[PodGroup]) -> Sequence[PodGroup]:
        """The pods that may be planned for a group. One on probation gets those with no other place, and until its
        trial is under way those that have not yet waited for as long as it may take to fail once more.
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

    def limits(self, chosen: GroupRef, refs: Iterable[GroupRef], groups: Sequence[PodGroup]) -> dict[GroupRef, int]:
        """By how much each of ``refs``, over which the chosen group's growth is spread, may grow; others are free."""
        bound, others = self._split(chosen, groups)
        if not others:
            return {}
        limits = {ref: self._left[ref] for ref in refs if ref in self._left}
        if bound and chosen in limits:
            needed = estimate(self._context.snapshot, self._context.templates[chosen], bound, 0).node_count
            limits[chosen] = max(limits[chosen], needed)
        return limits

    def try_out(self, chosen: Option, groups: Sequence[PodGroup], nodes: int) -> ProbationPlan:
        """The option with so many nodes. Pods with no other place come first, then those for which there is room."""
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
        """The pods that fit the group: those with no other place, and the others."""
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


def _planned(context: ScaleUpContext, ref: GroupRef) -> int:
    """By how much this plan lets the group grow already."""
    seen = context.state.observation.groups.get(ref)
    return (context.state.groups[ref].seen.target or 0) - (seen.target or 0) if seen is not None else 0


def _created(pod: Pod) -> float:
    """Epoch seconds; infinity for a pod that does not say."""
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else math.inf


def is_cut(expansions: Iterable[Expansion], limits: Mapping[GroupRef, int]) -> bool:
    """Whether a group on probation got all that it may be asked for, so that more may have been wanted."""
    grown = {expansion.group: expansion.added for expansion in expansions}
    return any(grown.get(ref, 0) >= most for ref, most in limits.items())


def prefer_other_failure_domain(context: ScaleUpContext, options: Sequence[Option]) -> Sequence[Option]:
    """The options that have least in common with groups whose machines did not appear in time.

    A cloud that tells says whether a zone or a machine type is the cause, and their groups are backed off with the
    one that failed. Where time alone tells, it may be either; pods that have waited for one such group in vain are
    not sent to another of its zone and type, as long as one differs in more. They are sent back to a group that failed
    while they waited, and may grow again, only where no other may. Other pods go where the expander says.
    """
    if not context.settings.policy.prefers_other_failure_domains:
        return options
    in_vain = _waited_for_in_vain(context, [option.pods for option in options])
    likeness = [
        len(_FAILURE_DOMAIN_LABELS) + 1
        if _has_failed(context, option)
        else _shared_domains(context, option.group, in_vain)
        for option in options
    ]
    least = min(likeness, default=0)
    return [option for option, shared in zip(options, likeness, strict=True) if shared == least]


def without_same_failure_domain(
    context: ScaleUpContext, chosen: GroupRef, similar: Sequence[GroupRef], pods: Sequence[Sequence[Pod]]
) -> Sequence[GroupRef]:
    """The groups over which growth of ``chosen`` for these pods may be spread without a share for one that has more in
    common than itself with groups that the pods have waited for in vain.
    """
    in_vain = _waited_for_in_vain(context, pods) if similar else []
    if not in_vain:
        return similar
    most = _shared_domains(context, chosen, in_vain)
    return [other for other in similar if _shared_domains(context, other, in_vain) <= most]


def _waited_for_in_vain(context: ScaleUpContext, pods: Iterable[Sequence[Pod]]) -> list[GroupRef]:
    if not context.settings.policy.prefers_other_failure_domains:
        return []
    silent = list(_silent_requests(context))
    return [ref for ref, asked in silent if any(_waited(some, asked) for some in pods)] if silent else []


def _silent_requests(context: ScaleUpContext) -> Iterator[tuple[GroupRef, float]]:
    """Groups in backoff because a request was out of time, or silent now, and when it was made (epoch seconds)."""
    for ref, silence in context.silent.items():
        yield ref, silence.asked
    for ref, group in context.state.groups.items():
        backoff = group.backoff
        if backoff is not None and backoff.asked and is_active(backoff, context.state.now):
            yield ref, backoff.asked


def _has_failed(context: ScaleUpContext, option: Option) -> bool:
    """Did the group itself fail while some of the pods waited?"""
    backoff = context.state.groups[option.group].backoff
    return backoff is not None and not backoff.shared_from and _waited(option.pods, backoff.last_failure)


def _waited(pods: Sequence[Pod], since: float) -> bool:
    return any(0.0 < pod.created <= since for pod in pods)


def _shared_domains(context: ScaleUpContext, ref: GroupRef, failed: Iterable[GroupRef]) -> int:
    """How much of what runs out, zone and machine type, a group shares with one of these of its provider, at most."""
    node = context.templates[ref].node
    others = [context.templates[other].node for other in failed if _is_comparable(context, ref, other)]
    return max(
        (
            sum(_value(node, label) == _value(other, label) != "" for label in _FAILURE_DOMAIN_LABELS)
            for other in others
        ),
        default=0,
    )


def _is_comparable(context: ScaleUpContext, ref: GroupRef, failed: GroupRef) -> bool:
    return failed in context.templates and failed.provider == ref.provider


def _value(node: Node, label: str) -> str:
    return node.metadata.labels.get(label, "")


_FAILURE_DOMAIN_LABELS = (ZONE_LABEL, INSTANCE_TYPE_LABEL)
