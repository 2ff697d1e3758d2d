"""The reservations for requests: nodes that are being added, and room that is kept until their pods run.

See docs/adr/0013-provisioning-requests.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.deletions import is_resting
from nodewright.clusterstate.memory import Reservation, ReservationPart
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, DeletionCause
from nodewright.model.gang import is_gang_id
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import (
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CONSUMED,
    PROVISIONED,
    UNDER_WAY,
    ProvisioningRequest,
)
from nodewright.planner.provisioning_requests.arbitration import grant, put_off
from nodewright.planner.provisioning_requests.pods import consumed_request, is_stand_in, make_pods_or_fail
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges, join_changes
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.planner.scale_up.templates import runs_only_daemons
from nodewright.snapshot.pod_class import map_alike
from nodewright.snapshot.snapshot import Snapshot

# Seconds after which missing room counts as lost; a node may be unready for a moment.
_LOSS_SECONDS = 60.0
_CANCELLED = "its request was cancelled"
_CONSUMERS = "pods that consume requests"

Removal = DeleteInstances | DecreaseTargetSize


# Nodes that are being added


def settle_reservations(state: ClusterState, requests: ProvisioningRequestState) -> RequestChanges:
    """Provision the requests whose nodes are all ready, and put off those whose reservation is broken.

    If a group failed to deliver, the request tries another one at once: the group that failed is in backoff. Otherwise
    the request waits for its next try.
    """
    open_requests = {request.id: request for request in requests if not requests.is_over(request)}
    kept: dict[str, Reservation] = {}
    changes: list[RequestChanges] = []
    for name, held in requests.reservations.items():
        if is_gang_id(name):
            kept[name] = held
            continue
        request, fresh, known_as = open_requests.get(name), held, name
        if request is None or requests.mode(request) is None:
            fresh = cancelled(held)
        elif held.broken:
            known_as = held.leftover_name(name)
            if _is_under_way(request):
                changes.append(put_off(request, requests, held.broken, at_once=has_failed(held, state)))
        elif is_complete(held, state):
            what = "CapacityIsProvisioned", f"{held.nodes} nodes were provisioned"
            changes.append(grant(request, requests, what, held.nodes))
            continue
        if not held.broken:
            times = (*(part.deadline or held.deadline for part in held.parts), held.deadline + held.patience)
            changes.append(RequestChanges(next_change=requests.next_change_at(*times)))
        if fresh.parts:
            kept[known_as] = fresh
    return join_changes([*changes, RequestChanges(reservations=kept)])


def remove_leftovers(
    state: ClusterState, requests: ProvisioningRequestState, busy: Iterable[GroupRef]
) -> tuple[list[Removal], RequestChanges]:
    """Remove the idle machines of broken reservations, and lower the target by what has no machine yet.

    There is one write for each group: ``busy`` groups are written to already. Groups whose cloud is busy wait. A removal
    that failed is tried again after a pause, so that the group may meanwhile grow for others.
    """
    pause = requests.settings.pause
    found: dict[GroupRef, Removal] = {}
    taken, times = set(busy), list[float]()
    reservations = dict(requests.reservations)
    for name, held in requests.reservations.items():
        for part in held.parts if held.broken else ():
            group = state.groups.get(part.ref)
            if group is None or part.ref in taken or not state.observation.groups[part.ref].is_known:
                continue
            if is_deferred(group.deferral, state.now):
                continue
            idle = _idle_machines(part, state)
            if set(idle) != set(part.machines):  # a machine with pods of others is an ordinary machine from now on
                reservations[name] = _with_machines(reservations[name], part, idle)
            tried = [machine for machine in idle if is_resting(state, part.ref, machine, pause)]
            ready = tuple(machine for machine in idle if machine not in tried)
            is_withdrawable = not part.withdrawn_at or part.withdrawn_at + pause < state.now
            rested = [state.memory.deletion_tried[part.ref, machine] for machine in tried]
            times += [at + pause for at in (rested if is_withdrawable else (*rested, part.withdrawn_at))]
            removal = _removal(part, ready, group, held, is_withdrawable=is_withdrawable)
            if removal is not None:
                found[part.ref] = removal
                taken.add(part.ref)
    changes = RequestChanges(reservations=reservations, next_change=requests.next_change_at(*times))
    return list(found.values()), changes


def without_leftovers(state: ClusterState, requests: ProvisioningRequestState) -> ClusterState:
    """Return the state in which the nodes of broken reservations are not upcoming.

    This also holds for nodes that cannot be removed yet: no pod may count on them.
    """
    groups = dict(state.groups)
    for part in (part for held in requests.reservations.values() if held.broken for part in held.parts):
        group = groups.get(part.ref)
        if group is not None:
            groups[part.ref] = replace(group, upcoming=max(0, group.upcoming - count_upcoming(part, group, state)))
    return replace(state, groups=groups)


def count_upcoming(part: ReservationPart, group: GroupState, state: ClusterState) -> int:
    """Return how many machines of the part count as upcoming; those given up, late or failed do not."""
    staying = len(group.seen.staying)
    missing = min(part.missing, max(0, (group.seen.target or 0) - staying - group.given_up))
    snapshot, starting = state.observation.snapshot, set(group.readiness.unregistered)
    for name in group.readiness.not_started:
        starting.add(snapshot.node(snapshot.row(name)).spec.provider_id)
    known_as = {machine.lower() for machine in starting}
    return missing + sum(machine.lower() in known_as for machine in part.machines)


def _is_under_way(request: ProvisioningRequest) -> bool:
    """Return whether the request's status says that nodes are being added for it."""
    held = request.condition(PROVISIONED)
    return held is None or held.reason == UNDER_WAY


def cancelled(held: Reservation) -> Reservation:
    """Return the broken reservation of a cancelled request: existing machines are left to scale-down."""
    if held.broken:
        return held
    parts = tuple(changed(part, machines=(), nodes=part.missing) for part in held.parts)
    return changed(held, broken=_CANCELLED, parts=tuple(part for part in parts if part.nodes))


def is_complete(held: Reservation, state: ClusterState) -> bool:
    if any(part.missing or not part.asked for part in held.parts):
        return False
    return all(set(part.machines) <= ready_machines(state, part.ref) for part in held.parts)


def ready_machines(state: ClusterState, ref: GroupRef) -> set[str]:
    """Return the machine ids of the group's ready nodes."""
    group, snapshot = state.groups.get(ref), state.observation.snapshot
    if group is None or group.seen.instances is None:
        return set()
    nodes = (snapshot.node(snapshot.row(name)) for name in group.readiness.ready if name in snapshot)
    names = {node.spec.provider_id.lower() for node in nodes}
    return {instance.id for instance in group.seen.instances if instance.id.lower() in names}


def _idle_machines(part: ReservationPart, state: ClusterState) -> tuple[str, ...]:
    """Return the machines of the part that run only DaemonSet and mirror pods."""
    snapshot = state.observation.snapshot
    wanted = {machine.lower() for machine in part.machines}
    busy = {
        node.spec.provider_id.lower()
        for row, node in snapshot.nodes()
        if node.spec.provider_id.lower() in wanted and not runs_only_daemons(snapshot, row)
    }
    return tuple(machine for machine in part.machines if machine.lower() not in busy)


def _with_machines(held: Reservation, part: ReservationPart, idle: tuple[str, ...]) -> Reservation:
    return held.with_part(changed(part, machines=idle, nodes=len(idle) + part.missing))


def has_failed(held: Reservation, state: ClusterState) -> bool:
    """Return whether one of its groups failed since it was started. That group is in backoff, so retries end."""
    backoffs = [state.groups[part.ref].backoff for part in held.parts if part.ref in state.groups]
    return any(
        backoff is not None and is_active(backoff, state.now) and backoff.last_failure >= held.started
        for backoff in backoffs
    )


def _removal(
    part: ReservationPart, idle: tuple[str, ...], group: GroupState, held: Reservation, *, is_withdrawable: bool
) -> Removal | None:
    """Return the write for one group: first lower the target, since the cloud may still make machines for it."""
    target = group.seen.target or 0
    living = {one.id for one in group.seen.staying}
    missing = min(part.missing, target - len(living))
    reason = f"request {held.key} cannot have all of its machines"
    if missing > 0 and is_withdrawable:
        return DecreaseTargetSize(
            group=part.ref, expected_target=target, target=target - missing, reason=f"{reason}: {held.broken}"
        )
    machines = tuple(machine for machine in idle if machine in living)
    if not machines:
        return None
    return DeleteInstances(
        group=part.ref,
        expected_target=target,
        instance_ids=machines,
        cause=DeletionCause.RESERVATION,
        reason=f"{reason}: {held.broken}",
    )


# Room that is kept until the pods run


def keep_room(snapshot: Snapshot, requests: ProvisioningRequestState) -> RequestChanges:
    """Place the pods that are still to come of provisioned requests, and of requests whose nodes are being added."""
    provisioned = [request for request in requests if is_reserved(request, requests)]
    keys = {held.key for held in requests.reservations.values() if not held.broken}
    waiting = [request for request in requests if request.key in keys and not requests.is_over(request)]
    consumers = running_consumers(snapshot) if provisioned or waiting else {}
    changes: list[RequestChanges] = []
    for request in provisioned:
        running = consumers.get(request.key, [])
        if len(running) >= request.pod_count:
            changes += [end_as_consumed(request, requests), RequestChanges(reserved={request.key: None})]
            continue
        pods, failed = try_pods(request, requests)
        changes.append(failed)
        if pods:
            left = _left_to_come(pods, running, snapshot)
            changes.append(_keep_room_for(snapshot, request, left, requests))
    for request in waiting:
        if not request.has(PROVISIONED):
            pods, failed = try_pods(request, requests)
            changes.append(failed)
            take_fitting(snapshot, pods)
    return join_changes(changes)


def running_consumers(snapshot: Snapshot) -> Mapping[str, list[Pod]]:
    """Return the pods on nodes that consume a request, by the request's key."""
    found: dict[str, list[Pod]] = {}
    rows = (row for row, _ in snapshot.nodes())
    for pods in snapshot.of_pods(_CONSUMERS, rows, _consumers_among):
        for pod in pods:
            found.setdefault(f"{pod.metadata.namespace}/{consumed_request(pod)}", []).append(pod)
    return found


def is_reserved(request: ProvisioningRequest, requests: ProvisioningRequestState) -> bool:
    """Return whether the request's capacity was provisioned and is kept for it."""
    return requests.mode(request) is not None and request.has(PROVISIONED) and not requests.is_over(request)


def end_as_consumed(request: ProvisioningRequest, requests: ProvisioningRequestState) -> RequestChanges:
    """End the request: all of its pods run."""
    text = "Capacity booking consumed: all pods scheduled"
    return requests.write(request, requests.condition(request, (BOOKING_EXPIRED, "True"), CONSUMED, text))


def try_pods(
    request: ProvisioningRequest, requests: ProvisioningRequestState
) -> tuple[tuple[Pod, ...], RequestChanges]:
    """Return all pods of a request; none if its templates are missing, and the changes that fail it."""
    pods, failed = make_pods_or_fail(request, requests, "FailedToBookCapacity", "Couldn't create pods, err: ")
    return pods or (), failed


def remove_leaving_nodes(snapshot: Snapshot, state: ClusterState, requests: ProvisioningRequestState) -> None:
    """Remove idle nodes that the cloud deletes, now or in this loop, from the snapshot: they have no room for requests."""
    names = {name for group in state.groups.values() for name in group.readiness.deleted}
    broken = (part for held in requests.reservations.values() if held.broken for part in held.parts)
    machines = {machine.lower() for part in broken for machine in part.machines}
    if not (names or machines):
        return
    for row, node in tuple(snapshot.nodes()):
        leaves = node.name in names or node.spec.provider_id.lower() in machines
        if leaves and runs_only_daemons(snapshot, row):
            snapshot.remove_node(row)


def _keep_room_for(
    snapshot: Snapshot, request: ProvisioningRequest, pods: list[Pod], requests: ProvisioningRequestState
) -> RequestChanges:
    """Place the pods. Capacity is revoked if some have had no room for a while."""
    fitting, left = take_fitting(snapshot, pods)
    reserved = {request.key: len(fitting)}
    if not left:
        return RequestChanges(reserved=reserved, missing_since={request.id: None})
    since = requests.memory.homeless_since.get(request.id, requests.now)
    lost_at = since + _LOSS_SECONDS
    changes = RequestChanges(
        reserved=reserved, missing_since={request.id: since}, next_change=requests.next_change_at(lost_at)
    )
    if lost_at >= requests.now:
        return changes
    text = f"Room for {len(left)} of {request.pod_count} pods is not there any more"
    revoked = requests.condition(request, (CAPACITY_REVOKED, "True"), "CapacityIsLost", text)
    return join_changes([changes, requests.write(request, revoked)])


def _left_to_come(pods: Sequence[Pod], running: Iterable[Pod], snapshot: Snapshot) -> list[Pod]:
    """Return the pods of a request that do not run yet: a running pod stands for one with the same requests."""
    came = Counter(_size(snapshot, pod, placed=True) for pod in running)
    if not came:
        return list(pods)
    left = []
    for pod, size in map_alike(pods, partial(_size, snapshot)):
        if came[size] > 0:
            came[size] -= 1
        else:
            left.append(pod)
    others = sum(came.values())  # running pods whose requests differ from those of all the request's pods also count
    return left[: max(0, len(left) - others)]


def _size(snapshot: Snapshot, pod: Pod, *, placed: bool = False) -> frozenset[tuple[str, int]]:
    held = snapshot.class_of(pod, placed=placed)
    known: frozenset[tuple[str, int]] | None = held.compiled.get("size")
    if known is None:
        known = held.compiled["size"] = frozenset(held.requests.items())
    return known


def _consumers_among(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if consumed_request(pod) is not None and not is_stand_in(pod))
