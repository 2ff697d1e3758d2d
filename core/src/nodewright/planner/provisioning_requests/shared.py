"""What CA's way with requests and ours have in common."""

from collections.abc import Iterable

from msgspec.structs import replace

from nodewright.clusterstate.memory import Retry
from nodewright.model.action import ForRequest, IncreaseSize
from nodewright.model.condition import Condition
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ACCEPTED, FAILED, NO_RETRY, ProvisioningRequest
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState
from nodewright.planner.provisioning_requests.pods import MissingTemplates, make_pods

FOUND = "Capacity is found in the cluster"


def accepted(request: ProvisioningRequest, docket: ProvisioningRequestState) -> Condition:
    return docket.condition(
        request, (ACCEPTED, "True"), "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"
    )


def gives_up(request: ProvisioningRequest, docket: ProvisioningRequestState) -> bool:
    """Is it to fail at once if nothing is found for it?"""
    return docket.terms(request).parameters.get(NO_RETRY) == "true"


def next_retry(request: ProvisioningRequest, docket: ProvisioningRequestState) -> Retry:
    """When it is examined again: twice as long from now as it waited last."""
    settings = docket.settings.provisioning
    held = docket.retries.get(request.id)
    wait = settings.provisioning_request_initial_backoff_time if held is None else 2 * held.wait
    wait = min(wait, settings.provisioning_request_max_backoff_time)
    docket.wake(docket.now + wait)
    return Retry(at=docket.now, wait=wait)


def pods_or_failure(request: ProvisioningRequest, docket: ProvisioningRequestState) -> tuple[Pod, ...] | None:
    """None: it has just failed for want of templates."""
    try:
        return make_pods(request, docket.templates)
    except MissingTemplates as error:
        docket.mark(request, docket.condition(request, (FAILED, "True"), "FailedToCreatePods", str(error)))
        return None


def as_whole(request: ProvisioningRequest, actions: Iterable[IncreaseSize]) -> list[IncreaseSize]:
    """Increases that are only worth something to the request together."""
    parts = list(actions)
    whole = ForRequest(
        id=request.id, key=request.key, nodes=sum(action.target - action.expected_target for action in parts)
    )
    return [replace(action, request=whole) for action in parts]
