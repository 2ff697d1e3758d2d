"""Serve requests as cluster-autoscaler does: at most one is examined in a loop, in turn with ordinary pods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from nodewright.model.action import IncreaseSize
from nodewright.model.plan import ScaleUpReport, StatusWrite
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import FAILED, PROVISIONED, ProvisioningRequest, Retry
from nodewright.model.reason import ScaleUpResult
from nodewright.planner.context import PlanningContext
from nodewright.planner.provisioning_requests.arbitration import FOUND
from nodewright.planner.provisioning_requests.atomic import AllOrNothingScaleUp, as_whole
from nodewright.planner.provisioning_requests.classes import Mode
from nodewright.planner.provisioning_requests.pods import make_pods_or_fail
from nodewright.planner.provisioning_requests.reservations import (
    end_as_consumed,
    is_reserved,
    running_consumers,
    try_pods,
)
from nodewright.planner.provisioning_requests.state import (
    NO_CHANGES,
    ProvisioningRequestState,
    RequestChanges,
    join_changes,
)
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.snapshot.snapshot import Snapshot

_NOT_FOUND = "Capacity is not found, CA will try to find it later."
_NOT_FOUND_FOR_GOOD = "CA could not find requested capacity"


@dataclass(frozen=True)
class ChosenRequest:
    """A request that is due, with its pods."""

    request: ProvisioningRequest
    pods: tuple[Pod, ...]


@dataclass(frozen=True, kw_only=True)
class ExaminedRequests:
    """The result for the examined requests."""

    changes: RequestChanges
    report: ScaleUpReport
    actions: Sequence[IncreaseSize] = ()


def choose_request(requests: ProvisioningRequestState) -> tuple[ChosenRequest | None, RequestChanges]:
    """Choose the first request that is due (None: none is). It is accepted here unless a batch does that.

    Requests before it whose templates are missing fail.
    """
    changes: list[RequestChanges] = []
    for request in requests:
        mode = requests.mode(request)
        if mode is None:
            continue
        pods, asked = _pods_if_due(request, requests)
        changes.append(asked)
        if pods is None:
            continue
        fresh = request
        if mode != Mode.CHECK or not _is_batch(requests):
            accepted = requests.accepted(request)
            fresh = requests.with_conditions(request, accepted)
            changes.append(requests.write(request, accepted, is_acceptance=True))
        return ChosenRequest(fresh, pods), join_changes(changes)
    return None, join_changes(changes)


def examine(
    context: PlanningContext, chosen: ChosenRequest, requests: ProvisioningRequestState, random: Random
) -> ExaminedRequests:
    """Look for the capacity of the chosen request, and in a batch of others like it."""
    if requests.mode(chosen.request) == Mode.ATOMIC:
        return _provision(context, chosen, requests, random)
    if not _is_batch(requests):
        return _check(context.snapshot.fork(), [chosen], requests, NO_CHANGES)
    batch, changes = _choose_batch(requests)
    return _check(context.snapshot.fork(), batch, requests, changes)


def reserve_room(snapshot: Snapshot, requests: ProvisioningRequestState) -> RequestChanges:
    """Place all pods of every provisioned request in the snapshot, even if some of them run.

    Pods that fit nowhere are left out.
    """
    provisioned = [request for request in requests if is_reserved(request, requests)]
    consumers = running_consumers(snapshot) if provisioned else {}
    wanted: list[Pod] = []
    changes: list[RequestChanges] = []
    for request in provisioned:
        if len(consumers.get(request.key, ())) >= request.pod_count:
            changes.append(end_as_consumed(request, requests))
            continue
        pods, failed = try_pods(request, requests)
        changes += [failed, RequestChanges(reserved={request.key: len(pods)})]
        wanted += pods
    take_fitting(snapshot, wanted)
    return join_changes(changes)


def _is_batch(requests: ProvisioningRequestState) -> bool:
    settings = requests.settings.provisioning
    return settings.check_capacity_batch_processing and settings.check_capacity_provisioning_request_max_batch_size > 1


def _choose_batch(requests: ProvisioningRequestState) -> tuple[list[ChosenRequest], RequestChanges]:
    """Choose as many check-capacity requests as one loop examines.

    The request that ``choose_request`` chose is asked once more whether it is due, as CA does.
    """
    left = requests.settings.provisioning.check_capacity_provisioning_request_max_batch_size
    batch: list[ChosenRequest] = []
    changes: list[RequestChanges] = []
    for request in requests:
        if len(batch) >= left:
            break
        if requests.mode(request) != Mode.CHECK:
            continue
        pods, asked = _pods_if_due(request, requests)
        changes.append(asked)
        if pods is not None:
            batch.append(ChosenRequest(request, pods))
    return batch, join_changes(changes)


def _pods_if_due(
    request: ProvisioningRequest, requests: ProvisioningRequestState
) -> tuple[tuple[Pod, ...] | None, RequestChanges]:
    """Return the request's pods; None if it is not due, or if it fails because its templates are missing."""
    is_due, asked = _ask_whether_due(request, requests)
    if not is_due:
        return None, asked
    pods, failed = make_pods_or_fail(request, requests)
    return pods, join_changes([asked, failed])


def _ask_whether_due(request: ProvisioningRequest, requests: ProvisioningRequestState) -> tuple[bool, RequestChanges]:
    """Return whether the request is due. As in CA, asking doubles the wait of a request that is tried again."""
    settings = requests.settings.provisioning
    if request.has(FAILED) or request.has(PROVISIONED):
        return False, RequestChanges(retries={request.id: None})
    held = request.condition(PROVISIONED)
    if held is None:
        return True, NO_CHANGES
    if held.status != "False":
        return False, NO_CHANGES
    known = requests.memory.retries.get(request.id)
    wait = known.wait if known is not None else settings.provisioning_request_initial_backoff_time
    if held.since + wait >= requests.now:
        return False, NO_CHANGES
    longest = settings.provisioning_request_max_backoff_time
    return True, RequestChanges(retries={request.id: Retry(at=requests.now, wait=min(2 * wait, longest))})


def _check(
    snapshot: Snapshot, batch: Sequence[ChosenRequest], requests: ProvisioningRequestState, before: RequestChanges
) -> ExaminedRequests:
    """Look for room for each request, besides those before it; ``before`` are the changes of choosing them."""
    changes = [before, RequestChanges(examined=True)]
    if not batch:
        return ExaminedRequests(changes=join_changes(changes), report=ScaleUpReport(result=ScaleUpResult.NOT_TRIED))
    found = False
    for chosen in batch:
        request = chosen.request
        if _is_batch(requests):
            accepted = requests.accepted(request)
            changes.append(requests.write(request, accepted, is_acceptance=True))
            request = requests.with_conditions(request, accepted)
        fork = snapshot.fork()
        _, left = take_fitting(fork, chosen.pods)
        if not left:
            snapshot, found = fork, True
        changes.append(_result(request, requests, fits=not left))
    result = ScaleUpResult.SUCCESSFUL if found else ScaleUpResult.NO_OPTIONS
    return ExaminedRequests(changes=join_changes(changes), report=ScaleUpReport(result=result))


def _result(request: ProvisioningRequest, requests: ProvisioningRequestState, *, fits: bool) -> RequestChanges:
    if fits:
        condition = requests.condition(request, (PROVISIONED, "True"), "CapacityIsFound", FOUND)
    elif requests.fails_at_once(request):
        condition = requests.condition(request, (FAILED, "True"), "CapacityIsNotFound", _NOT_FOUND_FOR_GOOD)
    else:
        condition = requests.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", _NOT_FOUND)
    return requests.write_result(StatusWrite(request=request, conditions=(condition,), is_apply=False))


def _provision(
    context: PlanningContext, chosen: ChosenRequest, requests: ProvisioningRequestState, random: Random
) -> ExaminedRequests:
    """Add the nodes that are missing for all pods, all of them or none."""
    request, examined = chosen.request, RequestChanges(examined=True)
    exists = requests.condition(request, (PROVISIONED, "True"), "CapacityIsFound", FOUND)
    provisioned = requests.condition(request, (PROVISIONED, "True"), "CapacityIsProvisioned", FOUND)
    refused = requests.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", _NOT_FOUND)
    snapshot = context.snapshot.fork()
    _, left = take_fitting(snapshot, chosen.pods)
    if not left:
        result = requests.write_result(StatusWrite(request=request, conditions=(exists,)))
        report = ScaleUpReport(result=ScaleUpResult.NOT_NEEDED)
        return ExaminedRequests(changes=join_changes([examined, result]), report=report)
    actions, report = AllOrNothingScaleUp(replace(context, snapshot=snapshot), left, random).plan()
    actions = as_whole(request, actions)
    groups = tuple(action.group for action in actions)
    conditions = (provisioned,) if groups else (refused,)
    write = StatusWrite(request=request, conditions=conditions, groups=groups, otherwise=(refused,))
    return ExaminedRequests(
        changes=join_changes([examined, requests.write_result(write)]), report=report, actions=actions
    )
