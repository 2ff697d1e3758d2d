"""Template nodes of groups, and upcoming nodes as copies of them in the snapshot."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from nodewright.clusterstate.learned_templates import corrected, is_startup_of, with_least
from nodewright.clusterstate.memory import LearnedTemplate, SampleNode
from nodewright.clusterstate.node_samples import is_passing
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.estimator.binpacking import Template
from nodewright.model.cluster import DaemonSet
from nodewright.model.devices import ResourceSliceSpec
from nodewright.model.group import GroupRef, slices_for
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.node import (
    HOSTNAME_LABEL,
    CsiNode,
    CsiNodeDriver,
    CsiNodeSpec,
    Node,
)
from nodewright.model.pod import MIRROR_ANNOTATION, Container, Pod, PodSpec, ResourceRequirements, Toleration
from nodewright.model.quantity import Quantity
from nodewright.model.settings import TemplateSettings
from nodewright.predicates import static_fit
from nodewright.predicates.in_tree_volumes import DRIVERS, MIGRATED_ANNOTATION, zone_labels_of
from nodewright.snapshot.context import Context
from nodewright.snapshot.snapshot import Snapshot

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"
_NODE = "node.kubernetes.io/"
# The tolerations that the DaemonSet controller adds to every pod that it creates.
_DAEMON_TOLERATIONS = (
    Toleration(key=f"{_NODE}not-ready", operator="Exists", effect="NoExecute"),
    Toleration(key=f"{_NODE}unreachable", operator="Exists", effect="NoExecute"),
    *(
        Toleration(key=f"{_NODE}{what}", operator="Exists", effect="NoSchedule")
        for what in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)

_NETWORK_TOLERATION = Toleration(key=f"{_NODE}network-unavailable", operator="Exists", effect="NoSchedule")


@dataclass(frozen=True)
class _Source:
    """The source of a group's template; ``is_real``: an existing node of the group."""

    node: Node
    pods: tuple[Pod, ...]
    is_real: bool


def make_templates(state: ClusterState, settings: TemplateSettings) -> dict[GroupRef, Template]:
    """Return a template for every group with a sample node or a provider's template.

    A sample node keeps its mirror and DaemonSet pods. Missing DaemonSet pods are added if they would run there: always
    to a provider's template, to a sample only with ``force_ds`` or if they are node-critical.
    """
    sources = dict(_sources(state, settings))
    template_nodes = state.observation.snapshot.sibling()
    template_nodes.add_nodes([source.node for source in sources.values()])
    pods = {ref: list(source.pods) for ref, source in sources.items()}
    for daemon_set in state.observation.daemon_sets:
        pod = _daemon_pod(daemon_set)
        fits = static_fit(template_nodes, template_nodes.class_of(pod), slice(0, len(template_nodes)))
        for (ref, source), fit in zip(sources.items(), fits.tolist(), strict=True):
            wanted = not source.is_real or settings.force_ds or _is_node_critical(pod)
            if fit and wanted and not _is_represented(daemon_set, source.pods):
                pods[ref].append(pod)
    return {ref: Template(source.node, tuple(pods[ref])) for ref, source in sources.items()}


def place_daemons(snapshot: Snapshot, template: Template, rows: Iterable[int]) -> None:
    """Place a template's pods on copies of it."""
    classes = [snapshot.class_of(pod, placed=True) for pod in template.pods]
    for row in rows:
        for pod_class in classes:
            snapshot.place(pod_class, row)


def empty_nodes(snapshot: Snapshot, templates: Collection[Template]) -> Snapshot:
    """Return a snapshot of one new node of each template, in this order, with its own pods."""
    nodes = snapshot.sibling()
    nodes.add_nodes([template.node for template in templates])
    for row, template in enumerate(templates):
        place_daemons(nodes, template, [row])
    return nodes


def runs_only_daemons(snapshot: Snapshot, row: int) -> bool:
    """Return whether a node runs only DaemonSet and mirror pods."""
    return all(pod.is_daemonset_pod or pod.is_mirror for pod in snapshot.pods(row))


def _sources(state: ClusterState, settings: TemplateSettings) -> Iterator[tuple[GroupRef, _Source]]:
    for ref, group in state.groups.items():
        learned = state.memory.learned.get(ref)
        source = _source(group, state.memory.samples.get(ref), learned)
        if source is not None:
            name = f"template-node-for-{ref.provider}-{ref.group_id}"
            node = sanitized(source.node, name, settings, learned)
            context = state.observation.snapshot.context
            slices, csi_node = _slices_of(group, source, learned, context), _csi_node_of(source, learned, context)
            node = replace(node, device_slices=slices_for(name, slices), csi_node=csi_node)
            node = node if source.is_real else _with_zones(node, learned)
            yield ref, _Source(node, source.pods, source.is_real)


def _source(group: GroupState, sample: SampleNode | None, learned: LearnedTemplate | None) -> _Source | None:
    if sample is not None:
        node = with_least(sample.node, learned) if learned is not None else sample.node
        return _Source(node, sample.pods, is_real=True)
    template = group.seen.template
    if template is None or learned is None:
        return _Source(template, (), is_real=False) if template is not None else None
    told = (("static-pods", learned.static_pods), ("daemon-extra", learned.daemon_extra))
    pods = tuple(_learned_pod(name, amounts) for name, amounts in told if amounts)
    return _Source(corrected(template, learned), pods, is_real=False)


def _learned_pod(name: str, amounts: Mapping[str, str]) -> Pod:
    """Return one pod that requests these amounts: those of all static pods, or what DaemonSet pods request besides."""
    requests = {name: Quantity.of(amount) for name, amount in amounts.items()}
    spec = PodSpec(containers=(Container(name="all", resources=ResourceRequirements(requests=requests)),))
    meta = ObjectMeta(name=name, namespace="kube-system", annotations={MIRROR_ANNOTATION: "learned"})
    return Pod(metadata=meta, spec=spec)


def _slices_of(
    group: GroupState, source: _Source, learned: LearnedTemplate | None, context: Context
) -> list[ResourceSliceSpec]:
    """Return the devices of a group's next node: those of its sample or the last real node, else the provider's."""
    template = group.seen.template
    real = [one.spec for one in context.slices_on(source.node.name)] if source.is_real else ()
    found = real or (learned.slices if learned is not None else ())
    return list(found or (one.spec for one in (template.device_slices if template is not None else ())))


def _csi_node_of(source: _Source, learned: LearnedTemplate | None, context: Context) -> CsiNode | None:
    """Return the CSI drivers of a group's next node with their limits: those of its sample or the last real node.

    Volumes of in-tree plugins are served by these drivers. If there is neither, each known driver is assumed to be there
    without a limit.
    """
    if not (context.csi_nodes or context.csi_drivers):
        return None
    real = context.csi_nodes.get(source.node.name) if source.is_real else None
    if real is not None:
        return real
    if learned is not None and learned.csi_drivers:
        served = {driver.name for driver in learned.csi_drivers}
        plugins = ",".join(plugin for plugin, driver in DRIVERS.items() if driver in served)
        meta = ObjectMeta(annotations={MIGRATED_ANNOTATION: plugins} if plugins else {})
        return CsiNode(metadata=meta, spec=CsiNodeSpec(drivers=learned.csi_drivers))
    return CsiNode(spec=CsiNodeSpec(drivers=tuple(CsiNodeDriver(name=name) for name in sorted(context.csi_drivers))))


def _with_zones(node: Node, learned: LearnedTemplate | None) -> Node:
    """Return the node with the zone labels of the CSI drivers of the last real node, where its own labels lack them."""
    drivers = {driver.name for driver in learned.csi_drivers} if learned is not None else set[str]()
    labels = zone_labels_of(drivers, node.metadata.labels)
    return replace(node, metadata=replace(node.metadata, labels={**labels, **node.metadata.labels})) if labels else node


def sanitized(node: Node, name: str, settings: TemplateSettings, learned: LearnedTemplate | None = None) -> Node:
    """Return the node as a new node will be: without taints of starting, failing or deleted nodes, and without an age.

    ``learned`` lists startup taints, which nodes lose once they are up.
    """
    labels = {**node.metadata.labels, HOSTNAME_LABEL: name, TEMPLATE_LABEL: "true"}
    lasting = (taint for taint in node.spec.taints if not is_passing(taint, settings))
    taints = tuple(taint for taint in lasting if not is_startup_of(learned, taint))
    unschedulable = node.spec.unschedulable and not settings.scale_from_unschedulable
    spec = replace(node.spec, taints=taints, unschedulable=unschedulable, provider_id="")
    meta = replace(node.metadata, name=name, uid="", labels=labels, creation_timestamp=None)
    return replace(node, metadata=meta, spec=spec)


def _daemon_pod(daemon_set: DaemonSet) -> Pod:
    template = daemon_set.spec.template
    network = (_NETWORK_TOLERATION,) if template.spec.host_network else ()
    spec = replace(template.spec, tolerations=(*template.spec.tolerations, *_DAEMON_TOLERATIONS, *network))
    meta = daemon_set.metadata
    owner = OwnerReference(kind="DaemonSet", name=meta.name, uid=meta.uid, controller=True)
    own = replace(template.metadata, name=f"{meta.name}-pod", namespace=meta.namespace, owner_references=(owner,))
    return Pod(metadata=own, spec=spec)


def _is_node_critical(pod: Pod) -> bool:
    preempts = pod.spec.preemption_policy in ("", "PreemptLowerPriority")
    return pod.spec.priority_class_name == "system-node-critical" and preempts


def _is_represented(daemon_set: DaemonSet, pods: Iterable[Pod]) -> bool:
    meta = daemon_set.metadata
    owners = [pod.metadata.controller for pod in pods if pod.metadata.namespace == meta.namespace]
    return any(owner is not None and (owner.uid, owner.name) == (meta.uid, meta.name) for owner in owners)


def add_upcoming(
    snapshot: Snapshot, state: ClusterState, templates: Mapping[GroupRef, Template]
) -> dict[GroupRef, range]:
    """Add a copy of the template for every upcoming machine; return the rows of each group.

    A node that has registered but not started is replaced by its copy, so that each machine counts once. Nodes that are
    not in the snapshot any more are about to be interrupted: they get no copy.
    """
    added: dict[GroupRef, range] = {}
    for ref, group in state.groups.items():
        template = templates.get(ref)
        if group.upcoming <= 0 or template is None:
            continue
        starting = [row for name in group.readiness.not_started if (row := snapshot.find_row(name)) is not None]
        for row in starting:
            snapshot.remove_node(row)
        leaving = len(group.readiness.not_started) - len(starting)
        rows = snapshot.add_copies(template.node, max(0, group.upcoming - leaving))
        added[ref] = range(rows.start, rows.stop)
        place_daemons(snapshot, template, added[ref])
    return added
