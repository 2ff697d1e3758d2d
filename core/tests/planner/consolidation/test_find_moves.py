"""Moves that pay: what goes, what is bought, and what must stay."""

import dataclasses
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from msgspec.structs import replace

from nodewright.model.gang import GangPolicy, PodGroupSpec, SchedulingPodGroup, SchedulingPolicy
from nodewright.model.group import GroupOptions, Price
from nodewright.model.meta import LabelSelector, ObjectMeta
from nodewright.model.node import HOSTNAME_LABEL, INSTANCE_TYPE_LABEL
from nodewright.model.pod import SAFE_TO_EVICT_ANNOTATION, Affinity, PodAffinity, PodAffinityTerm, SchedulingGroup
from nodewright.model.settings import ConsolidationSettings, Settings
from nodewright.planner import find_growth_context
from nodewright.planner.consolidation import find_moves
from nodewright.planner.consolidation.find_moves import FoundMoves, Proposal
from nodewright.planner.consolidation.sources import DO_NOT_DISRUPT
from nodewright.testkit import build_pod
from nodewright.testkit.builders import build_budget, build_node
from nodewright.testkit.world import NOW, World, ref


def add_pods(world: World, node: str, count: int, cpu: str = "500m", memory: str = "500Mi", **extras: Any) -> None:
    owner = extras.pop("owner", ("ReplicaSet", "web"))
    extras.setdefault("labels", {"app": "web"})
    world.running += [
        build_pod(f"{node}-{n}", cpu, memory, node_name=node, owner=owner, **extras) for n in range(count)
    ]


def underused(**extras: Any) -> World:
    """Return a world with a large node of one small pod, and a cheap small group."""
    world = World()
    world.add_group("large", 1, cpu="32", memory="64Gi", hourly_price=3.0)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    add_pods(world, "large-0", 1, **extras)
    return world


def found_in(world: World, policy: str = "balanced", **more: Any) -> FoundMoves:
    settings = Settings(consolidation=ConsolidationSettings(consolidation_policy=policy, consolidation_budget=0.0))  # type: ignore[arg-type]
    context = find_growth_context(world.state(settings), settings, Random(1))
    assert context is not None
    return find_moves(context, settings.consolidation, Random(1), **more)


def move_in(world: World, **more: Any) -> Proposal:
    (move,) = found_in(world, **more).proposals
    return move


def test_a_large_node_with_one_pod_goes_for_a_small_one() -> None:
    move = move_in(underused())
    assert move.sources == ("large-0",)
    assert [(node.group.group_id, [pod.name for pod in node.pods]) for node in move.new_nodes] == [
        ("small", ["large-0-0"])
    ]
    assert move.savings == pytest.approx(2.8)
    assert move.evictions == 1
    assert move.score == pytest.approx(2.8 / 3.0)


def test_a_node_whose_pods_fit_elsewhere_goes_without_a_purchase() -> None:
    world = World()
    world.add_group("large", 2, cpu="32", memory="64Gi", hourly_price=3.0)
    add_pods(world, "large-0", 1)
    add_pods(world, "large-1", 3)
    move = move_in(world)
    assert (move.sources, move.new_nodes, dict(move.places)) == (("large-0",), (), {"default/large-0-0": "large-1"})


def test_many_nodes_go_for_few() -> None:
    world = World()
    world.add_group("mid", 6, cpu="8", memory="16Gi", hourly_price=1.0)
    world.add_group("big", 0, cpu="32", memory="64Gi", hourly_price=2.0)
    for node in range(6):
        add_pods(world, f"mid-{node}", 1, "5", "6Gi")
    move = move_in(world)
    assert len(move.sources) == 6
    assert [node.group.group_id for node in move.new_nodes] == ["big"]
    assert move.savings == pytest.approx(4.0)


def test_nothing_is_found_while_it_is_off() -> None:
    assert found_in(underused(), "off") == FoundMoves()


def test_only_empty_nodes_go_when_empty() -> None:
    world = underused()
    world.add_group("spare", 2, cpu="2", hourly_price=0.5)
    move = move_in(world, policy="when-empty")
    assert set(move.sources) == {"spare-0", "spare-1"}
    assert not move.new_nodes
    assert not move.evictions


def test_a_move_that_saves_too_little_for_its_disruption_is_made_only_when_cheaper() -> None:
    world = World()
    world.add_group("old", 1, cpu="8", memory="16Gi", hourly_price=1.0)
    world.add_group("new", 0, cpu="8", memory="16Gi", hourly_price=0.7)
    add_pods(world, "old-0", 10)
    found = found_in(world)
    assert not found.proposals
    assert found.rejected is not None
    assert (found.rejected.sources, found.rejected.why) == (("old-0",), "its score is 0.30, below 0.5")
    assert found.rejected.savings == pytest.approx(0.3)
    assert move_in(world, policy="when-cheaper").savings == pytest.approx(0.3)


@pytest.mark.parametrize(("others", "moves"), [(10, 0), (2, 1)])
def test_a_saving_of_less_than_a_hundredth_of_the_pool_evicts_nobody(others: int, moves: int) -> None:
    world = World()
    world.add_group("old", 1, cpu="8", memory="16Gi", hourly_price=1.0)
    world.add_group("new", 0, cpu="8", memory="16Gi", hourly_price=0.92)
    world.add_group("other", others, cpu="2", memory="16Gi", hourly_price=1.0, min_size=others)
    add_pods(world, "old-0", 1, "5")
    found = found_in(world, "when-cheaper")
    assert len(found.proposals) == moves
    whys = [] if found.rejected is None else [found.rejected.why]
    assert whys == ["it saves less than 1% of the price of all nodes"] * (1 - moves)


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"annotations": {SAFE_TO_EVICT_ANNOTATION: "false"}}, "safe-to-evict"),
        ({"annotations": {DO_NOT_DISRUPT: "true"}}, DO_NOT_DISRUPT),
        ({"owner": None}, "no controller would start it again"),
        ({"created_at": NOW - 100.0}, "--consolidate-after"),
    ],
)
def test_a_node_with_a_pod_that_must_stay_stays(extras: dict[str, Any], said: str) -> None:
    found = found_in(underused(**extras))
    assert not found.proposals
    assert said in found.held["large-0"]


def test_a_node_whose_pod_no_budget_lets_go_stays() -> None:
    world = underused()
    world.budgets.append(build_budget("web", 0, {"app": "web"}))
    assert not found_in(world).proposals


def test_no_more_nodes_go_together_than_a_gang_that_runs_can_spare() -> None:
    """Of each of the gang's three pods two others would be left: one of them goes."""
    world = World()
    world.add_group("large", 3, cpu="32", memory="64Gi", hourly_price=3.0)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    terms = PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=2)))
    world.pod_groups = [SchedulingPodGroup(metadata=ObjectMeta(name="gang", namespace="default"), spec=terms)]
    for node in range(3):
        pod = build_pod(f"{node}", "1500m", node_name=f"large-{node}", owner=("ReplicaSet", "web"))
        spec = replace(pod.spec, scheduling_group=SchedulingGroup(pod_group_name="gang"))
        world.running.append(replace(pod, spec=spec))
    assert len(move_in(world).sources) == 1


def test_empty_nodes_are_left_to_scale_down_and_the_others_chosen_as_if_they_were_gone() -> None:
    world = World()
    world.add_group("pool", 3, cpu="4", memory="8Gi", hourly_price=1.0)
    add_pods(world, "pool-0", 1)
    add_pods(world, "pool-1", 2)
    assert set(move_in(world).sources) == {"pool-0", "pool-2"}
    move = move_in(world, unneeded={"pool-2"})
    assert (move.sources, move.places) == (("pool-0",), {"default/pool-0-0": "pool-1"})


def test_a_move_that_buys_nodes_gives_up_empty_nodes_too() -> None:
    """Its pods would go there, and what was bought would be removed."""
    world = underused()
    world.add_group("idle", 1, cpu="4", memory="8Gi", hourly_price=0.5)
    move = move_in(world, unneeded={"large-0", "idle-0"})
    assert set(move.sources) == {"large-0", "idle-0"}
    assert [node.group.group_id for node in move.new_nodes] == ["small"]


def test_a_node_that_was_replaced_just_now_stays() -> None:
    found = found_in(underused(), settled={"large-0": "it was bought for these pods an hour ago"})
    assert not found.proposals
    assert found.held == {"large-0": "it was bought for these pods an hour ago"}


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"min_size": 1}, "at its minimum size"),
        ({"options": GroupOptions(zero_or_max_node_scaling=True)}, "all its nodes or none"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}, "scale-down-disabled"),
        ({"annotations": {DO_NOT_DISRUPT: "true"}}, DO_NOT_DISRUPT),
    ],
)
def test_a_node_that_must_stay_stays(extras: dict[str, Any], said: str) -> None:
    world = World()
    world.add_group("large", 1, cpu="32", memory="64Gi", hourly_price=3.0, **extras)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    add_pods(world, "large-0", 1)
    found = found_in(world)
    assert not found.proposals
    assert said in found.held["large-0"]


def test_nodes_of_groups_without_a_price_stay_and_take_pods() -> None:
    world = World()
    world.add_group("dear", 1, cpu="8", memory="16Gi", hourly_price=1.0)
    world.add_group("unpriced", 1, cpu="8", memory="16Gi")
    add_pods(world, "dear-0", 1)
    add_pods(world, "unpriced-0", 1)
    move = move_in(world)
    assert move.sources == ("dear-0",)
    assert dict(move.places) == {"default/dear-0-0": "unpriced-0"}


def test_a_node_of_another_machine_type_than_its_groups_next_one_counts_neither_in_the_pool_nor_for_its_score() -> None:
    world = underused()
    priced = found_in(world).pool
    old, new = ({INSTANCE_TYPE_LABEL: kind} for kind in ("m5.large", "m5.8xlarge"))
    world.add_group("mixed", 1, cpu="32", memory="64Gi", hourly_price=3.0, labels=old)
    mixed = world.groups[ref("mixed")]
    world.groups[ref("mixed")] = dataclasses.replace(mixed, template=build_node("template", labels=new))
    found = found_in(world)
    assert found.pool == priced
    assert found.held["mixed-0"] == "the price of a m5.large is not known: that of group cloud/mixed is of a m5.8xlarge"
    (proposal,) = found.proposals
    assert set(proposal.places.values()) == {"mixed-0"}


def test_at_most_so_many_nodes_go_together() -> None:
    world = World()
    world.add_group("spare", 5, cpu="4", hourly_price=1.0)
    assert len(move_in(world, most_nodes=2).sources) == 2


@pytest.mark.parametrize("limit", ["nodes", "budget"])
def test_if_only_some_nodes_may_go_now_their_pods_go_to_none_that_goes_next(limit: str) -> None:
    world = World()
    world.add_group("spare", 2, cpu="8", memory="16Gi", hourly_price=1.0)
    world.add_group("kept", 1, cpu="32", memory="64Gi", hourly_price=1.0, min_size=1)
    add_pods(world, "spare-0", 1, "1")
    add_pods(world, "spare-1", 1, "2")
    if limit == "budget":
        world.budgets.append(build_budget("web", 1, {"app": "web"}))
    move = move_in(world, **({"most_nodes": 1} if limit == "nodes" else {}))
    assert len(move.sources) == 1
    assert set(move.places.values()) == {"kept-0"}


@pytest.mark.parametrize(("kinds", "price", "moves"), [(1, 0.9, 0), (1, 0.7, 1), (15, 0.9, 1), (14, 0.9, 0)])
def test_from_spot_to_spot_it_takes_many_cheaper_types_or_a_fifth_of_the_price(
    kinds: int, price: float, moves: int
) -> None:
    world = World()
    world.add_group("old", 1, cpu="8", memory="16Gi", price=Price(per_hour=1.0, source="the test", spot=True))
    for kind in range(kinds):
        spot = Price(per_hour=price, source="the test", spot=True)
        world.add_group(f"new-{kind}", 0, cpu="8", memory="16Gi", price=spot)
    add_pods(world, "old-0", 1, "5")
    assert len(found_in(world, "when-cheaper").proposals) == moves


def test_pods_that_repel_each_other_do_not_meet() -> None:
    world = World()
    term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=LabelSelector(match_labels={"app": "web"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    world.add_group("large", 3, cpu="32", memory="64Gi", hourly_price=3.0)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    for node in range(3):
        add_pods(world, f"large-{node}", 1, affinity=apart)
    move = move_in(world)
    hosts = [*move.places.values(), *(node for node, held in enumerate(move.new_nodes) for _ in held.pods)]
    assert len(move.sources) == len(hosts) == len(set(hosts)) == 3


@given(st.data())
@examples(max_examples=60, deadline=None)
def test_every_move_lowers_the_price_and_leaves_no_pod_without_a_place(data: st.DataObject) -> None:
    world, draw = World(), data.draw
    sizes = {"a": (4, 8, 1.0), "b": (8, 16, 1.7), "c": (16, 32, 4.0)}
    for name, (cpu, memory, price) in sizes.items():
        world.add_group(name, draw(st.integers(0, 3)), cpu=str(cpu), memory=f"{memory}Gi", hourly_price=price)
    room = {node.name: [node.allocatable["cpu"].milli, node.allocatable["memory"].value >> 20] for node in world.nodes}
    for node, (cpu, memory) in room.items():
        for kind in range(2):
            asked = (500 + 700 * kind, 512 + 900 * kind)
            count = draw(st.integers(0, 3))
            count = min(count, cpu // asked[0] // 2, memory // asked[1] // 2)
            owner = ("ReplicaSet", f"kind-{kind}")
            world.running += [
                build_pod(f"{node}-{kind}-{n}", f"{asked[0]}m", f"{asked[1]}Mi", node_name=node, owner=owner)
                for n in range(count)
            ]
    policy = draw(st.sampled_from(("balanced", "when-cheaper", "when-empty")))
    prices = {name: price for name, (_, _, price) in sizes.items()}
    for move in found_in(world, policy).proposals:
        going = set(move.sources)
        added = sum(prices[node.group.group_id] for node in move.new_nodes)
        assert sum(prices[name.rsplit("-", 1)[0]] for name in going) - added == pytest.approx(move.savings)
        assert move.savings > 0
        fresh = {pod.key: f"new-{at}" for at, node in enumerate(move.new_nodes) for pod in node.pods}
        places = {pod.key: pod.spec.node_name for pod in world.running if pod.spec.node_name not in going}
        moved = {**move.places, **fresh}
        assert moved.keys() == {pod.key for pod in world.running if pod.spec.node_name in going}
        assert not going.intersection(moved.values())
        places |= moved
        used: dict[str, list[int]] = {}
        for pod in world.running:
            asks = pod.spec.containers[0].resources.requests
            held = used.setdefault(places[pod.key], [0, 0])
            held[0] += asks["cpu"].milli
            held[1] += asks["memory"].value >> 20
        room |= {
            f"new-{at}": [1000 * sizes[node.group.group_id][0], 1024 * sizes[node.group.group_id][1]]
            for at, node in enumerate(move.new_nodes)
        }
        assert all(cpu <= room[name][0] and memory <= room[name][1] for name, (cpu, memory) in used.items())
