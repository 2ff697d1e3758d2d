"""Scale-up requests: which machines are still owed, which have arrived, which are overdue."""

from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec.structs import replace

from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Memory, ScaleUpRequest
from nodewright.clusterstate.state import Increase
from nodewright.model.group import Instance, InstanceState
from nodewright.snapshot.observation import GroupSeen

Requests = tuple[ScaleUpRequest, ...]


def opened(increase: int, started: float, provision_seconds: float, *, reservation: str = "") -> ScaleUpRequest:
    return ScaleUpRequest(
        increase=increase,
        started=started,
        deadline=started + provision_seconds,
        atomic=bool(reservation),
        reservation=reservation,
    )


def with_increases(requests: Requests, increases: Iterable[Increase], provision_seconds: float) -> Requests:
    """Return the requests with a new one for each increase."""
    found = (
        replace(
            opened(increase.machines, increase.started, provision_seconds, reservation=increase.reservation),
            accepted=increase.accepted,
            hedged=min(increase.hedged, increase.machines),
            hedge_for=increase.hedge_for,
        )
        for increase in increases
    )
    return (*requests, *found)


def settled(
    requests: Requests,
    owed: int,
    arrived: int,
    now: float,
    provision_seconds: float,
    withdrawn: Container[str] = (),
) -> tuple[Requests, int]:
    """Return the requests after ``arrived`` machines came and ``owed`` are left, and how many machines were taken back.

    Arrivals belong to the oldest request. Machines that are no longer owed and did not come are taken from the
    reservations that are being ``withdrawn`` (by key; a retry has the key of the broken one, so the oldest first), and
    then from the newest requests: an increase had no effect, or another writer lowered the target. Machines owed without
    a request (a first start, another writer's increase) become a request that starts now.
    """
    fewer = sum(request.increase for request in requests) - max(0, owed)
    if fewer < 0:
        return (*requests, opened(-fewer, now, provision_seconds)), 0
    came = min(arrived, fewer)
    credited = _credited(requests, came, now, provision_seconds)
    leaving = [request for request in credited if request.reservation and request.reservation in withdrawn]
    staying = [request for request in credited if request not in leaving]
    kept, taken_back = _without_last([*staying, *reversed(leaving)], fewer - came)
    kept = tuple(sorted(kept, key=lambda request: request.started))
    return kept, 0 if came else taken_back


def _without_last(requests: Sequence[ScaleUpRequest], fewer: int) -> tuple[Requests, int]:
    """Return the requests without ``fewer`` machines, those of the last request first, and how many of those had been accepted."""
    kept: list[ScaleUpRequest] = []
    ended = 0
    for request in reversed(requests):
        lost = min(fewer, request.increase)
        fewer -= lost
        if lost < request.increase:
            kept.append(replace(request, increase=request.increase - lost))
        elif request.accepted:
            ended += lost
    return tuple(reversed(kept)), ended


def _credited(requests: Requests, arrived: int, now: float, provision_seconds: float) -> Requests:
    """Return the requests after arrivals, oldest first.

    A request that arrives in part gets a fresh provision time, within twice the first. An atomic request does not.
    """
    kept: list[ScaleUpRequest] = []
    for request in requests:
        credited = min(arrived, request.increase)
        arrived -= credited
        if credited == request.increase:
            continue
        is_moved = credited and not request.atomic
        extended = min(now + provision_seconds, request.started + 2 * provision_seconds) if is_moved else 0.0
        deadline = max(request.deadline, extended)
        kept.append(replace(request, increase=request.increase - credited, deadline=deadline))
    return tuple(kept)


def without(requests: Requests, failed: int) -> Requests:
    """Return the requests after ``failed`` machines failed, oldest request first."""
    kept = []
    for request in requests:
        borne = min(failed, request.increase)
        failed -= borne
        if borne < request.increase:
            kept.append(replace(request, increase=request.increase - borne))
    return tuple(kept)


def split_overdue(requests: Requests, with_instance: int, now: float) -> tuple[Requests, Requests]:
    """Return the requests that are still running, and the overdue part that has no instance.

    Instances without a node count for the oldest requests. They are timed from when they were first seen, so an overdue
    request continues for them.
    """
    kept: list[ScaleUpRequest] = []
    overdue: list[ScaleUpRequest] = []
    for request in requests:
        covered = min(with_instance, request.increase)
        with_instance -= covered
        if not request.deadline < now:
            kept.append(request)
            continue
        if covered < request.increase:
            overdue.append(replace(request, increase=request.increase - covered))
        if covered:
            kept.append(replace(request, increase=covered))
    return tuple(kept), tuple(overdue)


def merged(requests: Requests, increases: Iterable[Increase], provision_seconds: float) -> Requests:
    """Return one request for all increases, whose deadline starts again with each: rules ca and seed."""
    every = (*requests, *(opened(each.machines, each.started, provision_seconds) for each in increases))
    if not every:
        return ()
    return (replace(max(every, key=lambda request: request.deadline), increase=sum(r.increase for r in every)),)


def find_arrived(group: GroupSeen, members: Membership, memory: Memory) -> list[str]:
    """Return the group's machines that became nodes since the last loop, by id.

    Counts alone do not distinguish an arrival from a withdrawal.
    """
    before = memory.last_known.get(group.ref)
    waited = any(ref == group.ref for ref, _ in memory.unregistered_since)
    if before is not None and before.is_known and not waited and before.instances == group.instances:
        return []
    known = _known_before(group, before)
    return [
        instance.id
        for instance in joined_machines(group, members)
        if (group.ref, instance.id) in memory.unregistered_since or (known is not None and instance.id not in known)
    ]


def _known_before(group: GroupSeen, before: GroupSeen | None) -> set[str] | None:
    """Return the machines that existed in the last loop; None if unknown.

    An autoprovisioned group that is seen for the first time had none.
    """
    if before is None:
        return set() if group.group.autoprovisioned else None
    return {instance.id for instance in before.instances or ()} if before.is_known else None


def joined_machines(group: GroupSeen, members: Membership) -> Iterator[Instance]:
    """Yield the group's machines that are nodes and are not being deleted."""
    for instance in group.instances or ():
        known_as = (instance.id, instance.id.lower())
        if instance.state != InstanceState.DELETING and not members.registered.isdisjoint(known_as):
            yield instance
