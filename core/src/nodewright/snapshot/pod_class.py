"""Pods grouped into classes by the fields that scheduling reads.

Two pods of one class are interchangeable to every predicate, so that each predicate runs once per class.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple, TypeVar
from weakref import ReferenceType, WeakValueDictionary, ref

import msgspec
from msgspec.structs import astuple

from nodewright.model.meta import ObjectMeta
from nodewright.model.pod import Pod, PodSpec, Volume
from nodewright.model.sharing import encode_part, is_content
from nodewright.snapshot.requests import pod_requests

T = TypeVar("T")
# Numbers are never used again, so that a value cached by number is never used for another class.
_IDS = count()
_MAX_PARTS = 2**14
# In a class only whether a pod terminates counts, not since when.
_TERMINATING = datetime.fromtimestamp(0, tz=UTC)
# The fields of a spec after nodeName: pods of one class on different nodes share these.
_BUT_NODE = slice(PodSpec.__struct_fields__.index("node_name") + 1, None)


class PodClass:
    """The common properties of the pods of one class. Compared and hashed by identity.

    ``requests`` are those of an incoming pod, ``placed_requests`` those of a running one (in-place resizes).
    ``is_plain``: on nodes that admit the pod, only amounts of resources decide how many pods of the class fit.
    ``wants_devices``: pods of the class have claims for devices, or ask for an extended resource that a DeviceClass serves.
    ``pod`` represents the class: it has only the fields by which classes differ (``_identity``) and, for messages, the
    name of the first pod. A predicate that reads other metadata finds it empty.
    """

    __slots__ = (
        "__weakref__",
        "claims",
        "compiled",
        "id",
        "is_plain",
        "labels",
        "namespace",
        "placed_requests",
        "pod",
        "requests",
        "spec",
        "terminating",
        "wants_devices",
    )

    def __init__(self, class_id: int, pod: Pod) -> None:
        self.id = class_id
        self.pod = pod
        self.spec: PodSpec = pod.spec
        self.namespace = pod.metadata.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.terminating = pod.metadata.deletion_timestamp is not None
        self.requests: Mapping[str, int] = pod_requests(pod, placed=False)
        self.placed_requests = pod_requests(pod, placed=True) if _is_resized(pod) else self.requests
        self.wants_devices = bool(pod.spec.resource_claims)
        self.is_plain = not self.wants_devices and _is_plain(pod.spec)
        self.claims = tuple(claim_key(pod, volume) for volume in pod.spec.volumes if has_claim(volume))
        self.compiled: dict[object, Any] = {}

    def serve_devices(self, resources: AbstractSet[str]) -> None:
        """Take note of the extended resources that DeviceClasses serve."""
        wants_devices = bool(self.spec.resource_claims) or any(name in resources for name in self.requests)
        if wants_devices != self.wants_devices:
            self.wants_devices = wants_devices
            self.is_plain = not wants_devices and _is_plain(self.spec)
            self.compiled.clear()

    @property
    def has_anti_affinity(self) -> bool:
        """Return whether pods of this class have anti-affinity, which keeps others away from their domain."""
        affinity = self.spec.affinity
        return affinity is not None and affinity.pod_anti_affinity is not None


_ABSENT: Any = object()


def per_class(function: Callable[[PodClass], T]) -> Callable[[PodClass], T]:
    """Cache a function's result on the class, for what predicates compile once."""

    def remembered(pod_class: PodClass) -> T:
        found: T = pod_class.compiled.get(function, _ABSENT)
        if found is _ABSENT:  # often: an exception would cost more than most of these functions
            found = pod_class.compiled[function] = function(pod_class)
        return found

    return remembered


class _Known(NamedTuple):
    """A class with parts of one of its pods; ``placed`` is the spec without the node, empty for a pending pod."""

    spec: PodSpec
    labels: Mapping[str, str]
    pod_class: ReferenceType[PodClass]
    placed: tuple[object, ...]

    def is_of(self, spec: PodSpec) -> bool:
        return self.spec is spec or (bool(self.placed) and astuple(spec)[_BUT_NODE] == self.placed)


class PodClasses:
    """The table of classes, shared by a snapshot and all its forks."""

    def __init__(self) -> None:
        # Weak: a class lives as long as it is used elsewhere. Every Job brings labels that do not occur again.
        self._by_key: WeakValueDictionary[bytes, PodClass] = WeakValueDictionary()
        self._by_pod: dict[str, tuple[Pod, bool, PodClass]] = {}
        # Pods that were decoded together share their equal parts. The parts are kept alive here, so that no other object gets
        # their ids.
        self._by_parts: dict[tuple[object, ...], _Known] = {}
        self._device_resources: AbstractSet[str] = frozenset()

    def sort(self, pods: Iterable[Pod]) -> dict[PodClass, list[Pod]]:
        """Return pods without a node by class, in order of first appearance."""
        found: dict[PodClass, list[Pod]] = {}
        for pod, alike in map_alike(pods, lambda pod: found.setdefault(self.of(pod), [])):
            alike.append(pod)
        return found

    def of(self, pod: Pod, *, placed: bool = False) -> PodClass:
        """Return the class of a pod. ``spec.nodeName`` counts as a demand of a pending pod; for a placed pod it is ignored."""
        meta, spec = pod.metadata, pod.spec
        parts = (id(spec.containers), id(meta.labels), meta.namespace, placed)
        alike = self._by_parts.get(parts)
        if alike is not None and alike.is_of(spec) and not _is_changing(pod):
            found = alike.pod_class()
            if found is not None:
                return found
        uid = meta.uid
        known = self._by_pod.get(uid) if uid else None
        if known is not None and known[0] is pod and known[1] == placed:
            return known[2]
        bare = pod
        if placed and pod.spec.node_name:
            bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        pod_class = self._intern(bare)
        if uid:
            self._by_pod[uid] = (pod, placed, pod_class)
        if has_only_parts(pod):
            if len(self._by_parts) >= _MAX_PARTS:
                self._by_parts.clear()
            self._by_parts[parts] = _Known(
                spec, meta.labels, ref(pod_class), astuple(spec)[_BUT_NODE] if placed else ()
            )
        return pod_class

    def of_placed(self, pods: Iterable[Pod]) -> list[PodClass]:
        """Return the class of each of the pods, all of which are on nodes."""
        found, known_parts = list[PodClass](), self._by_parts
        for pod in pods:  # all inline: this runs for every pod when a snapshot is filled
            meta, spec, status, pod_class = pod.metadata, pod.spec, pod.status, None
            alike = known_parts.get((id(spec.containers), id(meta.labels), meta.namespace, True))
            if (
                alike is not None
                and alike.placed == astuple(spec)[_BUT_NODE]
                and meta.deletion_timestamp is None
                and not ((status.container_statuses or status.init_container_statuses) and _is_resized(pod))
            ):
                pod_class = alike.pod_class()
            found.append(self.of(pod, placed=True) if pod_class is None else pod_class)
        return found

    def serve_devices(self, resources: AbstractSet[str]) -> None:
        """Take note of the extended resources that DeviceClasses serve. This changes only which classes are plain."""
        if resources != self._device_resources:
            self._device_resources = frozenset(resources)
            for pod_class in list(self._by_key.values()):
                pod_class.serve_devices(self._device_resources)

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pod that is gone."""
        self._by_pod.pop(uid, None)

    def _intern(self, pod: Pod) -> PodClass:
        identity = _identity(pod)
        key = encode_part(identity)
        found = self._by_key.get(key)
        if found is None:
            meta, spec, _ = identity
            named = msgspec.structs.replace(meta, name=pod.metadata.name)
            found = self._by_key[key] = PodClass(next(_IDS), Pod(metadata=named, spec=spec, status=pod.status))
            if self._device_resources:
                found.serve_devices(self._device_resources)
        return found


@per_class
def kind_of(pod_class: PodClass) -> str:
    """Return a name for all pods with this namespace and spec and any labels; the same in every process.

    Each pod of a Job or a StatefulSet has labels of its own.
    """
    spec = msgspec.structs.replace(pod_class.spec, node_name="", volumes=(), scheduling_group=None)
    return sha256(encode_part((pod_class.namespace, spec))).hexdigest()[:20]


def map_alike(pods: Iterable[Pod], call: Callable[[Pod], T]) -> Iterator[tuple[Pod, T]]:
    """Yield every pod with the result of ``call``, which runs once for pods that share all parts except their names."""
    answered: dict[tuple[int, int], tuple[Pod, T]] = {}
    known: tuple[Pod, T] | None = None
    first, its = Pod(), ObjectMeta()
    for pod in pods:  # all inline: this runs for every pod in every loop
        meta = pod.metadata
        if pod.spec is not first.spec or meta.labels is not its.labels:
            # Pods with different specs may share one labels object: the empty one.
            known = answered.get((id(pod.spec), id(meta.labels)))
            if known is not None:
                first, its = known[0], known[0].metadata
        if (
            known is not None
            and pod.spec is first.spec
            and pod.status is first.status
            and meta.owner_references is its.owner_references
            and meta.annotations is its.annotations
            and meta.namespace == its.namespace
            and meta.deletion_timestamp is None
        ):
            yield pod, known[1]
            continue
        answer = call(pod)
        if has_only_parts(pod):
            known = answered[id(pod.spec), id(meta.labels)] = pod, answer
            first, its = pod, meta
        yield pod, answer


def _is_plain(spec: PodSpec) -> bool:
    affinity = spec.affinity
    free = affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None)
    containers = (*spec.containers, *spec.init_containers)
    ports = any(port.host_port for container in containers for port in container.ports)
    volumes = any(is_restricted(volume) for volume in spec.volumes)
    return free and not ports and not spec.topology_spread_constraints and not volumes


def has_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def is_restricted(volume: Volume) -> bool:
    """Return whether a volume may exclude some nodes; ConfigMaps, tokens and the like never do."""
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return has_claim(volume) or any(disk is not None for disk in disks)


def claim_key(pod: Pod, volume: Volume) -> str:
    """Return ``namespace/name`` of a volume's claim; the claim of an ephemeral volume is ``<pod>-<volume>``."""
    claim = volume.persistent_volume_claim
    name = claim.claim_name if claim is not None else f"{pod.name}-{volume.name}"
    return f"{pod.metadata.namespace}/{name}"


def has_only_parts(pod: Pod) -> bool:
    """Return whether spec, labels and namespace alone determine the class of a pod."""
    volumes = pod.spec.volumes
    return not _is_changing(pod) and (not volumes or not any(volume.ephemeral for volume in volumes))


def _is_changing(pod: Pod) -> bool:
    """Return whether a pod is terminating, or has other resources than its spec requests."""
    return pod.metadata.deletion_timestamp is not None or _is_resized(pod)


def _identity(pod: Pod) -> tuple[ObjectMeta, PodSpec, dict[str, int] | None]:
    """Return what distinguishes classes: the metadata and spec that predicates may read, and the requests if resized.

    Metadata that is added here must also be in ``has_only_parts``, and in the keys of parts in ``PodClasses.of`` and
    ``of_placed``, which find a class without this; and in ``kind_of`` if pods that differ in it need other groups.
    """
    meta, spec = pod.metadata, pod.spec
    if any(is_content(volume) for volume in spec.volumes):
        # The volume with a pod's token has a name of its own in every pod.
        spec = msgspec.structs.replace(spec, volumes=tuple(v for v in spec.volumes if not is_content(v)))
    requests = pod_requests(pod, placed=True) if _is_resized(pod) else None
    has_own_claims = any(volume.ephemeral for volume in pod.spec.volumes)
    read = ObjectMeta(
        name=meta.name if has_own_claims else "",
        uid=meta.uid if has_own_claims else "",
        namespace=meta.namespace,
        labels=meta.labels,
        deletion_timestamp=None if meta.deletion_timestamp is None else _TERMINATING,
    )
    return read, spec, requests


def _is_resized(pod: Pod) -> bool:
    """Return whether a status reports the containers' resources, which count in addition to the requests."""
    for status in pod.status.container_statuses:
        if status.resources:
            return True
    return any(status.resources for status in pod.status.init_container_statuses)
