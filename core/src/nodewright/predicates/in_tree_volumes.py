"""Volumes of in-tree plugins: a CSI driver serves them, on the nodes whose CSINode says that they are migrated."""

from collections.abc import Collection, Mapping
from functools import lru_cache

from msgspec.structs import replace

from nodewright.model.cluster import PersistentVolume
from nodewright.model.meta import Requirement
from nodewright.model.node import ZONE_LABEL, CsiNode
from nodewright.model.pod import NodeSelector, NodeSelectorTerm
from nodewright.snapshot.snapshot import Snapshot

GCE, EBS, CINDER = "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs", "kubernetes.io/cinder"
AZURE_DISK, AZURE_FILE = "kubernetes.io/azure-disk", "kubernetes.io/azure-file"
VSPHERE, PORTWORX = "kubernetes.io/vsphere-volume", "kubernetes.io/portworx-volume"
# The driver that serves the volumes of a plugin.
DRIVERS = {
    GCE: "pd.csi.storage.gke.io",
    EBS: "ebs.csi.aws.com",
    CINDER: "cinder.csi.openstack.org",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    VSPHERE: "csi.vsphere.vmware.com",
    PORTWORX: "pxd.portworx.com",
}
MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
OLD_ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION_LABEL, _REGION_LABEL = "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"
# The label for the zone that a driver gives to its nodes. kube-scheduler looks for it in the place of the zone label.
_ZONES = {
    GCE: "topology.gke.io/zone",
    EBS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}


def zone_labels_of(drivers: Collection[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Return the zone labels that these drivers will give to a node with these labels; none if its zone is unknown."""
    zone = labels.get(ZONE_LABEL) or labels.get(OLD_ZONE_LABEL)
    return {key: zone for plugin, key in _ZONES.items() if zone and DRIVERS[plugin] in drivers}


def csi_node_of(snapshot: Snapshot, row: int) -> CsiNode | None:
    """Return the CSINode of a node; that of its template for a simulated node."""
    return snapshot.template(row).csi_node or snapshot.context.csi_nodes.get(snapshot.name(row))


def migrated_plugins(csi_node: CsiNode | None) -> frozenset[str]:
    """Return the in-tree plugins whose volumes CSI drivers serve on a node."""
    told = csi_node.metadata.annotations.get(MIGRATED_ANNOTATION, "") if csi_node is not None else ""
    return _split(told)


@lru_cache(maxsize=256)
def _split(names: str) -> frozenset[str]:
    return frozenset(names.split(",")) - {""}


def zonal_plugin_of(volume: PersistentVolume) -> str:
    """Return the plugin of a volume whose zone is named by another label on migrated nodes; empty: of no such plugin."""
    spec = volume.spec
    held = {GCE: spec.gce_persistent_disk, EBS: spec.aws_elastic_block_store, CINDER: spec.cinder}
    return next((plugin for plugin, source in held.items() if source is not None), "")


def translated_affinity(volume: PersistentVolume, plugin: str) -> NodeSelector | None:
    """Return the nodes that a volume of a zonal plugin can be attached to, in the labels of its driver; None: all.

    The zone is taken from the affinity, or else from the volume's label.
    """
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    terms = affinity.node_selector_terms if affinity is not None else ()
    labels, keys = volume.metadata.labels, {one.key for term in terms for one in term.match_expressions}
    zones = (ZONE_LABEL, OLD_ZONE_LABEL)
    zone = next((key for known in (keys, labels) for key in zones if key in known), ZONE_LABEL)
    renamed = {_OLD_REGION_LABEL: _REGION_LABEL} if zone == OLD_ZONE_LABEL else {}
    if any(one.key == zone and one.values for term in terms for one in term.match_expressions):
        return NodeSelector(node_selector_terms=_renamed(terms, {**renamed, zone: _ZONES[plugin]}))
    named = tuple(sorted({one.strip() for one in labels.get(zone, "").split("__")} - {""}))
    terms = _renamed(terms, renamed)
    if named:
        own = Requirement(key=_ZONES[plugin], operator="In", values=named)
        terms = tuple(
            replace(term, match_expressions=(*term.match_expressions, own)) for term in terms or (NodeSelectorTerm(),)
        )
    return NodeSelector(node_selector_terms=terms) if terms or affinity is not None else None


def _renamed(terms: tuple[NodeSelectorTerm, ...], keys: dict[str, str]) -> tuple[NodeSelectorTerm, ...]:
    """Return the terms with other labels in the place of these."""
    return tuple(
        replace(
            term,
            match_expressions=tuple(replace(one, key=keys.get(one.key, one.key)) for one in term.match_expressions),
        )
        for term in terms
    )
