"""Round-robin placement of identical pods in closed form."""

import numpy as np

from nodewright.snapshot.column import Ints


def round_robin(capacities: Ints, pods: int, start: int) -> tuple[Ints, int]:
    """Deal identical pods to nodes in turn, from index ``start`` round and round, while a node has room.

    ``capacities`` is how many more pods each node takes. Answers how many each got, and the index after the
    last one served (``start`` when nothing was placed).
    """
    nodes = len(capacities)
    total = int(capacities.sum())
    if pods >= total:
        served = np.flatnonzero(np.roll(capacities, -start) == capacities.max(initial=0)) if total else []
        return capacities.copy(), (start + int(served[-1]) + 1) % nodes if total else start
    rounds = _full_rounds(capacities, pods)
    dealt = np.minimum(capacities, rounds)
    left = pods - int(dealt.sum())
    turns = (np.arange(nodes) + start) % nodes
    open_turns = turns[capacities[turns] > rounds]
    dealt[open_turns[:left]] += 1
    if left:
        return dealt, int(open_turns[left - 1] + 1) % nodes
    last_round = turns[capacities[turns] >= rounds] if rounds else []
    return dealt, int(last_round[-1] + 1) % nodes if len(last_round) else start


def _full_rounds(capacities: Ints, pods: int) -> int:
    """The most rounds in which every node with room gets one pod, without dealing more than ``pods``."""
    steps = np.sort(capacities)
    nodes = len(steps)
    # Dealing up to the k-th smallest capacity costs everything below it plus that level for the rest.
    below = np.concatenate([[0], np.cumsum(steps)[:-1]])
    cost = below + steps * np.arange(nodes, 0, -1)
    k = int(np.searchsorted(cost, pods, side="right"))
    if k == nodes:
        return int(steps[-1])
    return int((pods - below[k]) // (nodes - k))
