"""Plan for nodes whose machine the cloud is about to take: room for their pods first, then the drain.

The pods of such a node are demand while they still run, on groups that the notice does not concern. The node is drained
when all of them have a place on a ready node, or when only the time to end them is left. After the drain its machine is
deleted, so that a group that replaces lost machines does not replace this one as well.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from nodewright.clusterstate.backoff import sharing_scope
from nodewright.clusterstate.memory import HeldNotice
from nodewright.clusterstate.state import ClusterState
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.interruption import InterruptionKind
from nodewright.model.plan import LeavingNode
from nodewright.model.pod import Pod
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.model.removal import LAST_SECONDS, NodeRemoval, RemovalReason
from nodewright.model.settings import DrainSettings, PodSettings
from nodewright.planner.scale_down.limits import DisruptionLimits
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import owner_key
from nodewright.planner.scale_up.pending_pods import Hints, hint_key, returns, unplaced
from nodewright.snapshot.observation import GroupSeen
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

# If the notice is shorter than this, the node is drained at once.
AT_ONCE_SECONDS = 60.0
# Seconds after a notice for which other groups than those of its scope are preferred.
SCOPE_SECONDS = 300.0
# Seconds after which another node becomes the first to be checked against budgets.
TURN_SECONDS = 1800.0
_AT_RISK = SkipReason(code=SkipCode.BACKOFF, message="the cloud recommends replacing machines of its kind")


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """The nodes that leave: their notices, all their pods, and those of the pods that need another place.

    ``at_risk`` are the groups in the scope of a fresh notice: they grow only where no other group helps. Pods in
    ``recommended`` (by identity) are on nodes that the cloud only recommends to replace: none of these groups grows for
    them. Pods in ``modest`` are those of ``recommended`` whose notice is old: no group at all grows for them. ``held``
    are nodes that a budget or a gang keeps: nothing is bought for them, and they are not drained.
    """

    notices: Mapping[str, HeldNotice] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    homeless: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    at_risk: frozenset[GroupRef] = frozenset()
    recommended: frozenset[int] = frozenset()
    modest: frozenset[int] = frozenset()
    held: frozenset[str] = frozenset()

    @property
    def demand(self) -> Iterator[Pod]:
        """Yield the pods that need another place."""
        for pods in self.homeless.values():
            yield from pods


def find_interruptions(state: ClusterState, settings: PodSettings) -> Interruptions:
    """Return the nodes that leave, and what that means for pods and groups."""
    if not state.memory.notices:
        return Interruptions()
    snapshot = state.observation.snapshot
    pods = {name: snapshot.pods(snapshot.row(name)) for name in state.interrupted if name in snapshot}
    notices = {name: state.interrupted[name] for name in pods}
    held, removing = frozenset(_find_held(state, pods)), state.observation.removing
    homeless = {
        name: tuple(
            unplaced(pod)
            for pod in on_node
            if pod.metadata.deletion_timestamp is None
            and pod.metadata.controller is not None
            and returns(pod, settings)
        )
        for name, on_node in pods.items()
        # Pods of nodes that are being drained are known to be created again already.
        if name not in removing and name not in held
    }
    recommended = {
        id(pod): state.now >= notices[name].since + SCOPE_SECONDS
        for name, moved in homeless.items()
        if notices[name].kind == InterruptionKind.REBALANCE
        for pod in moved
    }
    return Interruptions(
        notices=notices,
        pods=pods,
        homeless=homeless,
        at_risk=_find_at_risk(state),
        recommended=frozenset(recommended),
        modest=frozenset(pod for pod, is_late in recommended.items() if is_late),
        held=held,
    )


def bar_own_pools(
    found: Interruptions, snapshot: Snapshot, left: Sequence[Pod]
) -> tuple[list[Pod], dict[PodClass, dict[GroupRef, SkipReason]]]:
    """Return the pods to grow for, and the groups that do not grow for a class of pods: those that its pods leave.

    Pending pods may go to any group. If a class has pending pods, its pods on leaving nodes wait for the next loop.
    """
    if not found.recommended:
        return list(left), {}
    barred: dict[PodClass, dict[GroupRef, SkipReason]] = {}
    dropped = set[int](found.modest)
    for pod_class, pods in snapshot.vocabulary.classes.sort(left).items():
        ours = found.recommended.intersection(map(id, pods))
        if ours and len(ours) < len(pods):
            dropped |= ours
        elif ours:
            barred[pod_class] = dict.fromkeys(found.at_risk, _AT_RISK)
    return [pod for pod in left if id(pod) not in dropped], barred


def drop_leaving(snapshot: Snapshot, found: Interruptions) -> None:
    """Remove the nodes that leave from the snapshot in which growth is planned."""
    for name in found.notices:
        row = snapshot.find_row(name)
        if row is not None:
            snapshot.remove_node(row)


def plan_drains(
    state: ClusterState, found: Interruptions, hints: Hints, taken: AbstractSet[str], drain: DrainSettings
) -> tuple[tuple[NodeRemoval, ...], tuple[LeavingNode, ...]]:
    """Return the drains that begin now, and a report on each node that leaves.

    ``hints`` say where pods were placed in this plan. Nodes in ``taken`` are removed for another reason. Disruption budgets
    for ``interrupted`` apply to a node until the time at which it must be drained at the latest.
    """
    removals, report, limits = list[NodeRemoval](), list[LeavingNode](), DisruptionLimits(state)
    for name in taken:
        limits.take(name)
    snapshot, under_way = state.observation.snapshot, state.observation.removing
    leaving = Counter(removing.removal.group for removing in under_way.values())
    leaving.update(state.group_of_node[name] for name in taken)
    for name, notice in found.notices.items():
        ref, is_draining = state.group_of_node[name], name in under_way or name in taken
        moved, pods = found.homeless.get(name, ()), found.pods[name]
        stays = name in found.held or _loses_pods(pods, notice)
        places = None if stays else _places(moved, hints, snapshot, taken)
        drain_by = drain_at(notice, pods, drain)
        is_late = drain_by <= state.now
        is_free = limits.find_obstacle(name, DisruptionReason.INTERRUPTED) is None
        is_due = is_late or (places is not None and is_free)
        deletes = _may_shrink(state.observation.groups.get(ref), leaving[ref])
        if not is_draining and is_due and _may_drain(notice, deletes, is_late=is_late):
            removal = _removal(name, notice, moved, places or {}, state)
            removals.append(replace(removal, deletes=bool(deletes), drain_by=drain_by if drain_by < math.inf else 0.0))
            leaving[ref] += 1
            limits.take(name)
            is_draining = True
        report.append(
            LeavingNode(
                node=name,
                group=ref,
                kind=notice.kind,
                deadline=notice.deadline,
                drain_by=drain_by,
                has_room=places is not None,
                is_draining=is_draining,
            )
        )
    return tuple(removals), tuple(report)


def _find_held(state: ClusterState, pods: Mapping[str, Sequence[Pod]]) -> Iterator[str]:
    """Yield the nodes that budgets for ``interrupted``, or running gangs, keep now.

    Nodes before them that can be drained count as going. For gangs all nodes with a deadline do, too. A node with a
    deadline is not held: the cloud takes its machine anyway. From time to time another node is the first, so that a node
    whose pods never get room does not block the others.
    """
    limits, under_way = DisruptionLimits(state), state.observation.removing
    leaving = Counter(removing.removal.group for removing in under_way.values())
    first = int(state.now // TURN_SECONDS) % max(1, len(pods))
    gangs = DisruptionBudgets((), gangs=state.observation.workloads.gangs)
    for name, on_node in pods.items():
        if state.interrupted[name].deadline is not None and name not in under_way:
            gangs.remove(on_node)
    for name in (*islice(pods, first, None), *islice(pods, first)):
        ref, notice, on_node = state.group_of_node[name], state.interrupted[name], pods[name]
        if notice.deadline is not None or name in under_way:
            continue
        if limits.find_obstacle(name, DisruptionReason.INTERRUPTED) is not None or gangs.broken_gang(on_node):
            yield name
        elif _may_shrink(state.observation.groups.get(ref), leaving[ref]) and not _loses_pods(on_node, notice):
            limits.take(name)
            gangs.remove(on_node)
            leaving[ref] += 1


def _may_shrink(group: GroupSeen | None, leaving: int) -> bool | None:
    """Return whether one more machine of the group may be deleted; None if the group cannot be read."""
    if group is None or group.target is None or not group.is_known:
        return None
    return group.target - leaving - 1 >= group.group.min_size


def _may_drain(notice: HeldNotice, deletes: bool | None, *, is_late: bool) -> bool:
    """Return whether the node may be drained, given whether its machine may be deleted.

    If it may not, the node is drained only for a cloud that takes the machine in any case. If the group cannot be read,
    the drain waits until the last moment.
    """
    return bool(deletes) or (notice.deadline is not None and (deletes is not None or is_late))


def drain_at(notice: HeldNotice, pods: Sequence[Pod], drain: DrainSettings) -> float:
    """Return when the node is drained at the latest (epoch seconds); infinity: only when its pods have places."""
    if notice.deadline is None:
        return math.inf
    if notice.deadline - notice.since < AT_ONCE_SECONDS:
        return notice.since
    return notice.deadline - longest_grace(pods, drain) - LAST_SECONDS


def longest_grace(pods: Sequence[Pod], drain: DrainSettings) -> int:
    """Return the longest time that one of the pods gets to end, in seconds."""
    most = drain.max_graceful_termination_sec
    longest = max((pod.grace_seconds for pod in pods if not pod.is_daemonset_pod and not pod.is_mirror), default=0)
    return min(longest, most) if most > 0 else longest


def _loses_pods(pods: Sequence[Pod], notice: HeldNotice) -> bool:
    """Return whether the node runs pods that no controller would create again: they run until the last moment.

    If there is no deadline, pods that are ending are waited for, too.
    """
    return any(
        (pod.metadata.controller is None and not pod.is_mirror)
        or (notice.deadline is None and pod.metadata.deletion_timestamp is not None)
        for pod in pods
    )


def _places(pods: Sequence[Pod], hints: Hints, snapshot: Snapshot, taken: AbstractSet[str]) -> dict[str, str] | None:
    """Return the existing node of each of these pods, by the pod's key; None if a pod has no place on a node that stays."""
    found: dict[str, str] = {}
    for pod in pods:
        place = hints.fresh.get(hint_key(pod))
        if place is None or place not in snapshot or place in taken:
            return None
        found[pod.key] = place
    return found


def _removal(
    name: str,
    notice: HeldNotice,
    moved: Sequence[Pod],
    places: Mapping[str, str],
    state: ClusterState,
) -> NodeRemoval:
    snapshot = state.observation.snapshot
    is_forced = notice.deadline is not None
    return NodeRemoval(
        node=name,
        group=state.group_of_node[name],
        instance_id=snapshot.node(snapshot.row(name)).spec.provider_id,
        reason=RemovalReason.INTERRUPTED,
        pods=tuple(pod.key for pod in moved),
        owners=tuple(owner_key(pod) for pod in moved),
        places=() if is_forced else tuple(places[pod.key] for pod in moved),
        deadline=notice.deadline,
    )


def _find_at_risk(state: ClusterState) -> frozenset[GroupRef]:
    """Return the groups in the scope of recent notices. A recommendation that is not followed does not count."""
    groups = {ref: group.seen for ref, group in state.groups.items()}
    follows = any(notice.kind == InterruptionKind.REBALANCE for notice in state.interrupted.values())
    scopes = {
        (ref, notice.scope)
        for ref, notices in state.memory.notices.items()
        for notice in notices
        if notice.scope is not None and state.now < notice.since + SCOPE_SECONDS
        if follows or notice.kind != InterruptionKind.REBALANCE
    }
    found = {ref for ref, _ in scopes}
    return frozenset(found.union(*(sharing_scope(ref, scope, groups) for ref, scope in scopes)))
