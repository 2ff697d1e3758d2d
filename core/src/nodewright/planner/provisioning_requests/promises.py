"""What was promised to requests: machines under way, and room that is held until their pods run (docs/adr/0013)."""

from collections.abc import Iterable
from dataclasses import replace

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.deletions import is_resting
from nodewright.clusterstate.memory import Reservation, ReservationPart
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, DeletionCause
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import CAPACITY_REVOKED, PROVISIONED, UNDER_WAY, ProvisioningRequest
from nodewright.planner.provisioning_requests.booking import (
    end_as_consumed,
    is_booked,
    left_to_come,
    pods_to_book,
    running_consumers,
)
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState
from nodewright.planner.provisioning_requests.fair import grant, put_off
from nodewright.planner.provisioning_requests.housekeeping import is_over
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.snapshot.snapshot import Snapshot

# Room may be away for so long, in seconds: a node that is not ready for a moment is no loss.
_LOSS_SECONDS = 60.0
_CANCELLED = "its request was cancelled"

Removal = DeleteInstances | DecreaseTargetSize


def settle_grants(state: ClusterState, docket: ProvisioningRequestState) -> None:
    """Requests whose machines are all ready are provisioned. Those that lost one are told so. They go to the next group at
    once where a group failed to deliver, which is backed off, and else wait for their next try.
    """
    open_ids = {request.id: request for request in docket if not is_over(request, docket)}
    kept: dict[str, Reservation] = {}
    for name, held in docket.grants.items():
        request, fresh, known_as = open_ids.get(name), held, name
        if request is None or docket.mode(request) is None:
            fresh = _cancelled(held)
        elif held.broken:
            known_as = held.leftover_name(name)
            if _is_in_flight(request):
                put_off(request, docket, held.broken, at_once=_has_failed(held, state))
        elif _is_complete(held, state):
            grant(request, docket, ("CapacityIsProvisioned", f"{held.nodes} nodes were provisioned"), held.nodes)
            continue
        if not held.broken:
            for part in held.parts:
                docket.wake(part.deadline or held.deadline)
            docket.wake(held.deadline + held.patience)
        if fresh.parts:
            kept[known_as] = fresh
    docket.grants = kept


def remove_partial(state: ClusterState, docket: ProvisioningRequestState, busy: Iterable[GroupRef]) -> list[Removal]:
    """Of grants that are over: machines by id, and what has no machine by the target. One write a group; ``busy`` groups
    are written to already, and a group whose cloud is busy waits. What was tried in vain rests for a while, so that the group may meanwhile grow for others.
    """
    pause = docket.settings.failures.initial_node_group_backoff_duration
    found: dict[GroupRef, Removal] = {}
    taken = set(busy)
    grants = dict(docket.grants)
    for name, held in docket.grants.items():
        if not held.broken:
            continue
        for part in held.parts:
            group = state.groups.get(part.ref)
            if group is None or part.ref in taken or not state.observation.groups[part.ref].is_known:
                continue
            if is_deferred(group.deferral, state.now):
                continue
            idle = _idle_machines(part, state)
            if set(idle) != set(part.machines):  # somebody's pods run there: it is an ordinary machine from now
                grants[name] = _without_others(grants[name], part, idle)
            tried = [machine for machine in idle if is_resting(state, part.ref, machine, pause)]
            ready = tuple(machine for machine in idle if machine not in tried)
            is_withdrawable = not part.withdrawn_at or part.withdrawn_at + pause < state.now
            rested = [state.memory.deletion_tried[part.ref, machine] for machine in tried]
            for at in rested if is_withdrawable else (*rested, part.withdrawn_at):
                docket.wake(at + pause)
            removal = _removal(part, ready, group, held, is_withdrawable=is_withdrawable)
            if removal is not None:
                found[part.ref] = removal
                taken.add(part.ref)
    docket.grants = grants
    return list(found.values())


def without_taken_back(state: ClusterState, docket: ProvisioningRequestState) -> ClusterState:
    """The state in which what is left of broken grants is on its way no more, also where it could not be taken back yet:
    nobody may count on it.
    """
    groups = dict(state.groups)
    for part in (part for held in docket.grants.values() if held.broken for part in held.parts):
        group = groups.get(part.ref)
        if group is not None:
            groups[part.ref] = replace(group, upcoming=max(0, group.upcoming - _count_upcoming(part, group, state)))
    return replace(state, groups=groups)


def _count_upcoming(part: ReservationPart, group: GroupState, state: ClusterState) -> int:
    """How many of its machines count as upcoming: those given up, late or failed do not."""
    staying = len(group.seen.staying)
    missing = min(part.missing, max(0, (group.seen.target or 0) - staying - group.given_up))
    snapshot, starting = state.observation.snapshot, set(group.readiness.unregistered)
    for name in group.readiness.not_started:
        starting.add(snapshot.node(snapshot.row(name)).spec.provider_id)
    known_as = {machine.lower() for machine in starting}
    return missing + sum(machine.lower() in known_as for machine in part.machines)


def hold_room(snapshot: Snapshot, state: ClusterState, docket: ProvisioningRequestState) -> None:
    """Fill the room of provisioned requests, and of those whose machines are under way, with pods that are to come."""
    _leave_out_going(snapshot, state, docket)
    held = [request for request in docket if is_booked(request, docket)]
    coming = {held.key for held in docket.grants.values() if not held.broken}
    waiting = [request for request in docket if request.key in coming and not is_over(request, docket)]
    consumers = running_consumers(snapshot) if held or waiting else {}
    for request in held:
        running = consumers.get(request.key, [])
        if len(running) >= request.pod_count:
            end_as_consumed(request, docket)
            docket.booked.pop(request.key, None)
            continue
        pods = pods_to_book(request, docket)
        if pods:
            _hold(snapshot, request, left_to_come(pods, running, snapshot), docket)
    for request in waiting:
        if not request.has(PROVISIONED):
            take_fitting(snapshot, pods_to_book(request, docket))


def _leave_out_going(snapshot: Snapshot, state: ClusterState, docket: ProvisioningRequestState) -> None:
    """Empty nodes that the cloud takes away, or is asked to in this loop, are no room that anybody can be promised."""
    names = {name for group in state.groups.values() for name in group.readiness.deleted}
    broken = (part for held in docket.grants.values() if held.broken for part in held.parts)
    machines = {machine.lower() for part in broken for machine in part.machines}
    if not (names or machines):
        return
    for row, node in tuple(snapshot.nodes()):
        goes = node.name in names or node.spec.provider_id.lower() in machines
        if goes and _is_idle(snapshot, row):
            snapshot.remove_node(row)


def _hold(snapshot: Snapshot, request: ProvisioningRequest, pods: list[Pod], docket: ProvisioningRequestState) -> None:
    """Room that is not there for a while is gone for good."""
    fitting, left = take_fitting(snapshot, pods)
    docket.booked[request.key] = len(fitting)
    if not left:
        docket.homeless_since.pop(request.id, None)
        return
    since = docket.homeless_since.setdefault(request.id, docket.now)
    docket.wake(since + _LOSS_SECONDS)
    if since + _LOSS_SECONDS < docket.now:
        text = f"Room for {len(left)} of {request.pod_count} pods is not there any more"
        docket.mark(request, docket.condition(request, (CAPACITY_REVOKED, "True"), "CapacityIsLost", text))


def _is_in_flight(request: ProvisioningRequest) -> bool:
    """Does it say that its machines are under way? Then nobody has told it yet that they are not."""
    held = request.condition(PROVISIONED)
    return held is None or held.reason == UNDER_WAY


def _cancelled(held: Reservation) -> Reservation:
    """Machines that are there are left to scale-down; what is not there yet is withdrawn."""
    if held.broken:
        return held
    parts = tuple(changed(part, machines=(), nodes=part.missing) for part in held.parts)
    return changed(held, broken=_CANCELLED, parts=tuple(part for part in parts if part.nodes))


def _is_complete(held: Reservation, state: ClusterState) -> bool:
    if any(part.missing or not part.asked for part in held.parts):
        return False
    return all(set(part.machines) <= _ready_machines(state, part.ref) for part in held.parts)


def _ready_machines(state: ClusterState, ref: GroupRef) -> set[str]:
    """Machine ids of the ready nodes of a group."""
    group, snapshot = state.groups.get(ref), state.observation.snapshot
    if group is None or group.seen.instances is None:
        return set()
    nodes = (snapshot.node(snapshot.row(name)) for name in group.readiness.ready if name in snapshot)
    names = {node.spec.provider_id.lower() for node in nodes}
    return {instance.id for instance in group.seen.instances if instance.id.lower() in names}


def _idle_machines(part: ReservationPart, state: ClusterState) -> tuple[str, ...]:
    """Those of its machines on which nothing runs but what runs on every node."""
    snapshot = state.observation.snapshot
    wanted = {machine.lower() for machine in part.machines}
    busy = {
        node.spec.provider_id.lower()
        for row, node in snapshot.nodes()
        if node.spec.provider_id.lower() in wanted and not _is_idle(snapshot, row)
    }
    return tuple(machine for machine in part.machines if machine.lower() not in busy)


def _is_idle(snapshot: Snapshot, row: int) -> bool:
    """Does nothing run there but what runs on every node?"""
    return all(pod.is_daemonset_pod or pod.is_mirror for pod in snapshot.pods(row))


def _without_others(held: Reservation, part: ReservationPart, idle: tuple[str, ...]) -> Reservation:
    return held.with_part(changed(part, machines=idle, nodes=len(idle) + part.missing))


def _has_failed(held: Reservation, state: ClusterState) -> bool:
    """Did a group of it fail since it was asked? It is backed off, so that trying others at once comes to an end."""
    backoffs = [state.groups[part.ref].backoff for part in held.parts if part.ref in state.groups]
    return any(
        backoff is not None and is_active(backoff, state.now) and backoff.last_failure >= held.started
        for backoff in backoffs
    )


def _removal(
    part: ReservationPart, idle: tuple[str, ...], group: GroupState, held: Reservation, *, is_withdrawable: bool
) -> Removal | None:
    """What has no machine goes first: a machine may still come of it."""
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
