"""The real cluster as the engine reads it."""

from typing import Any

from nodewright.adapters.kube.api import Api
from nodewright.adapters.kube.caches import Caches
from nodewright.adapters.kube.live_picture import LivePicture
from nodewright.adapters.kube.writes import KubeWrites
from nodewright.engine.ports import ClusterPicture
from nodewright.expander.priority import CONFIG_KEY, CONFIG_MAP
from nodewright.model.duration import format_duration
from nodewright.model.errors import KubeApiError
from nodewright.model.objects import ClusterObjects
from nodewright.snapshot.buffers import Buffers
from nodewright.snapshot.context import Context
from nodewright.snapshot.provisioning import Provisioning
from nodewright.snapshot.workloads import Workloads

# Kinds from which each part of the picture is made, with their names in a list of objects.
_CONTEXT = {
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "persistent_volume_claims",
    "PersistentVolume": "persistent_volumes",
    "StorageClass": "storage_classes",
    "CSINode": "csi_nodes",
    "CSIDriver": "csi_drivers",
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
    """Implements ClusterPort, for one thread: reads come from caches, ``api`` is for writes and what must be fresh.

    A picture older than ``max_age`` seconds must not be acted upon.
    """

    def __init__(self, api: Api, caches: Caches, *, max_age: float) -> None:
        super().__init__(api, self._latest_workloads)
        self._caches = caches
        self._max_age = max_age
        self._live = LivePicture()
        self._workloads = Workloads(controllers={})
        self._daemon_sets = ClusterObjects().daemon_sets
        self._provisioning = Provisioning()
        self._quotas = ClusterObjects().capacity_quotas
        self._buffers = Buffers()

    def read(self, now: float) -> ClusterPicture:
        """Raises KubeApiError as long as not everything was listed once: a part would look like the whole."""
        missing = self._caches.missing()
        if missing:
            what = "; ".join(f"{kind}{f': {why}' if why else ''}" for kind, why in missing.items())
            raise KubeApiError(f"not everything in the cluster has been listed yet ({what})", retryable=True)
        self._catch_up()
        return ClusterPicture(
            snapshot=self._live.fork(),
            pending=self._live.pending(),
            daemon_sets=self._daemon_sets,
            priorities=self._priorities(),
            workloads=self._workloads,
            provisioning=self._provisioning,
            buffers=self._buffers,
            quotas=self._quotas,
            problem=self._problem(now),
        )

    def age(self, now: float) -> float:
        """Seconds since the API server last spoke of the kind that it has not spoken of for longest."""
        return max(self._caches.ages().values(), default=now)

    def _catch_up(self) -> None:
        if self._changed(_CONTEXT):
            self._live.set_context(Context.of(self._objects(_CONTEXT)))
        self._latest_workloads()
        if self._changed(_PROVISIONING | _BUFFERS):  # both read PodTemplates
            self._provisioning = Provisioning.of(self._objects(_PROVISIONING))
            self._buffers = Buffers.of(self._objects(_BUFFERS))
        if self._changed(_QUOTAS):
            self._quotas = self._objects(_QUOTAS).capacity_quotas
        self._live.apply_nodes(self._caches.of("Node").take_changes())
        self._live.apply_pods(self._caches.of("Pod").take_changes())

    def _latest_workloads(self) -> Workloads:
        if self._changed(_WORKLOADS):
            objects = self._objects(_WORKLOADS)
            self._workloads, self._daemon_sets = Workloads.of(objects), objects.daemon_sets
        return self._workloads

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
        said = f"the API server has said nothing of {oldest} for {format_duration(round(age))}"
        return f"{said}: {why}" if why else said
