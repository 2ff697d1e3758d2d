"""Pods that consume a request: they wait for its room, and nothing is bought for them (behaviour/up.md §5.4)."""

from collections.abc import Iterable
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import CLASS_ANNOTATION, PROVISIONED, REQUEST_ANNOTATION
from nodewright.planner.provisioning_requests.docket import PendingEvent, ProvisioningRequestState
from nodewright.planner.provisioning_requests.housekeeping import is_over
from nodewright.planner.provisioning_requests.pods import consumed_class, consumed_request

# CA tells no more pods in one loop.
_MOST_NOTES = 50


class _Word(NamedTuple):
    """What a pod is told."""

    reason: str
    message: str
    is_warning: bool = True


def set_aside(pods: Iterable[Pod], docket: ProvisioningRequestState) -> list[Pod]:
    """The pods that are planned for; those that consume a request are told why they are not."""
    left: list[Pod] = []
    for pod in pods:
        name = consumed_request(pod)
        if name is not None:
            docket.consumers.append(pod)
        else:
            left.append(pod)
        key = f"{pod.metadata.namespace}/{name or ''}"
        word = _word_to(pod, key, docket) if name is not None else _word_to_half_annotated(pod)
        if word is not None and len(docket.notes) < _MOST_NOTES:
            note = PendingEvent(
                request=key, reason=word.reason, message=word.message, pod=pod, is_warning=word.is_warning
            )
            docket.notes.append(note)
    return left


def _word_to_half_annotated(pod: Pod) -> _Word | None:
    """CA takes it for an ordinary pod, and so do we."""
    kind = consumed_class(pod)
    if kind is None:
        return None
    text = f"annotation {CLASS_ANNOTATION} names a class, and {REQUEST_ANNOTATION} no request: it is an ordinary pod"
    return _Word("ProvisioningRequestNotNamed", f"{text}; set both annotations, or none")


def _word_to(pod: Pod, key: str, docket: ProvisioningRequestState) -> _Word:
    request, kind = docket.get(key), consumed_class(pod)
    if request is None:
        text = f"pod waits for ProvisioningRequest {key}, and there is none: create it, or take the annotations off"
        return _Word("ProvisioningRequestMissing", text)
    wanted = request.spec.provisioning_class_name
    if kind != wanted and docket.settings.policy.checks_class_of_consumers:
        said = f"is {kind}" if kind is not None else "is not set"
        text = f"annotation {CLASS_ANNOTATION} {said}, and ProvisioningRequest {key} is of class {wanted}"
        return _Word("ProvisioningClassMismatch", f"{text}: set it to that")
    if is_over(request, docket):
        text = f"pod consumes ProvisioningRequest {key}, which is over: nothing is held or bought for it any more"
        return _Word("ProvisioningRequestOver", text)
    text = f"Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest {key}"
    if docket.treats_fairly and request.has(PROVISIONED):
        text += ", whose room is held for it"
    return _Word("ConsumesProvisioningRequest", text, is_warning=False)
