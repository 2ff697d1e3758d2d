"""Pack pods on nodes that are there and on new ones in one plan: a node that is there is a kind of its own, of which there is one."""

from dataclasses import dataclass, replace

import numpy as np

from nodewright.optimizer.problem import Floats, Ints, Mix, Problem

# With more nodes that have room, pods are put on these first and nodes are bought for the rest.
MOST_ROOMS = 150
# The price of the room of a node, as a part of the price of a new node of its size: rooms that are filled well come first.
_PRICE_OF_ROOM = 1e-6


@dataclass(frozen=True, eq=False)
class JointPacking:
    """``problem``: its first ``kinds`` kinds are new nodes, each of the others is the room of the node in ``rows``.

    Its classes are those of ``classes``.
    """

    problem: Problem
    kinds: int
    classes: Ints
    rows: Ints

    def split(self, mix: Mix, moved: Ints) -> Mix:
        """Return what the mix buys, and count in ``moved`` (class × node) the pods that it puts on nodes that are there."""
        bought = []
        for pattern in mix.patterns:
            pods = tuple((int(self.classes[one]), count) for one, count in pattern.pods)
            if pattern.kind < self.kinds:
                bought.append(pattern._replace(pods=pods))
            else:
                for one, count in pods:
                    moved[one, self.rows[pattern.kind - self.kinds]] += count
        left = np.zeros(len(moved), dtype=np.int64)
        left[self.classes] = mix.left
        price = float(sum(self.problem.prices[kind] * copies for kind, _, copies in bought))
        return Mix(tuple(bought), tuple(left.tolist()), price, mix.is_cut)


def make_packing(buying: Problem, pods: Ints, free: Floats, takes: Ints) -> JointPacking | None:
    """Return the problem of placing ``pods`` of each class; None if too many nodes have room.

    ``free`` (N × R): the room of nodes that are there. ``takes`` (C × N): how many more pods of the class each takes at most.
    """
    classes = np.flatnonzero(pods)
    requests = buying.requests[classes]
    per_node = np.array([buying.per_node[one] for one in classes])
    asked = np.where(requests > 0, requests, 1.0)
    room = np.full((len(classes), len(free)), np.inf)
    for resource in range(free.shape[1]):
        wants = requests[:, resource] > 0
        room[wants] = np.minimum(room[wants], free[:, resource] // asked[wants, None, resource])
    # The optimizer knows one limit a class: a node that takes fewer for another reason is left out.
    fits = (room >= 1) & (takes[classes] >= np.minimum(room, np.minimum(per_node, pods[classes])[:, None]))
    rows = np.flatnonzero(fits.any(axis=0))
    if len(rows) > MOST_ROOMS:
        return None
    scale = np.maximum(buying.free.max(axis=0, initial=0.0), 1e-9)
    sizes = (free[rows] / scale).sum(axis=1)
    problem = replace(
        buying,
        requests=requests,
        pods=pods[classes].tolist(),
        per_node=per_node.tolist(),
        free=np.vstack([buying.free, free[rows]]),
        prices=np.concatenate([buying.prices, _PRICE_OF_ROOM * buying.prices.max(initial=0.0) * sizes]),
        rooms=[*buying.rooms, *(1 for _ in rows)],
        fits=np.hstack([buying.fits[classes], fits[:, rows]]),
    )
    return JointPacking(problem, len(buying.prices), classes, rows)
