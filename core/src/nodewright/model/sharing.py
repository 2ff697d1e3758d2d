"""Share equal parts of pods as one object, to save memory. Pods of one controller differ in little but their names."""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from nodewright.model.pod import Pod, PodSpec, PodStatus, Volume
from nodewright.model.quantity import Quantity

T = TypeVar("T")
# When this many parts are held, all are dropped and sharing starts again. A status has the time of each change: statuses
# of pods created together are equal, and old ones do not occur again.
_MAX_PARTS, _MAX_STATUSES = 2**16, 2**10


class Sharing:
    """Replaces parts of each pod by equal parts of earlier pods. Not thread-safe.

    Volumes of which only the name is known (ConfigMaps, tokens) are left out: a token's volume has another name in every
    pod, and no decision reads it.
    """

    def __init__(self) -> None:
        self._held: dict[object, Any] = {}
        self._statuses: dict[bytes, PodStatus] = {}

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with shared labels, annotations, owners, spec and status."""
        meta = pod.metadata
        shared = replace(
            meta,
            namespace=self._hold(meta.namespace, meta.namespace),
            labels=self._mapping(meta.labels),
            annotations=self._mapping(meta.annotations),
            owner_references=self._hold(meta.owner_references, meta.owner_references),
        )
        return replace(pod, metadata=shared, spec=self._spec(pod.spec), status=self._status(pod.status))

    def _mapping(self, held: dict[str, str]) -> dict[str, str]:
        return self._hold(("mapping", *held.items()), held)

    def _spec(self, spec: PodSpec) -> PodSpec:
        volumes = tuple(volume for volume in spec.volumes if not is_content(volume))
        if spec.node_name or len(volumes) < len(spec.volumes):
            bare = replace(spec, node_name="", volumes=volumes)
        else:
            bare = spec
        found = self._hold(encode_part(bare), bare)
        return replace(found, node_name=self._hold(spec.node_name, spec.node_name)) if spec.node_name else found

    def _status(self, status: PodStatus) -> PodStatus:
        key = encode_part(status)
        found = self._statuses.get(key)
        return _hold(self._statuses, _MAX_STATUSES, key, status) if found is None else found

    def _hold(self, key: object, part: T) -> T:
        found: T | None = self._held.get(key)
        return _hold(self._held, _MAX_PARTS, key, part) if found is None else found


def _hold(held: dict[Any, Any], most: int, key: object, part: T) -> T:
    if len(held) >= most:
        held.clear()
    held[key] = part
    return part


def is_content(volume: Volume) -> bool:
    """Return whether only the name of a volume is known, as for a ConfigMap or a token."""
    return volume == Volume(name=volume.name)


def _nano(value: Any) -> str:
    if isinstance(value, Quantity):
        return str(value.nano)
    raise TypeError(f"{type(value).__name__} cannot be part of a pod")


encode_part = msgspec.msgpack.Encoder(enc_hook=_nano).encode
