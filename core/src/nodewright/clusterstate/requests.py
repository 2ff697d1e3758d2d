"""Scale-up requests: which machines are still owed, which have arrived, which are overdue."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Memory, ScaleUpRequest
from nodewright.clusterstate.state import Increase
from nodewright.model.group import Instance, InstanceState
from nodewright.snapshot.observation import GroupSeen

Requests = tuple[ScaleUpRequest, ...]


def opened(increase: int, started: float, provision_seconds: float, *, atomic: bool = False) -> ScaleUpRequest:
    return ScaleUpRequest(increase=increase, started=started, deadline=started + provision_seconds, atomic=atomic)


def with_increases(requests: Requests, increases: Iterable[Increase], provision_seconds: float) -> Requests:
    """A request of its own for every increase."""
    found = (
        replace(
            opened(increase.machines, increase.started, provision_seconds, atomic=increase.atomic),
            accepted=increase.accepted,
            hedged=min(increase.hedged, increase.machines),
            hedge_for=increase.hedge_for,
        )
        for increase in increases
    )
    return (*requests, *found)


def settled(requests: Requests, owed: int, arrived: int, now: float, provision_seconds: float) -> tuple[Requests, int]:
    """The requests after ``arrived`` machines came and ``owed`` still are, and how many were taken back.

    Arrivals go to the oldest request first. What is owed no more and did not come was taken back, from the newest:
    an increase that had no effect, or a target that somebody lowered. Machines owed that no request accounts for (a
    first start, somebody else's increase) become a request of now.
    """
    fewer = sum(request.increase for request in requests) - max(0, owed)
    if fewer < 0:
        return (*requests, opened(-fewer, now, provision_seconds)), 0
    came = min(arrived, fewer)
    kept, taken_back = _without_newest(_credited(requests, came, now, provision_seconds), fewer - came)
    return kept, 0 if came else taken_back


def _without_newest(requests: Requests, fewer: int) -> tuple[Requests, int]:
    """The requests after so many machines are asked for no more, and how many of an accepted request ended so."""
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
    """The requests after arrivals. One that part of arrived gets a fresh provision time, within twice the first; unless
    it is atomic: a part is of no use.
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
    """The requests after so many machines failed; the oldest request bears them first."""
    kept = []
    for request in requests:
        borne = min(failed, request.increase)
        failed -= borne
        if borne < request.increase:
            kept.append(replace(request, increase=request.increase - borne))
    return tuple(kept)


def split_overdue(requests: Requests, with_instance: int, now: float) -> tuple[Requests, Requests]:
    """The requests still running, and what of them is overdue without even an instance.

    Instances that are not nodes yet count for the oldest requests. They have a clock of their own, from when
    they were first seen, so that a request out of time goes on for them alone.
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
    """One request for all increases, whose deadline starts anew with each: the rule of modes ca and seed."""
    every = (*requests, *(opened(each.machines, each.started, provision_seconds) for each in increases))
    if not every:
        return ()
    return (replace(max(every, key=lambda request: request.deadline), increase=sum(r.increase for r in every)),)


def find_arrived(group: GroupSeen, members: Membership, memory: Memory) -> list[str]:
    """Machines of the group that are nodes now and were not when it was last looked at.

    They are told by their ids: counts alone cannot tell an arrival from a withdrawal.
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
    """The machines that were there already; None where nobody knows. A group that was made for pods, and is seen for the
    first time, had none: its machines may all have joined since.
    """
    if before is None:
        return set() if group.group.autoprovisioned else None
    return {instance.id for instance in before.instances or ()} if before.is_known else None


def joined_machines(group: GroupSeen, members: Membership) -> Iterator[Instance]:
    """The group's machines that are nodes, but for those on their way out."""
    for instance in group.instances or ():
        known_as = (instance.id, instance.id.lower())
        if instance.state != InstanceState.DELETING and not members.registered.isdisjoint(known_as):
            yield instance
