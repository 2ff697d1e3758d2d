"""Keep the machines of a gang's broken reservation if the gang can start with those that are left.

What a group fails to deliver may be a machine for pods beyond the gang's minimum. This is decided in the loop in which the
reservation breaks, with kube-scheduler's greedy placement. It needs no memory: a process that starts after a crash finds the
reservation as it was saved, breaks it for the same reason, and decides again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import Reservation, ReservationPart
from nodewright.clusterstate.state import ClusterState
from nodewright.planner.gangs.find_gangs import Gang
from nodewright.planner.gangs.serve import place_gangs
from nodewright.planner.provisioning_requests.reservations import count_upcoming, ready_machines
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges
from nodewright.snapshot.snapshot import Snapshot


def keep_sufficient(
    state: ClusterState,
    requests: ProvisioningRequestState,
    gangs: Sequence[Gang],
    make_snapshot: Callable[[ClusterState, ProvisioningRequestState], Snapshot],
) -> RequestChanges:
    """Return the reservations: broken ones whose gang can start with what is left of them go on with that.

    ``make_snapshot`` returns the cluster with upcoming nodes, without those of broken reservations. Gangs whose
    reservations go on are placed first, so that no gang relies on the machines of another one.
    """
    held = dict(requests.reservations)
    broken = [gang for gang in gangs if gang.ref.id in held and held[gang.ref.id].broken]
    before = [gang for gang in gangs if gang.ref.id in held and not held[gang.ref.id].broken]
    for gang in broken:
        left = _left_of(held[gang.ref.id], state)
        if not left.parts:
            continue
        trial = requests.apply(RequestChanges(reservations={**held, gang.ref.id: left}))
        if _can_start(gang, before, make_snapshot(_without_replacements(state, left, trial), trial)):
            held, before = dict(trial.reservations), [*before, gang]
    return RequestChanges(reservations=held if held != requests.reservations else None)


def _can_start(gang: Gang, before: Sequence[Gang], snapshot: Snapshot) -> bool:
    """Return whether the gang runs already, or can start beside the gangs that come before it."""
    if not gang.need:
        return True
    place_gangs(snapshot, before, None)
    return bool(place_gangs(snapshot, [gang], None).fitting)


def _without_replacements(state: ClusterState, left: Reservation, requests: ProvisioningRequestState) -> ClusterState:
    """Return the state in which groups of the reservation have only those upcoming nodes that reservations are owed.

    A cloud may make another machine in place of one that it took back, and take that one back too.
    """
    groups = dict(state.groups)
    for ref in {part.ref for part in left.parts} & groups.keys():
        group = groups[ref]
        parts = (part for held in requests.reservations.values() for part in held.parts if part.ref == ref)
        owed = sum(count_upcoming(part, group, state) for part in parts)
        groups[ref] = replace(group, upcoming=min(group.upcoming, owed))
    return replace(state, groups=groups)


def _left_of(held: Reservation, state: ClusterState) -> Reservation:
    """Return the reservation, unbroken, with only the machines that are ready or still expected."""
    parts = tuple(part for part in (_expected(one, held, state) for one in held.parts) if part.nodes)
    return changed(held, broken="", parts=parts, nodes=sum(part.nodes for part in parts))


def _expected(part: ReservationPart, held: Reservation, state: ClusterState) -> ReservationPart:
    """Return the part without machines that are late, failed or never got ready. An unreadable group keeps all."""
    group, seen = state.groups.get(part.ref), state.observation.groups.get(part.ref)
    if group is None or seen is None or not seen.is_known:
        return part
    is_in_time = (part.deadline or held.deadline) >= state.now
    expected = {machine.lower() for machine in ready_machines(state, part.ref)}
    if is_in_time:
        expected.update(machine.lower() for machine in group.readiness.unregistered)
    if held.deadline + held.patience >= state.now:
        snapshot = state.observation.snapshot
        rows = (snapshot.find_row(name) for name in group.readiness.not_started)
        expected.update(snapshot.node(row).spec.provider_id.lower() for row in rows if row is not None)
    machines = tuple(machine for machine in part.machines if machine.lower() in expected)
    to_come = max(0, (group.seen.target or 0) - len(group.seen.staying) - group.given_up)
    missing = min(part.missing, to_come) if is_in_time else 0
    return changed(part, machines=machines, nodes=len(machines) + missing)
