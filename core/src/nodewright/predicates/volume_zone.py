"""VolumeZone: the node must be in the zone and region of the labels of a bound volume."""

import numpy as np

from nodewright.model.cluster import PersistentVolume, PersistentVolumeClaim
from nodewright.model.node import ZONE_LABEL
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.volumes import WAIT_FOR_CONSUMER, class_name_of_claim, missing_claim, per_context
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) had no available volume zone"
_REGION_LABEL = "topology.kubernetes.io/region"
# Zone or region label of a volume → the label that a node may have in its place.
_SUCCESSOR = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_LABEL,
    "failure-domain.beta.kubernetes.io/region": _REGION_LABEL,
    ZONE_LABEL: ZONE_LABEL,
    _REGION_LABEL: _REGION_LABEL,
}

# A label and the values that will do.
Place = tuple[str, frozenset[str]]


@per_context
def _places(pod: PodClass, context: Context) -> tuple[Place, ...]:
    """Return the zones and regions of the volumes of a class's claims, without ephemeral volumes."""
    claims = (context.claims.get(key) for key in _named_claims(pod))
    volumes = (context.volumes.get(claim.spec.volume_name) for claim in claims if claim is not None)
    return tuple(place for volume in volumes if volume is not None for place in _places_of(volume))


def _named_claims(pod: PodClass) -> list[str]:
    named = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [f"{pod.namespace}/{claim.claim_name}" for claim in named if claim is not None]


def _places_of(volume: PersistentVolume) -> list[Place]:
    """Return the volume's zone and region labels with their values. Skip a label with an empty value in its list."""
    labels = volume.metadata.labels
    split = ((key, [part.strip() for part in labels[key].split("__")]) for key in _SUCCESSOR if key in labels)
    return [(key, frozenset(values)) for key, values in split if all(values)]


def _concerns(pod: PodClass) -> bool:
    return bool(_named_claims(pod))


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    places = _places(pod, snapshot.context)
    if not places:
        return None
    nowhere = np.ones(window.stop - window.start, dtype=np.bool_)
    for key in _SUCCESSOR:
        nowhere &= snapshot.labels(key)[window] < 0
    found: Mask = np.ones_like(nowhere)
    for key, values in places:
        own = snapshot.labels(key)[window]
        stand_in = _is_one_of(snapshot, _SUCCESSOR[key], values, window)
        found &= np.where(own >= 0, _is_one_of(snapshot, key, values, window), stand_in)
    return found | nowhere


def _is_one_of(table: NodeTable, key: str, values: frozenset[str], window: slice) -> Mask:
    ids: Ids = table.labels(key)[window]
    known = table.vocabulary.label_values.get(key, {})
    return np.isin(ids, [known[value] for value in values if value in known])


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    labels = snapshot.node(row).metadata.labels
    if not any(key in labels for key in _SUCCESSOR):
        return None
    for key, values in _places(pod, snapshot.context):
        if labels.get(key, labels.get(_SUCCESSOR[key])) not in values:
            return (REASON,)
    return None


def _refuse_pod(snapshot: Snapshot, pod: PodClass) -> Texts | None:
    for key in _named_claims(pod):
        claim = snapshot.context.claims.get(key)
        reason = missing_claim(key) if claim is None else _fault(claim, snapshot.context)
        if reason is not None:
            return (reason,)
    return None


def _fault(claim: PersistentVolumeClaim, context: Context) -> str | None:
    """Return why the volume of a claim cannot be found; None if it can, or if it will be bound later."""
    if claim.spec.volume_name:
        found = claim.spec.volume_name in context.volumes
        return None if found else f'persistentvolume "{claim.spec.volume_name}" not found'
    name = class_name_of_claim(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = context.storage_classes.get(name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{name}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{name}"'
    return None if storage_class.volume_binding_mode == WAIT_FOR_CONSUMER else "PersistentVolume had no name"


PREDICATE = Predicate(
    name="VolumeZone", reads=whole, mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=_concerns
)
