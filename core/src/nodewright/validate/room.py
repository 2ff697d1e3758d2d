"""Room on nodes that stay, by plain sums, and their ports."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from nodewright.model.node import Node
from nodewright.model.pod import ContainerPort
from nodewright.snapshot.node_pods import find_node_pods
from nodewright.snapshot.requests import node_amounts
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.kinds import Kind, find_kinds
from nodewright.validate.standing import why_unfit

_ANY = "0.0.0.0"  # noqa: S104  # an address in a pod's manifest; nothing listens here


class Room:
    """What each node that stays still has to give; filled as pods are moved there.

    ``going`` are nodes that take nobody. Pods of a priority below ``cutoff`` give way to any other.
    """

    def __init__(self, snapshot: Snapshot, going: Collection[str], cutoff: int) -> None:
        self._snapshot = snapshot
        self._going = going
        self._cutoff = cutoff
        self._left: dict[str, Counter[str]] = {}
        self._ports: dict[str, list[ContainerPort]] = {}

    def is_void(self, kind: Kind) -> bool:
        """Whether such pods count for nothing."""
        priority = kind.pod.spec.priority
        return priority is not None and priority < self._cutoff

    def find_doubtful(self, coming: Mapping[tuple[Kind, str], int]) -> set[str]:
        """The nodes that may not take all the pods that are to come; nothing is moved.

        All others take them in whatever order. ``coming`` says how many of a kind come to which node.
        """
        by_node: defaultdict[str, dict[Kind, int]] = defaultdict(dict)
        for (kind, name), count in coming.items():
            by_node[name][kind] = count
        return {name for name, kinds in by_node.items() if not self._takes_all(name, kinds)}

    def _takes_all(self, name: str, kinds: Mapping[Kind, int]) -> bool:
        if any(kind.ports or self._refusal(kind, name) for kind in kinds):
            return False  # ports are given one by one
        asked = Counter[str]()
        for kind, count in kinds.items():
            for what, amount in kind.asked.items():
                asked[what] += amount * count
        left = self._free(name)
        return all(left[what] >= amount for what, amount in asked.items())

    def take(self, kind: Kind, name: str) -> str:
        """Move a pod to a node; empty if there is room, else why not."""
        refused = self._refusal(kind, name)
        if refused:
            return refused
        if name not in self._left:
            self._left[name], self._ports[name] = self._free(name), self._taken(name)
        left, taken = self._left[name], self._ports[name]
        if any(_collide(one, other) for one in kind.ports for other in taken):
            return f"node {name} has given away a host port that it wants"
        short = [what for what, amount in kind.asked.items() if left[what] < amount]
        if short:
            return f"node {name} has not enough {short[0]}"
        left.subtract(kind.asked)
        taken += kind.ports
        return ""

    def _refusal(self, kind: Kind, name: str) -> str:
        """Why the node takes no such pod, however much room it has."""
        if name not in self._snapshot:
            return f"there is no node {name}"
        return f"node {name} goes too" if name in self._going else why_unfit(kind.pod, self._node(name))

    def _node(self, name: str) -> Node:
        return self._snapshot.node(self._snapshot.row(name))

    def _held(self, name: str) -> dict[Kind, int]:
        """How many pods of each kind run on a node and count for something."""
        (roll,) = find_node_pods(self._snapshot, (self._snapshot.row(name),))
        kinds = Counter(roll.once(find_kinds))
        return {kind: count for kind, count in kinds.items() if not self.is_void(kind)}

    def _taken(self, name: str) -> list[ContainerPort]:
        return [port for kind in self._held(name) for port in kind.ports]

    def _free(self, name: str) -> Counter[str]:
        left = Counter(node_amounts(self._node(name).allocatable))
        for kind, count in self._held(name).items():
            for what, amount in kind.asked.items():
                left[what] -= amount * count
        return left


def _collide(one: ContainerPort, other: ContainerPort) -> bool:
    """Whether one node cannot give both."""
    if (one.host_port, one.protocol or "TCP") != (other.host_port, other.protocol or "TCP"):
        return False
    here, there = one.host_ip or _ANY, other.host_ip or _ANY
    return here == there or _ANY in (here, there)
