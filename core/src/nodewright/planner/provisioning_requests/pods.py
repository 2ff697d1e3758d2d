"""The pods that a request stands for, the pending pods that consume its capacity, and the end of old requests."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.plan import PendingEvent
from nodewright.model.pod import Container, Pod, PodSpec
from nodewright.model.provisioning_request import (
    API_GROUP,
    BOOKING_EXPIRED,
    CLASS_ANNOTATION,
    FAILED,
    OLD_CLASS_ANNOTATION,
    OLD_REQUEST_ANNOTATION,
    PROVISIONED,
    REQUEST_ANNOTATION,
    VALID_UNTIL_SECONDS,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
)
from nodewright.planner.provisioning_requests.classes import find_bad_parameter, read_seconds
from nodewright.planner.provisioning_requests.state import (
    NO_CHANGES,
    ProvisioningRequestState,
    RequestChanges,
    join_changes,
)

_OWNER_KIND = "ProvisioningRequest"
# Limits of the CustomResourceDefinition; an older one in the cluster lets larger requests through.
_MOST_SETS, _MOST_PODS = 32, 16_384
# The most pods for which CA emits events in a loop.
_MOST_EVENTS = 50


class MissingTemplates(Exception):
    """Some PodTemplates of a request do not exist; the text is CA's message for the condition."""


def make_pods(request: ProvisioningRequest, templates: Mapping[str, PodTemplate]) -> tuple[Pod, ...]:
    """Return as many pods of each template as the request says. Raise MissingTemplates if one does not exist."""
    namespace = request.metadata.namespace
    names = [pod_set.pod_template_ref.name for pod_set in request.spec.pod_sets]
    missing = [name for name in dict.fromkeys(names) if f"{namespace}/{name}" not in templates]
    if missing:
        listed = ",".join(missing)
        said = f"{len(names)} pod templates were referenced, {len(missing)} templates were missing: {listed}"
        raise MissingTemplates(f"missing pod templates, {said}")
    found: list[Pod] = []
    for number, pod_set in enumerate(request.spec.pod_sets):
        template = templates[f"{namespace}/{pod_set.pod_template_ref.name}"]
        found.extend(_pods_of_set(request, number, pod_set, template))
    return tuple(found)


def make_pods_or_fail(
    request: ProvisioningRequest,
    requests: ProvisioningRequestState,
    reason: str = "FailedToCreatePods",
    prefix: str = "",
) -> tuple[tuple[Pod, ...] | None, RequestChanges]:
    """Return the request's pods; None if its templates are missing, and the changes that fail it for that reason."""
    try:
        return make_pods(request, requests.templates), NO_CHANGES
    except MissingTemplates as error:
        failed = requests.condition(request, (FAILED, "True"), reason, f"{prefix}{error}")
        return None, requests.write(request, failed)


def consumed_request(pod: Pod) -> str | None:
    """Return the name of the request that a pod consumes, in the pod's namespace; None: it consumes none."""
    annotations = pod.metadata.annotations
    return annotations.get(REQUEST_ANNOTATION, annotations.get(OLD_REQUEST_ANNOTATION))


def consumed_class(pod: Pod) -> str | None:
    """Return the class that the pod's annotation gives for its request; None: there is no annotation."""
    annotations = pod.metadata.annotations
    return annotations.get(CLASS_ANNOTATION, annotations.get(OLD_CLASS_ANNOTATION))


def is_stand_in(pod: Pod) -> bool:
    """Return whether this is a virtual pod of a request and not a real pod."""
    controller = pod.metadata.controller
    return controller is not None and controller.kind == _OWNER_KIND


def _pods_of_set(request: ProvisioningRequest, number: int, pod_set: PodSet, template: PodTemplate) -> Iterator[Pod]:
    meta = request.metadata
    owner = OwnerReference(
        api_version=f"{API_GROUP}/v1", kind=_OWNER_KIND, name=meta.name, uid=meta.uid, controller=True
    )
    annotations = {REQUEST_ANNOTATION: meta.name, CLASS_ANNOTATION: request.spec.provisioning_class_name}
    names = (f"{meta.name}-{number}-{replica}" for replica in range(pod_set.count))
    ids = ((name, f"{meta.namespace}/{name}") for name in names)
    return stand_ins(meta, owner, template.template, annotations, ids)


def stand_ins(
    meta: ObjectMeta,
    owner: OwnerReference,
    shape: PodTemplateSpec,
    annotations: Mapping[str, str],
    ids: Iterable[tuple[str, str]],
) -> Iterator[Pod]:
    """Yield pods like ``shape``, with these names and uids, that stand for the capacity that the object of ``meta`` wants.

    They share all parts but the names: pods are grouped by the identity of these objects.
    """
    spec, owners, annotations = defaulted(shape.spec), (owner,), {**shape.metadata.annotations, **annotations}
    for name, uid in ids:
        yield Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=meta.namespace,
                uid=uid,
                labels=shape.metadata.labels,
                annotations=annotations,
                owner_references=owners,
                creation_timestamp=meta.creation_timestamp,
            ),
            spec=spec,
        )


def defaulted(spec: PodSpec) -> PodSpec:
    """Return the spec with the API server's defaults: a container requests its limits where it has no requests."""
    return replace(
        spec,
        node_name="",
        containers=tuple(map(_with_requests, spec.containers)),
        init_containers=tuple(map(_with_requests, spec.init_containers)),
    )


def _with_requests(container: Container) -> Container:
    held = container.resources
    if held.limits.keys() <= held.requests.keys():
        return container
    return replace(container, resources=replace(held, requests={**held.limits, **held.requests}))


def find_problem(request: ProvisioningRequest) -> str:
    """Return why the request is invalid, and what to change; empty: it is valid. CA checks little of this."""
    sets = request.spec.pod_sets
    if not 1 <= len(sets) <= _MOST_SETS:
        return f"spec.podSets has {len(sets)} entries: it must have 1 to {_MOST_SETS}"
    for number, pod_set in enumerate(sets):
        if not 1 <= pod_set.count <= _MOST_PODS:
            return f"spec.podSets[{number}].count is {pod_set.count}: it must be 1 to {_MOST_PODS}"
        if not pod_set.pod_template_ref.name:
            return f"spec.podSets[{number}].podTemplateRef.name is empty: it must name a PodTemplate"
    return find_bad_parameter(request.spec.parameters)


class _PodEvent(NamedTuple):
    """Reason and message of an event for a pod."""

    reason: str
    message: str
    is_warning: bool = True


def split_consumers(pods: Iterable[Pod], requests: ProvisioningRequestState) -> tuple[list[Pod], RequestChanges]:
    """Return the pods to plan for, and changes with the pods that consume a request, each with an event that says so."""
    left: list[Pod] = []
    consumers: list[Pod] = []
    events: list[PendingEvent] = []
    most = _MOST_EVENTS - len(requests.decided.events)
    for pod in pods:
        name = consumed_request(pod)
        (left if name is None else consumers).append(pod)
        key = f"{pod.metadata.namespace}/{name or ''}"
        event = _event_of_consumer(pod, key, requests) if name is not None else _event_without_request(pod)
        if event is not None and len(events) < most:
            reason, message, is_warning = event
            events.append(PendingEvent(request=key, reason=reason, message=message, pod=pod, is_warning=is_warning))
    return left, RequestChanges(consumers=tuple(consumers), events=tuple(events))


def _event_without_request(pod: Pod) -> _PodEvent | None:
    """Return the event of a pod whose annotations name a class and no request: it is an ordinary pod, as to CA."""
    if consumed_class(pod) is None:
        return None
    text = f"annotation {CLASS_ANNOTATION} names a class, and {REQUEST_ANNOTATION} no request: it is an ordinary pod"
    return _PodEvent("ProvisioningRequestNotNamed", f"{text}; set both annotations, or none")


def _event_of_consumer(pod: Pod, key: str, requests: ProvisioningRequestState) -> _PodEvent:
    request, kind = requests.requests.get(key), consumed_class(pod)
    if request is None:
        text = f"pod waits for ProvisioningRequest {key}, which does not exist: create it, or remove the annotations"
        return _PodEvent("ProvisioningRequestMissing", text)
    wanted = request.spec.provisioning_class_name
    if kind != wanted and requests.settings.policy.checks_class_of_consumers:
        said = f"is {kind}" if kind is not None else "is not set"
        text = f"annotation {CLASS_ANNOTATION} {said}, and ProvisioningRequest {key} is of class {wanted}"
        return _PodEvent("ProvisioningClassMismatch", f"{text}: set it to that")
    if requests.is_over(request):
        text = f"pod consumes ProvisioningRequest {key}, which is over: nothing is held or bought for it any more"
        return _PodEvent("ProvisioningRequestOver", text)
    text = f"Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest {key}"
    if requests.arbitrates and request.has(PROVISIONED):
        text += ", whose room is held for it"
    return _PodEvent("ConsumesProvisioningRequest", text, is_warning=False)


# For how long a request is tried, in seconds from its creation.
_TRIED_SECONDS = 7 * 86_400.0
# For how long a request is kept once it is over, in seconds.
_KEPT_SECONDS = 7 * 86_400.0
# The most requests that CA ends in a loop.
_MOST_OF_CA = 20


def expire_requests(requests: ProvisioningRequestState) -> RequestChanges:
    """End reservations and requests that have lasted too long, and delete requests that ended long ago."""
    ended = _end_requests(requests)
    return join_changes([ended, _delete_old(requests.apply(ended))])


def time_to_try(request: ProvisioningRequest, requests: ProvisioningRequestState) -> float:
    """Return for how long a request is tried, in seconds from its creation.

    CA reads no parameter. A parameter that cannot be read fails the request when it is examined.
    """
    text = requests.classes.class_of(request).parameters.get(VALID_UNTIL_SECONDS)
    if text is None or not requests.settings.policy.reads_valid_until:
        return _TRIED_SECONDS
    with suppress(ValueError):
        return min(read_seconds(text), _TRIED_SECONDS)
    return _TRIED_SECONDS


def _end_requests(requests: ProvisioningRequestState) -> RequestChanges:
    """End reservations and requests; CA ends at most 20 of both together."""
    reservations: list[ProvisioningRequest] = []
    overdue: list[ProvisioningRequest] = []
    changes: list[RequestChanges] = []
    most = math.inf if requests.settings.policy.ends_all_requests_at_once else _MOST_OF_CA
    for request in requests:
        if len(reservations) >= most:
            break
        if requests.mode(request) is None or requests.is_over(request):
            continue
        if request.has(PROVISIONED):
            since, dated = _reserved_since(request, requests)
            end = since + requests.settings.reservation
            changes += [dated, RequestChanges(next_change=requests.next_change_at(end))]
            if end < requests.now:
                reservations.append(request)
        elif len(overdue) < most - len(reservations):
            end = request.created + time_to_try(request, requests)
            changes.append(RequestChanges(next_change=requests.next_change_at(end)))
            if end < requests.now:
                overdue.append(request)
    for request in reservations:
        what, text = (BOOKING_EXPIRED, "True"), "Capacity reservation time is expired"
        changes.append(
            requests.write(request, requests.condition(request, what, "CapacityReservationTimeExpired", text))
        )
    for request in overdue:
        expired = requests.condition(request, (FAILED, "True"), "Expired", "ProvisioningRequest is expired")
        changes.append(requests.write(request, expired))
    return join_changes(changes)


def _reserved_since(request: ProvisioningRequest, requests: ProvisioningRequestState) -> tuple[float, RequestChanges]:
    """Return since when capacity is reserved. A time in the future comes from a clock that was set back: use now."""
    held = request.condition(PROVISIONED)
    assert held is not None
    if held.since <= requests.now or not requests.settings.policy.keeps_condition_times:
        return held.since, RequestChanges()
    dated = requests.condition(request, (PROVISIONED, held.status), held.reason, held.message)
    return requests.now, requests.write(request, dated)


def _delete_old(requests: ProvisioningRequestState) -> RequestChanges:
    """Delete requests of every class that ended long ago.

    CA compares the age of either condition, whether True or not, and sets the time of conditions at each write. Here a
    condition is as old as its status, and a condition that is not True does not end a request.
    """
    keeps_times = requests.settings.policy.keeps_condition_times
    expired: list[ProvisioningRequest] = []
    ends: list[float] = []
    for request in requests:
        held = [one for one in map(request.condition, (PROVISIONED, FAILED)) if one is not None]
        dates = [one.since for one in held if one.is_true or not keeps_times]
        if not dates:
            continue
        ends.append((max if keeps_times else min)(dates) + _KEPT_SECONDS)
        if ends[-1] < requests.now:
            expired.append(request)
    return RequestChanges(expired=tuple(expired), next_change=requests.next_change_at(*ends))
