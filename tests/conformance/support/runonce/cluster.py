"""The API server of a case: reads decode the world's manifests anew, writes change them."""

from collections.abc import Callable
from typing import Any

from nodewright.act.ports import ClusterWrites, Eviction, EvictionAnswer, Sight
from nodewright.cli.dump import DumpedCluster
from nodewright.engine.ports import ClusterPicture, ClusterReader
from nodewright.model.decode import convert_object
from nodewright.model.node import Node
from nodewright.model.objects import KINDS, ClusterObjects
from nodewright.model.pod import Pod
from nodewright.snapshot.workloads import Workloads
from runonce.world import World


class Cluster(ClusterReader, ClusterWrites):
    """``evicted`` are the pods evicted since it was last emptied."""

    def __init__(self, world: World) -> None:
        self.evicted: list[str] = []
        self._world = world

    def read(self, now: float) -> ClusterPicture:
        return DumpedCluster(self._objects()).read(now)

    def look(self, node: str) -> Sight:
        objects = self._objects()
        found = next((held for held in objects.nodes if held.name == node), None)
        pods = tuple(pod for pod in objects.pods if pod.spec.node_name == node and not pod.is_terminal)
        return Sight(node=found, pods=pods, workloads=Workloads.of(objects))

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        manifest = self._world.find("Node", "", name)
        if manifest is None:
            return None
        before = convert_object(Node, manifest)
        after = edit(before)
        spec = {**manifest.get("spec", {}), "unschedulable": after.spec.unschedulable}
        spec["taints"] = [{"key": t.key, "value": t.value, "effect": t.effect} for t in after.spec.taints]
        metadata = {**manifest["metadata"], "annotations": dict(after.metadata.annotations)}
        self._world.apply({**manifest, "metadata": metadata, "spec": spec})
        return before

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:  # noqa: ARG002 - the pod vanishes at once
        self._world.remove("Pod", pod.metadata.namespace, pod.metadata.name)
        self.evicted.append(pod.key)
        return Eviction(answer=EvictionAnswer.ACCEPTED)

    def _objects(self) -> ClusterObjects:
        found: dict[str, list[Any]] = {}
        for manifest in self._world.objects.values():
            kind = KINDS.get(manifest["kind"])
            if kind is not None:
                found.setdefault(kind.field, []).append(convert_object(kind.type, manifest))
        return ClusterObjects(**{field: tuple(held) for field, held in found.items()})
