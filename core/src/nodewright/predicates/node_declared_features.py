"""NodeDeclaredFeatures: a node takes a pod only if its kubelet declares the features that the pod needs."""

from collections.abc import Iterator

import numpy as np

from nodewright.model.pod import PodSpec
from nodewright.predicates.predicate import Predicate, Texts
from nodewright.snapshot.column import ColumnKey, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) didn't match Pod's required features"


@per_class
def _needed(pod: PodClass) -> tuple[str, ...]:
    """Return the features that the pods of a class need, those of Kubernetes 1.37, sorted."""
    return tuple(_features(pod.spec))


def _features(spec: PodSpec) -> Iterator[str]:
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for one in containers for rule in one.restart_policy_rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"


def _mask(snapshot: Snapshot, needed: tuple[str, ...], window: slice) -> Mask | None:
    if not needed:
        return None

    def of_nodes(table: NodeTable, rows: slice) -> Mask:
        nodes = (table.template(row).status.declared_features for row in range(rows.start, rows.stop))
        return np.array([set(needed) <= set(declared) for declared in nodes], dtype=np.bool_)

    found: Mask = snapshot.column(ColumnKey("features", needed), of_nodes)[window]
    return found


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    return None if set(_needed(pod)) <= set(snapshot.template(row).status.declared_features) else (REASON,)


PREDICATE = Predicate(name="NodeDeclaredFeatures", reads=_needed, mask=_mask, explain=_explain)
