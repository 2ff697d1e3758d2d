"""Requests as we treat them: every one that is due in every loop, beside ordinary pods (docs/provisioning-requests.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.model.action import ForRequest, IncreaseSize
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import (
    ACCEPTED,
    CAPACITY_AVAILABLE,
    FAILED,
    NO_RETRY,
    PROVISIONED,
    Condition,
    ProvisioningRequest,
)
from nodewright.planner.candidates import Ground
from nodewright.planner.pending import split_young, take_fitting
from nodewright.planner.plan import ScaleUpReport
from nodewright.planner.provisioning.classes import Mode
from nodewright.planner.provisioning.docket import Docket
from nodewright.planner.provisioning.housekeeping import is_over
from nodewright.planner.provisioning.pods import MissingTemplates, make_pods
from nodewright.planner.provisioning.whole import SizedScaleUp
from nodewright.planner.salvo import grown
from nodewright.registry.provisioning import Retry

_FOUND = "Capacity is found in the cluster"
# A condition's message is no list of five hundred groups.
_MOST_REFUSALS = 5


@dataclass
class Service:
    """What requests were given in one loop: ``ground`` is the picture with it, ``held`` are the pods of those that get
    machines for which there is room already. ``finds_room``: some request needs no machine.
    """

    ground: Ground
    actions: list[IncreaseSize] = field(default_factory=list)
    reports: list[ScaleUpReport] = field(default_factory=list)
    held: list[Pod] = field(default_factory=list)
    finds_room: bool = False


def serve(ground: Ground, docket: Docket, random: Random, mode: Mode) -> Service:
    """Look for the room of every request of that mode that is due, the oldest first."""
    service = Service(ground)
    due = (request for request in due_requests(docket) if docket.mode(request) == mode)
    for request in sorted(due, key=lambda one: (one.created, one.key)):
        try:
            pods = make_pods(request, docket.templates)
        except MissingTemplates as error:
            docket.mark(request, docket.condition(request, (FAILED, "True"), "FailedToCreatePods", str(error)))
            continue
        old, _ = split_young(pods[:1], ground.settings.pods, docket.now)
        if not old:
            docket.mark(request, _accepted(request, docket))
            continue
        docket.examined = True
        if mode == Mode.CHECK:
            _check(service, request, pods, docket)
        else:
            _provision(service, request, pods, docket, random)
    return service


def due_requests(docket: Docket) -> Iterator[ProvisioningRequest]:
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


def put_off(request: ProvisioningRequest, docket: Docket, why: str) -> None:
    """Nothing was found: it is looked at again later, unless its owner wants it to fail at once."""
    accepted = _accepted(request, docket)
    if request.spec.parameters.get(NO_RETRY) == "true":
        text = f"CA could not find requested capacity: {why}"
        docket.mark(request, accepted, docket.condition(request, (FAILED, "True"), "CapacityIsNotFound", text))
        return
    settings = docket.settings.provisioning
    held = docket.retries.get(request.id)
    wait = settings.provisioning_request_initial_backoff_time if held is None else 2 * held.wait
    wait = min(wait, settings.provisioning_request_max_backoff_time)
    docket.retries[request.id] = Retry(at=docket.now, wait=wait)
    docket.wake(docket.now + wait)
    text = f"Capacity is not found, CA will try to find it later: {why}"
    verdicts = [docket.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", text)]
    if docket.mode(request) == Mode.CHECK:
        verdicts.append(docket.condition(request, (CAPACITY_AVAILABLE, "False"), "CapacityIsNotFound", text))
    docket.mark(request, accepted, *verdicts)


def grant(request: ProvisioningRequest, docket: Docket, reason: str, text: str) -> None:
    """All of its room is there, and held from now."""
    docket.retries.pop(request.id, None)
    verdicts = [docket.condition(request, (PROVISIONED, "True"), reason, text)]
    if docket.mode(request) == Mode.CHECK:
        verdicts.append(docket.condition(request, (CAPACITY_AVAILABLE, "True"), reason, text))
    docket.mark(request, _accepted(request, docket), *verdicts)
    docket.booked[request.key] = request.pod_count


def _accepted(request: ProvisioningRequest, docket: Docket) -> Condition:
    return docket.condition(
        request, (ACCEPTED, "True"), "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"
    )


def _check(service: Service, request: ProvisioningRequest, pods: Sequence[Pod], docket: Docket) -> None:
    trial = service.ground.snapshot.fork()
    fitting, left = take_fitting(trial, pods)
    if left:
        put_off(request, docket, f"there is room for {len(fitting)} of {len(pods)} pods")
        return
    service.ground, service.finds_room = replace(service.ground, snapshot=trial), True
    grant(request, docket, "CapacityIsFound", _FOUND)


def _provision(
    service: Service, request: ProvisioningRequest, pods: Sequence[Pod], docket: Docket, random: Random
) -> None:
    """What has no room yet gets machines, all of them or none."""
    trial = service.ground.snapshot.fork()
    fitting, left = take_fitting(trial, pods)
    ground = replace(service.ground, snapshot=trial)
    if not left:
        service.ground, service.finds_room = ground, True
        service.held += pods
        grant(request, docket, "CapacityIsFound", _FOUND)
        return
    whole = SizedScaleUp(ground, left, random)
    actions, report = whole.plan()
    after = grown(ground, report) if actions else None
    if after is None:
        put_off(request, docket, _why_refused(whole, len(left), len(pods)))
        return
    nodes = sum(action.target - action.expected_target for action in actions)
    part = ForRequest(id=request.id, key=request.key, nodes=nodes)
    service.actions += [changed(action, request=part) for action in actions]
    service.reports.append(report)
    service.ground = after
    service.held += fitting
    asked = ", ".join(f"{action.group} {action.expected_target}->{action.target}" for action in actions)
    text = f"{nodes} nodes are asked for: {asked}"
    pending = docket.condition(request, (PROVISIONED, "False"), "Provisioning", text)
    docket.mark(request, _accepted(request, docket), pending, opens=True)


def _why_refused(whole: SizedScaleUp, left: int, pods: int) -> str:
    listed = [f"{ref}: {why}" for ref, why in whole.refusals.items()]
    more = len(listed) - _MOST_REFUSALS
    shown = "; ".join(listed[:_MOST_REFUSALS]) + (f"; and {more} more groups" if more > 0 else "")
    return f"there is no room for {left} of {pods} pods ({shown or 'there is no node group'})"
