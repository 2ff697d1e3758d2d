"""The independent check of moves: each broken rule is told, and a correct move is not."""

import dataclasses

from msgspec.structs import replace

from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.move import Addition, Move, MoveStage
from nodewright.model.node import INSTANCE_TYPE_LABEL, NodeCondition, NodeStatus
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.testkit.builders import build_node
from nodewright.testkit.world import NOW, World
from nodewright.validate import check_moves


def seen() -> Observation:
    world = World()
    world.add_group("large", 1, cpu="32", memory="64Gi", hourly_price=3.0)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    world.add_group("unpriced", 0, cpu="2", memory="4Gi")
    world.add_group("other", 2, cpu="8", memory="16Gi", hourly_price=1.0)
    starting = NodeStatus(conditions=(NodeCondition(type="Ready", status="False"),))
    world.nodes[-1] = replace(world.nodes[-1], status=starting)
    return world.state(Settings()).observation


SEEN = seen()
LARGE, OTHER, SMALL, UNPRICED = sorted(SEEN.groups)
MOVE = Move(
    id="m",
    reason=DisruptionReason.REPLACED,
    sources=("large-0",),
    added=(Addition(group=SMALL, nodes=2),),
    started=NOW,
    deadline=NOW + 60,
)
GROWTH = IncreaseSize(group=SMALL, expected_target=0, target=2)


def rules(*moves: Move, removals: tuple[NodeRemoval, ...] = (), growth: IncreaseSize = GROWTH) -> list[str]:
    return [violation.rule for violation in check_moves(SEEN, moves, (growth,), removals)]


def removal(name: str, place: str = "other-0") -> NodeRemoval:
    return NodeRemoval(
        node=name, group=LARGE, instance_id=name, reason=RemovalReason.REPLACED, pods=("p",), places=(place,)
    )


def test_a_correct_move_breaks_no_rule() -> None:
    assert rules(MOVE) == []
    ready = replace(MOVE, stage=MoveStage.READY)
    assert rules(ready, removals=(removal("large-0"),)) == []


def test_new_nodes_cost_less_than_the_old_ones() -> None:
    (rule,) = rules(replace(MOVE, added=(Addition(group=SMALL, nodes=15),)))
    assert rule == "the new nodes of move m cost $3.0000 an hour, and the old ones $3.0000"
    assert rules(replace(MOVE, reason=DisruptionReason.EXPIRED, added=(Addition(group=SMALL, nodes=15),))) == []


def test_new_nodes_of_a_preferred_group_cost_no_more_than_the_old_ones_if_both_have_a_price() -> None:
    back = replace(MOVE, reason=DisruptionReason.PREFERRED, added=(Addition(group=SMALL, nodes=15),))
    assert rules(back) == []
    (rule,) = rules(replace(back, added=(Addition(group=SMALL, nodes=16),)))
    assert rule == "the new nodes of move m cost $3.2000 an hour, and the old ones $3.0000"
    assert rules(replace(back, added=(Addition(group=UNPRICED, nodes=16),))) == []


def test_new_nodes_of_a_preferred_group_may_cost_exactly_as_much() -> None:
    """Three times 0.1 is more than 0.3 in floating point."""
    world = World()
    world.add_group("large", 1, hourly_price=0.3)
    world.add_group("small", 0, hourly_price=0.1)
    back = replace(MOVE, reason=DisruptionReason.PREFERRED, added=(Addition(group=SMALL, nodes=3),))
    growth = replace(GROWTH, target=3)
    assert check_moves(world.state(Settings()).observation, (back,), (growth,), ()) == ()


def test_the_price_of_a_node_of_another_machine_type_than_its_groups_next_one_is_unknown() -> None:
    world = World()
    world.add_group("large", 1, hourly_price=0.1, labels={INSTANCE_TYPE_LABEL: "m5.large"})
    world.add_group("small", 0, hourly_price=0.2)
    new = build_node("template", labels={INSTANCE_TYPE_LABEL: "m5.4xlarge"})
    world.groups[LARGE] = dataclasses.replace(world.groups[LARGE], template=new)
    observed = world.state(Settings()).observation
    back = replace(MOVE, reason=DisruptionReason.PREFERRED)
    assert check_moves(observed, (back,), (GROWTH,), ()) == ()
    (violation,) = check_moves(observed, (MOVE,), (GROWTH,), ())
    assert violation.rule == "the price of the old nodes of move m is unknown"


def test_a_node_is_in_one_move() -> None:
    under_way = replace(MOVE, id="n", stage=MoveStage.LAUNCHING)
    assert rules(MOVE, under_way) == ["node large-0 is in two moves"]
    assert rules(MOVE, replace(under_way, stage=MoveStage.ABANDONED)) == []


def test_a_source_exists() -> None:
    rule, *_ = rules(replace(MOVE, sources=("gone",)))
    assert rule == "move m gives up node gone, which does not exist"


def test_nothing_is_drained_before_the_new_nodes_are_ready() -> None:
    launching = replace(MOVE, stage=MoveStage.LAUNCHING)
    (rule,) = rules(launching, removals=(removal("large-0"),))
    assert rule == "node large-0 is drained before the new nodes of move m are ready (launching)"
    assert rules(launching, removals=(removal("other"),)) == []


def test_two_moves_share_no_node_whatever_their_stage() -> None:
    ready = replace(MOVE, id="n", stage=MoveStage.READY)
    nothing_bought = replace(MOVE, added=(), stage=MoveStage.DRAINING)
    for pair in ((ready, replace(ready, id="o")), (nothing_bought, replace(nothing_bought, id="o"))):
        assert rules(*pair, removals=(removal("large-0"),)) == ["node large-0 is in two moves"]


def test_pods_go_to_nodes_that_are_ready_and_stay_whatever_the_planner_says_of_its_move() -> None:
    ready = replace(MOVE, stage=MoveStage.READY)
    (rule,) = rules(ready, removals=(removal("large-0", "other-1"),))
    assert rule == "pods of node large-0 are to go to node other-1, which is not ready"
    (rule,) = rules(ready, removals=(removal("large-0", "upcoming-0"),))
    assert rule == "pods of node large-0 are to go to node upcoming-0, which is not ready"
    (rule,) = rules(replace(ready, sources=("large-0", "other-0")), removals=(removal("large-0"),))
    assert rule == "pods of node large-0 are to go to node other-0, which move m gives up"


def test_what_has_no_price_is_not_added() -> None:
    added = (Addition(group=UNPRICED, nodes=1),)
    (rule,) = rules(replace(MOVE, added=added), growth=replace(GROWTH, group=UNPRICED, target=1))
    assert rule == "the price of nodes of group cloud/unpriced is unknown, and move m adds some"


def test_each_addition_counts_also_of_the_same_group() -> None:
    added = (Addition(group=SMALL, nodes=8), Addition(group=SMALL, nodes=7))
    (rule,) = rules(replace(MOVE, added=added), growth=replace(GROWTH, target=15))
    assert rule == "the new nodes of move m cost $3.0000 an hour, and the old ones $3.0000"


def test_a_group_grows_by_what_the_move_adds() -> None:
    (rule,) = rules(MOVE, growth=replace(GROWTH, target=3))
    assert rule == "group cloud/small grows by 3, and move m needs 2"
