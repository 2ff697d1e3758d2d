"""Could a node go? Its pods are moved in a picture of the cluster (behaviour/down.md A6).

CA forks its picture for every candidate. Here moves are written down and taken back, so that a candidate costs what
its own pods cost, however large the cluster is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from msgspec.structs import replace

from nodewright.model.node import TO_BE_DELETED_TAINT, Node, Taint
from nodewright.model.pod import Pod
from nodewright.planner.hints import Hints
from nodewright.predicates import feasible, is_guarded_against
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

# Nodes looked at first; a scan that finds nothing there looks at ever more at a time.
_FIRST_WINDOW = 128
_GROWTH = 8


@dataclass
class _Attempt:
    """One try to empty a node, and where its pods went so far."""

    board: Snapshot
    open_rows: Mask
    placed: list[tuple[Pod, PodClass, int]] = field(default_factory=list)


class Simulation:
    """A cluster in which nodes are emptied one after the other; ``board`` belongs to it alone.

    ``destinations`` are the rows that may take pods; a node that could go is none from then on.
    """

    def __init__(self, board: Snapshot, destinations: Mask, hints: Hints, now: float) -> None:
        self.board = board
        self._open = destinations & board.alive
        self._hints = hints
        # Where pods of nodes that could go are by now: that is what the plan means.
        self._settled: dict[str, str] = {}
        self._cursor = 0
        self._now = now

    def empty(self, row: int, moving: Sequence[Pod]) -> Pod | None:
        """Move these pods off the node of a row. The node is gone if all can be; else nothing has changed, and the
        answer is a pod that has no place.
        """
        if not moving:
            self._take_out(row)
            return None
        if any(_heeds_taints(self.board.class_of(pod, placed=True)) for pod in moving):
            return self._empty_beside_ghost(row, moving)
        held = self.board.lift(row)
        was_open, self._open[row] = bool(self._open[row]), False
        attempt = _Attempt(self.board, self._open)
        stuck = self._move(attempt, moving)
        self._keep_hints(attempt, failed=stuck is not None)
        if stuck is None:
            self._take_out(row)
            return None
        for pod, pod_class, there in reversed(attempt.placed):
            self.board.unplace(pod_class, there, pod=pod)
        self.board.lay(row, held)
        self._open[row] = was_open
        return stuck

    def _keep_hints(self, attempt: _Attempt, *, failed: bool) -> None:
        """A pod that was moved before stays where it was when it could not be moved on after all."""
        for pod, _, row in attempt.placed:
            if not failed:
                self._settled[pod.key] = attempt.board.name(row)
            elif pod.key in self._settled:
                self._hints.set(pod, self._settled[pod.key])

    def _take_out(self, row: int) -> None:
        self._open[row] = False
        self.board.remove_node(row)

    def _empty_beside_ghost(self, row: int, moving: Sequence[Pod]) -> Pod | None:
        """As ``empty``, where a pod counts tainted nodes no longer: a tainted copy without pods stands for the node."""
        board = self.board.fork()
        ghost = leave_ghost(board, row, self._now)
        open_rows = np.append(self._open, False)
        open_rows[row] = False
        attempt = _Attempt(board, open_rows)
        stuck = self._move(attempt, moving)
        self._keep_hints(attempt, failed=stuck is not None)
        if stuck is None:
            board.remove_node(ghost)
            self.board, self._open = board, open_rows
        return stuck

    def _move(self, attempt: _Attempt, moving: Sequence[Pod]) -> Pod | None:
        """Find places for pods, those of high priority first; answers the first that has none.

        What follows after a failure only refreshes hints, as it does in CA.
        """
        stuck: Pod | None = None
        ranked = sorted(moving, key=_priority, reverse=True)
        for _, alike in groupby(ranked, key=_priority):
            failed = self._move_group(attempt, list(alike))
            stuck = stuck or failed
        return stuck

    def _move_group(self, attempt: _Attempt, pods: Iterable[Pod]) -> Pod | None:
        """Pods of one priority; the first without a place ends it, so that CA's memory of pods alike has no effect."""
        left = [pod for pod in pods if not self._follow_hint(attempt, pod)]
        for pod_class, alike in groupby(left, key=lambda pod: attempt.board.class_of(pod, placed=True)):
            waiting = list(alike)
            # Where only amounts keep pods apart, one that is placed changes nothing for the others of its class.
            together = pod_class.is_plain and not is_guarded_against(attempt.board, pod_class)
            while waiting:
                rows = self._next_rows(attempt, pod_class, len(waiting) if together else 1)
                if not rows:
                    return waiting[0]
                for pod, row in zip(waiting, rows, strict=False):
                    self._settle(attempt, pod, pod_class, row)
                waiting = waiting[len(rows) :]
        return None

    def _follow_hint(self, attempt: _Attempt, pod: Pod) -> bool:
        name = self._hints.get(pod)
        row = attempt.board.find_row(name) if name is not None else None
        if row is None or not attempt.open_rows[row]:
            return False
        pod_class = attempt.board.class_of(pod, placed=True)
        if not feasible(attempt.board, pod_class, slice(row, row + 1))[0]:
            return False
        self._settle(attempt, pod, pod_class, row)
        return True

    def _settle(self, attempt: _Attempt, pod: Pod, pod_class: PodClass, row: int) -> None:
        attempt.board.place(pod_class, row, pod=pod)
        attempt.placed.append((pod, pod_class, row))
        self._hints.set(pod, attempt.board.name(row))

    def _next_rows(self, attempt: _Attempt, pod_class: PodClass, count: int) -> list[int]:
        """The next so many open nodes in turn that take such a pod, fewer if there are no more; cordoned ones are
        passed by.
        """
        found: list[int] = []
        rows, start = len(attempt.board), self._cursor % max(1, len(attempt.board))
        for window in (*_windows(start, rows), *_windows(0, start)):
            mask = attempt.open_rows[window] & attempt.board.schedulable[window]
            if mask.any():
                mask &= feasible(attempt.board, pod_class, window)
                found += (window.start + np.flatnonzero(mask)[: count - len(found)]).tolist()
            if len(found) == count:
                break
        if found:
            self._cursor = found[-1] + 1
        return found


def _windows(start: int, stop: int) -> Iterable[slice]:
    """Slices from ``start`` to ``stop``, each longer than the one before."""
    size = _FIRST_WINDOW
    while start < stop:
        yield slice(start, min(stop, start + size))
        start, size = start + size, size * _GROWTH


def leave_ghost(board: Snapshot, row: int, now: float) -> int:
    """Put a tainted copy without pods in place of a node; answers its row."""
    node = board.node(row)
    board.remove_node(row)
    return board.add_node(tainted(node, now))


def tainted(node: Node, now: float) -> Node:
    """The node as it will be marked for deletion."""
    mark = Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now)))
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, mark)))


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


@per_class
def _heeds_taints(pod_class: PodClass) -> bool:
    """Whether the pod spreads over nodes that it tolerates, of which a node marked for deletion is none."""
    return any(
        constraint.when_unsatisfiable == "DoNotSchedule" and constraint.node_taints_policy == "Honor"
        for constraint in pod_class.spec.topology_spread_constraints
    )
