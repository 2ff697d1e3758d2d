"""Clusters as the engine sees them: groups of equal nodes, and pods on them, from plain numbers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright.adapters.kube.cluster import LiveCluster
from nodewright.model.group import GroupOptions, GroupRef, Instance, NodeGroup, Price
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.sharing import Sharing
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.testkit.builders import build_node

NOW = 1_000_000.0
PROVIDER = "cloud"


@dataclass
class Cluster:
    """Groups with their nodes; pods come and go as from a watch.

    ``picture_seconds`` of the processor went into putting pods into the snapshot so far.
    """

    now: float = NOW
    nodes: list[Node] = field(default_factory=list)
    groups: dict[GroupRef, GroupSeen] = field(default_factory=dict)
    live: LiveCluster = field(default_factory=LiveCluster)
    sharing: Sharing = field(default_factory=Sharing)
    snapshot_seconds: float = 0.0

    def add_group(self, group_id: str, size: int, max_size: int, **shape: Any) -> None:
        """Add a group with ``size`` ready nodes ``<group>-<n>``.

        ``unneeded``: seconds until unneeded nodes are removed. ``price``: of a node, in USD an hour.
        """
        price: float | None = shape.pop("price", None)
        options = GroupOptions(scale_down_unneeded_seconds=shape.pop("unneeded", 600.0))
        ref, ids = GroupRef(PROVIDER, group_id), [f"cloud:///{group_id}/{n}" for n in range(size)]
        nodes = [build_node(f"{group_id}-{n}", provider_id=known_as, **shape) for n, known_as in enumerate(ids)]
        self.nodes += nodes
        self.live.apply_nodes({node.name: node for node in nodes})
        self.groups[ref] = GroupSeen(
            ref=ref,
            group=NodeGroup(id=group_id, min_size=0, max_size=max_size),
            target=size,
            options=options,
            instances=tuple(Instance(id=known_as) for known_as in ids),
            template=build_node(f"template-{group_id}", **shape),
            price=Price(per_hour=price, source="the benchmark") if price is not None else None,
        )

    def put(self, pods: list[Pod]) -> None:
        """Pods that were created, bound or not."""
        decoded = self.shared(pods)
        began = time.process_time()
        self.live.apply_pods(decoded)
        self.snapshot_seconds += time.process_time() - began

    def shared(self, pods: list[Pod]) -> Mapping[str, Pod]:
        """Pods as the adapter of the API server decodes them, by key."""
        return {pod.key: self.sharing.pod(pod) for pod in pods}

    def notes(self) -> dict[str, float]:
        """Return what was made before the clock started."""
        return {"snapshot ms": round(1000 * self.snapshot_seconds, 1)}

    def look(self) -> Observation:
        """Advance ten seconds and return what a loop would observe."""
        self.now += 10
        return Observation(
            now=self.now,
            snapshot=self.live.fork(),
            pending=self.live.pending(),
            groups=self.groups,
            providers={PROVIDER: ProviderSeen(name=PROVIDER)},
            workloads=Workloads(controllers=None),
        )
