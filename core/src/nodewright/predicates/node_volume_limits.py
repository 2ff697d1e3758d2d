"""NodeVolumeLimits: CSI drivers can attach only so many volumes to a node, and some drivers must be on the node."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from nodewright.model.cluster import PersistentVolume, PersistentVolumeClaim
from nodewright.model.node import ZONE_LABEL, CsiNode
from nodewright.model.pod import ElasticBlockStore, Volume
from nodewright.predicates.in_tree_volumes import (
    AZURE_DISK,
    AZURE_FILE,
    CINDER,
    DRIVERS,
    EBS,
    GCE,
    OLD_ZONE_LABEL,
    PORTWORX,
    VSPHERE,
    csi_node_of,
    migrated_plugins,
)
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.volumes import claims_of, class_of_claim, per_context
from nodewright.snapshot.column import Ids, Ints, Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.domains import DomainQuery
from nodewright.snapshot.node_table import NodeTable, row_numbers
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) exceed max volume count"
MISSING_REASON = "CSI driver is not installed on the node"
_UNLIMITED = int(np.iinfo(np.int64).max)
# Values below any limit: the node lacks the driver; the row is a real node, whose limit is in its CSINode.
_MISSING, _OF_NODE = -(2**40), -(2**41)


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
        if csi is None:
            return _of_in_tree(volume)
        return _Attachment(csi.driver, csi.volume_handle, "") if csi.driver and csi.volume_handle else None
    storage_class = class_of_claim(claim, context)
    if storage_class is None or not storage_class.provisioner:
        return None
    provisioner = storage_class.provisioner
    migrates = provisioner in DRIVERS
    return _Attachment(DRIVERS.get(provisioner, provisioner), f"claim {key}", provisioner if migrates else "")


def _of_in_tree(volume: PersistentVolume) -> _Attachment | None:
    """Return what the CSI driver attaches for a volume of an in-tree plugin; None for plugins without such a driver."""
    spec = volume.spec
    handles = {
        GCE: spec.gce_persistent_disk and _gce_handle(volume, spec.gce_persistent_disk.pd_name),
        EBS: spec.aws_elastic_block_store and _ebs_handle(spec.aws_elastic_block_store),
        CINDER: spec.cinder and spec.cinder.volume_id,
        AZURE_DISK: spec.azure_disk and spec.azure_disk.disk_uri,
        AZURE_FILE: spec.azure_file and f"{spec.azure_file.secret_name}#{spec.azure_file.share_name}",
        VSPHERE: spec.vsphere_volume and spec.vsphere_volume.volume_path,
        PORTWORX: spec.portworx_volume and spec.portworx_volume.volume_id,
    }
    return next((_Attachment(DRIVERS[plugin], handle, plugin) for plugin, handle in handles.items() if handle), None)


def _gce_handle(volume: PersistentVolume, disk: str) -> str:
    labels = volume.metadata.labels
    zone = labels.get(ZONE_LABEL) or labels.get(OLD_ZONE_LABEL) or "UNSPECIFIED"
    return f"projects/UNSPECIFIED/zones/{zone}/disks/{disk}"


def _ebs_handle(volume: ElasticBlockStore) -> str:
    return volume.volume_id.rpartition("/")[2]


def _of_inline(volume: Volume) -> _Attachment | None:
    if volume.gce_persistent_disk is not None:
        disk = f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{volume.gce_persistent_disk.pd_name}"
        return _Attachment(DRIVERS[GCE], disk, GCE)
    if volume.aws_elastic_block_store is not None:
        return _Attachment(DRIVERS[EBS], _ebs_handle(volume.aws_elastic_block_store), EBS)
    return None


def _limit_of(csi_node: CsiNode, driver: str) -> int:
    found = next((held for held in csi_node.spec.drivers if held.name == driver), None)
    if found is None:
        return _MISSING
    limit = found.allocatable.count if found.allocatable is not None else None
    return _UNLIMITED if limit is None else limit


def _names(table: NodeTable) -> Ids:
    return table.column("name", _name_ids)


def _name_ids(table: NodeTable, window: slice) -> Ids:
    rows = range(window.start, window.stop)
    return np.fromiter((table.vocabulary.intern("name", table.name(row)) for row in rows), np.int64, count=len(rows))


def _must_have(context: Context, driver: str) -> bool:
    """Return whether the CSIDriver keeps pods from nodes without the driver."""
    told = context.csi_drivers.get(driver)
    return told is not None and told.spec.prevent_pod_scheduling_if_missing


def _attachments_on(context: Context) -> Mapping[str, frozenset[tuple[str, str]]]:
    """Return driver and handle of the volumes in VolumeAttachments, by node, including those of pods that have ended."""
    found: dict[str, frozenset[tuple[str, str]]] | None = context.memo.get(_attachments_on)
    if found is None:
        found = context.memo[_attachments_on] = {}
        for attachment in context.volume_attachments:
            told = attachment.spec
            volume = context.volumes.get(told.source.persistent_volume_name)
            if volume is not None and volume.spec.csi is not None:
                held = (told.attacher, volume.spec.csi.volume_handle)
                found[told.node_name] = found.get(told.node_name, frozenset()) | {held}
    return found


def _limits(snapshot: Snapshot, driver: str, window: slice) -> Ints:
    """Return per row how many volumes of a driver pods may attach: its limit, without those that VolumeAttachments name."""
    of_template: Ints = snapshot.column(("csi limit", driver), partial(_template_limits, driver))[window]
    names, context = _names(snapshot)[window], snapshot.context
    key = (_limits, driver, snapshot.vocabulary)
    known: Ints | None = context.memo.get(key)
    if known is None or len(known) <= names.max(initial=-1):
        known = np.full(int(names.max(initial=-1)) * 2 + 2, _MISSING, dtype=np.int64)
        context.memo[key] = known
        for name, csi_node in context.csi_nodes.items():
            limit = _limit_of(csi_node, driver)
            index = snapshot.vocabulary.intern("name", name) if limit != _MISSING else len(known)
            if index < len(known):
                attached = sum(1 for held, _ in _attachments_on(context).get(name, ()) if held == driver)
                known[index] = limit - attached if limit != _UNLIMITED else limit
    limits = np.where(of_template == _OF_NODE, known[names], of_template)
    return limits if _must_have(context, driver) else np.where(limits == _MISSING, _UNLIMITED, limits)


def _template_limits(driver: str, table: NodeTable, window: slice) -> Ints:
    nodes = (table.template(row).csi_node for row in range(window.start, window.stop))
    limits = (_OF_NODE if csi_node is None else _limit_of(csi_node, driver) for csi_node in nodes)
    return np.fromiter(limits, np.int64, count=window.stop - window.start)


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
    if not (snapshot.context.csi_nodes or snapshot.context.csi_drivers):
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
    context, name = snapshot.context, snapshot.name(row)
    csi_node = csi_node_of(snapshot, row)
    fresh = _counted(_attachments(pod, context), csi_node)
    if not fresh:
        return None
    present: set[tuple[str, str]] = set()
    for other in snapshot.placed_classes(_may_attach):
        if row in snapshot.rows_of(other):
            present |= _counted(_attachments(other, context), csi_node)
    attached = present | _attachments_on(context).get(name, frozenset())
    more = Counter(driver for driver, _ in fresh - present)
    limits = {driver: _limit_of(csi_node, driver) if csi_node is not None else _MISSING for driver in more}
    for driver in sorted(more):
        if limits[driver] == _MISSING and _must_have(context, driver):
            return (f"{driver} {MISSING_REASON}",)
    for driver, count in more.items():
        if limits[driver] != _MISSING and sum(1 for held, _ in attached if held == driver) + count > limits[driver]:
            return (REASON,)
    return None


def _counted(attachments: frozenset[_Attachment], csi_node: CsiNode | None) -> set[tuple[str, str]]:
    """Return driver and handle of the volumes that CSI attaches on a node."""
    migrated = migrated_plugins(csi_node)
    return {(a.driver, a.handle) for a in attachments if not a.in_tree or a.in_tree in migrated}


PREDICATE = Predicate(name="NodeVolumeLimits", reads=whole, mask=_mask, explain=_explain, concerns=_may_attach)
