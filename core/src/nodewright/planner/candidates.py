"""Which groups may grow at all, and by what expansion each would help (behaviour/up.md §4.4, §4.5)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.deferrals import is_deferred
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.estimator.binpacking import Estimate, Template
from nodewright.estimator.limits import node_limit
from nodewright.estimator.pod_group import PodGroup
from nodewright.expander.option import Option
from nodewright.model.group import GroupRef, GroupSpec
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.model.settings import Settings
from nodewright.model.timestamps import format_moment
from nodewright.planner.deadline import deadline
from nodewright.planner.gallery import NodeGroupFit
from nodewright.planner.quota import Quota
from nodewright.planner.silence import Silence
from nodewright.planner.similar import are_similar, share_a_label
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class ScaleUpContext:
    """What all steps of one scale-up share. The snapshot holds pods that fit and machines on their way.

    ``corrected`` are groups whose size this plan corrects already. ``new_groups`` are among the groups, and do not exist:
    they are made when they grow. ``coming`` are the rows of machines on their way. ``silent`` are groups whose machines nobody counts on. ``hedges_left`` is how many more
    machines may be bought twice. ``growth_limit`` is how many nodes may be added at most, whatever else allows more.
    ``room_by`` is when preempted pods whose room is counted on must have ended (epoch seconds).
    ``barred`` says for which pods which groups are not grown, because their machines did not take such pods.
    """

    state: ClusterState
    settings: Settings
    snapshot: Snapshot
    templates: Mapping[GroupRef, Template]
    quota: Quota
    accelerators: Accelerators = NO_ACCELERATORS
    corrected: frozenset[GroupRef] = frozenset()
    new_groups: Mapping[GroupRef, GroupSpec] = field(default_factory=dict)
    coming: Mapping[GroupRef, Sequence[int]] = field(default_factory=dict)
    silent: Mapping[GroupRef, Silence] = field(default_factory=dict)
    hedges_left: int = 0
    growth_limit: int | None = None
    room_by: float = math.inf
    barred: Mapping[PodClass, Mapping[GroupRef, SkipReason]] = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        return int(self.snapshot.alive.sum())

    def room(self, ref: GroupRef) -> int:
        """How many machines a group may still get by its maximum."""
        seen = self.state.groups[ref].seen
        return max(0, seen.group.max_size - (seen.target or 0))

    @property
    def nodes_left(self) -> int | None:
        """How many nodes the cluster may still get; None without a limit."""
        limit = self.settings.limits.max_nodes_total
        left = limit - self.node_count if limit else None
        if left is None or self.growth_limit is None:
            return self.growth_limit if left is None else left
        return min(left, self.growth_limit)

    @property
    def new_groups_left(self) -> int:
        """How many groups may still be made; those that this plan makes have grown in its picture."""
        groups, listed = self.state.groups, self.state.observation.groups
        made = sum(bool(seen.group.autoprovisioned) for ref, seen in listed.items() if ref not in self.new_groups)
        planned = sum(bool(groups[ref].seen.target) for ref in self.new_groups)
        return self.settings.autoprovisioning.max_autoprovisioned_node_group_count - made - planned


def with_targets(ground: ScaleUpContext, targets: Mapping[GroupRef, int]) -> ScaleUpContext:
    """Return the context in which these groups have the targets that they are about to get."""
    groups = dict(ground.state.groups)
    for ref, target in targets.items():
        groups[ref] = replace(groups[ref], seen=replace(groups[ref].seen, target=target))
    return replace(ground, state=replace(ground.state, groups=groups))


def skip_reason(ground: ScaleUpContext, ref: GroupRef) -> SkipReason | None:
    """Why a group may not grow now, whatever the pod; None when it may."""
    group = ground.state.groups[ref]
    unsafe = unsafe_reason(ground, ref) or _too_many(ground, ref)
    if unsafe is not None:
        return unsafe
    if (group.seen.target or 0) >= group.seen.group.max_size:
        return SkipReason(code=SkipCode.MAX_SIZE, message="max node group size reached")
    step = ground.room(ref) if group.seen.options.zero_or_max_node_scaling else 1
    left = ground.nodes_left
    if left is not None and group.seen.options.zero_or_max_node_scaling and step > left:
        return SkipReason(code=SkipCode.NODE_LIMIT, message="atomic scale-up exceeds cluster node count limit")
    if ref not in ground.templates:
        return SkipReason(code=SkipCode.NO_TEMPLATE, message="not ready for scale-up: no template of its nodes")
    allowed, exceeded = ground.quota.allowed(ground.templates[ref].node, step)
    if allowed < step:
        scarce = tuple(dict.fromkeys(name for quota in exceeded for name in quota.resources))
        return SkipReason(code=SkipCode.RESOURCE_LIMIT, message="; ".join(map(str, exceeded)), resources=scarce)
    return None


def unsafe_reason(ground: ScaleUpContext, ref: GroupRef) -> SkipReason | None:
    """Why nothing may be asked of a group now."""
    state = ground.state
    group, observed = state.groups[ref], state.observation.groups[ref]
    if not observed.is_known:
        return SkipReason(code=SkipCode.UNKNOWN, message=f"not ready for scale-up: {observed.problem}")
    if not group.healthy:
        return SkipReason(
            code=SkipCode.UNHEALTHY, message="not ready for scale-up: too many of its nodes are not ready"
        )
    if ref in state.left_out:
        return SkipReason(
            code=SkipCode.UNHEALTHY, message="not ready for scale-up: the cluster is unhealthy through it"
        )
    if ref in ground.corrected:
        return SkipReason(code=SkipCode.CORRECTED, message="its size is being corrected in this loop")
    return _reason_to_rest(group, state.now)


def _reason_to_rest(group: GroupState, now: float) -> SkipReason | None:
    """Why a group is left alone after what its cloud answered."""
    backoff, deferral = group.backoff, group.deferral
    if backoff is not None and is_active(backoff, now):
        why = f"with {backoff.shared_from}, whose scale-up failed" if backoff.shared_from else "after failed scale-up"
        return SkipReason(code=SkipCode.BACKOFF, message=f"in backoff {why} ({backoff.code})")
    if deferral is not None and is_deferred(deferral, now):
        why = f"until {format_moment(deferral.until)} because the cloud is busy ({deferral.code})"
        return SkipReason(code=SkipCode.DEFERRED, message=f"deferred {why}")
    return None


def _too_many(ground: ScaleUpContext, ref: GroupRef) -> SkipReason | None:
    """Why a group that would have to be made may not be."""
    if ref not in ground.new_groups or ground.state.groups[ref].seen.target or ground.new_groups_left > 0:
        return None
    most = ground.settings.autoprovisioning.max_autoprovisioned_node_group_count
    message = f"max autoprovisioned node group count reached ({most})"
    return SkipReason(code=SkipCode.GROUP_LIMIT, message=message)


def find_similar(
    ground: ScaleUpContext, ref: GroupRef, groups: Sequence[PodGroup], gallery: NodeGroupFit
) -> list[GroupRef]:
    """Groups over which growth of ``ref`` may be spread: alike, safe, and open to every pod that it is open to. Those that
    do not exist are alike to none: one option makes one group.
    """
    own = ground.state.groups[ref].seen
    balances = ground.settings.scale_up.balance_similar_node_groups and ref not in ground.new_groups
    if not balances or own.options.zero_or_max_node_scaling:
        return []
    needed = {group.pod_class for group in groups if ref in gallery.fits(group.pod_class)}
    if not needed:
        return []
    return [
        other
        for other in ground.state.groups
        if other != ref
        and other in ground.templates
        and other not in ground.new_groups
        and unsafe_reason(ground, other) is None
        and is_similar(ground, ref, other)
        and all(other in gallery.fits(pod_class) for pod_class in needed)
    ]


def make_option(
    ground: ScaleUpContext,
    ref: GroupRef,
    groups: Sequence[PodGroup],
    similar: Sequence[GroupRef],
    gallery: NodeGroupFit,
) -> Option | None:
    """What growing one group, and those ``similar`` to it, would do for the pods; None when it would help none."""
    fitting = [group for group in groups if ref in gallery.fits(group.pod_class)]
    if not fitting:
        return None
    return option_of(ground, ref, _estimate(ground, ref, fitting, similar, gallery))


def option_of(ground: ScaleUpContext, ref: GroupRef, found: Estimate) -> Option | None:
    """What an estimate of growing one group amounts to; None when it would help nobody."""
    seen = ground.state.groups[ref].seen
    count = found.node_count if ground.settings.is_ca else found.new_nodes
    if count and seen.options.zero_or_max_node_scaling:
        count = seen.group.max_size
    if not count or not found.pods:
        return None
    template = ground.templates[ref]
    return Option(
        group=ref,
        node=template.node,
        node_count=count,
        pods=found.pods,
        requested=_requested(found),
        hourly_price=seen.hourly_price,
        has_gpu=bool(ground.accelerators.count(template.node)[0]),
        exists=ref not in ground.new_groups or bool(seen.target),
    )


def _estimate(
    ground: ScaleUpContext,
    ref: GroupRef,
    groups: Sequence[PodGroup],
    similar: Sequence[GroupRef],
    gallery: NodeGroupFit,
) -> Estimate:
    settings = ground.settings.scale_up
    room = sum(ground.room(other) for other in (ref, *similar))
    left = ground.nodes_left
    thresholds = [settings.max_nodes_per_scaleup, room or -1]
    if left is not None:
        thresholds.append(left if left > 0 else -1)
    is_over = deadline(ground.state.elapsed, settings.max_nodegroup_binpacking_duration)
    fastpath = settings.fastpath_binpacking_enabled
    return gallery.estimate(ref, groups, node_limit(thresholds), fastpath=fastpath, is_over=is_over)


def _requested(found: Estimate) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod_class, count in found.helped.items():
        for name, amount in pod_class.requests.items():
            total[name] = total.get(name, 0) + count * amount
    return total


def is_similar(ground: ScaleUpContext, ref: GroupRef, other: GroupRef) -> bool:
    """Whether two groups with templates are of one kind, as their provider and the settings have it."""
    provider = ground.state.observation.providers.get(ref.provider)
    a, b = ground.templates[ref], ground.templates[other]
    if provider is not None and ref.provider == other.provider:
        if share_a_label(a, b, provider.same_group_labels):
            return True
        return are_similar(a, b, ground.settings.scale_up, provider.ignored_labels)
    return are_similar(a, b, ground.settings.scale_up)
