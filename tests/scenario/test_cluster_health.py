"""What halts a cluster, what does not, and what ends the halt (docs/adr/0019-cluster-health.md)."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.story import LOOP, MINUTE, Story

from nodewright.model.group import GroupRef
from nodewright.model.node import NodeCondition
from nodewright_simulator.scenario import TolerationSpec

HEALTHY = {"name": "healthy", "size": 12, "min_size": 12, "max_size": 12, "price_per_hour": 0.1}
BROKEN = {"name": "broken", "price_per_hour": 0.15, "ready_delay": "100h"}
SOUND = {"name": "sound", "price_per_hour": 0.3}
STAYS = {"scale-down-enabled": False}
STARTUP = 15 * MINUTE
ASKED = 10.0
# A machine registers a minute after it was asked for.
REGISTERED = ASKED + MINUTE
OVERDUE = REGISTERED + STARTUP


def bad_scale_up(*, minutes: float = 90, broken: dict[str, Any] | None = None, **settings: Any) -> Story:
    """Ten machines that never become ready beside twelve healthy nodes."""
    story = Story(HEALTHY, {**BROKEN, **(broken or {})}, SOUND, settings={**STAYS, **settings}, minutes=minutes)
    story.pods(22, at=5)
    return story


def falls_silent(story: Story, group: str, *, at: float, only: str = "") -> None:
    """The kubelets of a group report no more: the node controller says so."""
    since = datetime.fromtimestamp(at, tz=UTC)
    said = NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown", last_transition_time=since)

    def happen() -> None:
        live = story.simulation.cluster.live
        names = [machine.rpartition("/")[2] for machine in story.cloud.living(group)]
        for name in names if not only else [only]:
            node = live.node(live.row(name))
            story.simulation.cluster.change_node(replace(node, status=replace(node.status, conditions=(said,))))

    story.at(at, happen)


# Nodes that never became ready


def test_a_bad_scale_up_halts_nothing_and_its_pods_go_elsewhere_at_once() -> None:
    story = bad_scale_up()
    assert story.asked("broken") == [ASKED]
    assert story.asked("sound")[0] == pytest.approx(OVERDUE, abs=LOOP)
    assert story.events("ClusterUnhealthy") == []
    assert all(state.healthy and not state.is_halted for state in story.states())
    assert story.result.final.pending == 0
    assert story.first_running() <= OVERDUE + 2 * MINUTE
    backoff = story.state("broken", OVERDUE + LOOP).backoff
    assert backoff is not None
    assert backoff.code == "neverReady"


def test_nodes_that_never_were_ready_go_one_by_one_after_twice_the_startup_time() -> None:
    story = bad_scale_up()
    deleted = story.writes("delete")
    assert [write[2:] for write in deleted] == [("broken", size, size - 1) for size in range(10, 0, -1)]
    assert deleted[0][0] == pytest.approx(REGISTERED + 2 * STARTUP, abs=2 * LOOP)
    assert all(later[0] > earlier[0] for earlier, later in pairwise(deleted))
    first = story.events("DeleteNeverReady")[0][1]
    assert first == "Removed node of machine fake:///broken/broken-0: it did not become ready in time"
    assert [len(story.cloud.living(name)) for name in ("healthy", "broken", "sound")] == [12, 0, 10]


def test_they_never_count_however_long_they_stay() -> None:
    """The minimum size keeps them: twelve hours later the group may be asked again, and nothing is halted."""
    story = bad_scale_up(minutes=720, broken={"min_size": 10})
    assert story.writes("delete") == []
    assert story.events("ClusterUnhealthy") == []
    last = story.state("broken", 720 * MINUTE)
    assert (len(last.readiness.never_ready), last.healthy) == (10, True)
    assert len(story.events("ScaleUpTimedOut")) == 1, "an old failure is no new one"


@pytest.mark.parametrize("keeps_memory", [True, False])
@pytest.mark.parametrize("at", [5 * MINUTE, OVERDUE + 35, 25 * MINUTE])
def test_an_engine_that_starts_anew_knows_them(at: float, keeps_memory: bool) -> None:
    story = bad_scale_up(broken={"min_size": 10})
    story.simulation.engine.restart(at, down_seconds=35, keeps_memory=keeps_memory)
    assert story.events("ClusterUnhealthy") == []
    assert len(story.state("broken", 90 * MINUTE).readiness.never_ready) == 10
    assert story.result.final.pending == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_a_kubelet_that_falls_silent_before_it_was_ready_never_was_ready(restarts: bool) -> None:
    """The node controller then changes the condition to Unknown, long after the node was created."""
    story = bad_scale_up(broken={"min_size": 10})
    falls_silent(story, "broken", at=REGISTERED + 45)
    if restarts:
        story.simulation.engine.restart(400, down_seconds=10 * MINUTE, keeps_memory=True)
    assert story.events("ClusterUnhealthy") == []
    assert len(story.state("broken", 90 * MINUTE).readiness.never_ready) == 10


def test_a_node_that_was_ready_once_never_counts_as_one_that_was_not() -> None:
    story = Story(HEALTHY, {**BROKEN, "ready_delay": "2m"}, settings=STAYS, minutes=120)
    story.pods(14, at=5)
    story.turn("broken-0", at=400, ready=False)
    falls_silent(story, "broken", at=500, only="broken-0")
    assert story.state("broken", 110 * MINUTE).readiness.unready == ("broken-0",)
    assert story.state("broken", 110 * MINUTE).readiness.never_ready == ()
    assert story.writes("delete") == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_broke_soon_after_it_was_ready_was_ready(restarts: bool) -> None:
    """Its condition changed half a minute after it was created, at the latest: by itself it would prove the contrary."""
    story = Story({**BROKEN, "ready_delay": "10s"}, settings=STAYS, minutes=90)
    story.pods(1, at=5)
    story.turn("broken-0", at=REGISTERED + 20, ready=False)
    if restarts:
        story.simulation.engine.restart(400, down_seconds=60, keeps_memory=True)
    last = story.state("broken", 80 * MINUTE)
    assert (last.readiness.unready, last.readiness.never_ready, last.backoff) == (("broken-0",), (), None)
    assert story.events("ScaleUpTimedOut") == []
    assert story.writes("delete") == []


def test_nodes_with_pods_are_left_to_scale_down() -> None:
    """A pod that tolerates the taint of the node may run there."""
    story = Story(BROKEN, SOUND, settings=STAYS, minutes=90)
    story.pods(1, at=5)
    tolerant = TolerationSpec(key="node.kubernetes.io/not-ready", operator="Exists")
    story.pods(1, at=100, until=60 * MINUTE, name="tolerant", tolerations=(tolerant,))
    ((deleted, *_),) = story.writes("delete")
    assert deleted == pytest.approx(60 * MINUTE, abs=LOOP)


def test_a_node_that_is_to_be_kept_is_kept() -> None:
    story = bad_scale_up()

    def keep() -> None:
        live = story.simulation.cluster.live
        node = live.node(live.row("broken-3"))
        meta = replace(node.metadata, annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
        story.simulation.cluster.change_node(replace(node, metadata=meta))

    story.at(300, keep)
    assert len(story.writes("delete")) == 9
    assert [machine.rpartition("/")[2] for machine in story.cloud.living("broken")] == ["broken-3"]


def test_a_full_group_frees_the_places_that_pods_wait_for() -> None:
    story = Story({**BROKEN, "max_size": 2}, settings=STAYS, minutes=60)
    story.pods(2, at=5)
    first = story.writes("delete")[0][0]
    assert first == pytest.approx(OVERDUE + 5 * MINUTE, abs=2 * LOOP)


def test_profile_ca_counts_them_as_ca_does() -> None:
    story = Story(HEALTHY, BROKEN, SOUND, settings={**STAYS, "profile": "ca"}, minutes=60)
    story.pods(22, at=5)
    unhealthy = [state for state in story.states() if not state.healthy]
    assert unhealthy
    assert all(state.memory.unhealthy and state.memory.unhealthy.resumes_at == 0.0 for state in unhealthy)


# An unhealthy cluster

POOL = {"name": "pool", "size": 10, "min_size": 10, "price_per_hour": 0.1}
OTHER = {"name": "other", "size": 4, "min_size": 4, "price_per_hour": 0.3}
POOL_NODES = tuple(f"pool-{number}" for number in range(10))
FELL = 1000.0
RESUMES = FELL + 20 * MINUTE


def fallen(minutes: float = 90, **settings: Any) -> Story:
    """Ten of fourteen nodes, all of one group, stop; more pods come. The group has room."""
    story = Story(POOL, OTHER, settings={**STAYS, **settings}, minutes=minutes)
    story.turn(*POOL_NODES, at=FELL, ready=False)
    story.pods(10, at=1200)
    return story


def test_a_halt_says_why_and_what_ends_it() -> None:
    story = fallen(minutes=30)
    why = (
        "cluster is unhealthy: 10 of 14 nodes are not ready, and 6 may be; nothing is planned until fewer are not ready"
    )
    end = ", or for groups other than fake/pool until 36m40s after the start"
    assert story.events("ClusterUnhealthy")[0] == (FELL, why + end)
    assert story.writes() == []


def test_planning_goes_on_for_the_other_groups_after_a_while() -> None:
    story = fallen()
    (write,) = story.writes("increase")
    assert write[2:] == ("other", 4, 10)
    assert RESUMES < write[0] <= RESUMES + 2 * LOOP
    assert story.writes("delete", "withdraw") == []
    assert story.result.final.pending == 0
    told = "cluster is unhealthy: 10 of 20 nodes are not ready, and 9 may be; only groups other than fake/pool are "
    assert told + "planned for until fewer are not ready" in [
        message for _, message in story.events("ClusterUnhealthy")
    ]


def test_the_time_is_a_setting() -> None:
    story = fallen(90, **{"max-unhealthy-duration": "5m"})
    assert story.asked("other")[0] == pytest.approx(FELL + 5 * MINUTE, abs=2 * LOOP)


def test_the_time_goes_on_over_a_restart() -> None:
    story = fallen()
    story.simulation.engine.restart(1500, down_seconds=60, keeps_memory=True)
    assert story.asked("other")[0] == pytest.approx(RESUMES, abs=2 * LOOP)


def test_health_that_returns_ends_it_at_once() -> None:
    story = fallen()
    story.turn(*POOL_NODES[:6], at=1600, ready=True)
    assert story.first_running() == pytest.approx(1600, abs=LOOP)
    assert all(state.healthy for state in story.states() if state.now > 1600)


def test_nodes_that_fail_everywhere_halt_everything_as_long_as_it_lasts() -> None:
    """No group is to blame, or all are: something else is broken, and nothing is done."""
    story = Story(POOL, {**OTHER, "size": 10, "min_size": 10}, settings=STAYS, minutes=180)
    both = tuple(f"{name}-{number}" for name in ("pool", "other") for number in range(6))
    story.turn(*both, at=FELL, ready=False)
    story.pods(20, at=1200)
    assert story.writes() == []
    told = (
        "cluster is unhealthy: 12 of 20 nodes are not ready, and 9 may be; nothing is planned until fewer are not ready"
    )
    assert {message for _, message in story.events("ClusterUnhealthy")} == {told}


def test_scale_down_goes_on_for_the_other_groups_and_leaves_those_at_fault() -> None:
    settings = {"expander": "price", "scale-down-unneeded-time": "20m", "consolidation-policy": "off"}
    story = Story({**POOL, "min_size": 0}, {**OTHER, "min_size": 0}, settings=settings, minutes=120)
    story.pods(1, at=5)
    story.turn(*POOL_NODES, at=FELL, ready=False)
    gone = story.writes("delete")
    assert {write[2] for write in gone} == {"other"}
    assert gone[0][0] == pytest.approx(RESUMES + 20 * MINUTE, abs=3 * LOOP)


@pytest.mark.parametrize("rule", ["ca", "seed"])
def test_other_rules_wait_without_an_end(rule: str) -> None:
    story = fallen(120, **{"size-correction": rule})
    assert story.asked("other") == []


def test_the_state_says_since_when() -> None:
    story = fallen(minutes=30)
    unhealthy = story.states()[-1].memory.unhealthy
    assert unhealthy is not None
    assert (unhealthy.since, unhealthy.unready, unhealthy.nodes, unhealthy.tolerated) == (FELL, 10, 14, 6)
    assert unhealthy.at_fault == (GroupRef("fake", "pool"),)
