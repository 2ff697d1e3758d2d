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
from nodewright.snapshot.observation import Observation

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


class Families:
    """Whose pods are whose, found out when somebody asks."""

    def __init__(self, seen: Observation) -> None:
        self._seen = seen
        self._controllers = seen.workloads.controllers or {}
        # By the uids of controllers, and those of ReplicaSets by the uid of their Deployment; None: nobody has asked.
        self._newest: dict[str, Pod] | None = None
        self._replica_sets: dict[str, list[str]] | None = None

    def find(self, kind: str, key: str) -> Scalable | None:
        if kind == "Deployment":
            return self._seen.buffers.deployments.get(key)
        found = self._controllers.get((kind, key))
        return None if isinstance(found, DaemonSet) else found

    def newest_pod(self, found: Scalable) -> Pod | None:
        """Of those that live; a Deployment's are those of its ReplicaSets."""
        uid = found.metadata.uid
        owners = self._of_deployment(uid) if isinstance(found, Deployment) else [uid]
        if self._newest is None:
            self._newest = self._find_newest()
        pods = [self._newest[owner] for owner in owners if owner in self._newest]
        return max(pods, key=_age, default=None)

    def _of_deployment(self, uid: str) -> list[str]:
        if self._replica_sets is None:
            self._replica_sets = {}
            for (kind, _), one in self._controllers.items():
                owner = one.metadata.controller
                if kind == "ReplicaSet" and owner is not None and owner.kind == "Deployment":
                    self._replica_sets.setdefault(owner.uid, []).append(one.metadata.uid)
        return self._replica_sets.get(uid, [])

    def _find_newest(self) -> dict[str, Pod]:
        snapshot, found = self._seen.snapshot, _by_controller(self._seen.pending)
        for held in snapshot.of_pods(_NEWEST, (row for row, _ in snapshot.nodes()), _by_controller):
            for uid, pod in held.items():
                if uid not in found or _age(pod) > _age(found[uid]):
                    found[uid] = pod
        return found


def find_shape(buffer: CapacityBuffer, seen: Observation, families: Families) -> Shape:
    """Raises Unresolved."""
    spec, namespace = buffer.spec, buffer.metadata.namespace
    if (spec.pod_template_ref is None) == (spec.scalable_ref is None):
        neither = "no podTemplateRef and no scalableRef"
        named = "both podTemplateRef and scalableRef" if spec.scalable_ref is not None else neither
        raise Unresolved(f"spec has {named}: it must have one of them")
    if spec.pod_template_ref is not None:
        return from_template(spec.pod_template_ref, namespace, seen)
    assert spec.scalable_ref is not None
    return _from_scalable(spec.scalable_ref, namespace, families)


def from_template(reference: TemplateReference, namespace: str, seen: Observation) -> Shape:
    """Raises Unresolved."""
    key = f"{namespace}/{reference.name}"
    template = seen.buffers.templates.get(key)
    if template is None:
        raise Unresolved(f"there is no PodTemplate {key}: create it, or name another one in spec.podTemplateRef")
    return Shape(pod=template.template, template=template)


def _from_scalable(reference: ScalableReference, namespace: str, families: Families) -> Shape:
    """The newest living pod has all that admission added; where none lives, what it will be made from must do."""
    kind, key = reference.kind, f"{namespace}/{reference.name}"
    if kind not in _GROUPS or reference.api_group != _GROUPS[kind]:
        known = ", ".join(f"{group}/{name}".lstrip("/") for name, group in _GROUPS.items())
        named = f"{reference.api_group}/{kind}".lstrip("/")
        raise Unresolved(f"spec.scalableRef is of kind {named}: it must be one of {known}")
    found = families.find(kind, key)
    if found is None:
        raise Unresolved(f"there is no {kind} {key}: create it, or name another one in spec.scalableRef")
    pod = families.newest_pod(found)
    if pod is not None:
        return Shape(pod=_as_template(pod), replicas=_replicas(found))
    if isinstance(found, Job | ReplicaSet):
        raise Unresolved(f"{kind} {key} has no pod whose shape could be taken: start one, or use spec.podTemplateRef")
    return Shape(pod=found.spec.template, replicas=_replicas(found))


def _replicas(found: Scalable) -> int:
    """How many pods it wants; Kubernetes takes one where it does not say."""
    wanted = found.spec.parallelism if isinstance(found, Job) else found.spec.replicas
    return 1 if wanted is None else max(0, wanted)


def _by_controller(pods: Iterable[Pod]) -> dict[str, Pod]:
    """The newest pod that is not ending, of each controller by its uid."""
    found: dict[str, Pod] = {}
    for pod in pods:
        controller = pod.metadata.controller
        if controller is None or not controller.uid or pod.metadata.deletion_timestamp is not None:
            continue
        held = found.get(controller.uid)
        if held is None or _age(pod) > _age(held):
            found[controller.uid] = pod
    return found


def _age(pod: Pod) -> tuple[float, str]:
    """The newer, the larger."""
    return pod.created, pod.name


def _as_template(pod: Pod) -> PodTemplateSpec:
    """Another pod like this one. Volumes that are this pod's own, as in a StatefulSet, are none of the other's."""
    volumes = tuple(volume for volume in pod.spec.volumes if not _is_own(volume, pod))
    meta = ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations)
    return PodTemplateSpec(metadata=meta, spec=replace(pod.spec, node_name="", volumes=volumes))


def _is_own(volume: Volume, pod: Pod) -> bool:
    claim = volume.persistent_volume_claim
    return claim is not None and claim.claim_name == f"{volume.name}-{pod.name}"
