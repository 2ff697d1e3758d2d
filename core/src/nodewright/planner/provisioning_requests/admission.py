"""Whether its class lets a request be served now; what is in the way is told (docs/adr/0016-provisioning-classes.md)."""

from nodewright.model.provisioning_request import FAILED, NODES_DETAIL, PROVISIONED, UNDER_WAY, ProvisioningRequest
from nodewright.planner.provisioning_requests.classes import Mode
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState
from nodewright.planner.provisioning_requests.housekeeping import is_over
from nodewright.planner.provisioning_requests.shared import accepted, gives_up, next_retry

_LIMIT, _WRONG_CLASS = "ClassLimitReached", "InvalidClass"


def is_admitted(request: ProvisioningRequest, docket: ProvisioningRequestState) -> bool:
    """A request that can never be granted fails; one for which there may be room later waits for its next turn."""
    rules = docket.classes
    wrong = rules.why_unusable(request, of_provider=docket.mode(request) == Mode.PROVIDER)
    if wrong:
        _wait(request, docket, _WRONG_CLASS, wrong)
        return False
    denied, never = rules.why_not_allowed(request), rules.why_never(request)
    if denied or never:
        reason = "ClassNotAllowed" if denied else "InvalidRequest"
        docket.mark(request, docket.condition(request, (FAILED, "True"), reason, denied or never))
        return False
    rules.count((one, _nodes_of(one, docket)) for one in docket if _holds(one, docket))
    full = rules.why_wait(request)
    if full:
        _wait(request, docket, _LIMIT, full)
    return not full


def _wait(request: ProvisioningRequest, docket: ProvisioningRequestState, reason: str, why: str) -> None:
    opened = accepted(request, docket)
    if gives_up(request, docket):
        docket.mark(request, opened, docket.condition(request, (FAILED, "True"), reason, why))
        return
    docket.retries[request.id] = next_retry(request, docket)
    text = f"{why}; it is tried again later"
    docket.mark(request, opened, docket.condition(request, (PROVISIONED, "False"), reason, text))


def _holds(request: ProvisioningRequest, docket: ProvisioningRequestState) -> bool:
    """Is room held or made for it? A provider may be at it since it was asked first."""
    mode = docket.mode(request)
    if mode is None or is_over(request, docket):
        return False
    said = request.condition(PROVISIONED)
    if request.id in docket.grants:
        return True
    if said is None:
        return False
    was_asked = mode == Mode.PROVIDER and said.reason not in (_LIMIT, _WRONG_CLASS)
    return said.is_true or said.reason == UNDER_WAY or was_asked


def _nodes_of(request: ProvisioningRequest, docket: ProvisioningRequestState) -> int:
    """How many were made, or are being made, for it."""
    held = docket.grants.get(request.id)
    if held is not None:
        return held.nodes
    text = request.status.provisioning_class_details.get(NODES_DETAIL, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0
