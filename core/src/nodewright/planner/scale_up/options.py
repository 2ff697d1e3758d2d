"""Find the groups that may grow, and the pending pods that each of them would help."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.state import GroupState
from nodewright.estimator.binpacking import Estimate
from nodewright.estimator.new_nodes import node_limit
from nodewright.expander import Option
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.snapshot.observation import paid_machines
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS


def skip_reason(context: PlanningContext, ref: GroupRef) -> SkipReason | None:
    """Return why a group may not grow now for any pod; None if it may."""
    group = context.state.groups[ref]
    unsafe = unsafe_reason(context, ref) or _too_many(context, ref)
    if unsafe is not None:
        return unsafe
    if (group.seen.target or 0) >= group.seen.group.max_size:
        return SkipReason(code=SkipCode.MAX_SIZE, message="max node group size reached")
    step = context.room(ref) if group.seen.options.zero_or_max_node_scaling else 1
    left = context.nodes_left
    if left is not None and group.seen.options.zero_or_max_node_scaling and step > left:
        return SkipReason(code=SkipCode.NODE_LIMIT, message="atomic scale-up exceeds cluster node count limit")
    if ref not in context.templates:
        return SkipReason(code=SkipCode.NO_TEMPLATE, message="not ready for scale-up: no template of its nodes")
    allowed, exceeded = context.quota.allowed(context.templates[ref].node, step)
    if allowed < step:
        scarce = tuple(dict.fromkeys(name for quota in exceeded for name in quota.resources))
        return SkipReason(code=SkipCode.RESOURCE_LIMIT, message="; ".join(map(str, exceeded)), resources=scarce)
    return None


def unsafe_reason(context: PlanningContext, ref: GroupRef) -> SkipReason | None:
    """Return why nothing may be asked of a group now; None if it may."""
    state = context.state
    group, observed = state.groups[ref], state.observation.groups[ref]
    if not observed.is_known:
        return SkipReason(code=SkipCode.UNKNOWN, message=f"not ready for scale-up: {observed.problem}")
    if not group.healthy:
        return SkipReason(
            code=SkipCode.UNHEALTHY, message="not ready for scale-up: too many of its nodes are not ready"
        )
    if ref in state.left_out:
        return SkipReason(
            code=SkipCode.UNHEALTHY, message="not ready for scale-up: the cluster is unhealthy because of it"
        )
    if ref in context.corrected:
        return SkipReason(code=SkipCode.CORRECTED, message="its size is being corrected in this loop")
    return _reason_to_rest(group, state.now)


def _reason_to_rest(group: GroupState, now: float) -> SkipReason | None:
    """Return why a group is in backoff or deferred; None if it is neither."""
    backoff, deferral = group.backoff, group.deferral
    if backoff is not None and is_active(backoff, now):
        why = f"with {backoff.shared_from}, whose scale-up failed" if backoff.shared_from else "after failed scale-up"
        return SkipReason(code=SkipCode.BACKOFF, message=f"in backoff {why} ({backoff.code})")
    if deferral is not None and is_deferred(deferral, now):
        why = f"until {format_moment(deferral.until)} because the cloud is busy ({deferral.code})"
        return SkipReason(code=SkipCode.DEFERRED, message=f"deferred {why}")
    return None


def _too_many(context: PlanningContext, ref: GroupRef) -> SkipReason | None:
    """Return why a group may not be created; None if it may or exists."""
    if ref not in context.new_groups or context.state.groups[ref].seen.target or context.new_groups_left > 0:
        return None
    most = context.settings.autoprovisioning.max_autoprovisioned_node_group_count
    message = f"max autoprovisioned node group count reached ({most})"
    return SkipReason(code=SkipCode.GROUP_LIMIT, message=message)


def make_option(context: PlanningContext, ref: GroupRef, found: Estimate) -> Option | None:
    """Return the option of growing one group, made of its estimate; None if it helps no pod."""
    seen = context.state.groups[ref].seen
    count = found.new_nodes if context.settings.policy.buys_only_used_nodes else found.node_count
    if count and seen.options.zero_or_max_node_scaling:
        count = seen.group.max_size
    if not count or not found.pods:
        return None
    template = context.templates[ref]
    return Option(
        group=ref,
        node=template.node,
        node_count=count,
        pods=found.pods,
        requested=_requested(found),
        hourly_price=seen.hourly_price,
        paid_nodes=min(count, paid_nodes(context, ref)),
        has_gpu=bool(context.accelerators.count(template.node)[0]),
        exists=ref not in context.new_groups or bool(seen.target),
    )


def paid_nodes(context: PlanningContext, ref: GroupRef) -> int:
    """Return how many further nodes of a group are machines that are paid already."""
    reserved = context.state.groups[ref].seen.reserved
    if reserved is None:
        return 0
    return paid_machines(reserved, (group.seen for group in context.state.groups.values()))


def most_nodes(context: PlanningContext, ref: GroupRef, similar: Sequence[GroupRef]) -> int:
    """Return how many nodes an estimate for a group may add, as ``node_limit`` does; growth may use ``similar`` groups."""
    room = sum(context.room(other) for other in (ref, *similar))
    thresholds = [context.settings.scale_up.max_nodes_per_scaleup, room or -1]
    left = context.nodes_left
    if left is not None:
        thresholds.append(left if left > 0 else -1)
    return node_limit(thresholds)


def may_help_more(
    context: PlanningContext, fit: NodeGroupFit, refs: Iterable[GroupRef], pods: Mapping[PodClass, int], helped: int
) -> frozenset[GroupRef]:
    """Return the groups whose nodes, as many as the cluster's limits allow, have the resources for more than ``helped`` pods."""
    names = list(dict.fromkeys((PODS, *(name for held in pods for name in held.requests))))
    rows = [[1 if name == PODS else held.requests.get(name, 0) for name in names] for held in pods]
    requests, counts = np.array(rows, dtype=float), np.array(list(pods.values()), dtype=float)
    smallest_first = np.argsort(requests, axis=0, kind="stable")
    wanted, found = sum(pods.values()), set[GroupRef]()
    for ref in refs:
        most = wanted if context.nodes_left is None else min(wanted, context.nodes_left)
        nodes, _ = context.quota.allowed(context.templates[ref].node, most)
        fitting = np.where([ref in fit.fits(held) for held in pods], counts, 0.0)
        free = dict(fit.free(ref))
        if all(
            _most_pods(requests[order, n], fitting[order], float(nodes * max(0, free.get(name, 0)))) > helped
            for n, (name, order) in enumerate(zip(names, smallest_first.T, strict=True))
        ):
            found.add(ref)
    return frozenset(found)


def _most_pods(requests: NDArray[np.float64], counts: NDArray[np.float64], offered: float) -> float:
    """Return for how many pods the offered amount suffices. Smaller pods come first."""
    used = np.cumsum(requests * counts)
    whole = int(np.searchsorted(used, offered, side="right"))
    last = (offered - (used[whole - 1] if whole else 0.0)) // requests[whole] if whole < len(used) else 0.0
    return float(counts[:whole].sum() + last)


def _requested(found: Estimate) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod_class, count in found.helped.items():
        for name, amount in pod_class.requests.items():
            total[name] = total.get(name, 0) + count * amount
    return total
