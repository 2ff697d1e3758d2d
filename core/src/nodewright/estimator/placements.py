"""Which pods an estimation has found a place for."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from nodewright.estimator.spread import dealt_in_turn
from nodewright.model.pod import Pod
from nodewright.snapshot.column import Ints
from nodewright.snapshot.pod_class import PodClass

_ONE = [1]


class OnNew(NamedTuple):
    """Pods of a list on new nodes: from which on, how many, on which nodes how many each, and the node from which they were
    dealt in turn (None: one node was filled after the other).
    """

    pod_class: PodClass
    pods: Sequence[Pod]
    start: int
    size: int
    indices: Ints | list[int]
    counts: Ints | list[int]
    first: int | None


class Placements:
    """Pods on new nodes, by the nodes' index, and those on others."""

    def __init__(self) -> None:
        self._on_new: list[OnNew] = []
        self._beside: list[tuple[PodClass, Sequence[Pod]]] = []
        self._told = 0

    def add(self, placed: OnNew) -> None:
        self._on_new.append(placed)

    def add_one(self, pod_class: PodClass, pods: Sequence[Pod], index: int) -> None:
        """The only pod of a list."""
        self._on_new.append(OnNew(pod_class, pods, 0, 1, [index], _ONE, None))

    def add_beside(self, pod_class: PodClass, pods: Sequence[Pod]) -> None:
        """Pods that help themselves to no new node of the picture."""
        self._beside.append((pod_class, pods))

    def untold(self) -> Iterator[OnNew]:
        """What came since this was asked last."""
        told, self._told = self._told, len(self._on_new)
        return iter(self._on_new[told:])

    def by_node(self, nodes: int) -> tuple[tuple[Pod, ...], ...]:
        """The pods of each of so many new nodes."""
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
        """All of them, those beside the new nodes last."""
        parts = (
            pods if count == len(pods) else pods[start : start + count] for _, pods, start, count, *_ in self._on_new
        )
        return tuple(chain.from_iterable(chain(parts, (pods for _, pods in self._beside))))

    def by_class(self) -> dict[PodClass, int]:
        """How many pods of each class."""
        found: dict[PodClass, int] = {}
        for pod_class, _, _, count, *_ in self._on_new:
            found[pod_class] = found.get(pod_class, 0) + count
        for pod_class, pods in self._beside:
            found[pod_class] = found.get(pod_class, 0) + len(pods)
        return found
