"""The virtual pods of a buffer: their template, their number, and the pods themselves.

The template is the buffer's PodTemplate, or comes from the pods of the object that the buffer refers to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from nodewright.model.capacity_buffer import KIND, CapacityBuffer, CapacityBufferSpec, Figure, ScalableReference
from nodewright.model.cluster import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.pod import Pod, Volume
from nodewright.model.printable import show
from nodewright.model.provisioning_request import API_GROUP, PodTemplate, TemplateReference
from nodewright.model.quantity import Quantity
from nodewright.planner.provisioning_requests.pods import stand_ins
from nodewright.snapshot.observation import Observation

_ANNOTATIONS = {"podType": "capacityBufferFakePod", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
_GROUPS = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "Job": "batch",
    "ReplicationController": "",
}
_NEWEST = "newest pods by controller"

Scalable = Deployment | ReplicaSet | StatefulSet | Job | ReplicationController
# The most pods of one buffer: as many as a pod set of a ProvisioningRequest may have.
_MOST_PODS = 16_384


def make_pods(buffer: CapacityBuffer, shape: PodTemplateSpec, count: int) -> Iterator[Pod]:
    """Yield ``count`` pods like ``shape``, named as CA names them."""
    name = buffer.metadata.name
    owner = OwnerReference(api_version=f"{API_GROUP}/v1beta1", kind=KIND, name=name, uid=buffer.id, controller=True)
    ids = ((f"capacity-buffer-{name}-{number}", f"{buffer.id}-{number}") for number in range(1, count + 1))
    return stand_ins(buffer.metadata, owner, shape, _ANNOTATIONS, ids)


def is_virtual(pod: Pod) -> bool:
    """Return whether this is a virtual pod of a buffer. A pod on a node is real, even if its owner references say otherwise."""
    controller = pod.metadata.controller
    return controller is not None and controller.kind == KIND and not pod.spec.node_name


class Unresolved(Exception):
    """A buffer's spec cannot be resolved; the text says what to change."""


@dataclass(frozen=True, kw_only=True)
class BufferPodTemplate:
    """The template of a buffer's pods.

    ``template`` is the PodTemplate it comes from; None: it comes from the object of ``scalableRef``, which wants
    ``replicas`` pods.
    """

    pod: PodTemplateSpec
    template: PodTemplate | None = None
    replicas: int | None = None

    @property
    def reference(self) -> TemplateReference | None:
        return TemplateReference(name=self.template.name) if self.template is not None else None

    @property
    def generation(self) -> int | None:
        return self.template.metadata.generation if self.template is not None else None


class PodsByController:
    """Finds objects that buffers refer to, and the newest pod of each. The indexes are built when first needed."""

    def __init__(self, seen: Observation) -> None:
        self._seen = seen
        self._controllers = seen.workloads.controllers or {}
        # By the controller's uid; the uids of ReplicaSets by that of their Deployment. None: not built yet.
        self._newest: dict[str, Pod] | None = None
        self._replica_sets: dict[str, list[str]] | None = None

    def find(self, kind: str, key: str) -> Scalable | None:
        if kind == "Deployment":
            return self._seen.buffers.deployments.get(key)
        found = self._controllers.get((kind, key))
        return None if isinstance(found, DaemonSet) else found

    def newest_pod(self, found: Scalable) -> Pod | None:
        """Return the newest pod that is not terminating; a Deployment's pods are those of its ReplicaSets."""
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


def find_template(buffer: CapacityBuffer, seen: Observation, controllers: PodsByController) -> BufferPodTemplate:
    """Return the template of the buffer's pods. Raise Unresolved if its spec does not name exactly one."""
    spec, namespace = buffer.spec, buffer.metadata.namespace
    if (spec.pod_template_ref is None) == (spec.scalable_ref is None):
        neither = "no podTemplateRef and no scalableRef"
        named = "both podTemplateRef and scalableRef" if spec.scalable_ref is not None else neither
        raise Unresolved(f"spec has {named}: it must have one of them")
    if spec.pod_template_ref is not None:
        return from_pod_template(spec.pod_template_ref, namespace, seen)
    assert spec.scalable_ref is not None
    return _from_scalable(spec.scalable_ref, namespace, controllers)


def from_pod_template(reference: TemplateReference, namespace: str, seen: Observation) -> BufferPodTemplate:
    """Return pods like a PodTemplate. Raise Unresolved if it does not exist."""
    key = f"{namespace}/{reference.name}"
    template = seen.buffers.templates.get(key)
    if template is None:
        raise Unresolved(f"there is no PodTemplate {key}: create it, or name another one in spec.podTemplateRef")
    return BufferPodTemplate(pod=template.template, template=template)


def _from_scalable(reference: ScalableReference, namespace: str, controllers: PodsByController) -> BufferPodTemplate:
    """Return the template of the newest pod, which includes what admission added; without a pod, the object's template."""
    kind, key = reference.kind, f"{namespace}/{reference.name}"
    if kind not in _GROUPS or reference.api_group != _GROUPS[kind]:
        known = ", ".join(f"{group}/{name}".lstrip("/") for name, group in _GROUPS.items())
        named = f"{reference.api_group}/{kind}".lstrip("/")
        raise Unresolved(f"spec.scalableRef is of kind {named}: it must be one of {known}")
    found = controllers.find(kind, key)
    if found is None:
        raise Unresolved(f"there is no {kind} {key}: create it, or name another one in spec.scalableRef")
    pod = controllers.newest_pod(found)
    if pod is not None:
        return BufferPodTemplate(pod=_as_template(pod), replicas=_replicas(found))
    if isinstance(found, Job | ReplicaSet):
        raise Unresolved(f"{kind} {key} has no pod whose shape could be taken: start one, or use spec.podTemplateRef")
    return BufferPodTemplate(pod=found.spec.template, replicas=_replicas(found))


def _replicas(found: Scalable) -> int:
    """Return how many pods the object wants; 1 if it does not say, as in Kubernetes."""
    wanted = found.spec.parallelism if isinstance(found, Job) else found.spec.replicas
    return 1 if wanted is None else max(0, wanted)


def _by_controller(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Return the newest pod that is not terminating of each controller, by the controller's uid."""
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
    """Return a sort key that is larger for a newer pod."""
    return pod.created, pod.name


def _as_template(pod: Pod) -> PodTemplateSpec:
    """Return a template of pods like this one, without the volumes that only this pod has (as in a StatefulSet)."""
    volumes = tuple(volume for volume in pod.spec.volumes if not _is_own(volume, pod))
    meta = ObjectMeta(labels=pod.metadata.labels, annotations=pod.metadata.annotations)
    return PodTemplateSpec(metadata=meta, spec=replace(pod.spec, node_name="", volumes=volumes))


def _is_own(volume: Volume, pod: Pod) -> bool:
    claim = volume.persistent_volume_claim
    return claim is not None and claim.claim_name == f"{volume.name}-{pod.name}"


def count_pods(spec: CapacityBufferSpec, requests: Mapping[str, int], replicas: int | None) -> int:
    """Return how many pods the buffer wants. Raise Unresolved if its spec gives no valid number.

    ``requests`` are those of one pod, in nano-units; ``replicas`` those of the object that the buffer refers to. The
    number is the larger one of ``replicas`` and ``percentage`` (rounded up) of the spec, within its limits. With limits
    alone it is as many pods as they allow.
    """
    wanted: list[int] = []
    if spec.replicas is not None:
        wanted.append(_whole("replicas", spec.replicas))
    if spec.percentage is not None:
        percentage = _whole("percentage", spec.percentage)
        if replicas is None:
            raise Unresolved(
                "spec.percentage is of the replicas of spec.scalableRef, which is not set: set spec.replicas instead"
            )
        wanted.append(-(-percentage * replicas // 100))
    if spec.limits is not None:
        most = _within(spec.limits, requests)
        wanted = [min(max(wanted, default=most), most)]
    if not wanted:
        raise Unresolved("spec has no replicas, percentage or limits: it must have one of them")
    check_count(max(wanted))
    return max(wanted)


def check_count(count: int) -> None:
    """Raise Unresolved if a buffer may not have that many pods."""
    if count > _MOST_PODS:
        text = f"it would be {count} pods, and a buffer has at most {_MOST_PODS}"
        raise Unresolved(f"{text}: lower replicas, percentage or limits")


def _whole(name: str, given: Figure) -> int:
    if isinstance(given, int) and given >= 0:
        return given
    raise Unresolved(f"spec.{name} is {show(given)}: it must be a whole number, 0 or more")


def _within(limits: Mapping[str, Figure], requests: Mapping[str, int]) -> int:
    """Return how many pods stay within the limits."""
    amounts = {name: _amount(name, given) for name, given in limits.items()}
    counts = [amount // requests[name] for name, amount in amounts.items() if requests.get(name, 0) > 0]
    if not counts:
        named = ", ".join(sorted(amounts)) or "nothing"
        raise Unresolved(
            f"spec.limits names {named}, of which its pods request nothing: name a resource that they request"
        )
    return min(counts)


def _amount(name: str, given: Figure) -> int:
    try:
        amount = Quantity.of(given).nano
    except ValueError as error:
        raise Unresolved(f"spec.limits.{name}: {error}") from None
    if amount < 0:
        raise Unresolved(f"spec.limits.{name} is {show(given)}: it must be 0 or more")
    return amount
