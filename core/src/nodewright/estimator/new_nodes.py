"""The nodes that an estimate adds: the free amounts on each (numpy columns or plain numbers), and the pods on each."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

import numpy as np

from nodewright.model.pod import Pod
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS

UNLIMITED = 0
IsOver = Callable[[], bool]


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def node_limit(thresholds: Iterable[int]) -> int:
    """Return the smallest positive threshold; 0: no limit; -1 if any threshold is negative: no node at all (CA's rule)."""
    found = list(thresholds)
    if any(threshold < 0 for threshold in found):
        return -1
    return min((threshold for threshold in found if threshold > 0), default=UNLIMITED)


class NodeBudget:
    """Counts the nodes that one estimate adds, and refuses those above the limit.

    Once ``is_over()`` is true, no nodes are granted and ``was_late`` is set. ``is_exhausted``: the last call of ``grant``
    returned less than ``wanted``.
    """

    def __init__(self, limit: int, is_over: IsOver = never) -> None:
        self._limit = limit
        self._is_over = is_over
        self.granted = 0
        self.was_late = False
        self.is_exhausted = False

    def grant(self, wanted: int) -> int:
        """Grant up to ``wanted`` more nodes; return how many."""
        self.was_late = self.was_late or self._is_over()
        left = wanted if self._limit == UNLIMITED else max(0, self._limit - self.granted)
        given = 0 if self.was_late else min(wanted, left)
        self.is_exhausted = given < wanted
        self.granted += given
        return given


_UNLIMITED = int(np.iinfo(np.int64).max)
# Takes the name of a resource; returns how much of it is free on each of the first nodes.
ReadFree = Callable[[str], Ints]
# The request of a pod for a resource that it does not request. It is not 0, because the free amount of a node can be
# negative: its DaemonSet pods may request more than it has.
_NOTHING, _MAX = -(2**63), 2**63
_ONE = [1]


class NewNodes:
    """Copies of one template, by index. The column of a resource is built when it is first read.

    ``empty`` is the amount of each resource that is free on a copy without pending pods; the resource ``pods`` is the
    number of free pod slots. ``turn`` is the index at which the next scan for a place begins: the one after the node
    that the last scan chose.
    """

    def __init__(self, empty: Mapping[str, int]) -> None:
        self._empty = empty
        self._count = 0
        self.turn = 0
        self._buffers: dict[str, Ints] = {}
        self._free: dict[str, Ints] = {}
        self._reread: tuple[int, ReadFree] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def used(self) -> int:
        """Return how many nodes have pods besides their daemon pods."""
        return int(np.count_nonzero(self.column(PODS) != self.offers(PODS)))

    @property
    def last_is_empty(self) -> bool:
        return self._count > 0 and bool(self.column(PODS)[-1] == self.offers(PODS))

    def offers(self, name: str) -> int:
        """Return how much of a resource an empty node has."""
        return self._empty.get(name, 0)

    def grow(self, count: int) -> range:
        """Add empty nodes; return their indices."""
        added = range(self._count, self._count + count)
        self._count += count
        for name in self._buffers:
            self._extend(name, added.start)
        return added

    def reread(self, count: int, read: ReadFree) -> None:
        """Drop the columns: pods were placed on the first ``count`` nodes in the fork; ``read`` returns the free amounts."""
        self._buffers, self._free, self._reread = {}, {}, (count, read)

    def room_when_empty(self, pod_class: PodClass) -> int:
        """Return how many pods of a class fit on an empty node, by amounts."""
        room = _UNLIMITED
        for name, amount, held in demands(pod_class):
            free = self.offers(name)
            if free < amount:
                return 0
            room = min(room, (free - amount) // held + 1 if held else _UNLIMITED)
        return room

    def fitting(self, pod_class: PodClass) -> Mask:
        """Return on which nodes one more pod fits, by amounts."""
        found: Mask = self.column(PODS) >= 1
        for name, amount in pod_class.requests.items():
            found &= self.column(name) >= amount
        return found

    def room(self, pod_class: PodClass, indices: Ints) -> Ints:
        """Return how many more pods of a class fit on the nodes ``indices``, on each of which one fits, by amounts."""
        found: Ints = np.full(len(indices), _UNLIMITED)
        for name, amount, held in demands(pod_class):
            if held:
                np.minimum(found, (self.column(name)[indices] - amount) // held + 1, out=found)
        return found

    def take(self, pod_class: PodClass, indices: Ints | int, counts: Ints | int) -> None:
        """Subtract the amounts that ``counts[i]`` pods use on each of these (distinct) nodes."""
        self.column(PODS)[indices] -= counts
        for name, held in pod_class.placed_requests.items():
            self.column(name)[indices] -= counts * held

    def column(self, name: str) -> Ints:
        """Return how much of a resource is free on each node."""
        known = self._free.get(name)
        return known if known is not None else self._make(name)

    def _make(self, name: str) -> Ints:
        buffer: Ints = np.full(max(64, 2 * self._count), self.offers(name), dtype=np.int64)
        if self._reread is not None:
            count, read = self._reread
            buffer[:count] = read(name)[:count]
        self._buffers[name] = buffer
        self._free[name] = buffer[: self._count]
        return self._free[name]

    def _extend(self, name: str, start: int) -> None:
        buffer = self._buffers[name]
        if self._count > len(buffer):
            larger: Ints = np.full(2 * self._count, self.offers(name), dtype=np.int64)
            larger[:start] = buffer[:start]
            self._buffers[name] = buffer = larger
        self._free[name] = buffer[: self._count]


def demands(pod_class: PodClass) -> Iterator[tuple[str, int, int]]:
    """Yield (resource, amount that a pending pod requests, amount that a placed pod uses); ``pods`` comes first."""
    yield PODS, 1, 1
    placed = pod_class.placed_requests
    for name, amount in pod_class.requests.items():
        yield name, amount, placed.get(name, 0)


class OpenNodes:
    """The new nodes in plain Python numbers, for pods that are all different: for a single pod numpy is slower.

    A node is open while it has a free pod slot and at least the smallest cpu and memory request seen so far. Pods come
    in decreasing order, so few nodes are open, and only open nodes are scanned. ``settle`` writes the result to
    ``nodes``.
    """

    def __init__(self, nodes: NewNodes, classes: Sequence[PodClass]) -> None:
        self._nodes = nodes
        requests = [pod_class.requests for pod_class in classes]
        names = {PODS, "cpu", "memory"}.union(*requests, *(pod_class.placed_requests for pod_class in classes))
        self._free = {name: nodes.column(name).tolist() for name in names}
        self._places, self._cpu, self._memory = self._free[PODS], self._free["cpu"], self._free["memory"]
        self._others = {name: column for name, column in self._free.items() if name not in (PODS, "cpu", "memory")}
        self._least_cpu = self._least_memory = _MAX
        # Heaps of closed nodes that lack cpu or memory, those with most of it first: (minus the free amount, index).
        self._lack_cpu: list[tuple[int, int]] = []
        self._lack_memory: list[tuple[int, int]] = []
        self._open: list[int] = []
        for index in range(len(nodes)):
            self._file(index)

    @property
    def last_is_empty(self) -> bool:
        return bool(self._places) and self._places[-1] == self._nodes.offers(PODS)

    def add(self) -> int:
        """Add an empty node; return its index."""
        index = len(self._places)
        for name, column in self._free.items():
            column.append(self._nodes.offers(name))
        self._file(index)
        return index

    def place(self, pod_class: PodClass, start: int) -> int | None:
        """Put a pod on the first node where it fits, from ``start`` on, then from index 0; return its index, or None."""
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
        """Write the nodes and their free amounts to ``nodes``."""
        self._nodes.grow(len(self._places) - len(self._nodes))
        for name, column in self._free.items():
            self._nodes.column(name)[:] = column

    def _has_others(self, requests: Mapping[str, int], index: int) -> bool:
        """Return whether a node has what a pod requests of resources other than cpu and memory."""
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
        """Open the closed nodes that have ``least``, the smallest request so far."""
        while closed and -closed[0][0] >= least:
            self._file(heappop(closed)[1])

    def _file(self, index: int) -> None:
        """Add a node to the open nodes, or to the heap of the resource that it lacks; drop one without a free pod slot."""
        cpu, memory = self._cpu[index], self._memory[index]
        if cpu < self._least_cpu:
            heappush(self._lack_cpu, (-cpu, index))
        elif memory < self._least_memory:
            heappush(self._lack_memory, (-memory, index))
        elif self._places[index] >= 1:
            insort(self._open, index)


class PlacedOnNew(NamedTuple):
    """Pods ``pods[start : start + size]`` on new nodes: node ``indices[i]`` got ``counts[i]`` of them.

    They were dealt round-robin from node ``first`` on; None: one node was filled after the other.
    """

    pod_class: PodClass
    pods: Sequence[Pod]
    start: int
    size: int
    indices: Ints | list[int]
    counts: Ints | list[int]
    first: int | None


class PlacedPods:
    """The pods for which an estimate has found a place: on new nodes, by the node's index, and elsewhere."""

    def __init__(self) -> None:
        self._on_new: list[PlacedOnNew] = []
        self._elsewhere: list[tuple[PodClass, Sequence[Pod]]] = []
        self._taken = 0

    def add(self, placed: PlacedOnNew) -> None:
        self._on_new.append(placed)

    def add_one(self, pod_class: PodClass, pods: Sequence[Pod], index: int) -> None:
        """Add the only pod of a list, on one new node."""
        self._on_new.append(PlacedOnNew(pod_class, pods, 0, 1, [index], _ONE, None))

    def add_elsewhere(self, pod_class: PodClass, pods: Sequence[Pod]) -> None:
        """Add pods on existing nodes, or on nodes of CA's fast path, which have no index."""
        self._elsewhere.append((pod_class, pods))

    def take_new(self) -> Iterator[PlacedOnNew]:
        """Return the placements on new nodes since the last call."""
        taken, self._taken = self._taken, len(self._on_new)
        return iter(self._on_new[taken:])

    def by_node(self, nodes: int) -> tuple[tuple[Pod, ...], ...]:
        """Return the pods of each of the first ``nodes`` new nodes."""
        found: list[list[Pod]] = [[] for _ in range(nodes)]
        for _, pods, start, _, indices, counts, first in self._on_new:
            if first is None:
                order = np.repeat(indices, counts).tolist()
            else:
                order = dealt_in_turn(np.asarray(indices), np.asarray(counts), first, nodes)
            for index, pod in zip(order, pods[start:], strict=False):
                found[index].append(pod)
        return tuple(map(tuple, found))

    def pods(self) -> tuple[Pod, ...]:
        """Return all pods, those elsewhere last."""
        parts = (
            pods if count == len(pods) else pods[start : start + count] for _, pods, start, count, *_ in self._on_new
        )
        return tuple(chain.from_iterable(chain(parts, (pods for _, pods in self._elsewhere))))

    def by_class(self) -> dict[PodClass, int]:
        """Return how many pods of each class are placed."""
        found: dict[PodClass, int] = {}
        for pod_class, _, _, count, *_ in self._on_new:
            found[pod_class] = found.get(pod_class, 0) + count
        for pod_class, pods in self._elsewhere:
            found[pod_class] = found.get(pod_class, 0) + len(pods)
        return found


def round_robin(capacities: Ints, pods: int, start: int) -> tuple[Ints, int]:
    """Deal identical pods to nodes, one pod a node in each round, beginning at index ``start``, while a node has room.

    ``capacities`` is how many more pods each node takes. Return how many pods each node got, and the index after the
    last node that got one (``start`` if no pod was placed).
    """
    nodes = len(capacities)
    pods = min(pods, int(capacities.sum()))
    if not pods:
        return np.zeros_like(capacities), start
    rounds = _full_rounds(capacities, pods)
    dealt = np.minimum(capacities, rounds)
    left = pods - int(dealt.sum())
    turns = (np.arange(nodes) + start) % nodes
    # The last pod goes to the last node of the incomplete round, or of the last full round if there is none.
    served = turns[capacities[turns] > rounds][:left] if left else turns[capacities[turns] >= rounds]
    if left:
        dealt[served] += 1
    return dealt, int(served[-1] + 1) % nodes


def dealt_in_turn(indices: Ints, counts: Ints, start: int, nodes: int) -> list[int]:
    """Return the nodes in the order in which ``round_robin`` dealt pods to them, each as often as it got a pod."""
    turn = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    served = np.repeat(indices, counts)
    order: list[int] = served[np.lexsort(((served - start) % nodes, turn))].tolist()
    return order


def _full_rounds(capacities: Ints, pods: int) -> int:
    """Return the largest number of rounds, one pod for each node with room, that deal at most ``pods`` pods."""
    steps = np.sort(capacities)
    nodes = len(steps)
    # Rounds up to the k-th smallest capacity deal all smaller capacities in full, and that many pods to each other node.
    below = np.concatenate([[0], np.cumsum(steps)[:-1]])
    cost = below + steps * np.arange(nodes, 0, -1)
    k = int(np.searchsorted(cost, pods, side="right"))
    if k == nodes:
        return int(steps[-1])
    return int((pods - below[k]) // (nodes - k))
