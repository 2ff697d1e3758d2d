"""Requests as we treat them: every one that is due in every loop, beside ordinary pods (docs/provisioning-requests.md)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from random import Random

from nodewright.model.action import IncreaseSize
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import (
    CAPACITY_AVAILABLE,
    FAILED,
    PROVISIONED,
    UNDER_WAY,
    ProvisioningRequest,
)
from nodewright.planner.plan import ScaleUpReport
from nodewright.planner.provisioning_requests.admission import is_admitted
from nodewright.planner.provisioning_requests.class_rules import NodeCap
from nodewright.planner.provisioning_requests.classes import Mode
from nodewright.planner.provisioning_requests.complaints import find_problem
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState
from nodewright.planner.provisioning_requests.housekeeping import is_over
from nodewright.planner.provisioning_requests.shared import (
    FOUND,
    accepted,
    as_whole,
    gives_up,
    next_retry,
    pods_or_failure,
)
from nodewright.planner.provisioning_requests.whole import SizedScaleUp
from nodewright.planner.scale_up.context import ScaleUpContext, grow_in_place
from nodewright.planner.scale_up.pending_pods import split_young, take_fitting
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

# A condition's message is no list of five hundred groups.
_MOST_REFUSALS = 5
# So many requests, and so many pods of theirs, are looked at in one loop; the others in the next ones.
_MOST_A_LOOP = 500
_MOST_PODS_A_LOOP = 32 * 16_384  # of the largest request that there may be

# What a request asks for: the class and number of each set of pods, and how many nodes it may get.
_Wish = tuple[tuple[tuple[PodClass, int], ...], NodeCap | None]


@dataclass
class Service:
    """What requests were given in one loop: ``ground`` is the picture with it, ``held`` are the pods of those that get
    machines for which there is room already. ``finds_room``: some request needs no machine.

    ``hopeless`` says why nothing was found for a wish: room and limits only shrink from there.
    """

    ground: ScaleUpContext
    actions: list[IncreaseSize] = field(default_factory=list)
    reports: list[ScaleUpReport] = field(default_factory=list)
    held: list[Pod] = field(default_factory=list)
    finds_room: bool = False
    hopeless: dict[_Wish, str] = field(default_factory=dict)


def serve(ground: ScaleUpContext, docket: ProvisioningRequestState, random: Random, mode: Mode) -> Service:
    """Look for the room of every request of that mode that is due, in turn.

    Room that is there is taken in the very picture of ``ground``, machines only in a fork of it.
    """
    service = Service(ground if mode == Mode.CHECK else replace(ground, snapshot=ground.snapshot.fork()))
    for request in in_turn(docket, mode, _MOST_A_LOOP):
        pods = pods_of(request, docket)
        if not pods:
            continue
        docket.examined = True
        wish = _wish(service.ground.snapshot, pods), docket.classes.node_cap(request)
        if wish not in service.hopeless:
            why = (
                _check(service, request, pods, docket)
                if mode == Mode.CHECK
                else _provision(service, request, pods, docket, random)
            )
            if not why:
                continue
            service.hopeless[wish] = why
        put_off(request, docket, service.hopeless[wish])
    return service


def in_turn(docket: ProvisioningRequestState, mode: Mode, most: int) -> list[ProvisioningRequest]:
    """The requests of that mode that are due, so many at most: new ones first, then those looked at longest ago.

    What is wrong costs nothing; the largest that is not is looked at in a loop of its own.
    """
    due = [request for request in due_requests(docket) if docket.mode(request) == mode]
    due.sort(key=lambda one: (_looked_at(one, docket), one.created, one.key))
    pods = accumulate(0 if find_problem(request) else request.pod_count for request in due)
    taken = [request for request, so_far in zip(due[:most], pods, strict=False) if so_far <= _MOST_PODS_A_LOOP]
    if len(taken) < len(due):
        docket.wake(docket.now)
    return taken


def _looked_at(request: ProvisioningRequest, docket: ProvisioningRequestState) -> float:
    held = docket.retries.get(request.id)
    return held.at if held is not None else -math.inf


def pods_of(request: ProvisioningRequest, docket: ProvisioningRequestState) -> tuple[Pod, ...]:
    """The pods to look for room for; none for a request that is wrong, which it is told, or too young."""
    problem = find_problem(request)
    if problem:
        docket.mark(request, docket.condition(request, (FAILED, "True"), "InvalidRequest", problem))
        return ()
    if not is_admitted(request, docket):
        return ()
    pods = pods_or_failure(request, docket)
    if pods is None:
        return ()
    old, _ = split_young(pods[:1], docket.settings.pods, docket.now)
    if not old:
        docket.mark(request, accepted(request, docket))
        docket.wake(request.created + docket.settings.pods.new_pod_scale_up_delay)
        return ()
    return pods


def _wish(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[tuple[PodClass, int], ...]:
    """Pods of one set share their spec, and are asked about once."""
    counts: dict[PodClass, int] = {}
    for _, alike in groupby(pods, key=lambda pod: id(pod.spec)):
        held = list(alike)
        pod_class = snapshot.class_of(held[0])
        counts[pod_class] = counts.get(pod_class, 0) + len(held)
    return tuple(counts.items())


def due_requests(docket: ProvisioningRequestState) -> Iterator[ProvisioningRequest]:
    """Those that nothing is known of, and those that were looked at long enough ago."""
    for request in docket:
        if docket.mode(request) is None or is_over(request, docket) or request.has(PROVISIONED):
            continue
        if request.id in docket.grants:
            continue
        held = docket.retries.get(request.id)
        if held is None or held.at + held.wait < docket.now:
            yield request
        else:
            docket.wake(held.at + held.wait)


def put_off(request: ProvisioningRequest, docket: ProvisioningRequestState, why: str, *, at_once: bool = False) -> None:
    """Nothing was found: it is looked at again later or ``at_once``, unless its owner wants it to fail."""
    opened = accepted(request, docket)
    if gives_up(request, docket):
        text = f"CA could not find requested capacity: {why}"
        docket.mark(request, opened, docket.condition(request, (FAILED, "True"), "CapacityIsNotFound", text))
        return
    if not at_once:
        docket.retries[request.id] = next_retry(request, docket)
    text = f"Capacity is not found, CA will try to find it later: {why}"
    verdicts = [docket.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", text)]
    if docket.mode(request) == Mode.CHECK:
        verdicts.append(docket.condition(request, (CAPACITY_AVAILABLE, "False"), "CapacityIsNotFound", text))
    docket.mark(request, opened, *verdicts)


def grant(
    request: ProvisioningRequest, docket: ProvisioningRequestState, what: tuple[str, str], nodes: int = 0
) -> None:
    """All of its room is there, and held from now; ``what`` is the reason and the text, ``nodes`` were made for it."""
    reason, text = what
    request = docket.noting(request, nodes)
    docket.retries.pop(request.id, None)
    verdicts = [docket.condition(request, (PROVISIONED, "True"), reason, text)]
    if docket.mode(request) == Mode.CHECK:
        verdicts.append(docket.condition(request, (CAPACITY_AVAILABLE, "True"), reason, text))
    docket.mark(request, accepted(request, docket), *verdicts)
    docket.booked[request.key] = request.pod_count
    docket.classes.hold(request, nodes)


def _check(
    service: Service, request: ProvisioningRequest, pods: Sequence[Pod], docket: ProvisioningRequestState
) -> str:
    """Answers why it is not granted; nothing: it is."""
    trial = service.ground.snapshot.fork()
    fitting, left = take_fitting(trial, pods)
    if left:
        return f"there is room for {len(fitting)} of {len(pods)} pods"
    take_fitting(service.ground.snapshot, pods)
    service.finds_room = True
    grant(request, docket, ("CapacityIsFound", FOUND))
    return ""


def _provision(
    service: Service,
    request: ProvisioningRequest,
    pods: Sequence[Pod],
    docket: ProvisioningRequestState,
    random: Random,
) -> str:
    """What has no room yet gets machines, all of them or none; answers why it does not."""
    snapshot = service.ground.snapshot
    trial = snapshot.fork()
    fitting, left = take_fitting(trial, pods)
    if not left:
        take_fitting(snapshot, pods)
        service.finds_room = True
        service.held += pods
        grant(request, docket, ("CapacityIsFound", FOUND))
        return ""
    whole = SizedScaleUp(replace(service.ground, snapshot=trial), left, random, docket.classes.node_cap(request))
    actions, report = whole.plan()
    if not actions:
        return _why_refused(whole, len(left), len(pods))
    take_fitting(snapshot, fitting)
    service.ground = grow_in_place(service.ground, report) or service.ground
    service.actions += as_whole(request, actions)
    service.reports.append(report)
    service.held += fitting
    asked = ", ".join(f"{action.group} {action.expected_target}->{action.target}" for action in actions)
    nodes = sum(action.target - action.expected_target for action in actions)
    text = f"{nodes} nodes are asked for: {asked}"
    pending = docket.condition(request, (PROVISIONED, "False"), UNDER_WAY, text)
    docket.mark(docket.noting(request, nodes), accepted(request, docket), pending, opens=True)
    docket.classes.hold(request, nodes)
    return ""


def _why_refused(whole: SizedScaleUp, left: int, pods: int) -> str:
    listed = [f"{ref}: {why}" for ref, why in whole.refusals.items()]
    more = len(listed) - _MOST_REFUSALS
    shown = "; ".join(listed[:_MOST_REFUSALS]) + (f"; and {more} more groups" if more > 0 else "")
    return f"there is no room for {left} of {pods} pods ({shown or 'there is no node group'})"
