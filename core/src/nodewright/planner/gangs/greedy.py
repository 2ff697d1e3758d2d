"""Place the pods of a gang as kube-scheduler does: one after the other, each on its best node, without going back."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from nodewright.model.pod import Pod
from nodewright.predicates import capacity, feasible, is_countable
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

# The amounts with which a pod without requests counts when nodes are scored (kube-scheduler's defaults: millicores, bytes).
_DEFAULTS = {"cpu": 100, "memory": 200 * 2**20}


def place_greedily(
    snapshot: Snapshot, pods: Iterable[Pod], allowed: Mask | None = None
) -> tuple[list[tuple[Pod, int]], list[Pod]]:
    """Place pods in this order; return the placed ones with their rows, and those without room.

    ``allowed``: the rows that may take pods (None: all). Nodes are scored as in kube-scheduler's default profile: the least
    allocated, most balanced one is the best. Of equal ones the last is taken, which is the newest; kube-scheduler takes any
    of them, and tries again if the gang fails.
    """
    placed: list[tuple[Pod, int]] = []
    left: list[Pod] = []
    for pod_class, alike in groupby(pods, key=snapshot.class_of):
        held = list(alike)
        if is_countable(snapshot, pod_class):
            rows = _place_countable(snapshot, pod_class, held, allowed)
        else:
            rows = _place_one_by_one(snapshot, pod_class, held, allowed)
        placed += zip(held, rows, strict=False)
        left += held[len(rows) :]
    return placed, left


def _place_countable(snapshot: Snapshot, pod_class: PodClass, pods: Sequence[Pod], allowed: Mask | None) -> list[int]:
    if not len(snapshot):
        return []
    room = np.where(snapshot.schedulable, capacity(snapshot, pod_class, slice(0, len(snapshot))), 0)
    if allowed is not None:
        room = np.where(allowed, room, 0)
    candidates = np.flatnonzero(room)
    room, scores = room[candidates].copy(), _Scores(snapshot, pod_class, candidates)
    turns: list[int] = []
    for _ in range(min(len(pods), int(np.minimum(room, len(pods)).sum()))):
        best = scores.best(room > 0)
        room[best] -= 1
        scores.take(best)
        turns.append(int(candidates[best]))
    for row in dict.fromkeys(turns):
        own = [pod for pod, turn in zip(pods, turns, strict=False) if turn == row]
        snapshot.place(pod_class, row, len(own))
        snapshot.name_pods(pod_class, row, own)
    return turns


def _place_one_by_one(snapshot: Snapshot, pod_class: PodClass, pods: Sequence[Pod], allowed: Mask | None) -> list[int]:
    turns: list[int] = []
    for pod in pods:
        fits = feasible(snapshot, pod_class) & snapshot.schedulable
        rows = np.flatnonzero(fits if allowed is None else fits & allowed)
        if not len(rows):
            break
        row = int(rows[_Scores(snapshot, pod_class, rows).best(np.ones(len(rows), dtype=np.bool_))])
        snapshot.place(pod_class, row, pod=pod)
        turns.append(row)
    return turns


class _Scores:
    """The scores of some rows for a pod of one class, while pods of the class are placed."""

    def __init__(self, snapshot: Snapshot, pod_class: PodClass, rows: Ints) -> None:
        columns = [snapshot.vocabulary.resources[name] for name in _DEFAULTS]
        self._amounts = np.array(
            [pod_class.requests.get(name, least) for name, least in _DEFAULTS.items()], dtype=float
        )
        self._offered = np.maximum(snapshot.allocatable[rows][:, columns].astype(float), 1.0)
        self._used = self._offered - snapshot.free[rows][:, columns]
        self._scores = self._score(slice(None))

    def best(self, possible: Mask) -> int:
        """Return the last of the possible rows with the highest score."""
        scores = np.where(possible, self._scores, -1.0)
        return len(scores) - 1 - int(np.argmax(scores[::-1]))

    def take(self, index: int) -> None:
        """Count one pod more on a row."""
        self._used[index] += self._amounts
        self._scores[index] = self._score(slice(index, index + 1))[0]

    def _score(self, window: slice) -> Ints:
        shares = np.clip((self._used[window] + self._amounts) / self._offered[window], 0.0, 1.0)
        least = np.floor(np.floor((1.0 - shares) * 100 + 1e-9).mean(axis=1))
        balance = np.floor((1.0 - shares.std(axis=1)) * 100 + 1e-9)
        found: Ints = least + balance
        return found
