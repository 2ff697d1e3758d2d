"""When moves are searched for, and a random life of moves: each stage follows from what is there."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace as changed

from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.memory import Backoff, Deferral, MoveMemory, ScaleDownMemory
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize
from nodewright.model.disruption import Budget, DisruptionConfig, DisruptionReason
from nodewright.model.group import GroupOptions, Instance, InstanceState
from nodewright.model.move import Addition, Move, MoveStage
from nodewright.model.node import INSTANCE_TYPE_LABEL, Node
from nodewright.model.plan import Plan
from nodewright.model.removal import RemovalReason
from nodewright.planner import make_plan
from nodewright.planner.consolidation.sources import DO_NOT_DISRUPT
from nodewright.planner.new_moves import SEARCH_SECONDS, next_search
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED
from nodewright.testkit import build_pod
from nodewright.testkit.builders import build_budget, build_node
from nodewright.testkit.world import NOW, World, ref, settings_with
from nodewright.validate import check_moves

ORDER = list(MoveStage)
DRAINS = (MoveStage.READY, MoveStage.DRAINING)
CHANGES: dict[str, Any] = {
    "consolidation_policy": "balanced",
    "consolidation_budget": 0.0,
    "consolidate_after": 0.0,
    "scale_down_utilization_threshold": 0.0,
}
LABELS = {"app": "web"}
# No node with pods is unneeded.
BUSY = GroupOptions(scale_down_utilization_threshold=0.0)


def add_pod(world: World, name: str, node: str, *, cpu: str = "500m", created_at: float = NOW - 7200) -> None:
    owner = ("ReplicaSet", "web")
    world.running.append(
        build_pod(name, cpu, "500Mi", node_name=node, owner=owner, labels=LABELS, created_at=created_at)
    )


def look(world: World) -> Plan:
    """One loop, before which the engine looks for times of the future, and after which the world remembers what it would."""
    world.memory = without_future_times(world.memory, world.now)
    state = world.state(settings_with(**CHANGES))
    plan, memory = world.plan_and_memory(**CHANGES)
    world.memory = replace(memory.put_into(state.memory))
    return plan


def held(world: World) -> MoveMemory:
    return world.memory.moves


def full() -> World:
    """Two nodes that nothing replaces: the pods fit on neither of the others."""
    world = World()
    world.add_group("pool", 2, cpu="1", memory="2Gi", hourly_price=1.0)
    for node in range(2):
        for number in range(2):
            add_pod(world, f"{node}-{number}", f"pool-{node}")
    return world


def half_full() -> World:
    """Two nodes, each half full, that scale-down leaves where they are."""
    world = full()
    world.groups[ref("pool")] = replace(world.groups[ref("pool")], options=BUSY)
    world.running = world.running[::2]
    return world


def test_pods_that_nothing_helps_hold_no_move() -> None:
    """Their group has failed, or none takes them: they may wait for ever."""
    world = full()
    world.running = world.running[::2]
    world.add_group("broken", 0, cpu="4", memory="8Gi", hourly_price=1.0)
    world.memory = replace(
        world.memory, backoffs={ref("broken"): Backoff(until=NOW + 600, duration=900, last_failure=NOW - 300)}
    )
    world.pending = [build_pod(name, cpu, unschedulable=True) for name, cpu in (("hopeless", "64"), ("big", "2"))]
    plan = look(world)
    assert len(plan.scale_up.unhelped) == 2
    assert plan.moves


def test_pods_that_the_next_loop_may_buy_for_hold_moves() -> None:
    world = full()
    world.running = world.running[::2]
    world.pending = [build_pod("big", "2", unschedulable=True)]
    world.add_group("busy", 0, cpu="4", memory="8Gi", hourly_price=1.0)
    world.memory = replace(world.memory, deferrals={ref("busy"): Deferral(until=NOW + 60, pause=60)})
    assert not look(world).moves


@pytest.mark.parametrize("waits_for", ["web", "other"])
def test_pods_hold_a_renewal_only_while_they_wait_for_machines_on_their_way(waits_for: str) -> None:
    """Pods that fit on nodes that are there need none of the machines that come for something else."""
    world = World()
    world.add_group("web", 1, cpu="1", labels={"kind": "web"})
    world.add_group("other", 0, cpu="1", labels={"kind": "other"}, target=1)
    world.pending = [build_pod("p", "1", node_selector={"kind": waits_for}, unschedulable=True)]
    plan = world.plan(node_max_age=3600.0)
    assert [pod.name for pod in plan.fitting] == ["p"]
    (old,) = plan.outdated
    assert (old.held == "pods wait for machines that are on their way") == (waits_for == "other")


def test_a_search_in_vain_is_made_again_once_something_changed() -> None:
    world = full()
    look(world)
    assert held(world).searched_at == NOW
    world.now += 60
    look(world)
    assert held(world).searched_at == NOW
    world.running.pop()
    look(world)
    assert held(world).searched_at == NOW + 60


def test_the_next_search_is_never_told_for_a_moment_at_which_none_is_made() -> None:
    """A node was free again within a minute after a search in vain: the loop at that moment searched for nothing."""
    found = MoveMemory(searched_at=NOW, vain=7, again_at=NOW + 40)
    assert next_search(found, NOW) == NOW + SEARCH_SECONDS
    assert next_search(found, NOW + SEARCH_SECONDS) == NOW + SEARCH_SECONDS
    assert next_search(replace(found, again_at=NOW + 90), NOW + SEARCH_SECONDS) == NOW + 90


def _consolidates_no_more(world: World) -> None:
    world.groups[ref("pool")] = replace(world.groups[ref("pool")], consolidates=False)


def _annotates(world: World) -> None:
    metadata = changed(world.nodes[0].metadata, annotations={SCALE_DOWN_DISABLED: "true"})
    world.nodes[0] = changed(world.nodes[0], metadata=metadata)


def _turns_unready(world: World) -> None:
    world.nodes[0] = build_node("pool-0", "1", "2Gi", provider_id="cloud:///pool/0", ready=False)


@pytest.mark.parametrize("change", [_consolidates_no_more, _annotates, _turns_unready])
def test_a_search_in_vain_is_made_again_after_a_change_of(change: Callable[[World], None]) -> None:
    world = full()
    look(world)
    world.now += 60
    change(world)
    look(world)
    assert held(world).searched_at == NOW + 60


def test_nodes_of_a_move_go_before_others() -> None:
    world = World()
    world.add_group("large", 1, cpu="8", memory="32Gi", hourly_price=0.8)
    world.add_group("small", 1, cpu="2", memory="4Gi", hourly_price=0.1)
    world.add_group("idle", 1, cpu="2", memory="4Gi")
    add_pod(world, "web", "large-0", cpu="1")
    move = Move(
        id="m", reason=DisruptionReason.REPLACED, sources=("large-0",), added=(), started=NOW - 60, deadline=NOW + 600
    )
    moves = MoveMemory(under_way={"m": move})
    scale_down = ScaleDownMemory(unneeded_since={"idle-0": 1.0}, engine_started=1.0)
    world.memory = replace(world.memory, moves=moves, scale_down=scale_down)
    assert [removal.node for removal in look(world).scale_down.removals] == ["large-0"]
    world.memory = replace(world.memory, moves=MoveMemory(), scale_down=scale_down)
    assert [removal.node for removal in look(world).scale_down.removals] == ["idle-0"]


def test_a_source_whose_machine_is_being_deleted_is_not_removed_again() -> None:
    world = World()
    going = Instance(id="cloud:///large/0", state=InstanceState.DELETING)
    world.add_group("large", 1, cpu="8", memory="32Gi", hourly_price=0.8, instances=(going,))
    world.add_group("small", 1, cpu="2", memory="4Gi", hourly_price=0.1)
    move = Move(
        id="m", reason=DisruptionReason.REPLACED, sources=("large-0",), added=(), started=NOW - 60, deadline=NOW + 600
    )
    world.memory = replace(world.memory, moves=MoveMemory(under_way={"m": move}))
    assert look(world).scale_down.removals == ()
    assert held(world).under_way["m"].stage == MoveStage.DRAINING
    world.now += 700
    [ended] = look(world).moves
    assert (ended.stage, ended.why) == (MoveStage.ABANDONED, "nodes of deleted machines are still there")


@pytest.mark.parametrize("fails", ["source", "group"])
def test_an_abandoned_return_pauses_returns_of_what_failed_and_no_other_move(fails: str) -> None:
    world = World()
    world.add_group("dear", 1, cpu="8", memory="32Gi", hourly_price=0.8)
    spot = ref("spot")
    world.add_group("spot", 0, cpu="8", memory="32Gi", hourly_price=0.8)
    add_pod(world, "web", "dear-0", cpu="1")
    move = Move(
        id="m",
        reason=DisruptionReason.PREFERRED,
        sources=("dear-0",),
        added=(Addition(group=spot, nodes=1),),
        started=NOW - 60,
        deadline=NOW + 600,
    )
    world.memory = replace(world.memory, moves=MoveMemory(under_way={"m": move}))
    if fails == "source":
        annotations = {SCALE_DOWN_DISABLED: "true"}
        world.nodes = [changed(one, metadata=changed(one.metadata, annotations=annotations)) for one in world.nodes]
    else:
        backoff = Backoff(until=NOW + 300, last_failure=NOW - 10, duration=300)
        world.memory = replace(world.memory, backoffs={spot: backoff})
    [ended] = look(world).moves
    assert ended.stage == MoveStage.ABANDONED
    key = "dear-0" if fails == "source" else str(spot)
    assert {name: pause.until for name, pause in held(world).returns.items()} == {key: NOW + 3600}
    assert held(world).pauses == {}
    world.now += 2 * 3600 - 1
    look(world)
    assert held(world).returns.keys() == {key}
    world.now += 1
    look(world)
    assert held(world).returns == {}


def test_a_search_in_vain_is_made_again_after_a_quarter_of_an_hour() -> None:
    world = full()
    assert look(world).search_at == NOW + 60, "something may change meanwhile"
    world.now += 60
    assert look(world).search_at == NOW + 900
    world.now = NOW + 900
    look(world)
    assert held(world).searched_at == NOW + 900


def test_searches_in_vain_are_ever_further_apart_although_something_changes() -> None:
    world = full()
    searched = list[float]()
    for _ in range(75):
        add_pod(world, f"small-{world.now}", f"pool-{len(searched) % 2}", cpu="0")
        look(world)
        searched += [held(world).searched_at - NOW] if held(world).searched_at == world.now else []
        world.now += 60
    assert searched == [0, 60, 180, 420, 900, 1800, 2700, 3600]


def test_idle_nodes_are_left_to_scale_down() -> None:
    world = World()
    world.add_group("large", 2, cpu="8", memory="32Gi", hourly_price=0.8)
    add_pod(world, "web", "large-0", cpu="7")
    plan = look(world)
    assert "large-1" in plan.scale_down.unneeded
    assert not plan.moves


def test_no_move_begins_and_no_source_goes_in_a_cool_down_after_growth() -> None:
    world = half_full()
    growth = {ref("pool"): NOW - 100}
    world.memory = replace(
        world.memory, scale_down=ScaleDownMemory(engine_started=1.0, grown_at=growth, updated_at=NOW)
    )
    plan = look(world)
    assert not plan.moves
    assert plan.search_at == NOW + 500
    move = Move(
        id="m", reason=DisruptionReason.REPLACED, sources=("pool-0",), added=(), started=NOW, deadline=NOW + 3600
    )
    world.memory = replace(world.memory, moves=MoveMemory(under_way={"m": move}))
    world.now = NOW + 499
    plan = look(world)
    assert not plan.scale_down.removals
    assert [one.stage for one in plan.moves] == [MoveStage.READY]
    world.now = NOW + 500
    assert [removal.node for removal in look(world).scale_down.removals] == ["pool-0"]


def test_a_move_that_bought_nodes_goes_on_in_a_cool_down() -> None:
    """The growth may be its own, and both nodes are paid meanwhile."""
    world = half_full()
    grown = ScaleDownMemory(engine_started=1.0, grown_at={ref("pool"): NOW - 100}, updated_at=NOW)
    added = (Addition(group=ref("pool"), nodes=1),)
    move = Move(
        id="m", reason=DisruptionReason.REPLACED, sources=("pool-0",), added=added, started=NOW, deadline=NOW + 3600
    )
    world.memory = replace(world.memory, scale_down=grown, moves=MoveMemory(under_way={"m": move}))
    assert [removal.node for removal in look(world).scale_down.removals] == ["pool-0"]


def test_a_search_is_made_again_when_a_node_has_been_calm_for_long_enough() -> None:
    world = full()
    add_pod(world, "new", "pool-0", created_at=NOW - 100)
    plan, memory = world.plan_and_memory(**{**CHANGES, "consolidate_after": 300.0})
    assert plan.search_at == NOW + 60, "something may change meanwhile"
    world.now += 60
    state = world.state(settings_with(**{**CHANGES, "consolidate_after": 300.0}))
    world.memory = replace(memory.put_into(state.memory))
    plan, _ = world.plan_and_memory(**{**CHANGES, "consolidate_after": 300.0})
    assert plan.search_at == NOW + 200


def test_no_move_begins_with_nodes_of_a_group_in_quarantine() -> None:
    """Machines of it were deleted by somebody else: until that is over none is deleted by us."""
    world = half_full()
    world.memory = replace(world.memory, scale_down=ScaleDownMemory(quarantined_until={ref("pool"): NOW + 60}))
    assert not look(world).moves
    world.now = NOW + 61
    assert look(world).moves


def test_a_node_of_another_machine_type_than_its_groups_next_one_has_no_price_and_stays() -> None:
    world = half_full()
    template = world.groups[ref("pool")].template
    assert template is not None
    world.nodes = [labelled(node, "m5.large") for node in world.nodes]
    world.groups[ref("pool")] = replace(world.groups[ref("pool")], template=labelled(template, "m5.xlarge"))
    assert not look(world).moves
    world.groups[ref("pool")] = replace(world.groups[ref("pool")], template=labelled(template, "m5.large"))
    world.now += 16 * 60
    assert look(world).moves


@pytest.mark.parametrize(("policy", "savings"), [("auto", []), ("balanced", [0.0])])
def test_a_return_does_not_take_the_price_of_its_group_for_that_of_a_node_of_another_machine_type(
    policy: str, savings: list[float]
) -> None:
    """An old node of a group that has a larger type now; the spot group costs less than that, but perhaps more than the node."""
    world = World()
    world.add_group("od", 1, cpu="2", hourly_price=0.8, options=BUSY)
    world.add_group("spot", 0, cpu="2", hourly_price=0.3)
    od, spot = world.groups[ref("od")], world.groups[ref("spot")]
    assert od.template is not None
    assert spot.price is not None
    world.nodes = [labelled(node, "m5.large") for node in world.nodes]
    world.groups[ref("od")] = replace(od, template=labelled(od.template, "m5.4xlarge"))
    world.groups[ref("spot")] = replace(spot, price=changed(spot.price, spot=True))
    add_pod(world, "p", "od-0", cpu="1500m")
    plan = world.plan(**{**CHANGES, "consolidation_policy": policy})
    assert [move.savings for move in plan.moves] == savings


def labelled(node: Node, machine_type: str) -> Node:
    labels = {**node.metadata.labels, INSTANCE_TYPE_LABEL: machine_type}
    return changed(node, metadata=changed(node.metadata, labels=labels))


def test_no_more_nodes_go_together_than_a_disruption_budget_lets_go() -> None:
    world = World()
    world.add_group("large", 4, cpu="32", memory="64Gi", hourly_price=3.0, options=BUSY)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    for node in range(4):
        add_pod(world, f"{node}", f"large-{node}", cpu="1900m")
    settings = settings_with(**CHANGES)
    for nodes, most in ((None, 4), ("50%", 2), (0, 0)):
        budgets = () if nodes is None else (Budget(nodes=nodes),)
        state = world.state(settings)
        state = replace(state, observation=replace(state.observation, disruption=DisruptionConfig(disruption=budgets)))
        plan, _ = make_plan(state, settings, Random(1))
        assert sum(len(move.sources) for move in plan.moves) == most


class MoveLife(RuleBasedStateMachine):
    """Pods on large nodes, cheap small nodes, and what may happen between two loops."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.add_group("large", 3, cpu="8", memory="32Gi", hourly_price=0.8)
        self.world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.1)
        self.coming = {"large": 0, "small": 0}
        self.numbers = count(100)
        self.stages: dict[str, MoveStage] = {}
        self.bought = Counter[str]()
        for node in range(3):
            self.pod_comes(node)

    @precondition(lambda self: self.world.nodes)
    @rule(node=st.integers(0, 5))
    def pod_comes(self, node: int) -> None:
        name = self.world.nodes[node % len(self.world.nodes)].name
        if sum(pod.spec.node_name == name for pod in self.world.running) < (7 if name.startswith("large") else 1):
            add_pod(self.world, f"p{next(self.numbers)}", name, cpu="1")

    @precondition(lambda self: self.world.running)
    @rule(pod=st.integers(0, 20))
    def pod_ends(self, pod: int) -> None:
        self.world.running.pop(pod % len(self.world.running))

    @precondition(lambda self: self.coming["small"])
    @rule(ready=st.sampled_from((True, True, True, False)))
    def machine_comes(self, *, ready: bool) -> None:
        self.coming["small"] -= 1
        number = next(self.numbers)
        instance = f"cloud:///small/{number}"
        node = build_node(
            f"small-{number}", provider_id=instance, cpu="2", memory="4Gi", ready=ready, created_at=self.world.now
        )
        self.world.nodes.append(node)
        self._change("small", added=instance)

    @precondition(lambda self: self.coming["small"])
    @rule()
    def machine_fails(self) -> None:
        self.coming["small"] -= 1
        self._change("small", target=-1)

    @precondition(lambda self: self.world.nodes)
    @rule(node=st.integers(0, 5))
    def node_vanishes(self, node: int) -> None:
        self._remove(self.world.nodes[node % len(self.world.nodes)].name)

    @precondition(lambda self: self.world.nodes)
    @rule(node=st.integers(0, 5))
    def node_is_annotated(self, node: int) -> None:
        at = node % len(self.world.nodes)
        metadata = changed(self.world.nodes[at].metadata, annotations={DO_NOT_DISRUPT: "true"})
        self.world.nodes[at] = changed(self.world.nodes[at], metadata=metadata)

    @rule(allowed=st.integers(0, 2))
    def budget_changes(self, allowed: int) -> None:
        self.world.budgets = [build_budget("web", allowed, LABELS)]

    @rule()
    def engine_restarts(self) -> None:
        """A new process knows what is saved."""
        self.world.memory = decode_memory(encode_memory(self.world.memory))

    @rule()
    def quarter_of_an_hour_passes(self) -> None:
        """All goes well for once."""
        for _ in range(15):
            self.loop(60)
            for _ in range(self.coming["small"]):
                self.machine_comes(ready=True)

    @rule(seconds=st.sampled_from((10, 60, 900, 4000)))
    def loop(self, seconds: int) -> None:
        self.world.now += seconds
        before = self.world.memory.moves.under_way
        plan = look(self.world)
        seen = self.world.state().observation
        assert check_moves(seen, plan.moves, plan.actions, plan.scale_down.removals) == ()
        for move in plan.moves:
            last = self.stages.get(move.id, MoveStage.PROPOSED)
            assert ORDER.index(move.stage) >= ORDER.index(last), (last, move.stage)
            self.stages[move.id] = move.stage
            assert move.id in before or move.stage == MoveStage.PROPOSED
        live = held(self.world).under_way
        assert len(live) <= 1
        assert {move.id for move in plan.moves if not move.stage.is_over} == live.keys()
        self._carry_out(plan)

    def _carry_out(self, plan: Plan) -> None:
        sources = {name for move in plan.moves if move.stage in DRAINS for name in move.sources}
        for action in plan.actions:
            match action:
                case IncreaseSize():
                    self.bought[action.move] += 1
                    assert self.bought[action.move] == 1
                    self.coming[action.group.group_id] += action.target - action.expected_target
                    self._change(action.group.group_id, target=action.target - action.expected_target)
                case DecreaseTargetSize():
                    self.coming[action.group.group_id] -= action.expected_target - action.target
                    self._change(action.group.group_id, target=action.target - action.expected_target)
                case DeleteInstances():
                    for name in [
                        node.name for node in self.world.nodes if node.spec.provider_id in action.instance_ids
                    ]:
                        self._remove(name)
        for removal in plan.scale_down.removals:
            assert removal.node in sources or removal.reason != RemovalReason.REPLACED
            places = dict(zip(removal.pods, removal.places, strict=True))
            self.world.running = [
                changed(pod, spec=changed(pod.spec, node_name=places.get(pod.key, pod.spec.node_name)))
                for pod in self.world.running
            ]
            self._remove(removal.node)

    def _remove(self, name: str) -> None:
        (node,) = (node for node in self.world.nodes if node.name == name)
        self.world.nodes.remove(node)
        self.world.running = [pod for pod in self.world.running if pod.spec.node_name != name]
        self._change(name.split("-", maxsplit=1)[0], gone=node.spec.provider_id, target=-1)

    def _change(self, group: str, *, added: str = "", gone: str = "", target: int = 0) -> None:
        seen = self.world.groups[ref(group)]
        kept = [instance for instance in seen.instances or () if instance.id != gone]
        fresh = [Instance(id=added)] if added else []
        self.world.groups[ref(group)] = replace(seen, target=(seen.target or 0) + target, instances=(*kept, *fresh))

    def teardown(self) -> None:
        """Whatever happened, a move that is under way ends: by its deadlines if by nothing else."""
        for _ in range(40):
            self.loop(600)
            self.coming = dict.fromkeys(self.coming, 0)
            if not held(self.world).under_way:
                return
        raise AssertionError(held(self.world).under_way)


TestMoveLife = MoveLife.TestCase
TestMoveLife.settings = examples(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
