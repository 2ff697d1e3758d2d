"""Renewal: nodes that are too old or have drifted are replaced, the new nodes first (virtual time)."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.kills import check_nothing_twice, kill_everywhere
from tests.scenario.story import Story

from nodewright.model.move import MoveStage
from nodewright_fake.options import TaintConfig
from nodewright_simulator.journal import What

HOUR = 3600.0
SETTINGS = {
    "node-max-age": "1h",
    "node-max-age-jitter": 0,
    # Without renewal nothing would go.
    "scale-down-utilization-threshold": 0,
}


def story(*groups: dict[str, Any], pods: int = 2, minutes: float = 100, **more: Any) -> Story:
    """A group of full nodes."""
    settings = {**SETTINGS, **more.pop("settings", {})}
    told = Story(*(groups or ({"name": "web"},)), settings=settings, minutes=minutes, **more)
    told.pods(pods, at=5)
    return told


def stages(told: Story) -> list[MoveStage]:
    assert told.result
    return list(dict.fromkeys(move.stage for _, plan in told.loops for move in plan.moves))


def gone(told: Story) -> list[tuple[str, str]]:
    """Return each node that was removed, and why."""
    return [(over.removal.node, over.removal.reason.value) for over in told.result.removals]


def starts(told: Story) -> list[float]:
    """Return when each move began."""
    assert told.result
    return sorted({move.started for _, plan in told.loops for move in plan.moves})


def holds(told: Story) -> set[str]:
    """Return why outdated nodes were not replaced."""
    assert told.result
    return {one.held for _, plan in told.loops for one in plan.outdated if one.held}


def test_an_old_node_is_drained_when_its_replacement_is_ready() -> None:
    told = story(pods=1)
    assert stages(told) == ["proposed", "launching", "ready", "draining", "done"]
    assert gone(told) == [("web-0", "expired")]
    came = [fact.at for fact in told.result.journal if fact.what == What.NODE_READY]
    (evicted,) = [fact.at for fact in told.result.journal if fact.what == What.POD_EVICTED]
    assert HOUR < came[1] < evicted
    assert told.result.final.pending == 0
    assert told.machines("web") == 1


def test_nodes_that_came_together_go_one_after_the_other() -> None:
    told = story(pods=4, minutes=130)
    first = {"web-0", "web-1", "web-2", "web-3"}
    assert {name for name, _ in gone(told)[:4]} == first
    # Groups that grow soon after they shrank do not wait here.
    assert told.result.removals[3].at < 1.3 * HOUR
    assert max(loop.observation.snapshot.alive.sum() for loop, _ in told.loops) == 5
    assert told.machines("web") == 4


def test_jitter_spreads_their_ages() -> None:
    told = story(pods=4, settings={"node-max-age-jitter": 0.5, "max-drain-parallelism": 10})
    began = starts(told)
    assert len(began) > 2
    assert all(at >= HOUR / 2 for at in began)
    # The same after a restart, or in another run.
    assert starts(story(pods=4, settings={"node-max-age-jitter": 0.5, "max-drain-parallelism": 10})) == began


def test_pods_that_fit_on_younger_nodes_need_no_new_node() -> None:
    told = story({"name": "web", "cpu": 4}, pods=0, minutes=70)
    told.deploy("web", (5, 4), (2500, 2))
    told.pods(1, at=1800, name="more")
    assert gone(told) == [("web-0", "expired")]
    assert [after for *_, after in told.writes("increase")] == [1, 2]


def test_a_group_at_its_minimum_gets_the_new_node_first() -> None:
    told = story({"name": "web", "min_size": 1, "size": 1}, pods=0, minutes=80)
    assert told.result
    sizes = [len(seen.instances or ()) for state, _ in told.loops for seen in state.observation.groups.values()]
    assert min(sizes) == 1
    assert max(sizes) == 2
    assert gone(told)[0] == ("web-0", "expired")


def test_a_replacement_that_fails_leaves_the_node_in_place() -> None:
    told = story(pods=1, stock_outs=[{"group": "web", "start": "30m"}])
    assert gone(told) == []
    assert told.result.final.pending == 0
    assert MoveStage.ABANDONED in stages(told)


def test_a_group_at_its_maximum_keeps_its_old_nodes() -> None:
    told = story({"name": "web", "max_size": 2}, pods=2)
    assert gone(told) == []
    assert any("max node group size reached" in why for why in holds(told)), holds(told)


@pytest.mark.parametrize("key", ["cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"])
def test_an_annotation_keeps_a_node(key: str) -> None:
    told = story(pods=1)
    told.at(1000, lambda: told.annotate("web-0", key))
    assert gone(told) == []
    assert holds(told) == {f"it is annotated {key}"}
    # Nothing can change before the cluster does: no timer starts a loop.
    assert sum(state.now > HOUR for state, _ in told.loops) < 10


def test_a_pod_that_must_stay_keeps_its_node_and_no_other() -> None:
    told = story(pods=1)
    told.pods(
        1, at=5, name="pinned", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, cpu="600m"
    )
    assert len(gone(told)) >= 1
    assert told.result.final.pending == 0
    assert any("pinned" in why for why in holds(told)), holds(told)


def test_without_the_flag_nodes_grow_old() -> None:
    assert gone(story(settings={"node-max-age": 0})) == []


def test_a_restart_goes_on_with_the_replacement() -> None:
    for kill in kill_everywhere(lambda: story(pods=1, minutes=115).simulation, down_seconds=5.0):
        check_nothing_twice(kill, "web", machines=2, evictions=1)
        assert kill.result.final.nodes == {"fake/web": 1}, str(kill)


def drifting(told: Story, at: float, **changes: Any) -> Story:
    """The group web is made otherwise from then on."""

    def change() -> None:
        held = told.cloud.group("web")
        held.config, held.seen = replace(held.config, **changes), None

    told.at(at, change)
    return told


DRIFT = {"node-max-age": 0, "replace-drifted-nodes": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "v2"},
        {"labels": {"tier": "new"}},
        {"labels": {}},
        {"instance_type": "larger"},
        {"taints": (TaintConfig(key="new", effect="PreferNoSchedule"),)},
    ],
)
def test_nodes_that_differ_from_new_ones_are_replaced_once(changes: dict[str, Any]) -> None:
    told = story({"name": "web", "image": "v1", "labels": {"tier": "old"}}, settings=DRIFT, minutes=60)
    drifting(told, 1200, **changes)
    assert sorted(gone(told)) == [("web-0", "drifted"), ("web-1", "drifted")]
    assert min(starts(told)) >= 1200
    assert told.result.final.pending == 0


def test_nodes_that_were_made_otherwise_before_the_start_are_replaced_where_the_cloud_tells() -> None:
    told = story({"name": "web", "image": "v1", "size": 2, "min_size": 2}, settings=DRIFT, minutes=40)
    drifting(told, 0, image="v2")
    assert sorted(gone(told)) == [("web-0", "drifted"), ("web-1", "drifted")]


def test_a_zone_or_a_startup_taint_is_no_drift() -> None:
    told = story(settings={**DRIFT, "startup-taint": ["boot"]}, minutes=60)
    drifting(told, 1200, zone="b", taints=(TaintConfig(key="boot", effect="PreferNoSchedule"),))
    assert gone(told) == []


def test_a_template_that_does_not_come_true_is_not_followed_for_ever() -> None:
    told = story(settings={**DRIFT, "max-node-provision-time": "5m"}, minutes=240)
    drifting(told, 1200, labels={"tier": "new"})

    def take_label() -> None:
        for node in list(told.simulation.cluster.live.live_nodes()):
            if "tier" in node.metadata.labels:
                told.simulation.cluster.change_node(replace(node, metadata=replace(node.metadata, labels={})))

    for at in range(1230, 240 * 60, 30):
        told.at(at, take_label)
    assert told.result.final.pending == 0
    # web-2 may have been asked for before the change, and goes hours later. web-4 comes in its place, so that web-3 stays.
    assert [name for name, _ in gone(told)] == ["web-0", "web-1", "web-2"]


def test_without_the_flag_nodes_drift() -> None:
    told = story(settings={"node-max-age": 0}, minutes=60)
    assert gone(drifting(told, 1200, labels={"tier": "new"})) == []


def test_a_restart_remembers_what_changed() -> None:
    told = story({"name": "web", "labels": {"tier": "old"}}, pods=1, settings=DRIFT, minutes=60)
    drifting(told, 1200, labels={"tier": "new"})
    told.simulation.engine.restart(1215, down_seconds=30)
    assert gone(told) == [("web-0", "drifted")]


@pytest.mark.parametrize("unread_for", [0, 30])
def test_the_first_template_that_can_be_read_is_no_change(unread_for: float) -> None:
    """The template promises a label that these nodes lack. It is so from the start, also where it cannot be read at first."""
    faults = [{"kind": "refuse", "hook": "template_node", "group": "web", "end": unread_for}] if unread_for else []
    group = {"name": "web", "size": 2, "labels": {"tier": "predicted"}}
    told = story(group, settings=DRIFT, minutes=90, faults=faults)

    def take_label() -> None:
        for node in list(told.simulation.cluster.live.live_nodes()):
            labels = {key: value for key, value in node.metadata.labels.items() if key != "tier"}
            if node.name in ("web-0", "web-1") and labels != node.metadata.labels:
                told.simulation.cluster.change_node(replace(node, metadata=replace(node.metadata, labels=labels)))

    for at in range(1, 600, 5):
        told.at(at, take_label)
    assert gone(told) == []


def test_pods_that_nothing_helps_keep_no_old_nodes() -> None:
    """They may wait for ever."""
    told = story(pods=1)
    told.pods(1, at=5, name="hopeless", cpu="100")
    assert gone(told) == [("web-0", "expired")]
    assert told.result.final.pending == 1


def test_growth_for_a_replacement_is_no_flapping() -> None:
    """The group shrinks before its last node is due: what is bought for that node says nothing of its demand."""
    settings = {"scale-down-utilization-threshold": 0.5, "scale-down-unneeded-time": "40m"}
    told = story({"name": "web", "size": 2, "cpu": 4}, pods=1, settings=settings, minutes=110)
    assert told.result.final.pending == 0
    removed = [(over.removal.reason.value, over.started) for over in told.result.removals]
    assert [why for why, _ in removed] == ["underutilized", "expired"] or [why for why, _ in removed] == [
        "empty",
        "expired",
    ]
    assert removed[1][1] < HOUR + 600


def test_replacements_that_are_smaller_than_told_come_to_rest_and_it_is_said() -> None:
    narrow = {"group": "web", "start": "10m", "offers": {"cpu": "500m"}}
    told = story(pods=1, minutes=12 * 60, settings={"scan-interval": "1m"}, small_machines=[narrow])
    first, *replacements = told.writes("increase")
    assert first[0] < HOUR
    assert len(replacements) <= 3
    assert len(told.events("AddedNodeDoesNotFit")) == len(replacements)
    assert ("web-0", "expired") not in gone(told)
    assert any("a node that was added for such pods did not take them" in why for why in holds(told))


def test_no_renewal_begins_while_pods_wait_for_machines_on_their_way() -> None:
    """If these did not come, the pods would need the machines that the renewal asks for."""
    told = story({"name": "web", "provision_delay": "10m"}, pods=1, minutes=120)
    told.pods(1, at=4000, name="late")
    came = [fact.at for fact in told.result.journal if fact.what == What.NODE_READY]
    first = min(state.now for state, plan in told.loops if plan.outdated)
    assert first < came[1], "the first node is too old while the second machine is on its way"
    assert "pods wait for machines that are on their way" in holds(told)
    assert starts(told)[0] >= came[1]
