"""Running totals of a simulated cluster: exact sums, kept apart from the picture that decisions are made on."""

from collections import Counter
from collections.abc import Mapping

from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.requests import node_amounts, pod_requests


class Tally:
    """Pods, nodes and amounts (millicores for cpu, whole units otherwise), brought up to date change by change.

    DaemonSet pods use room, but count neither as pods nor as keeping a node busy.
    """

    def __init__(self) -> None:
        self.pods = 0
        self.used: Counter[str] = Counter()
        self.offered: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self._busy: Counter[str] = Counter()
        self._group_of: dict[str, str] = {}
        self._offers: dict[str, dict[str, int]] = {}
        self._pods_on: Counter[str] = Counter()

    def nodes(self) -> Mapping[str, int]:
        """Nodes per group."""
        return self._nodes

    def busy(self) -> dict[str, int]:
        """Nodes with pods, per group."""
        return dict(self._busy)

    def add_node(self, node: Node, group: str) -> None:
        self._offers[node.name] = node_amounts(node.allocatable)
        self._group_of[node.name] = group
        self._nodes[group] += 1
        self.offered.update(self._offers[node.name])

    def remove_node(self, name: str) -> None:
        self._nodes[self._group_of.pop(name)] -= 1
        self.offered.subtract(self._offers.pop(name))

    def add_pod(self, pod: Pod, node: str) -> None:
        self.used.update(pod_requests(pod, placed=True))
        if not pod.is_daemonset_pod:
            self.pods += 1
            self._pods_on[node] += 1
            if self._pods_on[node] == 1:
                self._busy[self._group_of[node]] += 1

    def remove_pod(self, pod: Pod, node: str) -> None:
        self.used.subtract(pod_requests(pod, placed=True))
        if not pod.is_daemonset_pod:
            self.pods -= 1
            self._pods_on[node] -= 1
            if self._pods_on[node] == 0:
                self._busy[self._group_of[node]] -= 1
