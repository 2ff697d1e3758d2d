"""VolumeRestrictions: disks that two pods may not share on one node, and claims that only one pod may use."""

import numpy as np

from nodewright.model.pod import Iscsi, Rbd, Volume
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.volumes import claims_of, missing_claim, per_context
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.domains import DomainQuery
from nodewright.snapshot.node_table import NodeTable, row_numbers
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

DISK_REASON = "node(s) had no available disk"
IN_USE_REASON = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_ONE_POD = "ReadWriteOncePod"


@per_class
def _disks(pod: PodClass) -> tuple[Volume, ...]:
    return tuple(volume for volume in pod.spec.volumes if _is_disk(volume))


def _is_disk(volume: Volume) -> bool:
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(disk is not None for disk in disks)


def _clash(one: Volume, other: Volume) -> bool:
    """Return whether two volumes are the same disk, which two pods may not share on one node."""
    if one.gce_persistent_disk and other.gce_persistent_disk:
        disk, existing = one.gce_persistent_disk, other.gce_persistent_disk
        if disk.pd_name == existing.pd_name and not (disk.read_only and existing.read_only):
            return True
    mine, theirs = one.aws_elastic_block_store, other.aws_elastic_block_store
    if mine and theirs and mine.volume_id == theirs.volume_id:
        return True
    if one.iscsi and other.iscsi and _clash_iscsi(one.iscsi, other.iscsi):
        return True
    return bool(one.rbd and other.rbd and _clash_rbd(one.rbd, other.rbd))


def _clash_iscsi(one: Iscsi, other: Iscsi) -> bool:
    return one.iqn == other.iqn and not (one.read_only and other.read_only)


def _clash_rbd(one: Rbd, other: Rbd) -> bool:
    same = (one.pool, one.image) == (other.pool, other.image) and not set(one.monitors).isdisjoint(other.monitors)
    return same and not (one.read_only and other.read_only)


@per_class
def _conflicting_pods(pod: PodClass) -> DomainQuery:
    """Return a query that counts, per node, pods with a conflicting disk."""
    disks = _disks(pod)
    return DomainQuery(row_numbers, lambda other: any(_clash(a, b) for a in disks for b in _disks(other)))


@per_class
def _used_claims(pod: PodClass) -> frozenset[str]:
    """Return the claims that pods of the class name, without those of ephemeral volumes."""
    named = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return frozenset(f"{pod.namespace}/{claim.claim_name}" for claim in named if claim is not None)


@per_context
def _sole_claims(pod: PodClass, context: Context) -> frozenset[str]:
    """Return the claims of the class that only one pod may use."""
    found = ((key, context.claims.get(key)) for key in _used_claims(pod))
    return frozenset(key for key, claim in found if claim is not None and _ONE_POD in claim.spec.access_modes)


def _everywhere(table: NodeTable) -> Ids:
    return table.column("everywhere", lambda _, window: np.zeros(window.stop - window.start, dtype=np.int64))


@per_context
def _users(pod: PodClass, context: Context) -> DomainQuery:
    """Return a query that counts pods on all nodes that use one of the class's single-pod claims."""
    sole = _sole_claims(pod, context)
    return DomainQuery(_everywhere, lambda other: not sole.isdisjoint(_used_claims(other)))


def _concerns(pod: PodClass) -> bool:
    return bool(pod.claims or _disks(pod))


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    if _sole_claims(pod, snapshot.context) and snapshot.domain_counts(_users(pod, snapshot.context)).total:
        return np.zeros(window.stop - window.start, dtype=np.bool_)
    if not _disks(pod):
        return None
    free: Mask = snapshot.domain_counts(_conflicting_pods(pod)).pods_at(row_numbers(snapshot)[window]) == 0
    return free


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    for other, rows in snapshot.placements():
        if row in rows and any(_clash(a, b) for a in pod.spec.volumes for b in other.spec.volumes):
            return (DISK_REASON,)
    sole = _sole_claims(pod, snapshot.context)
    if any(key in sole for other, _ in snapshot.placements() for key in _used_claims(other)):
        return (IN_USE_REASON,)
    return None


def _refuse_pod(snapshot: Snapshot, pod: PodClass) -> Texts | None:
    """Return the text for a missing claim. VolumeBinding checks the claims of ephemeral volumes."""
    for volume, key, claim in claims_of(pod, snapshot.context):
        if claim is None and volume.persistent_volume_claim is not None:
            return (missing_claim(key),)
    return None


PREDICATE = Predicate(
    name="VolumeRestrictions", reads=whole, mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=_concerns
)
