"""Room on nodes that stay, by plain sums."""

from collections import Counter
from collections.abc import Collection

from nodewright.model.node import Node
from nodewright.model.pod import Pod, Toleration
from nodewright.snapshot.requests import PODS, node_amounts, pod_requests
from nodewright.snapshot.snapshot import Snapshot

_REPELLING = ("NoSchedule", "NoExecute")


class Room:
    """What each node that stays still has to give; filled as pods are moved there.

    ``going`` are nodes that take nobody. Pods of a priority below ``cutoff`` give way to any other.
    """

    def __init__(self, snapshot: Snapshot, going: Collection[str], cutoff: int) -> None:
        self._snapshot = snapshot
        self._going = going
        self._cutoff = cutoff
        self._left: dict[str, Counter[str]] = {}

    def is_void(self, pod: Pod) -> bool:
        """Whether the pod counts for nothing."""
        return pod.spec.priority is not None and pod.spec.priority < self._cutoff

    def take(self, pod: Pod, name: str) -> str:
        """Move a pod to a node; empty if there is room, else why not."""
        row = self._snapshot.find_row(name)
        if row is None:
            return f"there is no node {name}"
        node = self._snapshot.node(row)
        refused = self._refusal(pod, node)
        if refused:
            return refused
        left = self._left.setdefault(name, self._free(node, row))
        asked = Counter({**pod_requests(pod, placed=True), PODS: 1})
        short = [what for what, amount in asked.items() if left[what] < amount]
        if short:
            return f"node {name} has not enough {short[0]}"
        left.subtract(asked)
        return ""

    def _refusal(self, pod: Pod, node: Node) -> str:
        if node.name in self._going:
            return f"node {node.name} goes too"
        for taint in node.spec.taints:
            tolerated = any(_tolerates(t, taint.key, taint.value, taint.effect) for t in pod.spec.tolerations)
            if taint.effect in _REPELLING and not tolerated:
                return f"node {node.name} has the taint {taint.key}"
        wanted = (pod.spec.node_selector or {}).items()
        if any(node.metadata.labels.get(key) != value for key, value in wanted):
            return f"node {node.name} lacks a label that it selects"
        return ""

    def _free(self, node: Node, row: int) -> Counter[str]:
        left = Counter(node_amounts(node.allocatable))
        for held in self._snapshot.pods(row):
            if not self.is_void(held):
                left.subtract({**pod_requests(held, placed=True), PODS: 1})
        return left


def _tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    return toleration.operator == "Exists" or toleration.value == value
