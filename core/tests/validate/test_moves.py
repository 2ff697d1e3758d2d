"""The independent check of moves: each broken rule is told, and a correct move is not."""

from msgspec.structs import replace

from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.move import Addition, Move, MoveStage
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.testkit.world import NOW, World
from nodewright.validate import check_moves


def seen() -> Observation:
    world = World()
    world.add_group("large", 1, cpu="32", memory="64Gi", hourly_price=3.0)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    return world.state(Settings()).observation


SEEN = seen()
LARGE, SMALL = sorted(SEEN.groups)
MOVE = Move(
    id="m",
    reason=DisruptionReason.REPLACED,
    sources=("large-0",),
    added=(Addition(group=SMALL, nodes=2),),
    started=NOW,
    deadline=NOW + 60,
)
GROWTH = IncreaseSize(group=SMALL, expected_target=0, target=2)


def rules(*moves: Move, removals: tuple[NodeRemoval, ...] = ()) -> list[str]:
    return [violation.rule for violation in check_moves(SEEN, moves, (GROWTH,), removals)]


def removal(name: str) -> NodeRemoval:
    return NodeRemoval(node=name, group=LARGE, instance_id=name, reason=RemovalReason.REPLACED)


def test_a_correct_move_breaks_no_rule() -> None:
    assert rules(MOVE) == []
    ready = replace(MOVE, stage=MoveStage.READY)
    assert rules(ready, removals=(removal("large-0"),)) == []


def test_new_nodes_cost_less_than_the_old_ones() -> None:
    (rule,) = rules(replace(MOVE, added=(Addition(group=SMALL, nodes=15),)))
    assert rule == "the new nodes of move m cost $3.0000 an hour, and the old ones $3.0000"
    assert rules(replace(MOVE, reason=DisruptionReason.EXPIRED, added=(Addition(group=SMALL, nodes=15),))) == []


def test_a_node_is_in_one_move() -> None:
    under_way = replace(MOVE, id="n", stage=MoveStage.LAUNCHING)
    assert rules(MOVE, under_way) == ["node large-0 is in two moves"]
    assert rules(MOVE, replace(under_way, stage=MoveStage.ABANDONED)) == []


def test_a_source_exists() -> None:
    (rule,) = rules(replace(MOVE, sources=("gone",)))
    assert rule == "move m gives up node gone, which is not there"


def test_nothing_is_drained_before_the_new_nodes_are_ready() -> None:
    launching = replace(MOVE, stage=MoveStage.LAUNCHING)
    (rule,) = rules(launching, removals=(removal("large-0"),))
    assert rule == "node large-0 is drained before the new nodes of move m are ready (launching)"
    assert rules(launching, removals=(removal("other"),)) == []
