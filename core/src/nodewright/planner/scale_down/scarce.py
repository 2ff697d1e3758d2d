"""In which order the pods of a node are moved: those that fit on the fewest nodes first.

A scheduler puts pods where it likes. One that fits in many places may get the only place of another, unless that one
came first. CA evicts them as they come.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nodewright.planner.candidates import Ground
from nodewright.planner.scale_down.examine import Removable
from nodewright.planner.scale_down.load import sort_pods
from nodewright.predicates import feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass


def scarcest_first(ground: Ground, going: Mapping[str, Removable]) -> dict[str, Removable]:
    """The nodes that go, each with its pods in that order."""
    if all(len(node.moving) < 2 for node in going.values()):
        return dict(going)
    board, takes_pods, known = ground.snapshot, _takes_pods(ground, going), dict[PodClass, int]()

    def count(pod_class: PodClass) -> int:
        if pod_class not in known:
            known[pod_class] = int((feasible(board, pod_class) & takes_pods).sum())
        return known[pod_class]

    def in_order(node: Removable) -> Removable:
        kinds = sort_pods(board.vocabulary.classes, node.moving).kinds
        counts = [count(kind.pod_class) for kind in kinds]
        order = sorted(range(len(counts)), key=counts.__getitem__)
        return replace(node, moving=tuple([node.moving[index] for index in order]))

    return {name: in_order(node) for name, node in going.items()}


def _takes_pods(ground: Ground, going: Mapping[str, Removable]) -> Mask:
    """The rows of nodes that are there and stay."""
    seen, board = ground.state.observation, ground.snapshot
    names = (node.metadata.name for node in seen.snapshot.live_nodes())
    staying = [name for name in names if name in board and name not in going and name not in seen.removing]
    found = np.zeros(len(board), dtype=np.bool_)
    found[[board.row(name) for name in staying]] = True
    return found & board.schedulable
