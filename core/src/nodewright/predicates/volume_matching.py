"""Which unbound volumes may serve a claim (kube-scheduler's FindMatchingVolume)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodewright.model.cluster import PersistentVolume, PersistentVolumeClaim
from nodewright.model.quantity import ZERO, Quantity
from nodewright.predicates.selectors import parse_selector
from nodewright.predicates.volumes import class_name_of_claim, class_name_of_volume
from nodewright.snapshot.context import Context

_STORAGE = "storage"


@dataclass(frozen=True, kw_only=True, eq=False)
class Wish:
    """A claim that waits for its first pod, with the volumes that may serve it, best first.

    ``reserved`` is the volume that names this claim; then only this volume may serve it.
    """

    claim: PersistentVolumeClaim
    candidates: tuple[PersistentVolume, ...]
    reserved: PersistentVolume | None


def make_wish(claim: PersistentVolumeClaim, context: Context) -> Wish:
    """Return the volumes that may serve a claim, on any node."""
    storage_class = class_name_of_claim(claim)
    alike = [
        volume
        for volume in context.volumes.values()
        if class_name_of_volume(volume) == storage_class and _is_large_enough(volume, claim)
    ]
    reserved = next((volume for volume in alike if _is_reserved(volume, claim)), None)
    free = [volume for volume in alike if volume.spec.claim_ref is None and _is_free_for(volume, claim)]
    return Wish(claim=claim, candidates=tuple(sorted(free, key=size_of_volume)), reserved=reserved)


def size_of_claim(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get(_STORAGE, ZERO)


def size_of_volume(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get(_STORAGE, ZERO)


def find_unserved(wishes: Iterable[Wish], reaches: Callable[[PersistentVolume], bool]) -> list[PersistentVolumeClaim]:
    """Return the claims without a volume on a node that can use only some volumes. Each volume serves one claim."""
    taken: set[str] = set()
    unserved = []
    for wish in wishes:
        options = (wish.reserved,) if wish.reserved is not None else wish.candidates
        chosen = next((volume for volume in options if volume.name not in taken and reaches(volume)), None)
        if chosen is None:
            unserved.append(wish.claim)
        else:
            taken.add(chosen.name)
    return unserved


def _is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    spec, wanted = volume.spec, claim.spec
    if volume.metadata.deletion_timestamp is not None or size_of_volume(volume) < size_of_claim(claim):
        return False
    same_mode = (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
    return same_mode and spec.volume_attributes_class_name == wanted.volume_attributes_class_name


def _is_reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference, own = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (own.namespace, own.name):
        return False
    return not reference.uid or reference.uid == own.uid


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether an unclaimed volume is Available, with the claim's access modes and labels."""
    if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return False
    if claim.spec.selector is None:
        return True
    selector = parse_selector(claim.spec.selector)
    return selector is not None and selector.matches(volume.metadata.labels)
