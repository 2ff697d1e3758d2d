"""Candidates and timers: rows 14 to 31 of the edge cases (docs/behaviour/edge-cases.md), as whole loops."""

from dataclasses import replace
from typing import Any

import pytest
from core.tests.planner.scale_down.loops import MINUTE, Loops, codes, gone
from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.scale_down_activity import with_activity
from nodewright.model.action import Done, Failed, IncreaseSize
from nodewright.model.group import GroupOptions
from nodewright.model.node import DELETION_CANDIDATE_TAINT, Node, NodeCondition, Taint
from nodewright.model.reason import ScaleDownResult
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalReason, RemovalResult
from nodewright.model.settings import ScaleDownSettings, Settings
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World, ref, settings_with

OPTIONS = {"ca": {"profile": "ca"}, "ours": {}}
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def one_group(size: int = 2, **extras: Any) -> Loops:
    loops = Loops()
    loops.world.add_group("g", size, **extras)
    return loops


def unready(node: Node) -> Node:
    status = changed(node.status, conditions=(NodeCondition(type="Ready", status="False"),))
    return changed(node, status=status)


@pytest.mark.parametrize("profile", OPTIONS.values(), ids=OPTIONS)
def test_an_empty_node_goes_once_it_was_unneeded_for_long_enough(profile: dict[str, str]) -> None:
    loops = one_group(1)
    loops.settings = {**profile, "scale_down_delay_after_add": 0.0}
    assert codes(loops.run()) == {"g-0": "NotUnneededLongEnough"}
    report = loops.run(10 * MINUTE + 1)
    assert gone(report) == ["g-0"]
    assert report.result == ScaleDownResult.STARTED
    assert report.removals[0].instance_id == "cloud:///g/0"


def test_scale_down_switched_off_plans_and_remembers_nothing() -> None:
    loops = one_group()
    loops.settings = {"scale_down_enabled": False}
    before = loops.world.state(settings_with(**loops.settings)).memory.scale_down
    report = loops.run()
    assert report.result == ScaleDownResult.NOT_TRIED
    assert loops.world.memory.scale_down == before


def test_row_14_a_node_may_be_protected_also_once_it_is_unneeded() -> None:
    loops = one_group(1)
    loops.run()
    node = loops.node("g-0")
    loops.change(changed(node, metadata=changed(node.metadata, annotations={DISABLED: "true"})))
    assert codes(loops.run(11 * MINUTE)) == {"g-0": "ScaleDownDisabledAnnotation"}


def test_row_16_what_a_simulation_kept_is_not_looked_at_again_for_five_minutes() -> None:
    loops = one_group(1)
    bare = build_pod("bare", node_name="g-0", owner=None)
    loops.world.running = [bare]
    report = loops.run()
    assert codes(report) == {"g-0": "BlockedByPod"}
    assert report.unremovable["g-0"].pod == bare.key
    loops.world.running = []
    assert codes(loops.run(4 * MINUTE)) == {"g-0": "RecentlyUnremovable"}
    assert codes(loops.run(1 * MINUTE)) == {"g-0": "NotUnneededLongEnough"}


def test_row_16_a_node_that_was_used_too_much_is_looked_at_in_every_loop() -> None:
    loops = one_group(1)
    loops.world.running = [build_pod("p", cpu="3", node_name="g-0")]
    assert codes(loops.run()) == {"g-0": "NotUnderutilized"}
    loops.world.running = []
    assert codes(loops.run(10)) == {"g-0": "NotUnneededLongEnough"}


def test_row_18_nodes_of_a_group_at_its_least_size_are_never_unneeded_nor_marked() -> None:
    report = one_group(2, min_size=2).run()
    assert not report.unneeded
    assert not report.soft_taint
    assert report.result == ScaleDownResult.NO_CANDIDATES
    assert codes(report) == {"g-0": "NodeGroupMinSizeReached", "g-1": "NodeGroupMinSizeReached"}


def test_row_19_exactly_long_enough_is_too_short() -> None:
    loops = one_group(1)
    loops.run()
    assert gone(loops.run(10 * MINUTE)) == []
    assert gone(loops.run(0.001)) == ["g-0"]


def test_row_20_an_unneeded_time_of_zero_lets_a_node_go_at_first_sight() -> None:
    loops = one_group(1, options=GroupOptions(scale_down_unneeded_seconds=0.0))
    assert gone(loops.run()) == ["g-0"]


def test_row_21_a_node_that_becomes_unready_is_timed_from_when_it_was_first_unneeded() -> None:
    loops = one_group(1)
    loops.run()
    loops.change(unready(loops.node("g-0")))
    assert codes(loops.run(12 * MINUTE)) == {"g-0": "NotUnreadyLongEnough"}
    assert gone(loops.run(8 * MINUTE + 1)) == ["g-0"]


def test_row_22_an_unhealthy_cluster_forgets_what_was_unneeded() -> None:
    loops = one_group(1)
    loops.world.add_group("sick", 5, min_size=5)
    loops.run()
    healthy = list(loops.world.nodes)
    loops.world.nodes = [unready(node) if node.name.startswith("sick") else node for node in healthy]
    plan = loops.plan(11 * MINUTE)
    assert plan.halted
    loops.world.nodes = healthy
    assert codes(loops.run(10))["g-0"] == "NotUnneededLongEnough"


@pytest.mark.parametrize(("local", "removed"), [(False, True), (True, False)])
def test_row_23_timers_go_on_while_all_wait_and_start_anew_after_a_wait_of_one_group(
    local: bool, removed: bool
) -> None:
    loops = one_group(1, options=GroupOptions(scale_down_unneeded_seconds=5 * MINUTE))
    loops.settings = {"scale_down_delay_type_local": local, "profile": "ca"}
    loops.run()
    memory = loops.world.memory.scale_down
    loops.world.memory = replace(loops.world.memory, scale_down=replace(memory, grown_at={ref("g"): loops.world.now}))
    assert codes(loops.run(6 * MINUTE)) == {"g-0": "InCooldown"}
    assert (gone(loops.run(4 * MINUTE)) == ["g-0"]) is removed


def test_a_delay_ends_at_its_last_moment() -> None:
    loops = one_group(1, options=GroupOptions(scale_down_unneeded_seconds=0.0))
    loops.world.memory = replace(
        loops.world.memory, scale_down=ScaleDownMemory(grown_at={ref("g"): loops.world.now}, engine_started=1.0)
    )
    assert loops.run(10 * MINUTE - 0.001).result == ScaleDownResult.IN_COOLDOWN
    assert loops.run(0.001).result == ScaleDownResult.STARTED


def test_a_new_engine_takes_it_that_nodes_were_added_an_hour_ago() -> None:
    loops = one_group(1, options=GroupOptions(scale_down_unneeded_seconds=0.0))
    loops.settings = {"scale_down_delay_after_add": 65 * MINUTE}
    assert loops.run().result == ScaleDownResult.IN_COOLDOWN
    assert loops.run(5 * MINUTE).result == ScaleDownResult.STARTED


def test_rows_24_and_25_no_more_is_looked_at_than_could_go_in_time() -> None:
    loops = one_group(25, max_size=30)
    loops.settings = {"profile": "ca"}
    first = loops.run()
    assert len(first.unneeded) == 20
    assert list(codes(first).values()).count("NotExaminedYet") == 5
    assert first.next_change == loops.world.now
    second = loops.run(10)
    assert len(second.unneeded) == 25
    assert second.unneeded.items() >= first.unneeded.items()


def test_row_24_what_was_unneeded_before_is_looked_at_first() -> None:
    loops = one_group(25, max_size=30)
    loops.settings = {"profile": "ca"}
    first = loops.run()
    late = [node for node in loops.world.nodes if node.name not in first.unneeded]
    loops.world.nodes = late + [node for node in loops.world.nodes if node.name in first.unneeded]
    loops.settings = {"max_scale_down_parallelism": 1, "profile": "ca"}
    second = loops.run(10)
    assert len(second.unneeded) == 22
    assert second.unneeded.items() >= first.unneeded.items()


def test_empty_nodes_do_not_count_towards_that() -> None:
    """They wait for no turn: each is unneeded from the loop that sees it empty."""
    assert len(one_group(25, max_size=30).run().unneeded) == 25


def test_row_26_nodes_of_zero_or_max_groups_do_not_count_towards_that() -> None:
    loops = one_group(25, max_size=25, options=GroupOptions(zero_or_max_node_scaling=True))
    loops.world.add_group("other", 3)
    assert len(loops.run().unneeded) == 28


@pytest.mark.parametrize(("bypassed", "result"), [((), ScaleDownResult.IN_COOLDOWN), (("s",), ScaleDownResult.STARTED)])
def test_row_27_nothing_goes_while_all_pods_that_wait_are_very_new(
    bypassed: tuple[str, ...], result: ScaleDownResult
) -> None:
    loops = one_group(1, options=GroupOptions(scale_down_unneeded_seconds=0.0))
    loops.world.pending = [build_pod("huge", cpu="100", created_at=loops.world.now - 1)]
    loops.settings = {"profile": "ca", "bypassed_scheduler_names": bypassed}
    assert loops.run().result == result


@pytest.mark.parametrize(("delay", "result"), [(0.0, ScaleDownResult.STARTED), (1.0, ScaleDownResult.IN_COOLDOWN)])
def test_row_28_with_no_delay_after_adding_a_node_may_go_in_the_same_loop(
    delay: float, result: ScaleDownResult
) -> None:
    loops = one_group(1, options=GroupOptions(scale_down_unneeded_seconds=0.0))
    loops.world.add_group("big", 0, cpu="64")
    loops.world.pending = [build_pod("p", cpu="32")]
    loops.settings = {"scale_down_delay_after_add": delay}
    plan = loops.plan()
    assert [action for action in plan.actions if isinstance(action, IncreaseSize)]
    assert plan.scale_down.result == result


def ended(result: RemovalResult, at: float = 500.0) -> RemovalEnded:
    removal = NodeRemoval(node="n", group=ref("g"), instance_id="i", reason=RemovalReason.EMPTY)
    return RemovalEnded(removal=removal, at=at, started=400.0, result=result)


def activity(*ends: RemovalEnded, settings: Settings | None = None) -> ScaleDownMemory:
    world = World(now=600.0)
    world.add_group("g", 1)
    seen = world.state().observation
    given = settings or Settings()
    return with_activity(ScaleDownMemory(engine_started=1.0), seen, [], ends, given.scale_down, given.policy)


def test_row_29_a_drain_that_fails_delays_nothing_and_a_taint_that_fails_does() -> None:
    assert activity(ended(RemovalResult.FAILED_TO_EVICT)).marking_failed_at == 0.0
    assert activity(ended(RemovalResult.FAILED_TO_MARK)).marking_failed_at == 500.0
    assert activity(ended(RemovalResult.FAILED_TO_MARK)).removal_started_at == 0.0


def test_row_120_a_refused_deletion_delays_its_group_alone() -> None:
    found = activity(ended(RemovalResult.FAILED_TO_DELETE))
    assert (found.failed_at, found.marking_failed_at) == ({ref("g"): 500.0}, 0.0)


def test_a_removal_counts_from_when_it_began_and_its_group_from_when_it_ended() -> None:
    found = activity(ended(RemovalResult.OK))
    assert (found.removal_started_at, found.shrunk_at) == (400.0, {ref("g"): 500.0})


@pytest.mark.parametrize("accepted", [0, 1])
def test_a_group_has_grown_once_its_cloud_agreed(accepted: int) -> None:
    world = World(now=600.0)
    world.add_group("g", 1)
    action = IncreaseSize(group=ref("g"), expected_target=1, target=2)
    outcomes = [
        Done(action=action, started=590.0, accepted=accepted),
        Failed(action=action, started=595.0, code="no", message=""),
    ]
    found = with_activity(
        ScaleDownMemory(), world.state().observation, outcomes, (), ScaleDownSettings(), Settings().policy
    )
    assert found.grown_at == ({ref("g"): 590.0} if accepted else {})


def soft_tainted(loops: Loops, value: str) -> None:
    node = loops.node("g-0")
    taint = Taint(key=DELETION_CANDIDATE_TAINT, effect="PreferNoSchedule", value=value)
    loops.change(changed(node, spec=changed(node.spec, taints=(taint,))))


@pytest.mark.parametrize(
    ("ttl", "value", "removed"),
    [
        (0.0, "{then}", False),
        (30 * MINUTE, "{then}", True),
        (5 * MINUTE, "{then}", False),
        (30 * MINUTE, "yesterday", False),
        (30 * MINUTE, "9" * 30, False),
        (30 * MINUTE, "", False),
    ],
)
@pytest.mark.parametrize("profile", OPTIONS.values(), ids=OPTIONS)
def test_row_30_a_new_engine_may_read_from_the_soft_taint_since_when(
    ttl: float, value: str, removed: bool, profile: dict[str, str]
) -> None:
    loops = one_group(1)
    loops.settings = {"node_deletion_candidate_ttl": ttl, **profile}
    soft_tainted(loops, value.format(then=int(loops.world.now - 12 * MINUTE)))
    assert (gone(loops.run()) == ["g-0"]) is removed


def test_an_engine_that_runs_does_not_read_soft_taints() -> None:
    loops = one_group(1)
    loops.settings = {"node_deletion_candidate_ttl": 30 * MINUTE}
    loops.world.running = [build_pod("p", cpu="4", node_name="g-0")]
    loops.run()
    loops.world.running = []
    soft_tainted(loops, str(int(loops.world.now - 12 * MINUTE)))
    assert gone(loops.run(10)) == []


@pytest.mark.parametrize(("profile", "removed"), [("nodewright", True), ("ca", False)])
def test_a_restart_keeps_unneeded_times_and_ca_s_does_not(profile: str, removed: bool) -> None:
    loops = one_group(1)
    loops.settings = {"profile": profile}
    loops.run()
    memory = loops.world.memory.scale_down
    saved = ScaleDownMemory(unneeded_since=memory.unneeded_since)
    loops.world.memory = replace(loops.world.memory, scale_down=saved)
    assert (gone(loops.run(11 * MINUTE)) == ["g-0"]) is removed


def test_what_is_remembered_from_the_future_began_now() -> None:
    loops = one_group(1)
    loops.world.memory = replace(
        loops.world.memory, scale_down=ScaleDownMemory(unneeded_since={"g-0": 1e12}, grown_at={ref("g"): 1e12})
    )
    loops.run()
    assert gone(loops.run(11 * MINUTE)) == ["g-0"]


def test_row_116_nodes_of_a_group_that_cannot_be_read_stay_and_the_reason_says_so() -> None:
    loops = one_group(2)
    seen = loops.world.groups[ref("g")]
    loops.run()
    loops.world.groups[ref("g")] = replace(seen, target=None, instances=None, problem="throttled")
    report = loops.run(11 * MINUTE)
    assert set(codes(report).values()) == {"UnexpectedError"}
    assert "throttled" in report.passed_over["g-0"].message


def test_every_node_that_stays_has_a_reason() -> None:
    loops = one_group(25, max_size=30)
    loops.world.add_group("least", 1, min_size=1)
    loops.world.add_group("used", 1)
    loops.world.running = [build_pod("p", cpu="4", node_name="used-0")]
    loops.world.nodes.append(
        changed(
            loops.node("g-0"),
            metadata=changed(loops.node("g-0").metadata, name="stray"),
            spec=changed(loops.node("g-0").spec, provider_id=""),
        )
    )
    loops.begin("g-7")
    for after in (0.0, 10.0, 11 * MINUTE):
        report = loops.run(after)
        assert {*codes(report), *gone(report)} == {node.name for node in loops.world.nodes}
    assert codes(report)["stray"] == "NotAutoscaled"
    assert codes(report)["g-7"] == "CurrentlyBeingDeleted"
