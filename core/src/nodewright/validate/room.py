"""Room on nodes that stay, by plain sums, and their ports."""

from collections import Counter
from collections.abc import Collection

from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.requests import PODS, node_amounts, pod_requests
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.standing import why_unfit

_ANY = "0.0.0.0"  # noqa: S104  # an address in a pod's manifest; nothing listens here
_Port = tuple[str, str, int]


class Room:
    """What each node that stays still has to give; filled as pods are moved there.

    ``going`` are nodes that take nobody. Pods of a priority below ``cutoff`` give way to any other.
    """

    def __init__(self, snapshot: Snapshot, going: Collection[str], cutoff: int) -> None:
        self._snapshot = snapshot
        self._going = going
        self._cutoff = cutoff
        self._left: dict[str, Counter[str]] = {}
        self._ports: dict[str, list[_Port]] = {}

    def is_void(self, pod: Pod) -> bool:
        """Whether the pod counts for nothing."""
        return pod.spec.priority is not None and pod.spec.priority < self._cutoff

    def take(self, pod: Pod, name: str) -> str:
        """Move a pod to a node; empty if there is room, else why not."""
        row = self._snapshot.find_row(name)
        if row is None:
            return f"there is no node {name}"
        node = self._snapshot.node(row)
        refused = self._refusal(pod, node, row)
        if refused:
            return refused
        if name not in self._left:
            self._left[name] = self._free(node, row)
        left = self._left[name]
        asked = _asked(pod)
        short = [what for what, amount in asked.items() if left[what] < amount]
        if short:
            return f"node {name} has not enough {short[0]}"
        left.subtract(asked)
        self._ports[name] += _ports(pod)
        return ""

    def _refusal(self, pod: Pod, node: Node, row: int) -> str:
        if node.name in self._going:
            return f"node {node.name} goes too"
        unfit = why_unfit(pod, node)
        if unfit:
            return unfit
        if node.name not in self._ports:
            self._ports[node.name] = self._taken(row)
        wanted, taken = _ports(pod), self._ports[node.name]
        if any(_collide(one, other) for one in wanted for other in taken):
            return f"node {node.name} has given away a host port that it wants"
        return ""

    def _taken(self, row: int) -> list[_Port]:
        return [port for held in self._snapshot.pods(row) if not self.is_void(held) for port in _ports(held)]

    def _free(self, node: Node, row: int) -> Counter[str]:
        left = Counter(node_amounts(node.allocatable))
        for held in self._snapshot.pods(row):
            if not self.is_void(held):
                left.subtract(_asked(held))
        return left


def _asked(pod: Pod) -> dict[str, int]:
    return {**pod_requests(pod, placed=True), PODS: 1}


def _ports(pod: Pod) -> list[_Port]:
    """Ports of the node that the pod takes; those of containers that only prepare it are free again by then."""
    lasting = (*pod.spec.containers, *(c for c in pod.spec.init_containers if c.restart_policy == "Always"))
    ports = (port for container in lasting for port in container.ports if port.host_port > 0)
    return [(port.host_ip or _ANY, port.protocol or "TCP", port.host_port) for port in ports]


def _collide(one: _Port, other: _Port) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or _ANY in (one[0], other[0]))
