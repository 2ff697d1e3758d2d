"""What the pods of a buffer look like: as its PodTemplate says, or as the pods of what it refers to do."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from nodewright.model.capacity_buffer import CapacityBuffer, ScalableReference
from nodewright.model.cluster import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from nodewright.model.meta import ObjectMeta
from nodewright.model.pod import Pod, Volume
from nodewright.model.provisioning_request import PodTemplate, TemplateReference
from nodewright.registry.state import ClusterState
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.workloads import Controller

_GROUPS = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "Job": "batch",
    "ReplicationController": "",
}
_NEWEST = "newest pods by controller"

Scalable = Deployment | ReplicaSet | StatefulSet | Job | ReplicationController


class Unresolved(Exception):
    """Nobody can tell what a buffer stands for; the text says what to change."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """``template`` is the PodTemplate that it comes from, if it is one; ``replicas`` what the buffer refers to has."""

    pod: PodTemplateSpec
    template: PodTemplate | None = None
    replicas: int | None = None

    @property
    def reference(self) -> TemplateReference | None:
        return TemplateReference(name=self.template.name) if self.template is not None else None

    @property
    def generation(self) -> int | None:
        return self.template.metadata.generation if self.template is not None else None


def find_shape(buffer: CapacityBuffer, state: ClusterState) -> Shape:
    """Raises Unresolved."""
    spec, namespace, seen = buffer.spec, buffer.metadata.namespace, state.observation
    if (spec.pod_template_ref is None) == (spec.scalable_ref is None):
        both = (
            "both podTemplateRef and scalableRef"
            if spec.scalable_ref is not None
            else "no podTemplateRef and no scalableRef"
        )
        raise Unresolved(f"spec has {both}: it must have one of them")
    if spec.pod_template_ref is not None:
        return from_template(spec.pod_template_ref, namespace, seen)
    assert spec.scalable_ref is not None
    return _from_scalable(spec.scalable_ref, namespace, seen)


def from_template(reference: TemplateReference, namespace: str, seen: Observation) -> Shape:
    """Raises Unresolved."""
    key = f"{namespace}/{reference.name}"
    template = seen.buffers.templates.get(key)
    if template is None:
        raise Unresolved(f"there is no PodTemplate {key}: create it, or name another one in spec.podTemplateRef")
    return Shape(pod=template.template, template=template)


def _from_scalable(reference: ScalableReference, namespace: str, seen: Observation) -> Shape:
    """The newest living pod has all that admission added; where none lives, what it will be made from must do."""
    kind, key = reference.kind, f"{namespace}/{reference.name}"
    if kind not in _GROUPS or reference.api_group != _GROUPS[kind]:
        known = ", ".join(f"{group}/{name}".lstrip("/") for name, group in _GROUPS.items())
        named = f"{reference.api_group}/{kind}".lstrip("/")
        raise Unresolved(f"spec.scalableRef is of kind {named}: it must be one of {known}")
    found = _find_scalable(kind, key, seen)
    if found is None:
        raise Unresolved(f"there is no {kind} {key}: create it, or name another one in spec.scalableRef")
    pod = _newest_pod(found, seen)
    if pod is not None:
        return Shape(pod=_as_template(pod), replicas=_replicas(found))
    if not isinstance(found, Deployment | StatefulSet | ReplicationController):
        raise Unresolved(f"{kind} {key} has no pod whose shape could be taken: start one, or use spec.podTemplateRef")
    return Shape(pod=found.spec.template, replicas=_replicas(found))


def _find_scalable(kind: str, key: str, seen: Observation) -> Scalable | None:
    if kind == "Deployment":
        return seen.buffers.deployments.get(key)
    found = (seen.workloads.controllers or {}).get((kind, key))
    return None if isinstance(found, DaemonSet) else found


def _replicas(found: Scalable) -> int:
    """How many pods it wants; Kubernetes takes one where it does not say."""
    wanted = found.spec.parallelism if isinstance(found, Job) else found.spec.replicas
    return 1 if wanted is None else max(0, wanted)


def _newest_pod(found: Scalable, seen: Observation) -> Pod | None:
    """Of those that live; a Deployment's are those of its ReplicaSets."""
    owners = {found.metadata.uid}
    if isinstance(found, Deployment):
        owners = {
            one.metadata.uid
            for (kind, _), one in (seen.workloads.controllers or {}).items()
            if kind == "ReplicaSet" and _is_owned(one, found)
        }
    snapshot = seen.snapshot
    placed = snapshot.of_pods(_NEWEST, (row for row, _ in snapshot.nodes()), _by_controller)
    newest = [row[uid] for row in placed for uid in owners & row.keys()]
    waiting = _by_controller(seen.pending)
    newest += [waiting[uid] for uid in owners & waiting.keys()]
    return max(newest, key=lambda pod: (pod.created, pod.name), default=None)


def _is_owned(one: Controller, owner: Deployment) -> bool:
    controller = one.metadata.controller
    return controller is not None and controller.kind == "Deployment" and controller.uid == owner.metadata.uid


def _by_controller(pods: Iterable[Pod]) -> dict[str, Pod]:
    """The newest pod that is not ending, of each controller by its uid."""
    found: dict[str, Pod] = {}
    for pod in pods:
        controller = pod.metadata.controller
        if controller is None or not controller.uid or pod.metadata.deletion_timestamp is not None:
            continue
        held = found.get(controller.uid)
        if held is None or (pod.created, pod.name) > (held.created, held.name):
            found[controller.uid] = pod
    return found


def _as_template(pod: Pod) -> PodTemplateSpec:
    """Another pod like this one. Volumes that are this pod's own, as in a StatefulSet, are none of the other's."""
    volumes = tuple(volume for volume in pod.spec.volumes if not _is_own(volume, pod))
    meta = ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations)
    return PodTemplateSpec(metadata=meta, spec=replace(pod.spec, node_name="", volumes=volumes))


def _is_own(volume: Volume, pod: Pod) -> bool:
    claim = volume.persistent_volume_claim
    return claim is not None and claim.claim_name == f"{volume.name}-{pod.name}"
