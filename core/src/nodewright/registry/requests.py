"""Scale-up requests: who still owes machines, and who is out of time (design.md §6)."""

from collections.abc import Iterable

from msgspec.structs import replace

from nodewright.registry.state import ScaleUpRequest

Requests = tuple[ScaleUpRequest, ...]


def opened(increase: int, started: float, provision_seconds: float) -> ScaleUpRequest:
    return ScaleUpRequest(increase=increase, started=started, deadline=started + provision_seconds)


def with_increases(requests: Requests, increases: Iterable[tuple[int, float]], provision_seconds: float) -> Requests:
    """A request of its own for every increase."""
    return (*requests, *(opened(count, started, provision_seconds) for count, started in increases))


def settled(requests: Requests, owed: int, now: float, provision_seconds: float) -> Requests:
    """The requests after so many machines are still owed: arrivals go to the oldest request first.

    A request that part of arrived gets a fresh provision time, within twice the first one. Machines owed that
    no request accounts for (a first start, somebody else's increase) become a request of now.
    """
    arrived = sum(request.increase for request in requests) - max(0, owed)
    if arrived < 0:
        return (*requests, opened(-arrived, now, provision_seconds))
    kept: list[ScaleUpRequest] = []
    for request in requests:
        credited = min(arrived, request.increase)
        arrived -= credited
        if credited == request.increase:
            continue
        extended = min(now + provision_seconds, request.started + 2 * provision_seconds) if credited else 0.0
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


def split_overdue(requests: Requests, with_instance: int, now: float) -> tuple[Requests, int]:
    """The requests still running, and how many machines are overdue without even an instance.

    Instances that are not nodes yet count for the oldest requests. They have a clock of their own, from when
    they were first seen, so that a request out of time goes on for them alone.
    """
    kept: list[ScaleUpRequest] = []
    overdue = 0
    for request in requests:
        covered = min(with_instance, request.increase)
        with_instance -= covered
        if not request.deadline < now:
            kept.append(request)
            continue
        overdue += request.increase - covered
        if covered:
            kept.append(replace(request, increase=covered))
    return tuple(kept), overdue


def merged(requests: Requests, increases: Iterable[tuple[int, float]], provision_seconds: float) -> Requests:
    """One request for all increases, whose deadline starts anew with each: the rule of modes ca and seed."""
    every = (*requests, *(opened(count, started, provision_seconds) for count, started in increases))
    if not every:
        return ()
    return (replace(max(every, key=lambda request: request.deadline), increase=sum(r.increase for r in every)),)
