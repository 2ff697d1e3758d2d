"""NodeVolumeLimits: a node has at most as many CSI volumes as its driver can attach."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nodewright.model.cluster import CsiNode, PersistentVolumeClaim
from nodewright.model.pod import Volume
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.volumes import claims_of, class_of_claim, per_context
from nodewright.snapshot.column import Ids, Ints, Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.domains import DomainQuery
from nodewright.snapshot.node_table import NodeTable, row_numbers
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) exceed max volume count"
_MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
_UNLIMITED = np.iinfo(np.int64).max
_GCE, _EBS = "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"
# In-tree plugins whose volumes a CSI driver serves on nodes that say so.
_DRIVERS = {
    _GCE: "pd.csi.storage.gke.io",
    _EBS: "ebs.csi.aws.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


class _Attachment(NamedTuple):
    """One volume to attach; ``in_tree`` names the plugin that the node must have migrated."""

    driver: str
    handle: str
    in_tree: str


@per_context
def _attachments(pod: PodClass, context: Context) -> frozenset[_Attachment]:
    """Return the volumes that a pod of the class attaches."""
    claimed = (_of_claim(key, claim, context) for _, key, claim in claims_of(pod, context) if claim is not None)
    inline = (_of_inline(volume) for volume in pod.spec.volumes)
    return frozenset(found for found in (*claimed, *inline) if found is not None)


def _of_claim(key: str, claim: PersistentVolumeClaim, context: Context) -> _Attachment | None:
    volume = context.volumes.get(claim.spec.volume_name)
    if volume is not None:
        csi = volume.spec.csi
        return _Attachment(csi.driver, csi.volume_handle, "") if csi and csi.driver and csi.volume_handle else None
    storage_class = class_of_claim(claim, context)
    if storage_class is None or not storage_class.provisioner:
        return None
    provisioner = storage_class.provisioner
    migrates = provisioner in _DRIVERS
    return _Attachment(_DRIVERS.get(provisioner, provisioner), f"claim {key}", provisioner if migrates else "")


def _of_inline(volume: Volume) -> _Attachment | None:
    if volume.gce_persistent_disk is not None:
        disk = f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{volume.gce_persistent_disk.pd_name}"
        return _Attachment(_DRIVERS[_GCE], disk, _GCE)
    if volume.aws_elastic_block_store is not None:
        handle = volume.aws_elastic_block_store.volume_id.rpartition("/")[2]
        return _Attachment(_DRIVERS[_EBS], handle, _EBS)
    return None


def _limits_of(csi_node: CsiNode) -> Iterator[tuple[str, int]]:
    for driver in csi_node.spec.drivers:
        if driver.allocatable is not None and driver.allocatable.count is not None:
            yield driver.name, driver.allocatable.count


def _names(table: NodeTable) -> Ids:
    return table.column("name", _name_ids)


def _name_ids(table: NodeTable, window: slice) -> Ids:
    rows = range(window.start, window.stop)
    return np.fromiter((table.vocabulary.intern("name", table.name(row)) for row in rows), np.int64, count=len(rows))


def _limits(snapshot: Snapshot, driver: str, window: slice) -> Ints:
    """Return per row the limit of volumes of a driver."""
    names, context = _names(snapshot)[window], snapshot.context
    key = (_limits, driver, snapshot.vocabulary)
    known: Ints | None = context.memo.get(key)
    if known is None or len(known) <= names.max(initial=-1):
        known = np.full(int(names.max(initial=-1)) * 2 + 2, _UNLIMITED, dtype=np.int64)
        context.memo[key] = known
        for name, csi_node in context.csi_nodes.items():
            limit = dict(_limits_of(csi_node)).get(driver)
            index = snapshot.vocabulary.intern("name", name) if limit is not None else len(known)
            if limit is not None and index < len(known):
                known[index] = limit
    return known[names]


def _attached(context: Context, driver: str) -> DomainQuery:
    """Return a query that counts, per node, a driver's volumes once per pod: an upper bound of those attached."""
    key = (_attached, driver)
    query: DomainQuery | None = context.memo.get(key)
    if query is None:

        def weigh(pod: PodClass) -> int:
            return sum(1 for attachment in _attachments(pod, context) if attachment.driver == driver)

        query = context.memo[key] = DomainQuery(row_numbers, weigh)
    return query


def _may_attach(pod: PodClass) -> bool:
    return bool(pod.claims) or any(
        volume.gce_persistent_disk is not None or volume.aws_elastic_block_store is not None
        for volume in pod.spec.volumes
    )


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    if not snapshot.context.csi_nodes:
        return None
    fresh = _attachments(pod, snapshot.context)
    tight: Mask = np.zeros(window.stop - window.start, dtype=np.bool_)
    for driver in {attachment.driver for attachment in fresh}:
        limits = _limits(snapshot, driver, window)
        if limits.min(initial=_UNLIMITED) == _UNLIMITED:
            continue
        held = snapshot.domain_counts(_attached(snapshot.context, driver)).pods_at(row_numbers(snapshot)[window])
        wanted = sum(1 for attachment in fresh if attachment.driver == driver)
        tight |= limits - wanted < held
    # Shared volumes were counted several times. Where this upper bound exceeds the limit, count exactly.
    for offset in np.flatnonzero(tight).tolist():
        tight[offset] = _explain(snapshot, pod, window.start + offset) is not None
    return ~tight


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    context = snapshot.context
    csi_node = context.csi_nodes.get(snapshot.name(row))
    fresh = _counted(_attachments(pod, context), csi_node)
    if csi_node is None or not fresh:
        return None
    present: set[tuple[str, str]] = set()
    for other in snapshot.placed_classes(_may_attach):
        if row in snapshot.rows_of(other):
            present |= _counted(_attachments(other, context), csi_node)
    for driver, limit in _limits_of(csi_node):
        more = sum(1 for attachment in fresh - present if attachment[0] == driver)
        if more and sum(1 for attachment in present if attachment[0] == driver) + more > limit:
            return (REASON,)
    return None


def _counted(attachments: frozenset[_Attachment], csi_node: CsiNode | None) -> set[tuple[str, str]]:
    """Return driver and handle of the volumes that CSI attaches on a node."""
    migrated = csi_node.metadata.annotations.get(_MIGRATED_ANNOTATION, "").split(",") if csi_node else ()
    return {(a.driver, a.handle) for a in attachments if not a.in_tree or a.in_tree in migrated}


PREDICATE = Predicate(name="NodeVolumeLimits", reads=whole, mask=_mask, explain=_explain, concerns=_may_attach)
