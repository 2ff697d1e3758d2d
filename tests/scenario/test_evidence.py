"""Clouds that call machines failed creations although they run: no node is lost to a status (docs/adr/0023)."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.story import LOOP, MINUTE, PROVISION, Story
from tests.scenario.test_budget import forget_nodes

from nodewright.model.action import DeleteInstances, DeletionCause
from nodewright.model.group import FailedInstance, Instance
from nodewright.model.removal import RemovalResult
from nodewright.spec import hookimpl
from nodewright.testkit import build_node
from nodewright_fake import FakeProvider
from nodewright_simulator.api_server import LIST, Refusal
from nodewright_simulator.journal import What

A = {"name": "a", "price_per_hour": 0.1, "zone": "z1"}
B = {"name": "b", "price_per_hour": 0.2, "zone": "z2"}
SLANDER = {"group": "a", "start": "5m"}
ASKED = LOOP
TOLD = "RunningMachineReportedFailed"


def lost_pods(story: Story) -> list[str]:
    return [fact.name for fact in story.result.journal if fact.what == What.POD_LOST]


def keep_all_but(story: Story, name: str) -> None:
    """All other nodes are annotated to stay."""
    cluster = story.simulation.cluster
    for _, node in list(cluster.live.nodes()):
        if node.name != name:
            annotations = {**node.metadata.annotations, "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
            cluster.change_node(replace(node, metadata=replace(node.metadata, annotations=annotations)))


@pytest.mark.parametrize(
    "report",
    [
        SLANDER,
        {**SLANDER, "also_listed": True},
        {**SLANDER, "machines": 2},
        {**SLANDER, "flaps_every": "40s"},
        {**SLANDER, "error_class": "quota", "scope": "account"},
    ],
    ids=["all", "still listed", "some", "flapping", "account"],
)
@pytest.mark.parametrize("rule", ["prompt", "seed"])
def test_ready_nodes_stay_whatever_the_clouds_status_says(report: dict[str, Any], rule: str) -> None:
    story = Story({**A, "size": 40}, B, false_failures=[report], settings={"size-correction": rule}, minutes=60)
    story.pods(40, at=1)
    assert story.machines("a") == 40
    assert lost_pods(story) == []
    assert story.planned(DeleteInstances, "a") == []
    assert story.machines("b") == 0


def test_a_report_about_a_machine_that_runs_is_told_once_and_punishes_nobody() -> None:
    story = Story({**A, "size": 3}, B, false_failures=[{**SLANDER, "machines": 3, "code": "ODD"}], minutes=60)
    story.pods(3, at=1)
    story.pods(1, at=10 * MINUTE, name="later")
    said = [message for _, message in story.events(TOLD)]
    assert len(said) == 3
    assert "fake:///a/a-0 of group fake/a as a failed creation (ODD:" in said[0]
    assert story.events("ScaleUpFailed") == []
    assert [write[1:] for write in story.writes("increase")] == [("increase", "a", 3, 4)]
    assert story.machines("a") == 4
    assert story.machines("b") == 0


def test_a_machine_that_ran_and_is_unready_is_drained_by_the_rules_for_unready_nodes() -> None:
    settings = {"scale-down-unneeded-time": "2h", "scale-down-unready-time": "10m"}
    story = Story({**A, "size": 3}, false_failures=[{**SLANDER, "machines": 1}], settings=settings, minutes=60)
    story.pods(3, at=1, cpu="400m")
    story.at(2, lambda: keep_all_but(story, "a-0"))
    story.turn("a-0", at=6 * MINUTE, ready=False)
    gone = [ended for ended in story.result.removals if ended.removal.node == "a-0"]
    assert [ended.result for ended in gone] == [RemovalResult.OK]
    assert gone[0].at >= 16 * MINUTE
    assert gone[0].evicted == ("default/web-0",)
    assert story.planned(DeleteInstances, "a") == []


@pytest.mark.parametrize("keeps_memory", [True, False])
def test_a_restart_forgets_no_evidence(keeps_memory: bool) -> None:
    story = Story({**A, "size": 5}, B, false_failures=[SLANDER], minutes=60)
    story.pods(5, at=1)
    story.turn("a-0", at=6 * MINUTE, ready=False)
    story.simulation.engine.restart(7 * MINUTE, down_seconds=60, keeps_memory=keeps_memory)
    assert story.machines("a") == 5
    assert story.planned(DeleteInstances, "a") == []


@pytest.mark.parametrize("after_effect", [True, False])
def test_a_group_that_is_held_after_a_crash_in_a_write_is_not_blamed_for_a_report(after_effect: bool) -> None:
    story = Story({**A, "size": 2}, B, false_failures=[{**SLANDER, "machines": 2}], minutes=60)
    story.pods(2, at=1)
    story.pods(1, at=6 * MINUTE, name="later")
    story.simulation.engine.crash(6 * MINUTE, after_effect=after_effect, down_seconds=5, keeps_memory=True)
    assert story.events("ScaleUpFailed") == []
    assert story.machines("a") == 3
    assert story.machines("b") == 0


@pytest.mark.parametrize("restarts", [True, False])
def test_a_machine_that_ran_and_has_no_node_any_more_goes_as_a_late_machine_does(restarts: bool) -> None:
    """That it ran is remembered, across a restart too."""
    story = Story({**A, "size": 2}, false_failures=[{**SLANDER, "start": "10m"}], minutes=60)
    story.pods(2, at=1)
    gone, late = 11 * MINUTE, 11 * MINUTE + 2 * PROVISION
    story.at(gone, lambda: forget_nodes(story))
    if restarts:
        story.simulation.engine.restart(gone + MINUTE, down_seconds=60)
    planned = [
        (at, action) for at, action in story.planned(DeleteInstances, "a") if isinstance(action, DeleteInstances)
    ]
    own = [(at, action.cause) for at, action in planned if action.instance_ids[0] in ("fake:///a/a-0", "fake:///a/a-1")]
    assert late <= own[0][0] <= late + 3 * MINUTE
    assert {cause for _, cause in own} == {DeletionCause.UNREGISTERED}


def test_failed_creations_without_a_node_go_at_once() -> None:
    story = Story(A, B, failures=[{"group": "a"}], minutes=30)
    story.pods(1, at=10)
    [(at, deletion)] = story.planned(DeleteInstances, "a")[:1]
    assert at <= 40
    assert isinstance(deletion, DeleteInstances)
    assert deletion.failure_ids
    assert story.machines("b") == 1


def join(story: Story, machine: str) -> None:
    """The machine is a Ready node from now on, unless it is one already."""
    name = machine.rpartition("/")[2]
    if story.simulation.cluster.live.find_row(name) is None:
        now = story.clock.now()
        story.simulation.cluster.add_node(build_node(name, cpu=1, provider_id=machine, created_at=now), now, "a")


def test_a_node_that_appears_while_the_cloud_answers_stops_the_deletion() -> None:
    """The nodes are read before the clouds. What was no node then is looked at once more right before the call."""

    class Joins(FakeProvider):
        @hookimpl
        def failed_instances(self, group_id: str) -> Sequence[FailedInstance]:
            found: Sequence[FailedInstance] = super().failed_instances(group_id)
            for failure in found:
                assert failure.instance_id is not None
                join(story, failure.instance_id)
            return found

    story = Story({**A, "max_size": 1}, variant=Joins, failures=[{"group": "a"}], minutes=30)
    story.pods(1, at=10)
    assert story.result.final.running == 1
    assert [held for _, plan in story.loops for held in plan.held_back] == []  # as it was planned: nothing held it back
    assert len(story.planned(DeleteInstances, "a")) == 1
    assert story.writes("delete") == []
    assert len(story.events(TOLD)) == 1


def test_a_node_that_appears_meanwhile_holds_up_no_other_deletion() -> None:
    class OneJoins(FakeProvider):
        @hookimpl
        def failed_instances(self, group_id: str) -> Sequence[FailedInstance]:
            found: Sequence[FailedInstance] = super().failed_instances(group_id)
            if any(failure.instance_id == "fake:///a/a-1" for failure in found):
                join(story, "fake:///a/a-1")
            return found

    story = Story({**A, "max_size": 3}, variant=OneJoins, failures=[{"group": "a"}], minutes=3)
    story.pods(3, at=10)
    (at, planned), *_ = story.planned(DeleteInstances, "a")
    assert isinstance(planned, DeleteInstances)
    assert planned.instance_ids == ("fake:///a/a-0", "fake:///a/a-1", "fake:///a/a-2")
    assert story.writes("delete")[0] == (at, "delete", "a", 3, 1)
    assert "machine fake:///a/a-1 is node a-1" in story.events("DeletionWithheld")[0][1]
    assert story.result.final.running >= 1


def test_a_late_machine_that_joins_while_the_cloud_answers_is_adopted() -> None:
    class Joins(FakeProvider):
        @hookimpl
        def instances(self, group_id: str) -> Sequence[Instance]:
            if story.clock.now() > ASKED + 2 * PROVISION:
                join(story, "fake:///a/a-0")
            listed: Sequence[Instance] = super().instances(group_id)
            return listed

    story = Story({**A, "never_registers": 1.0}, variant=Joins, settings={"scale-down-enabled": False}, minutes=60)
    story.pods(1, at=5)
    assert len(story.planned(DeleteInstances, "a")) == 1
    assert story.writes("delete") == []
    assert story.result.final.running == 1


def test_machines_that_join_while_the_list_of_nodes_is_stuck_stay() -> None:
    """They look as if they had never joined, for longer than a machine may take; the API server knows better."""
    story = Story({**A, "size": 1}, settings={"scale-down-enabled": False}, minutes=90)
    story.pods(4, at=MINUTE)
    story.simulation.misread(MINUTE / 2, "stale_nodes", 60 * MINUTE)
    assert story.writes("delete") == []
    assert lost_pods(story) == []
    assert {at // MINUTE for at, _ in story.planned(DeleteInstances, "a")} >= set(range(40, 60))
    assert story.planned(DeleteInstances, "a")[-1][0] < 61 * MINUTE
    assert "so it did register" in story.events("DeletionWithheld")[0][1]
    assert story.machines("a") == 4
    assert story.result.final.running == 4


def test_a_node_that_becomes_ready_while_the_lists_are_stuck_stays() -> None:
    story = Story({**A, "size": 1, "ready_delay": "10m"}, settings={"scale-down-enabled": False}, minutes=60)
    story.pods(2, at=MINUTE)
    story.simulation.misread(5 * MINUTE, "stale", 40 * MINUTE)
    assert story.planned(DeleteInstances, "a")
    assert "which is ready or was" in story.events("DeletionWithheld")[0][1]
    assert story.writes("delete") == []
    assert lost_pods(story) == []


def test_deletions_wait_for_a_list_of_nodes_and_no_longer() -> None:
    story = Story({**A, "never_registers": 1.0}, settings={"scale-down-enabled": False}, minutes=90)
    story.pods(1, at=5)
    end = 60 * MINUTE
    story.simulation.api_server.refusals.append(Refusal(start=0.0, end=end, what=LIST))
    due = story.planned(DeleteInstances, "a")[0][0]
    assert due < end - 10 * MINUTE
    assert story.writes("delete")[0][0] - end <= LOOP
    assert "the nodes could not be listed" in story.events("DeletionWithheld")[0][1]


def test_as_in_ca_no_list_is_taken() -> None:
    story = Story({**A, "never_registers": 1.0}, settings={"size-correction": "ca"}, minutes=90)
    story.pods(1, at=5)
    story.simulation.api_server.refusals.append(Refusal(start=0.0, end=90 * MINUTE, what=LIST))
    assert story.writes("delete")
