"""The API server of a case: reads decode the world's manifests again, writes change them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import to_builtins

from nodewright.actuation.ports import ClusterWrites, Eviction, EvictionAnswer, GangView, NodeView
from nodewright.cli.dry_run.dump import DumpedCluster
from nodewright.engine.ports import ClusterObservation, ClusterReader
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.decode import convert_object
from nodewright.model.errors import KubeApiError
from nodewright.model.meta import Condition
from nodewright.model.node import Node
from nodewright.model.objects import KINDS, ClusterObjects
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.snapshot.context import Workloads
from runonce.world import World


class Cluster(ClusterReader, ClusterWrites):
    """``evicted`` are the pods evicted since it was last emptied."""

    def __init__(self, world: World) -> None:
        self.evicted: list[str] = []
        self._world = world

    def read(self, now: float) -> ClusterObservation:
        objects = self._objects()
        return replace(DumpedCluster(objects).read(now), workloads=Workloads.of(objects))

    def get_node_view(self, node: str) -> NodeView:
        objects = self._objects()
        found = next((held for held in objects.nodes if held.name == node), None)
        pods = tuple(pod for pod in objects.pods if pod.spec.node_name == node and not pod.is_terminal)
        return NodeView(node=found, pods=pods, workloads=Workloads.of(objects))

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:  # noqa: ARG002 - its lists are whole
        return ()

    def get_gang_view(self, namespace: str) -> GangView:
        objects = self._objects()
        pods = tuple(pod for pod in objects.pods if pod.metadata.namespace == namespace)
        return GangView(pods=pods, groups=objects.gang_objects())

    def list_nodes(self) -> Iterator[Node]:
        return iter(self._objects().nodes)

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

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        return self.evict(pod, grace_seconds)

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        raise KubeApiError(f"no case has a buffer like {buffer.key}", retryable=False)

    def write_quota_status(self, quota: CapacityQuota) -> None:
        raise KubeApiError(f"no case has a quota like {quota.key}", retryable=False)

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        if self._world.refused_writes in ("reject", "rejectApply" if is_apply else "rejectUpdate"):
            raise KubeApiError("no", retryable=True)
        manifest = self._world.find("ProvisioningRequest", request.metadata.namespace, request.metadata.name)
        if manifest is None:
            raise KubeApiError("gone", retryable=False)
        held = manifest.get("status", {}).get("conditions") or [] if is_apply else []
        fresh = [to_builtins(one) for one in (conditions if is_apply else request.status.conditions)]
        types = {one["type"] for one in fresh}
        kept = [one for one in held if one["type"] not in types]
        self._world.apply({**manifest, "status": {**manifest.get("status", {}), "conditions": [*kept, *fresh]}})

    def delete_request(self, request: ProvisioningRequest) -> None:
        self._world.remove("ProvisioningRequest", request.metadata.namespace, request.metadata.name)

    def _objects(self) -> ClusterObjects:
        found: dict[str, list[Any]] = {}
        for manifest in self._world.objects.values():
            kind = KINDS.get(manifest["kind"])
            if kind is not None:
                found.setdefault(kind.field, []).append(convert_object(kind.type, manifest))
        return ClusterObjects(**{field: tuple(held) for field, held in found.items()})
