"""New nodes beside those that are there, where predicates must look at both."""

from collections.abc import Sequence

import numpy as np

from nodewright.estimator.new_nodes import NewNodes
from nodewright.estimator.placements import Placements
from nodewright.model.node import Node
from nodewright.predicates import is_admitted, static_key
from nodewright.snapshot.column import Ints
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS
from nodewright.snapshot.snapshot import Snapshot


class Fork:
    """A snapshot with the new nodes behind its own, and the pods on them. It is forked when somebody asks for it, and
    learns then what has come since.

    ``first`` is the row of the first new node.
    """

    def __init__(
        self, real: Snapshot, node: Node, daemons: Sequence[PodClass], nodes: NewNodes, placed: Placements
    ) -> None:
        self._real, self._node, self._daemons = real, node, daemons
        self._nodes, self._placed = nodes, placed
        self.first = len(real)
        self._fork: Snapshot | None = None
        self._board: Snapshot | None = None
        self._admitted: dict[object, bool] = {}

    @property
    def window(self) -> slice:
        """The rows of the new nodes."""
        return slice(self.first, self.first + len(self._nodes))

    @property
    def known(self) -> Snapshot:
        """What is known of pods that keep others away: the snapshot, as long as it is not forked."""
        return self._real if self._fork is None else self.snapshot()

    def snapshot(self) -> Snapshot:
        """The fork, with all new nodes and the pods on them."""
        if self._fork is None:
            self._fork = self._real.fork()
        fork = self._fork
        missing = self.window.stop - len(fork)
        if missing:
            rows = fork.add_copies(self._node, missing)
            for daemon in self._daemons:
                fork.place_many(daemon, np.arange(rows.start, rows.stop), np.ones(missing, dtype=np.int64))
        for placed in self._placed.untold():
            fork.place_many(placed.pod_class, np.asarray(placed.indices) + self.first, np.asarray(placed.counts))
        return fork

    def is_unused(self, row: int) -> bool:
        """Whether a new node has no pods but those of every copy."""
        return int(self.snapshot().free[row, self._real.vocabulary.resources[PODS]]) == self._nodes.offers(PODS)

    def read(self, resource: str) -> Ints:
        """What is free of a resource on the new nodes; nothing where no node offers it."""
        fork = self.snapshot()
        column = fork.vocabulary.resources.get(resource)
        if column is None:
            return np.zeros(1, dtype=np.int64)
        fork.widen()
        return fork.free[self.window, column]

    def admits(self, pod_class: PodClass) -> bool:
        """Whether a new node takes pods of a plain class at all, room or not: no fork is needed to tell."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None:
            if self._board is None:
                self._board = self._real.sibling()
                self._board.add_copies(self._node, 1)
            known = self._admitted[key] = bool(is_admitted(self._board, pod_class, slice(0, 1))[0])
        return known
