"""The pods that a request stands for, and the real ones that consume it (behaviour/up.md §5.3)."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.pod import Container, Pod, PodSpec
from nodewright.model.provisioning_request import (
    API_GROUP,
    CLASS_ANNOTATION,
    OLD_CLASS_ANNOTATION,
    OLD_REQUEST_ANNOTATION,
    REQUEST_ANNOTATION,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
)

_OWNER_KIND = "ProvisioningRequest"


class MissingTemplates(Exception):
    """Some PodTemplates of a request are not there; the text is for its condition, in CA's words."""


def make_pods(request: ProvisioningRequest, templates: Mapping[str, PodTemplate]) -> tuple[Pod, ...]:
    """As many pods of each template as the request says; raises MissingTemplates."""
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


def consumed_request(pod: Pod) -> str | None:
    """The name of the request that a pod consumes, in the pod's namespace; None for any other pod."""
    annotations = pod.metadata.annotations
    return annotations.get(REQUEST_ANNOTATION, annotations.get(OLD_REQUEST_ANNOTATION))


def consumed_class(pod: Pod) -> str | None:
    """The class that the pod says its request is of; None: it does not say."""
    annotations = pod.metadata.annotations
    return annotations.get(CLASS_ANNOTATION, annotations.get(OLD_CLASS_ANNOTATION))


def is_stand_in(pod: Pod) -> bool:
    """Is it no real pod, but one of those that a request stands for?"""
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
    """Pods of that shape, each with a name and a uid, that stand for what the object of ``meta`` asks for.

    All parts but the names are the same objects: pods are grouped by them.
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
    """As the API server makes it of a pod: what has a limit and no request requests its limit."""
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
