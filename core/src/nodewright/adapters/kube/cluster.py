"""The real cluster as the engine reads and writes it, and one for dry runs that is only read.

Changes of objects update the snapshot; it is not rebuilt for each loop.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from nodewright.actuation.ports import Eviction, EvictionAnswer
from nodewright.adapters.kube.api import Api
from nodewright.adapters.kube.caches import Caches
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.adapters.kube.writes import KubeWrites
from nodewright.adapters.server_time import FutureTimes
from nodewright.clusterstate.memory import Memory
from nodewright.engine.ports import ClusterObservation, Loaded, Pause
from nodewright.expander import CONFIG_KEY, CONFIG_MAP
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.duration import format_duration
from nodewright.model.errors import KubeApiError
from nodewright.model.gang import PodGroups
from nodewright.model.meta import Condition
from nodewright.model.node import Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.snapshot.context import Context, Workloads
from nodewright.snapshot.observation import Buffers, Provisioning
from nodewright.snapshot.snapshot import Snapshot

# Dead rows that a snapshot may hold before it is rebuilt.
_SLACK_ROWS = 256
# As many pods that lists lacked are remembered in any cluster, however small.
_FEWEST_UNLISTED = 1000


class _UnlistedPods:
    """The pods that a later list lacked, as they were last seen. Beyond ``most`` of them, the oldest are forgotten."""

    def __init__(self) -> None:
        self.most = _FEWEST_UNLISTED
        self._by_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        # Node and key of each, the oldest first.
        self._order: dict[tuple[str, str], None] = {}

    def __len__(self) -> int:
        return len(self._order)

    def on(self, node: str) -> tuple[Pod, ...]:
        return tuple(self._by_node.get(node, {}).values())

    def add(self, pod: Pod) -> None:
        self.discard(pod)
        self._by_node[pod.spec.node_name][pod.key] = pod
        self._order[pod.spec.node_name, pod.key] = None
        while len(self._order) > self.most:
            node, key = next(iter(self._order))
            self._drop(node, key)

    def discard(self, pod: Pod) -> None:
        if (pod.spec.node_name, pod.key) in self._order:
            self._drop(pod.spec.node_name, pod.key)

    def drop_node(self, node: str) -> None:
        for key in self._by_node.pop(node, {}):
            del self._order[node, key]

    def _drop(self, node: str, key: str) -> None:
        del self._order[node, key]
        del self._by_node[node][key]
        if not self._by_node[node]:
            del self._by_node[node]


class LiveCluster:
    """Nodes and the pods on them, and pods that wait for a node. For use by one thread.

    A pod counts on the node to which it is bound or, unless it is terminating, nominated. A pod whose node does not
    exist (yet) is in no snapshot until the node appears.
    """

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._pods: dict[str, Pod] = {}
        # By key: when the pod was created, its key and the pod; sorted by the first two.
        self._pending: dict[str, tuple[float, str, Pod]] = {}
        self._by_host: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._unlisted = _UnlistedPods()

    def set_context(self, context: Context) -> None:
        self._snapshot.context = context

    def fork(self) -> Snapshot:
        return self._snapshot.fork()

    def pending(self) -> tuple[Pod, ...]:
        """Return the pods without a node, the oldest first."""
        return tuple([pod for _, _, pod in sorted(self._pending.values())])

    def apply_nodes(self, changes: Mapping[str, Node | None], unlisted: Container[str] = frozenset()) -> None:
        """Apply changes of nodes, by name; None: the node was deleted, or is ``unlisted``: a later list lacked it.

        The pods of an unlisted node stay remembered: a list that is wrong once lacks nodes, too, and they come back.
        """
        for name in (name for name, node in changes.items() if node is None and name not in unlisted):
            self._unlisted.drop_node(name)
        known = {name: node for name, node in changes.items() if name in self._snapshot}
        if 4 * len(known) > len(self._snapshot) and len(known) > _SLACK_ROWS:
            self._rebuild(changes)
            return
        for name in known:
            self._snapshot.remove_node(self._snapshot.row(name))
        fresh = [node for node in changes.values() if node is not None]
        self._add(self._snapshot, fresh)
        if len(self._snapshot) > 2 * self._snapshot.alive.sum() + _SLACK_ROWS:
            self._rebuild({})

    def unlisted_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods that were last seen running on the node, and that a later list lacked."""
        return self._unlisted.on(node)

    def forget_unlisted(self, pod: Pod) -> None:
        """Stop naming a pod that was found to have ended."""
        self._unlisted.discard(pod)

    def apply_pods(self, changes: Mapping[str, Pod | None], unlisted: Container[str] = frozenset()) -> None:
        """Apply changes of pods, by ``namespace/name``; None: the pod was deleted, or is ``unlisted``: a later list lacked it.

        Unlisted pods are remembered, whether or not their node is known: at most as many as there ever were pods at once.
        """
        self._unlisted.most = max(self._unlisted.most, len(self._pods))
        for key, pod in changes.items():
            known = self._pods.get(key)
            if known is None:
                continue
            self._remove_pod(key)
            if pod is None and key in unlisted and known.spec.node_name and _would_be_lost(known):
                self._unlisted.add(known)
        placed, some_unlisted = defaultdict[str, dict[str, Pod]](dict), bool(self._unlisted)
        for key, pod in changes.items():
            if pod is None or pod.is_terminal:
                continue
            self._pods[key] = pod
            host = pod.host
            if host:
                if some_unlisted:
                    self._unlisted.discard(pod)
                placed[host][key] = pod
            else:
                self._pending[key] = pod.created, key, pod
        for host, pods in placed.items():
            self._by_host[host].update(pods)
        rows = zip(self._snapshot.find_rows(placed), placed.values(), strict=True)
        self._snapshot.place_pods((row, [*pods.values()]) for row, pods in rows if row is not None)

    def _remove_pod(self, key: str) -> None:
        pod = self._pods.pop(key)
        self._pending.pop(key, None)
        host = pod.host
        if host:
            del self._by_host[host][key]
            if not self._by_host[host]:
                del self._by_host[host]
        if host in self._snapshot:
            self._snapshot.unplace(self._snapshot.class_of(pod, placed=True), self._snapshot.row(host), pod=pod)
        self._snapshot.vocabulary.classes.forget(pod.metadata.uid)

    def _add(self, snapshot: Snapshot, nodes: list[Node]) -> None:
        """Add nodes with their pods."""
        if not nodes:
            return
        rows = enumerate(nodes, snapshot.add_nodes(nodes).start)
        snapshot.place_pods((row, [*self._by_host.get(node.name, {}).values()]) for row, node in rows)

    def _rebuild(self, changes: Mapping[str, Node | None]) -> None:
        """Rebuild the snapshot with the changes. This is cheaper than changing many rows one by one."""
        nodes: dict[str, Node | None] = {node.name: node for _, node in self._snapshot.nodes()}
        fresh = self._snapshot.sibling()
        fresh.context = self._snapshot.context
        self._add(fresh, [node for node in (nodes | dict(changes)).values() if node is not None])
        self._snapshot = fresh


def _would_be_lost(pod: Pod) -> bool:
    """Return whether the pod, as it was last seen, would be lost with its node."""
    return not (pod.metadata.deletion_timestamp is not None or pod.is_daemonset_pod or pod.is_mirror)


# The kinds from which each part of the observation is made, with their fields in ClusterObjects.
_CONTEXT = {
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "persistent_volume_claims",
    "PersistentVolume": "persistent_volumes",
    "StorageClass": "storage_classes",
    "CSINode": "csi_nodes",
    "CSIDriver": "csi_drivers",
    "CSIStorageCapacity": "csi_storage_capacities",
    "VolumeAttachment": "volume_attachments",
    "ResourceSlice": "resource_slices",
    "DeviceClass": "device_classes",
    "ResourceClaim": "resource_claims",
    "ResourceClaimTemplate": "resource_claim_templates",
    "DeviceTaintRule": "device_taint_rules",
}
_WORKLOADS = {
    "DaemonSet": "daemon_sets",
    "ReplicaSet": "replica_sets",
    "ReplicationController": "replication_controllers",
    "StatefulSet": "stateful_sets",
    "Job": "jobs",
    "PodDisruptionBudget": "pod_disruption_budgets",
}
_QUOTAS = {"CapacityQuota": "capacity_quotas"}
_POD_GROUPS = {
    "PodGroup": "pod_groups",
    "CoschedulingPodGroup": "coscheduling_pod_groups",
    "VolcanoPodGroup": "volcano_pod_groups",
}
_PROVISIONING = {
    "PodTemplate": "pod_templates",
    "ProvisioningRequest": "provisioning_requests",
    "ProvisioningClass": "provisioning_classes",
}
_BUFFERS = {
    "CapacityBuffer": "capacity_buffers",
    "PodTemplate": "pod_templates",
    "Deployment": "deployments",
    "ResourceQuota": "resource_quotas",
}


class KubeCluster(KubeWrites):
    """Implements ClusterPort, for use by one thread. Reads come from caches; ``api`` serves writes and fresh reads.

    If one kind of object was not confirmed for more than ``max_age`` seconds, the observation has a ``problem``.
    """

    def __init__(self, api: Api, caches: Caches, *, max_age: float) -> None:
        super().__init__(api, self._latest_workloads, self._latest_pod_groups)
        self._caches = caches
        self._max_age = max_age
        self._live = LiveCluster()
        self._times = FutureTimes()
        self._workloads = Workloads(controllers={})
        self._daemon_sets = ClusterObjects().daemon_sets
        self._provisioning = Provisioning()
        self._quotas = ClusterObjects().capacity_quotas
        self._buffers = Buffers()
        self._pod_groups = PodGroups()

    def read(self, now: float) -> ClusterObservation:
        """Return the cluster as the caches hold it. Raise KubeApiError until every kind has been listed once."""
        missing = self._caches.missing()
        if missing:
            what = "; ".join(f"{kind}{f': {why}' if why else ''}" for kind, why in missing.items())
            raise KubeApiError(f"not everything in the cluster has been listed yet ({what})", retryable=True)
        self._catch_up(now)
        return ClusterObservation(
            snapshot=self._live.fork(),
            pending=self._live.pending(),
            daemon_sets=self._daemon_sets,
            priorities=self._priorities(),
            workloads=self._workloads,
            provisioning=self._provisioning,
            buffers=self._buffers,
            quotas=self._quotas,
            pod_groups=self._pod_groups,
            problem=self._problem(now),
        )

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        """Read by name, from etcd, the pods that were last seen on the node and that a later list lacked. Raise KubeApiError."""
        running = list[Pod]()
        for pod in self._live.unlisted_on(node):
            found = self.read_pod(pod)
            if found is None or found.spec.node_name != node or found.is_terminal:
                self._live.forget_unlisted(pod)
            else:
                running.append(found)
        return tuple(running)

    def age(self, now: float) -> float:
        """Return the age in seconds of the oldest cache: the time since the API server last confirmed that kind."""
        return max(self._caches.ages().values(), default=now)

    def _catch_up(self, now: float) -> None:
        if self._changed(_CONTEXT):
            self._live.set_context(Context.of(self._objects(_CONTEXT)))
        self._latest_workloads()
        if self._changed(_PROVISIONING | _BUFFERS):  # both read PodTemplates
            self._provisioning = Provisioning.of(self._objects(_PROVISIONING))
            self._buffers = Buffers.of(self._objects(_BUFFERS))
        if self._changed(_QUOTAS):
            self._quotas = self._objects(_QUOTAS).capacity_quotas
        self._latest_pod_groups()
        nodes, unlisted = self._caches.of("Node").take()
        self._live.apply_nodes(dict(self._dated(nodes, now)), unlisted)
        self._live.apply_pods(*self._caches.of("Pod").take())

    def _dated(self, changes: Mapping[str, Node | None], now: float) -> Iterator[tuple[str, Node | None]]:
        """Yield changed nodes by name, without times in the future; None for deleted nodes."""
        for name, node in changes.items():
            if node is None:
                self._times.forget(name)
            yield name, self._times.clamp(node, now) if node is not None else None

    def _latest_workloads(self) -> Workloads:
        if self._changed(_WORKLOADS):
            objects = self._objects(_WORKLOADS)
            self._workloads, self._daemon_sets = Workloads.of(objects), objects.daemon_sets
        return self._workloads

    def _latest_pod_groups(self) -> PodGroups:
        if self._changed(_POD_GROUPS):
            self._pod_groups = self._objects(_POD_GROUPS).gang_objects()
        return self._pod_groups

    def _changed(self, kinds: dict[str, str]) -> bool:
        changes = [self._caches.of(kind).take_changes() for kind in kinds if self._caches.follows(kind)]
        return any(changes)

    def _objects(self, kinds: dict[str, str]) -> ClusterObjects:
        followed = {kind: field for kind, field in kinds.items() if self._caches.follows(kind)}
        held: dict[str, tuple[Any, ...]] = {field: self._caches.of(kind).all() for kind, field in followed.items()}
        return ClusterObjects(**held)

    def _priorities(self) -> str | None:
        for held in self._caches.config_map(CONFIG_MAP).all():
            found: str | None = held.data.get(CONFIG_KEY)
            return found
        return None

    def _problem(self, now: float) -> str:
        ages = self._caches.ages()
        oldest = max(ages, key=lambda kind: ages[kind])
        age = self.age(now)
        if age <= self._max_age:
            return ""
        why = self._caches.problems().get(oldest, "")
        problem = f"the API server has sent nothing about {oldest} for {format_duration(round(age))}"
        return f"{problem}: {why}" if why else problem


_DRY = "this is a dry run"


class DryCluster(KubeCluster):
    """As KubeCluster, but writes are refused or skipped."""

    def config_map_data(self, namespace: str, name: str) -> Mapping[str, str] | None:  # noqa: ARG002 - caches follow one
        """Return the data of a ConfigMap that the caches follow; None: there is none."""
        return self._caches.config_map_data(name) if name else None

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:  # noqa: ARG002 - nothing is edited
        """Refuse to edit: a write that is silently skipped would be reported as done."""
        raise KubeApiError(f"node {name} is not changed: {_DRY}", retryable=False)

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:  # noqa: ARG002 - no pod is evicted
        return Eviction(answer=EvictionAnswer.REFUSED, message=_DRY)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:  # noqa: ARG002 - no pod is deleted
        return Eviction(answer=EvictionAnswer.REFUSED, message=_DRY)

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        """Write nothing."""

    def delete_request(self, request: ProvisioningRequest) -> None:
        """Delete nothing."""

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        """Write nothing."""

    def write_quota_status(self, quota: CapacityQuota) -> None:
        """Write nothing."""


class DryStore:
    """Implements StateStore: begins with what is saved in ``store``, and saves nothing."""

    def __init__(self, store: ConfigMapStore) -> None:
        self._store = store

    def load(self) -> Loaded:
        return self._store.read()

    def load_pause(self) -> Pause | None:
        return self._store.load_pause()

    def save_if_changed(self, memory: Memory) -> None:
        """Save nothing: memory lasts as long as the process."""
