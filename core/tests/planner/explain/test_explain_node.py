"""Why a node is still there: the one reason, its pods one by one, and where they could go."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import msgspec
import pytest
from core.tests.planner.scale_down.loops import MINUTE, Loops
from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import MoveMemory, PlanMemory
from nodewright.model.action import DeleteInstances
from nodewright.model.group import FailedInstance, GroupOptions
from nodewright.model.interruption import Interruption, InterruptionKind
from nodewright.model.move import MovePause
from nodewright.model.node import NodeCondition, Taint
from nodewright.model.plan import HeldBack, Plan
from nodewright.model.pod import Pod
from nodewright.model.reason import UnremovableCode
from nodewright.planner import make_plan
from nodewright.planner.explain import NodeExplanation, NodeOutcome, PodAfterDrain, explain_node
from nodewright.planner.scale_down.drainability import DrainOutcome
from nodewright.testkit.builders import build_budget, build_node, build_pod
from nodewright.testkit.world import NOW, World, ref, settings_with

AT_ONCE = GroupOptions(scale_down_unneeded_seconds=0.0, scale_down_utilization_threshold=0.9)


def loops_of(options: GroupOptions = AT_ONCE, **sizes: int) -> Loops:
    """Groups of nodes with one core each."""
    loops = Loops()
    for name, size in sizes.items():
        loops.world.add_group(name, size, cpu="1", options=options)
    return loops


def keep(loops: Loops, name: str) -> None:
    """A group keeps its nodes."""
    seen = loops.world.groups[ref(name)]
    loops.world.groups[ref(name)] = replace(seen, group=changed(seen.group, min_size=len(seen.instances or ())))


def on(node: str, cpu: str = "100m", name: str = "", **extras: object) -> Pod:
    return build_pod(name or f"on-{node}", cpu, node_name=node, **extras)  # type: ignore[arg-type]  # of build_pod


def explain(loops: Loops, name: str, after: float = 0.0, plan: Plan | None = None) -> NodeExplanation:
    """The explanation of a loop so many seconds later."""
    world = loops.world
    world.now += after
    settings = settings_with(**loops.settings)
    state = world.state(settings)
    made, remembered = make_plan(state, settings, Random(1)) if plan is None else (plan, PlanMemory.of(state.memory))
    world.memory = replace(state.memory, scale_down=remembered.scale_down)
    found = explain_node(replace(state, memory=world.memory), made, settings, name)
    assert found is not None
    return found


def pod(found: NodeExplanation, name: str) -> PodAfterDrain:
    return next(one for one in found.pods if one.pod == f"default/{name}")


def code(found: NodeExplanation) -> str:
    return str(found.reason.code) if found.reason is not None else ""


def test_a_node_that_is_not_there() -> None:
    loops = loops_of(a=1)
    assert explain_node(loops.world.state(), loops.plan(), settings_with(), "ghost") is None


def test_every_pod_is_judged_although_the_first_blocks() -> None:
    loops = loops_of(a=1, x=1)
    keep(loops, "x")
    annotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    loops.world.running = [
        on("a-0", name="bare", owner=None),
        on("a-0", name="kept", annotations={annotation: "false"}),
        on("a-0", name="ends", annotations={annotation: "on-completion"}),
        on("a-0", name="daemon", owner=("DaemonSet", "d")),
        on("a-0", name="plain"),
    ]
    found = explain(loops, "a-0")
    assert (found.outcome, code(found)) == (NodeOutcome.STAYS, "BlockedByPod")
    assert {one.pod.removeprefix("default/"): (one.outcome, one.rule) for one in found.pods} == {
        "bare": (DrainOutcome.BLOCK, "Replicated"),
        "kept": (DrainOutcome.BLOCK, "NotSafeToEvict"),
        "ends": (DrainOutcome.AWAIT, "OnCompletion"),
        "daemon": (DrainOutcome.DAEMON, "DaemonSet"),
        "plain": (DrainOutcome.MOVE, ""),
    }
    assert "take the annotation away" in pod(found, "kept").message
    assert (pod(found, "plain").place, pod(found, "plain").choices) == ("x-0", 1)


def test_a_pod_without_a_place_is_told_why_of_every_node() -> None:
    loops = loops_of(a=1, x=4)
    keep(loops, "x")
    loops.world.running = [on("a-0", "800m"), *(on(f"x-{n}", "500m") for n in range(3))]
    tainted = loops.node("x-3")
    taint = Taint(key="dedicated", value="db", effect="NoSchedule")
    loops.change(changed(tainted, spec=changed(tainted.spec, taints=(taint,))))
    found = explain(loops, "a-0")
    assert code(found) == "NoPlaceToMovePods"
    told = [(one.reason, one.count, one.nodes) for one in pod(found, "on-a-0").refusals]
    assert told == [
        ("Insufficient cpu", 3, ("x-0", "x-1", "x-2")),
        ("taint dedicated=db:NoSchedule", 1, ("x-3",)),
    ]
    assert found.timers.recheck_at == found.now + 5 * MINUTE


def test_nodes_that_go_themselves_and_room_that_other_pods_take_are_told_as_such() -> None:
    loops = loops_of(a=1, b=1, x=1)
    keep(loops, "x")
    loops.world.running = [on("b-0", "300m", "one"), on("b-0", "300m", "two"), on("x-0", "550m")]
    found = explain(loops, "b-0")
    assert code(found) == "NoPlaceToMovePods"
    assert pod(found, "one").place == "x-0"
    told = {one.reason: one.nodes for one in pod(found, "two").refusals}
    assert told == {"could go, too": ("a-0",), "with the other pods of the node: Insufficient cpu": ("x-0",)}


def test_with_no_other_node_nothing_refuses() -> None:
    loops = loops_of(a=1)
    loops.world.running = [on("a-0")]
    found = explain(loops, "a-0")
    assert (pod(found, "on-a-0").place, pod(found, "on-a-0").refusals) == ("", ())


def test_a_budget_that_another_node_uses_up_blocks() -> None:
    loops = loops_of(a=1, b=1, x=1)
    keep(loops, "x")
    loops.world.running = [on("a-0", labels={"app": "g"}), on("b-0", labels={"app": "g"})]
    loops.world.budgets = [build_budget("pdb", allowed=1, labels={"app": "g"})]
    plan = loops.plan()
    goes, stays = explain(loops, "a-0", plan=plan), explain(loops, "b-0", plan=plan)
    assert (goes.outcome, goes.removal is not None and goes.removal.pods) == (NodeOutcome.GOES, ("default/on-a-0",))
    assert pod(goes, "on-a-0").outcome is DrainOutcome.MOVE
    assert pod(stays, "on-b-0").outcome is DrainOutcome.BLOCK
    assert "use up what the PodDisruptionBudget default/pdb allows now (1)" in pod(stays, "on-b-0").message
    later = explain(loops, "b-0", MINUTE)
    assert code(later) == "RecentlyUnremovable"
    assert later.reason is not None
    assert later.reason.found is UnremovableCode.BLOCKED_BY_POD
    assert "pod default/on-b-0 (NotEnoughPdb)" in str(later.reason)
    assert later.note == "as things are now, pod default/on-b-0 would keep it (NotEnoughPdb)"


def test_a_node_that_is_looked_at_later_says_what_would_be_found() -> None:
    loops = loops_of(a=1, x=1)
    keep(loops, "x")
    loops.world.running = [on("a-0", "600m"), on("x-0", "600m")]
    explain(loops, "a-0")
    assert explain(loops, "a-0", 10).note == "as things are now, pod default/on-a-0 would find no other node"
    loops.world.running.pop()
    assert explain(loops, "a-0", 10).note == "as things are now, it could be emptied"


def test_the_timers_of_a_node_that_waits() -> None:
    loops = loops_of(GroupOptions(), a=1)
    began = loops.world.now
    found = explain(loops, "a-0")
    assert (found.outcome, code(found)) == (NodeOutcome.UNNEEDED, "NotUnneededLongEnough")
    later = explain(loops, "a-0", 4 * MINUTE)
    assert (later.timers.unneeded_since, later.timers.removable_at) == (began, began + 10 * MINUTE)
    assert explain(loops, "a-0", 6 * MINUTE + 1).outcome is NodeOutcome.GOES


def test_a_node_that_waits_with_all_others() -> None:
    loops = loops_of(a=1)
    loops.world.add_group("big", 0, cpu="64")
    loops.world.pending = [build_pod("p", cpu="32")]
    found = explain(loops, "a-0")
    assert (found.outcome, code(found)) == (NodeOutcome.UNNEEDED, "InCooldown")
    assert found.timers.cooldown_until == found.now + 10 * MINUTE


def test_a_removal_under_way_says_how_far_it_is() -> None:
    loops = loops_of(a=2)
    loops.begin("a-0")
    found = explain(loops, "a-0")
    assert (found.outcome, found.stage, found.reason, found.note) == (NodeOutcome.GOING, "tainted", None, "")


@pytest.mark.parametrize(
    ("settings", "note"),
    [({"scale_down_enabled": False}, "scale-down is off"), ({"ok_total_unready_count": 0}, "cluster is unhealthy")],
)
def test_a_node_about_which_scale_down_says_nothing_has_a_note(settings: dict[str, object], note: str) -> None:
    loops = loops_of(a=1)
    loops.world.nodes.append(build_node("lost", ready=False))
    loops.settings = settings
    found = explain(loops, "a-0")
    assert found.outcome is NodeOutcome.NOT_EVALUATED
    assert note in found.note


def test_a_node_that_never_became_ready_says_when_its_machine_goes() -> None:
    """After twice the startup time (docs/adr/0011-late-machines.md)."""
    loops = loops_of(a=1)
    created = loops.world.now - 1000
    node = build_node("a-0", ready=False, provider_id="cloud:///a/0", created_at=created)
    said = NodeCondition(type="Ready", status="False", last_transition_time=node.metadata.creation_timestamp)
    loops.world.nodes = [changed(node, status=changed(node.status, conditions=(said,)))]
    assert explain(loops, "a-0").timers.never_ready_until == created + 1800


def test_a_removal_that_is_held_back_says_why() -> None:
    loops = loops_of(a=1)
    plan = loops.plan()
    action = DeleteInstances(
        group=ref("a"), expected_target=1, instance_ids=("cloud:///a/0",), reason="scale-down: empty"
    )
    held = (HeldBack(action=action, reason="paused until noon", until=0.0),)
    plan = replace(plan, scale_down=replace(plan.scale_down, removals=()), held_back=held)
    found = explain(loops, "a-0", plan=plan)
    assert (found.outcome, found.note) == (NodeOutcome.UNNEEDED, "paused until noon")


def test_a_node_without_a_group_has_no_threshold() -> None:
    loops = loops_of(a=1)
    loops.world.nodes.append(build_node("stray"))
    found = explain(loops, "stray")
    assert (code(found), found.group, found.usage) == ("NotAutoscaled", None, None)


def test_what_is_used_too_much_says_of_what() -> None:
    loops = loops_of(GroupOptions(), a=1)
    loops.world.running = [on("a-0", "800m")]
    found = explain(loops, "a-0")
    assert code(found) == "NotUnderutilized"
    assert found.usage is not None
    assert (found.usage.ratio, found.usage.resource, found.usage.threshold) == (0.8, "cpu", 0.5)


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_a_utilization_that_is_no_number_is_none_and_json_can_say_it(profile: str) -> None:
    loops = loops_of(GroupOptions(ignore_daemonsets_utilization=True), a=1)
    loops.world.running = [on("a-0", "1", "d", owner=("DaemonSet", "d")), on("a-0")]
    loops.settings = {"profile": profile}
    found = explain(loops, "a-0")
    assert found.usage is not None
    assert found.usage.ratio is None
    assert msgspec.json.decode(msgspec.json.encode(found), type=NodeExplanation) == found


def test_a_pod_that_is_to_come_is_told_from_one_that_runs() -> None:
    loops = loops_of(a=1)
    loops.world.pending = [build_pod("waits")]
    found = explain(loops, "a-0")
    assert [(one.pod, one.arrives) for one in found.pods] == [("default/waits", True)]


def test_a_pod_that_is_ending_is_waited_for() -> None:
    loops = loops_of(a=1, x=1)
    keep(loops, "x")
    loops.world.running = [on("a-0", deleted_at=loops.world.now + 20), on("x-0", cpu="950m")]
    found = explain(loops, "a-0")
    told = pod(found, "on-a-0")
    assert (found.outcome, told.outcome, told.rule) == (NodeOutcome.GOES, DrainOutcome.AWAIT, "Terminating")


def test_what_the_cloud_says_of_a_machine_that_ran() -> None:
    loops = loops_of(g=2)
    report = FailedInstance(failure_id="f", instance_id="cloud:///g/0", code="ODD", message="it went wrong")
    loops.world.groups[ref("g")] = replace(loops.world.groups[ref("g")], failed=(report,))
    assert explain(loops, "g-0").disputed == "ODD: it went wrong"
    assert explain(loops, "g-1").disputed == ""


def test_a_node_whose_machine_the_cloud_takes_says_when_it_is_drained() -> None:
    world = World()
    world.add_group("a", 1)
    world.running.append(on("a-0", "3"))
    told = Interruption(id="one", instance_id="cloud:///a/0", kind=InterruptionKind.RECLAIM, deadline=NOW + 600)
    world.provider = replace(world.provider, interruptions=(told,))
    found = explain(Loops(world, {}), "a-0")
    assert found.interruption == (
        "reclaim, at 1970-01-02T03:56:40Z; it is drained once its pods have places on ready nodes, "
        "at 1970-01-02T03:56:05Z at the latest"
    )
    world.provider = replace(world.provider, interruptions=())
    assert explain(Loops(world, {}), "a-0").interruption == ""


def test_a_node_that_is_too_old_says_so_and_what_holds_it() -> None:
    world = World()
    world.add_group("a", 1, max_size=1, min_size=1)
    aged = changed(world.nodes[0].metadata, creation_timestamp=datetime.fromtimestamp(NOW - 7300, UTC))
    world.nodes[0] = changed(world.nodes[0], metadata=aged)
    found = explain(Loops(world, {"node_max_age": 3600.0}), "a-0")
    assert found.outdated == (
        "expired: it is 2h1m40s old (--node-max-age); it stays for now: group cloud/a is at its minimum size and cannot grow: "
        "max node group size reached"
    )


def test_a_node_without_a_price_says_that_no_move_gives_it_up() -> None:
    world = World()
    world.add_group("a", 1)
    assert explain(Loops(world, {}), "a-0").move == "none gives it up for cheaper nodes: group cloud/a has no price"
    assert not explain(Loops(world, {"consolidation_policy": "off"}), "a-0").move


def test_a_node_that_is_given_up_says_what_its_move_saves_and_a_spared_one_until_when() -> None:
    world = World()
    world.add_group("large", 1, cpu="32", memory="64Gi", hourly_price=3.0)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    world.running.append(on("large-0", "500m"))
    loops = Loops(world, {"consolidation_policy": "balanced", "consolidate_after": 0.0})
    found = explain(loops, "large-0")
    assert found.move.startswith(
        f"Move replaced-large-0-{NOW:.0f} (proposed) gives up node large-0 for new nodes (1 of group cloud/small): "
        "saves $2.8000 an hour, score 0.93, disruption 2.00; if it does not go on until"
    )
    pause = MovePause(until=NOW + 60, why="it replaced other nodes")
    world.memory = replace(world.memory, moves=MoveMemory(pauses={"large-0": pause}))
    found = explain(Loops(world, {}), "large-0")
    assert found.move == "none gives it up before 1970-01-02T03:47:40Z: it replaced other nodes"
    world.memory = replace(world.memory, moves=MoveMemory(returns={"large-0": changed(pause, why="it failed")}))
    found = explain(Loops(world, {"consolidation_policy": "off"}), "large-0")
    assert found.move == "none gives it up for a preferred group before 1970-01-02T03:47:40Z: it failed"
