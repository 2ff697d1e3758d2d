"""Helpers of the volume predicates: look up claims and classes as kube-scheduler does."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from nodewright.model.cluster import PersistentVolume, PersistentVolumeClaim, StorageClass
from nodewright.model.pod import Volume
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass, claim_key, has_claim

T = TypeVar("T")

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
WAIT_FOR_CONSUMER = "WaitForFirstConsumer"


def per_context(function: Callable[[PodClass, Context], T]) -> Callable[[PodClass, Context], T]:
    """Cache a function's result for a class in the context from which it was computed."""

    def remembered(pod: PodClass, context: Context) -> T:
        key = (function, pod)
        try:
            found: T = context.memo[key]
        except KeyError:
            found = context.memo[key] = function(pod, context)
        return found

    return remembered


def has_claims(pod: PodClass) -> bool:
    """Return whether pods of the class use claims, including those of generic ephemeral volumes."""
    return bool(pod.claims)


def claims_of(pod: PodClass, context: Context) -> Iterator[tuple[Volume, str, PersistentVolumeClaim | None]]:
    """Yield every volume with a claim, the claim's ``namespace/name``, and the claim (None: it does not exist)."""
    for volume in pod.spec.volumes:
        if has_claim(volume):
            key = claim_key(pod.pod, volume)
            yield volume, key, context.claims.get(key)


def name_of(key: str) -> str:
    """Return the name in ``namespace/name``."""
    return key.rpartition("/")[2]


def missing_claim(key: str) -> str:
    return f'persistentvolumeclaim "{name_of(key)}" not found'


def class_name_of_claim(claim: PersistentVolumeClaim) -> str:
    """Return the storage class that a claim requests; the old annotation takes precedence."""
    return claim.metadata.annotations.get(_CLASS_ANNOTATION, claim.spec.storage_class_name or "")


def class_name_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(_CLASS_ANNOTATION, volume.spec.storage_class_name)


def class_of_claim(claim: PersistentVolumeClaim, context: Context) -> StorageClass | None:
    return context.storage_classes.get(class_name_of_claim(claim))


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the claim has a volume and the PersistentVolume controller completed the binding."""
    return bool(claim.spec.volume_name) and _BOUND_ANNOTATION in claim.metadata.annotations
