"""Equal parts of pods as one object: thousands of pods of one controller differ in little but their names."""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from nodewright.model.pod import Pod, PodSpec, PodStatus, Volume
from nodewright.model.quantity import Quantity

T = TypeVar("T")
# Past this, what was held so far is shared with later pods no more.
_MAX_PARTS = 2**16


class Sharing:
    """Pods are given one after another; each comes back equal, made of parts of those before. For one thread.

    Volumes of which nothing is known but their names (ConfigMaps, tokens) are left out: the name of a token's
    volume differs in every pod, and no decision reads it.
    """

    def __init__(self) -> None:
        self._held: dict[object, Any] = {}

    def pod(self, pod: Pod) -> Pod:
        """The pod with shared labels, annotations, owners, spec and status."""
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
        return replace(found, node_name=spec.node_name) if spec.node_name else found

    def _status(self, status: PodStatus) -> PodStatus:
        return self._hold(encode_part(status), status)

    def _hold(self, key: object, part: T) -> T:
        found: T | None = self._held.get(key)
        if found is None:
            if len(self._held) >= _MAX_PARTS:
                self._held.clear()
            self._held[key] = found = part
        return found


def is_content(volume: Volume) -> bool:
    """Whether a volume is a ConfigMap, a token or the like: nothing but its name is known of it."""
    return volume == Volume(name=volume.name)


def _nano(value: Any) -> str:
    if isinstance(value, Quantity):
        return str(value.nano)
    raise TypeError(f"{type(value).__name__} is no part of a pod")


encode_part = msgspec.msgpack.Encoder(enc_hook=_nano).encode
