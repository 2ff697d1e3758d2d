"""Requests as CA treats them: at most one is looked at in a loop, in turn with ordinary pods (behaviour/up.md §5.4, §5.6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.model.action import ForRequest, IncreaseSize
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import (
    ACCEPTED,
    FAILED,
    NO_RETRY,
    PROVISIONED,
    Condition,
    ProvisioningRequest,
)
from nodewright.model.reason import ScaleUpResult
from nodewright.planner.candidates import Ground
from nodewright.planner.pending import take_fitting
from nodewright.planner.plan import ScaleUpReport
from nodewright.planner.provisioning.classes import Mode
from nodewright.planner.provisioning.docket import Docket, StatusWrite
from nodewright.planner.provisioning.pods import MissingTemplates, make_pods
from nodewright.planner.provisioning.whole import WholeScaleUp
from nodewright.registry.provisioning import Retry
from nodewright.snapshot.snapshot import Snapshot

NOT_FOUND = "Capacity is not found, CA will try to find it later."
FOUND = "Capacity is found in the cluster"
NOT_FOUND_FOR_GOOD = "CA could not find requested capacity"
ACCEPTED_TEXT = "ProvisioningRequest is accepted by ClusterAutoscaler"


@dataclass(frozen=True)
class Chosen:
    """The request of a loop with its pods; none: no request is due."""

    request: ProvisioningRequest | None = None
    pods: tuple[Pod, ...] = ()


def choose_request(docket: Docket) -> Chosen:
    """The first one that is due; it is accepted, unless a batch will do that. Those without templates fail."""
    for request in docket:
        mode = docket.mode(request)
        if mode is None or not _is_due(request, docket):
            continue
        pods = _pods_of(request, docket)
        if pods is None:
            continue
        if mode != Mode.CHECK or not _is_batch(docket):
            request = docket.mark(request, accepted(request, docket), opens=True)  # noqa: PLW2901 - it goes on as accepted
        return Chosen(request, pods)
    return Chosen()


def examine(ground: Ground, chosen: Chosen, docket: Docket, random: Random) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """Look for the room of the chosen request, and of others like it in a batch."""
    request = chosen.request
    assert request is not None
    docket.examined = True
    if docket.mode(request) == Mode.ATOMIC:
        return _provision(ground, chosen, docket, random)
    if not _is_batch(docket):
        return [], _check(ground.snapshot.fork(), [chosen], docket)
    return [], _check(ground.snapshot.fork(), list(_batch(docket)), docket)


def accepted(request: ProvisioningRequest, docket: Docket) -> Condition:
    return docket.condition(request, (ACCEPTED, "True"), "Accepted", ACCEPTED_TEXT)


def _pods_of(request: ProvisioningRequest, docket: Docket) -> tuple[Pod, ...] | None:
    """None: it has just failed for want of templates."""
    try:
        return make_pods(request, docket.templates)
    except MissingTemplates as error:
        docket.mark(request, docket.condition(request, (FAILED, "True"), "FailedToCreatePods", str(error)))
        return None


def _is_batch(docket: Docket) -> bool:
    settings = docket.settings.provisioning
    return settings.check_capacity_batch_processing and settings.check_capacity_provisioning_request_max_batch_size > 1


def _batch(docket: Docket) -> Iterator[Chosen]:
    """As many requests as one loop takes. Whoever was chosen is asked once more whether it is due: CA's quirk."""
    left = docket.settings.provisioning.check_capacity_provisioning_request_max_batch_size
    for request in docket:
        if not left:
            return
        if docket.mode(request) != Mode.CHECK or not _is_due(request, docket):
            continue
        pods = _pods_of(request, docket)
        if pods is not None:
            left -= 1
            yield Chosen(request, pods)


def _is_due(request: ProvisioningRequest, docket: Docket) -> bool:
    """Asking doubles the wait of a request that is due again."""
    settings = docket.settings.provisioning
    if request.has(FAILED) or request.has(PROVISIONED):
        docket.retries.pop(request.id, None)
        return False
    held = request.condition(PROVISIONED)
    if held is None:
        return True
    if held.status != "False":
        return False
    known = docket.retries.get(request.id)
    wait = known.wait if known is not None else settings.provisioning_request_initial_backoff_time
    if held.since + wait >= docket.now:
        return False
    longest = settings.provisioning_request_max_backoff_time
    docket.retries[request.id] = Retry(at=docket.now, wait=min(2 * wait, longest))
    return True


def _check(snapshot: Snapshot, batch: Sequence[Chosen], docket: Docket) -> ScaleUpReport:
    """Is there room for each, beside those before it?"""
    if not batch:
        return ScaleUpReport(result=ScaleUpResult.NOT_TRIED)
    found, helped = False, list[Pod]()
    for chosen in batch:
        request = chosen.request
        assert request is not None
        if _is_batch(docket):
            request = docket.mark(request, accepted(request, docket), opens=True)
        trial = snapshot.fork()
        _, left = take_fitting(trial, chosen.pods)
        if not left:
            snapshot, found = trial, True
            helped += chosen.pods
        _tell(request, docket, fits=not left)
    result = ScaleUpResult.SUCCESSFUL if found else ScaleUpResult.NO_OPTIONS
    return ScaleUpReport(result=result)


def _tell(request: ProvisioningRequest, docket: Docket, *, fits: bool) -> None:
    if fits:
        verdict = docket.condition(request, (PROVISIONED, "True"), "CapacityIsFound", FOUND)
    elif request.spec.parameters.get(NO_RETRY) == "true":
        verdict = docket.condition(request, (FAILED, "True"), "CapacityIsNotFound", NOT_FOUND_FOR_GOOD)
    else:
        verdict = docket.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", NOT_FOUND)
    docket.judge(StatusWrite(request=request, conditions=(verdict,), is_apply=False))


def _provision(
    ground: Ground, chosen: Chosen, docket: Docket, random: Random
) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """Room for all pods, of which as much as is missing is bought, in one piece or not at all."""
    request = chosen.request
    assert request is not None
    there = docket.condition(request, (PROVISIONED, "True"), "CapacityIsFound", FOUND)
    bought = docket.condition(request, (PROVISIONED, "True"), "CapacityIsProvisioned", FOUND)
    refused = docket.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", NOT_FOUND)
    snapshot = ground.snapshot.fork()
    _, left = take_fitting(snapshot, chosen.pods)
    if not left:
        docket.judge(StatusWrite(request=request, conditions=(there,)))
        return [], ScaleUpReport(result=ScaleUpResult.NOT_NEEDED)
    actions, report = WholeScaleUp(replace(ground, snapshot=snapshot), left, random).plan()
    nodes = sum(action.target - action.expected_target for action in actions)
    whole = ForRequest(id=request.id, key=request.key, nodes=nodes)
    actions = [changed(action, request=whole) for action in actions]
    groups = tuple(action.group for action in actions)
    outcome = (bought,) if groups else (refused,)
    docket.judge(StatusWrite(request=request, conditions=outcome, groups=groups, otherwise=(refused,)))
    return actions, report
