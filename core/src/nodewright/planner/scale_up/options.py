"""Which groups may grow, and what growing each of them does for the pending pods."""

from collections.abc import Sequence

from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.state import GroupState
from nodewright.estimator.binpacking import Estimate
from nodewright.estimator.limits import node_limit
from nodewright.estimator.pod_group import PodGroup
from nodewright.expander.option import Option
from nodewright.model.group import GroupRef
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.model.timestamps import format_moment
from nodewright.planner.scale_up.context import ScaleUpContext, deadline
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit


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
