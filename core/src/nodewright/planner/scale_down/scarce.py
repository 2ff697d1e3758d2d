"""In which order the pods of a node are moved: those that fit on the fewest nodes first.

A scheduler puts pods where it likes. One that fits in many places may get the only place of another, unless that one
came first. CA evicts them as they come.
"""

from collections.abc import Mapping
from dataclasses import replace

from nodewright.planner.candidates import ScaleUpContext
from nodewright.planner.scale_down.examine import takes_pods
from nodewright.planner.scale_down.load import Load
from nodewright.planner.scale_down.trial import Removable
from nodewright.predicates import feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass


def scarcest_first(ground: ScaleUpContext, going: Mapping[str, Removable]) -> dict[str, Removable]:
    """The nodes that go, each with its pods in that order."""
    if all(_is_uniform(node.moving) for node in going.values()):
        return dict(going)
    board, staying, known = ground.snapshot, _staying(ground, going), dict[PodClass, int]()

    def count(pod_class: PodClass) -> int:
        if pod_class not in known:
            known[pod_class] = int((feasible(board, pod_class) & staying).sum())
        return known[pod_class]

    def in_order(node: Removable) -> Removable:
        if _is_uniform(node.moving):
            return node
        load, kinds = node.moving, node.moving.roster.kinds
        numbers = sorted(load.numbers, key=lambda number: count(kinds[number].pod_class))
        return replace(node, moving=Load(load.roster, numbers, load.variety))

    return {name: in_order(node) for name, node in going.items()}


def _is_uniform(load: Load) -> bool:
    return len({kind.pod_class for kind in load.variety}) < 2


def _staying(ground: ScaleUpContext, going: Mapping[str, Removable]) -> Mask:
    """The rows of nodes to which the pods may go: those that are there and stay."""
    board = ground.snapshot
    found = takes_pods(board, ground.state)
    found[[board.row(name) for name in going]] = False
    return found & board.schedulable
