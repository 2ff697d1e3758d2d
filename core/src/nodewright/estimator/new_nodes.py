"""What is free on the nodes that an estimation adds, resource by resource."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS

_UNLIMITED = int(np.iinfo(np.int64).max)
# Resource → what is free of it on the first nodes.
ReadFree = Callable[[str], Ints]


class NewNodes:
    """Copies of one template, by index. A resource gets a column when somebody asks for it.

    ``empty`` is what a copy offers before any pending pod is on it, by resource; pods are one of them. ``turn`` is the
    index at which the next search for a place begins: the one behind the last that took a pod so.
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
        """How many nodes have pods beside what every copy has."""
        return int(np.count_nonzero(self.column(PODS) != self.offers(PODS)))

    @property
    def last_is_empty(self) -> bool:
        return self._count > 0 and bool(self.column(PODS)[-1] == self.offers(PODS))

    def offers(self, name: str) -> int:
        """What an empty node has of a resource."""
        return self._empty.get(name, 0)

    def grow(self, count: int) -> range:
        """Add empty nodes; answers their indices."""
        added = range(self._count, self._count + count)
        self._count += count
        for name in self._buffers:
            self._extend(name, added.start)
        return added

    def reread(self, count: int, read: ReadFree) -> None:
        """Others have placed pods on the first ``count`` nodes: what is free there is to be asked of them."""
        self._buffers, self._free, self._reread = {}, {}, (count, read)

    def room_when_empty(self, pod_class: PodClass) -> int:
        """How many pods of a class an empty node takes, by amounts."""
        room = _UNLIMITED
        for name, amount, held in demands(pod_class):
            free = self.offers(name)
            if free < amount:
                return 0
            room = min(room, (free - amount) // held + 1 if held else _UNLIMITED)
        return room

    def fitting(self, pod_class: PodClass) -> Mask:
        """Which nodes take one more pod, by amounts."""
        found: Mask = self.column(PODS) >= 1
        for name, amount in pod_class.requests.items():
            found &= self.column(name) >= amount
        return found

    def room(self, pod_class: PodClass, indices: Ints) -> Ints:
        """How many more pods of a class some nodes take that take one, by amounts."""
        found: Ints = np.full(len(indices), _UNLIMITED)
        for name, amount, held in demands(pod_class):
            if held:
                np.minimum(found, (self.column(name)[indices] - amount) // held + 1, out=found)
        return found

    def take(self, pod_class: PodClass, indices: Ints | int, counts: Ints | int) -> None:
        """Count pods placed on distinct nodes."""
        self.column(PODS)[indices] -= counts
        for name, held in pod_class.placed_requests.items():
            self.column(name)[indices] -= counts * held

    def column(self, name: str) -> Ints:
        """What is free of a resource, per node."""
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
    """Resource, what an incoming pod asks of it, and what it holds once it runs; a place among the pods first."""
    yield PODS, 1, 1
    placed = pod_class.placed_requests
    for name, amount in pod_class.requests.items():
        yield name, amount, placed.get(name, 0)
