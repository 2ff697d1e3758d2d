"""New nodes for pods that are all different, placed one at a time."""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from nodewright.estimator.new_nodes import NewNodes
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS

# What a pod asks of a resource that it does not ask for: a node may be in debt, its daemon pods ask for more than it has.
_NOTHING, _MAX = -(2**63), 2**63


class OpenNodes:
    """The new nodes in plain Python numbers: for one pod, a call of numpy costs more than its work.

    A node is open while it has a place for a pod and at least as much cpu and memory as the least that a pod has asked
    for so far. Pods come in decreasing order, so that few are, and no other is looked at. What is counted here is told
    to ``nodes`` by ``settle``.
    """

    def __init__(self, nodes: NewNodes, classes: Sequence[PodClass]) -> None:
        self._nodes = nodes
        requests = [pod_class.requests for pod_class in classes]
        names = {PODS, "cpu", "memory"}.union(*requests, *(pod_class.placed_requests for pod_class in classes))
        self._free = {name: nodes.column(name).tolist() for name in names}
        self._places, self._cpu, self._memory = self._free[PODS], self._free["cpu"], self._free["memory"]
        self._others = {name: column for name, column in self._free.items() if name not in (PODS, "cpu", "memory")}
        self._least_cpu = self._least_memory = _MAX
        # Closed nodes by what they lack, those with most of it first: minus what is free, and the index.
        self._lack_cpu: list[tuple[int, int]] = []
        self._lack_memory: list[tuple[int, int]] = []
        self._open: list[int] = []
        for index in range(len(nodes)):
            self._file(index)

    @property
    def last_is_empty(self) -> bool:
        return bool(self._places) and self._places[-1] == self._nodes.offers(PODS)

    def add(self) -> int:
        """Add an empty node; answers its index."""
        index = len(self._places)
        for name, column in self._free.items():
            column.append(self._nodes.offers(name))
        self._file(index)
        return index

    def place(self, pod_class: PodClass, start: int) -> int | None:
        """Put a pod on the first node that takes it, from ``start`` on and then from the beginning; answers which."""
        requests, nodes, all_cpu, all_memory = pod_class.requests, self._open, self._cpu, self._memory
        cpu, memory = requests.get("cpu", _NOTHING), requests.get("memory", _NOTHING)
        if cpu < self._least_cpu:
            self._least_cpu = cpu
            self._reopen(self._lack_cpu, cpu)
        if memory < self._least_memory:
            self._least_memory = memory
            self._reopen(self._lack_memory, memory)
        turn = bisect_left(nodes, start)
        for index in nodes[turn:] + nodes[:turn]:
            if all_cpu[index] >= cpu and all_memory[index] >= memory and self._has_others(requests, index):
                self._take(pod_class, index)
                return index
        return None

    def settle(self) -> None:
        self._nodes.grow(len(self._places) - len(self._nodes))
        for name, column in self._free.items():
            self._nodes.column(name)[:] = column

    def _has_others(self, requests: Mapping[str, int], index: int) -> bool:
        """Whether a node has what a pod asks of resources other than cpu and memory."""
        others = self._others
        return not others or all(others[name][index] >= amount for name, amount in requests.items() if name in others)

    def _take(self, pod_class: PodClass, index: int) -> None:
        self._places[index] -= 1
        for name, held in pod_class.placed_requests.items():
            self._free[name][index] -= held
        lacks = self._cpu[index] < self._least_cpu or self._memory[index] < self._least_memory
        if lacks or self._places[index] < 1:
            self._open.remove(index)
            self._file(index)

    def _reopen(self, closed: list[tuple[int, int]], least: int) -> None:
        """A pod asks for less than any before: some closed nodes may take it."""
        while closed and -closed[0][0] >= least:
            self._file(heappop(closed)[1])

    def _file(self, index: int) -> None:
        """Note a node as open, or by what it lacks; one without a place is never looked at again."""
        cpu, memory = self._cpu[index], self._memory[index]
        if cpu < self._least_cpu:
            heappush(self._lack_cpu, (-cpu, index))
        elif memory < self._least_memory:
            heappush(self._lack_memory, (-memory, index))
        elif self._places[index] >= 1:
            insort(self._open, index)
