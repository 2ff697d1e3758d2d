"""Requests as CA treats them: at most one is looked at in a loop, in turn with ordinary pods (behaviour/up.md §5.4, §5.6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from nodewright.clusterstate.memory import Retry
from nodewright.model.action import IncreaseSize
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import FAILED, PROVISIONED, ProvisioningRequest
from nodewright.model.reason import ScaleUpResult
from nodewright.planner.plan import ScaleUpReport
from nodewright.planner.provisioning_requests.classes import Mode
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState, StatusWrite
from nodewright.planner.provisioning_requests.shared import FOUND, accepted, as_whole, gives_up, pods_or_failure
from nodewright.planner.provisioning_requests.whole import WholeScaleUp
from nodewright.planner.scale_up.context import ScaleUpContext
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.snapshot.snapshot import Snapshot

_NOT_FOUND = "Capacity is not found, CA will try to find it later."
_NOT_FOUND_FOR_GOOD = "CA could not find requested capacity"


@dataclass(frozen=True)
class Chosen:
    """The request of a loop with its pods; none: no request is due."""

    request: ProvisioningRequest | None = None
    pods: tuple[Pod, ...] = ()


def choose_request(docket: ProvisioningRequestState) -> Chosen:
    """The first one that is due; it is accepted, unless a batch will do that. Those without templates fail."""
    for request in docket:
        mode = docket.mode(request)
        if mode is None or not _is_due(request, docket):
            continue
        pods = pods_or_failure(request, docket)
        if pods is None:
            continue
        if mode != Mode.CHECK or not _is_batch(docket):
            request = docket.mark(request, accepted(request, docket), opens=True)  # noqa: PLW2901 - it goes on as accepted
        return Chosen(request, pods)
    return Chosen()


def examine(
    ground: ScaleUpContext, chosen: Chosen, docket: ProvisioningRequestState, random: Random
) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """Look for the room of the chosen request, and of others like it in a batch."""
    request = chosen.request
    assert request is not None
    docket.examined = True
    if docket.mode(request) == Mode.ATOMIC:
        return _provision(ground, chosen, docket, random)
    if not _is_batch(docket):
        return [], _check(ground.snapshot.fork(), [chosen], docket)
    return [], _check(ground.snapshot.fork(), list(_batch(docket)), docket)


def _is_batch(docket: ProvisioningRequestState) -> bool:
    settings = docket.settings.provisioning
    return settings.check_capacity_batch_processing and settings.check_capacity_provisioning_request_max_batch_size > 1


def _batch(docket: ProvisioningRequestState) -> Iterator[Chosen]:
    """As many requests as one loop takes. Whoever was chosen is asked once more whether it is due: CA's quirk."""
    left = docket.settings.provisioning.check_capacity_provisioning_request_max_batch_size
    for request in docket:
        if not left:
            return
        if docket.mode(request) != Mode.CHECK or not _is_due(request, docket):
            continue
        pods = pods_or_failure(request, docket)
        if pods is not None:
            left -= 1
            yield Chosen(request, pods)


def _is_due(request: ProvisioningRequest, docket: ProvisioningRequestState) -> bool:
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


def _check(snapshot: Snapshot, batch: Sequence[Chosen], docket: ProvisioningRequestState) -> ScaleUpReport:
    """Is there room for each, beside those before it?"""
    if not batch:
        return ScaleUpReport(result=ScaleUpResult.NOT_TRIED)
    found = False
    for chosen in batch:
        request = chosen.request
        assert request is not None
        if _is_batch(docket):
            request = docket.mark(request, accepted(request, docket), opens=True)
        trial = snapshot.fork()
        _, left = take_fitting(trial, chosen.pods)
        if not left:
            snapshot, found = trial, True
        _tell(request, docket, fits=not left)
    return ScaleUpReport(result=ScaleUpResult.SUCCESSFUL if found else ScaleUpResult.NO_OPTIONS)


def _tell(request: ProvisioningRequest, docket: ProvisioningRequestState, *, fits: bool) -> None:
    if fits:
        verdict = docket.condition(request, (PROVISIONED, "True"), "CapacityIsFound", FOUND)
    elif gives_up(request, docket):
        verdict = docket.condition(request, (FAILED, "True"), "CapacityIsNotFound", _NOT_FOUND_FOR_GOOD)
    else:
        verdict = docket.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", _NOT_FOUND)
    docket.judge(StatusWrite(request=request, conditions=(verdict,), is_apply=False))


def _provision(
    ground: ScaleUpContext, chosen: Chosen, docket: ProvisioningRequestState, random: Random
) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """Room for all pods, of which as much as is missing is bought, in one piece or not at all."""
    request = chosen.request
    assert request is not None
    there = docket.condition(request, (PROVISIONED, "True"), "CapacityIsFound", FOUND)
    bought = docket.condition(request, (PROVISIONED, "True"), "CapacityIsProvisioned", FOUND)
    refused = docket.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", _NOT_FOUND)
    snapshot = ground.snapshot.fork()
    _, left = take_fitting(snapshot, chosen.pods)
    if not left:
        docket.judge(StatusWrite(request=request, conditions=(there,)))
        return [], ScaleUpReport(result=ScaleUpResult.NOT_NEEDED)
    actions, report = WholeScaleUp(replace(ground, snapshot=snapshot), left, random).plan()
    actions = as_whole(request, actions)
    groups = tuple(action.group for action in actions)
    outcome = (bought,) if groups else (refused,)
    docket.judge(StatusWrite(request=request, conditions=outcome, groups=groups, otherwise=(refused,)))
    return actions, report
