"""The pods that a request stands for, and the pending pods that consume its capacity."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.plan import PendingEvent
from nodewright.model.pod import Container, Pod, PodSpec
from nodewright.model.provisioning_request import (
    API_GROUP,
    CLASS_ANNOTATION,
    FAILED,
    OLD_CLASS_ANNOTATION,
    OLD_REQUEST_ANNOTATION,
    PROVISIONED,
    REQUEST_ANNOTATION,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
)
from nodewright.planner.provisioning_requests.classes import find_bad_parameter
from nodewright.planner.provisioning_requests.state import NO_CHANGES, ProvisioningRequestState, RequestChanges

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
    """Return whether this is no real pod but one that a request stands for."""
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
        text = f"pod waits for ProvisioningRequest {key}, and there is none: create it, or take the annotations off"
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
