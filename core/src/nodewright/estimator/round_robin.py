"""Round-robin placement of identical pods, computed in closed form."""

import numpy as np

from nodewright.snapshot.column import Ints


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
