"""Kind ``drain``: what happens to the pods of a removed node, and what disruption budgets allow."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nodewright.model.cluster import (
    DaemonSet,
    Job,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from nodewright.model.decode import convert_object
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.drainability import DrainabilityRules, NodeDrainability, evaluate_pods
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.snapshot.context import Workloads

_CONTROLLERS: dict[str, tuple[str, type]] = {
    "replicationControllers": ("replication_controllers", ReplicationController),
    "replicaSets": ("replica_sets", ReplicaSet),
    "daemonSets": ("daemon_sets", DaemonSet),
    "statefulSets": ("stateful_sets", StatefulSet),
    "jobs": ("jobs", Job),
}
_OPTIONS = {
    "skipNodesWithSystemPods": "skip_nodes_with_system_pods",
    "skipNodesWithLocalStorage": "skip_nodes_with_local_storage",
    "skipNodesWithCustomControllerPods": "skip_nodes_with_custom_controller_pods",
    "minReplicaCount": "min_replica_count",
    "bspDisruptionTimeoutSeconds": "blocking_system_pod_distruption_timeout",
}


def check(case: Mapping[str, Any]) -> list[str]:
    """What differs from the verdict observed."""
    given, expected = case["input"], case["expected"]
    pods = [convert_object(Pod, manifest) for manifest in given["pods"]]
    workloads = _workloads(given)
    budgets = DisruptionBudgets(workloads.budgets)
    settings = DrainSettings(**{_OPTIONS[key]: value for key, value in given["options"].items()})
    now = datetime.fromisoformat(given["now"]).timestamp()
    verdict = evaluate_pods(pods, DrainabilityRules(workloads, budgets, settings, now, applies_all=False))
    decided = _decided(verdict)
    if "pdbCheck" in expected:
        decided["pdbCheck"] = _checked(budgets, verdict.pods)
    return [f"{key}: {decided[key]}, observed {expected[key]}" for key in expected if decided[key] != expected[key]]


def _workloads(given: Mapping[str, Any]) -> Workloads:
    listed: dict[str, tuple[Any, ...]] = {}
    for key, manifests in given.get("controllers", {}).items():
        field, wanted = _CONTROLLERS[key]
        listed[field] = tuple(convert_object(wanted, manifest) for manifest in manifests)
    budgets = tuple(convert_object(PodDisruptionBudget, manifest) for manifest in given.get("pdbs", ()))
    objects = ClusterObjects(pod_disruption_budgets=budgets, **listed)
    return Workloads.of(objects, listed="controllers" in given)


def _decided(verdict: NodeDrainability) -> dict[str, Any]:
    blocking = verdict.blocking
    return {
        "pods": [pod.key for pod in verdict.pods],
        "daemonSetPods": [pod.key for pod in verdict.daemons],
        "onCompletionPods": [pod.key for pod in verdict.on_completion],
        "blocking": {"pod": blocking.pod, "reason": blocking.code.value} if blocking is not None else None,
    }


def _checked(budgets: DisruptionBudgets, pods: Sequence[Pod]) -> dict[str, Any]:
    answer = budgets.can_remove(pods)
    told: dict[str, Any] = {"canRemove": answer.can_remove, "inParallel": answer.in_parallel}
    if answer.blocker is not None:
        told["blocking"] = {"pod": answer.blocker.key, "reason": "NotEnoughPdb"}
    return told
