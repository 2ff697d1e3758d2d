"""Controllers and disruption budgets, which decide which pods may be moved. The test kit imports it without numpy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodewright.model.cluster import (
    DaemonSet,
    Job,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from nodewright.model.objects import ClusterObjects

Controller = ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet


@dataclass(frozen=True, kw_only=True)
class Workloads:
    """``controllers`` maps (kind, ``namespace/name``) to the object.

    None: controllers were not listed, and every controller that a pod names is assumed to exist.
    """

    controllers: Mapping[tuple[str, str], Controller] | None = None
    budgets: tuple[PodDisruptionBudget, ...] = field(default=())

    @staticmethod
    def of(objects: ClusterObjects, *, listed: bool = True) -> "Workloads":
        """Return the workloads of a list call; ``listed`` says whether controllers were listed at all."""
        held: tuple[Iterable[Controller], ...] = (
            objects.replica_sets,
            objects.replication_controllers,
            objects.stateful_sets,
            objects.jobs,
            objects.daemon_sets,
        )
        controllers = {(type(one).__name__, one.key): one for kind in held for one in kind}
        return Workloads(controllers=controllers if listed else None, budgets=objects.pod_disruption_budgets)
