"""Node groups made on demand, in whole loops: made, filled, emptied and deleted, and what happens when that fails."""

from collections.abc import Mapping
from io import StringIO
from json import dumps
from random import Random
from typing import Any

import pytest
from rich.console import Console
from tests.scenario import spare
from tests.scenario.spare import Sparing
from tests.scenario.story import LOOP, MINUTE, SOON, Story

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallSettings, InlineRunner, ProviderClient, connect_provider
from nodewright.cli.dry_run.dry_run import plan_once
from nodewright.cli.dry_run.dump import DumpedCluster, read_dump
from nodewright.cli.plan_view import as_json, print_plan
from nodewright.model.action import CreateNodeGroup
from nodewright.model.group import GroupRef
from nodewright.spec import NewNodeGroup, ProviderContext, Taint
from nodewright_fake import FakeProvider
from nodewright_simulator.scenario import TolerationSpec
from nodewright_simulator.scenario_file import read_flat_settings

ON = {"node-autoprovisioning-enabled": True}
SMALL = {"name": "small", "cpu": 2, "memory": "8Gi", "price_per_hour": 0.2}
BIG = {"name": "big", "cpu": 4, "memory": "16Gi", "price_per_hour": 0.5}
GPU = {"name": "gpu", "cpu": 8, "memory": "32Gi", "resources": {"nvidia.com/gpu": 4}, "price_per_hour": 0.1}
DOWN = 25.0


def world(
    *groups: Mapping[str, Any],
    kinds: tuple[Mapping[str, Any], ...] = (SMALL,),
    settings: Mapping[str, Any] = ON,
    minutes: float = 20,
    **cloud: Any,
) -> Story:
    return Story(*groups, settings=settings, minutes=minutes, machine_types=list(kinds), **cloud)


def made(story: Story) -> list[tuple[float, NewNodeGroup]]:
    """The groups that were really made, in order."""
    assert story.result
    specs = {
        action.group: action.spec
        for _, plan in story.loops
        for action in plan.actions
        if isinstance(action, CreateNodeGroup)
    }
    done = [d for d in story.decisions() if (d.what, d.outcome) == ("create group", "done")]
    return [(d.at, specs[GroupRef("fake", d.group.removeprefix("fake/"))]) for d in done]


def kinds_made(story: Story) -> list[str]:
    return [spec.machine_type for _, spec in made(story)]


def groups_left(story: Story) -> list[str]:
    assert story.result
    return list(story.cloud.group_names())


def test_from_no_group_at_all() -> None:
    story = world(kinds=(SMALL, BIG))
    story.pods(6, at=15)
    [(at, spec)] = made(story)
    assert (at, spec.machine_type, spec.labels, spec.taints) == (20.0, "small", {}, ())
    assert story.writes() == [
        (20.0, "create group", spec.group_id, 0, 0),
        (20.0, "increase", spec.group_id, 0, 3),
    ]
    assert story.result.final.pending == 0
    [(_, message)] = story.events("CreatedNodeGroup")
    assert message == f"NodeAutoprovisioning: created new node group fake/{spec.group_id} (machine type small)"


def test_nothing_is_made_unless_it_is_switched_on() -> None:
    story = world(settings={})
    story.pods(1, at=15)
    assert made(story) == []
    assert story.result.final.pending == 1


def test_a_group_that_helps_competes_with_one_that_would() -> None:
    """By price a group that would have to be made counts twice."""
    cheap = world({"name": "there", "price_per_hour": 0.15}, kinds=({**SMALL, "cpu": 1, "price_per_hour": 0.1},))
    dear = world({"name": "there", "price_per_hour": 0.25}, kinds=({**SMALL, "cpu": 1, "price_per_hour": 0.1},))
    for story in (cheap, dear):
        story.pods(2, at=15)
    assert (cheap.machines("there"), made(cheap)) == (2, [])
    assert (dear.machines("there"), kinds_made(dear)) == (0, ["small"])


def test_labels_and_taints_are_what_the_pods_select_and_tolerate() -> None:
    story = world()
    tolerations = (TolerationSpec(key="team", value="a", effect="NoSchedule"), TolerationSpec(key="other", value="b"))
    story.pods(1, at=15, node_selector={"team": "a"}, tolerations=tolerations)
    story.pods(1, at=3 * MINUTE, name="plain")
    [(_, own), (_, plain)] = made(story)
    assert (own.labels, own.taints) == ({"team": "a"}, (Taint(key="team", value="a", effect="NoSchedule"),))
    assert (plain.labels, plain.taints) == ({}, ())
    assert story.result.final.pending == 0


@pytest.mark.parametrize("key", ["topology.kubernetes.io/zone", "node.k8s.io/kind"])
def test_labels_that_mean_something_are_given_to_no_group(key: str) -> None:
    story = world()
    story.pods(1, at=15, node_selector={key: "a"})
    assert made(story) == []
    assert story.result.final.pending == 1


def test_a_zone_is_a_machine_types_own() -> None:
    kinds = tuple({**SMALL, "name": f"small-{zone}", "zone": zone} for zone in "ab")
    story = world(kinds=kinds)
    story.pods(1, at=15, node_selector={"topology.kubernetes.io/zone": "b"})
    assert kinds_made(story) == ["small-b"]
    assert story.result.final.pending == 0


def test_accelerators_are_for_pods_that_ask_for_them() -> None:
    story = world(kinds=(SMALL, GPU))
    story.pods(1, at=15)
    story.pods(1, at=3 * MINUTE, name="training", resources={"nvidia.com/gpu": "2"})
    assert kinds_made(story) == ["small", "gpu"]
    assert story.result.final.pending == 0


def test_stock_out_of_a_machine_type_leads_to_the_next() -> None:
    story = world(kinds=(SMALL, BIG), stock_outs=[{"instance_type": "small"}])
    story.pods(2, at=15)
    assert kinds_made(story) == ["small", "big"]
    (first, _), (second, _) = made(story)
    assert second - first <= 2 * LOOP
    assert story.result.final.pending == 0


def test_a_machine_type_out_of_stock_is_not_tried_under_another_name() -> None:
    """A group of the same machines for other pods would get none either."""
    story = world(kinds=(SMALL,), stock_outs=[{"instance_type": "small"}], minutes=4)
    story.pods(1, at=15)
    story.pods(1, at=MINUTE, name="own", node_selector={"team": "a"})
    assert kinds_made(story) == ["small"]
    [(_, why)] = story.events("NotTriggerScaleUp")[-1:]
    assert "in backoff after failed scale-up (STOCKOUT)" in why


def refuses(hook: str, error: str, **more: Any) -> dict[str, Any]:
    return {"kind": "refuse", "hook": hook, "error": error, **more}


def test_a_creation_that_is_refused_leads_to_the_next() -> None:
    story = world(kinds=(SMALL, BIG), faults=[refuses("create_node_group", "out_of_capacity", times=1)])
    story.pods(2, at=15)
    refused, done = [d for d in story.decisions() if d.what == "create group"]
    assert (refused.outcome, done.outcome) == ("refused", "done")
    assert "small" in refused.group
    assert "big" in done.group
    assert done.at - refused.at < LOOP
    assert story.result.final.pending == 0
    [(_, message)] = story.events("FailedToCreateNodeGroup")
    assert message.startswith(f"NodeAutoprovisioning: attempt to create node group {refused.group} failed")


def test_what_was_refused_is_tried_again_after_its_backoff() -> None:
    story = world(faults=[refuses("create_node_group", "out_of_capacity", times=1)])
    story.pods(2, at=15)
    refused, done = [d for d in story.decisions() if d.what == "create group"]
    assert 5 * MINUTE < done.at - refused.at < 5 * MINUTE + 2 * LOOP
    assert story.result.final.pending == 0


@pytest.mark.parametrize("error", ["quota", "access_denied"])
def test_no_other_group_is_tried_when_none_can_be_made(error: str) -> None:
    story = world(kinds=(SMALL, BIG), faults=[refuses("create_node_group", error, scope="account")], minutes=5)
    story.pods(2, at=15)
    assert len([d for d in story.decisions() if d.what == "create group"]) == 1


def test_a_creation_without_an_answer_makes_one_group() -> None:
    hang = {"kind": "hang", "hook": "create_node_group", "times": 1}
    story = world(faults=[hang])
    story.pods(2, at=15)
    assert kinds_made(story) == ["small"]
    assert len(groups_left(story)) == 1
    assert story.result.final.pending == 0


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cores-total": "0:3"}, 'exceeded quota: "cluster-wide", resources: cpu'),
        ({"memory-total": "0:15"}, 'exceeded quota: "cluster-wide", resources: memory'),
        ({"max-autoprovisioned-node-group-count": 0}, "max autoprovisioned node group count reached (0)"),
        ({"max-nodes-total": 1}, "max total nodes in cluster reached"),
    ],
)
def test_limits_refuse_with_a_reason(settings: Mapping[str, Any], reason: str) -> None:
    """A node is there, or as many groups as there may be; one more is one too many."""
    there = {"name": "there", "cpu": 2, "memory": "8Gi", "size": 1, "max_size": 1}
    story = world(there, settings={**ON, **settings}, minutes=5)
    story.pods(1, at=0, cpu="1500m")
    story.pods(1, at=15, name="more", cpu="1500m")
    assert made(story) == []
    [(_, why)] = story.events("NotTriggerScaleUp")[-1:]
    assert reason in why


def test_no_more_groups_than_allowed() -> None:
    story = world(settings={**ON, "max-autoprovisioned-node-group-count": 2, "salvo-scale-up": True}, minutes=10)
    for number in range(4):
        story.pods(1, at=15, name=f"team-{number}", node_selector={"team": str(number)})
    assert len(made(story)) == 2
    assert story.result.final.pending == 2
    assert story.result.violations == ()


def test_a_group_that_stays_empty_is_deleted() -> None:
    story = world({"name": "others", "max_size": 0}, settings={**ON, **SOON}, minutes=15)
    story.pods(4, at=15, until=4 * MINUTE)
    [(_, spec)] = made(story)
    [deleted] = [d for d in story.decisions() if d.what == "delete group"]
    emptied = max(d.at for d in story.decisions() if d.what == "delete")
    assert deleted.group == f"fake/{spec.group_id}"
    assert 2 * MINUTE < deleted.at - emptied <= 2 * MINUTE + 3 * LOOP
    assert groups_left(story) == ["others"]
    [(_, message)] = story.events("DeletedNodeGroup")
    assert message.startswith(f"NodeAutoprovisioning: node group fake/{spec.group_id} removed (empty for 2m")
    assert spec.group_id not in {ref.group_id for ref in story.states()[-1].groups}


def test_a_group_in_use_or_made_by_others_stays() -> None:
    story = world({"name": "others", "max_size": 0}, settings={**ON, **SOON}, minutes=15)
    story.pods(2, at=15)
    story.at(MINUTE, lambda: story.cloud.provide_group(NewNodeGroup(group_id="x", machine_type="small", max_size=1)))
    story.at(2 * MINUTE, lambda: story.cloud.set_target("x", 1))
    story.at(4 * MINUTE, lambda: story.cloud.set_target("x", 0))
    deleted = [d.group for d in story.decisions() if d.what == "delete group"]
    assert deleted == ["fake/x"]
    assert groups_left(story) == ["others", made(story)[0][1].group_id]


def test_a_cloud_that_keeps_the_group_is_asked_again_later() -> None:
    story = world(settings={**ON, **SOON}, minutes=15, faults=[refuses("delete_node_group", "unavailable", times=1)])
    story.pods(2, at=15, until=4 * MINUTE)
    first, second = [d for d in story.decisions() if d.what == "delete group"]
    assert (first.outcome, second.outcome) == ("refused", "done")
    assert second.at - first.at > 2 * MINUTE
    assert groups_left(story) == []
    assert len(story.events("FailedToDeleteNodeGroup")) == 1


def test_what_was_deleted_is_made_again_when_it_is_needed() -> None:
    story = world(settings={**ON, **SOON}, minutes=25)
    story.pods(2, at=15, until=4 * MINUTE)
    story.pods(2, at=15 * MINUTE, name="later")
    (_, first), (_, second) = made(story)
    assert first == second
    assert story.result.final.pending == 0


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("keeps_memory", [False, True])
def test_a_restart_between_creation_and_increase_loses_nothing(
    write: int, *, after_effect: bool, keeps_memory: bool
) -> None:
    story = world()
    story.pods(4, at=15)
    story.simulation.engine.crash(
        0.0, write=write, after_effect=after_effect, down_seconds=DOWN, keeps_memory=keeps_memory
    )
    assert story.result.final.pending == 0
    [name] = groups_left(story)
    assert story.machines(name) == 2


def test_a_buffer_gets_a_group_too_and_keeps_it_and_when_it_goes_so_does_the_group() -> None:
    story = world(settings={**ON, **SOON, **spare.ON}, minutes=40)
    sparing = Sparing(story)
    sparing.template(node_selector={"team": "a"})
    sparing.buffer(at=MINUTE, replicas=4)
    sparing.drop(at=25 * MINUTE)
    [(at, spec)] = made(story)
    assert (at, spec.labels) == (MINUTE, {"team": "a"})
    assert story.writes("increase") == [(MINUTE, "increase", spec.group_id, 0, 2)]
    assert all(deleted > 25 * MINUTE for deleted, *_ in story.writes("delete"))
    assert len(story.writes("delete")) > 0
    assert groups_left(story) == []


def dry_client() -> tuple[FakeProvider, ProviderClient]:
    """A client that sends no write."""
    clock = VirtualClock()
    provider = FakeProvider(ProviderContext(clock=clock, random=Random(1), options={"machine_types": [SMALL]}))
    dry = CallSettings(dry_run=True)
    return provider, connect_provider("fake", provider, clock=clock, settings=dry, runner=InlineRunner(clock))


def test_a_plan_that_is_only_shown_makes_nothing_and_tells_all() -> None:
    provider, client = dry_client()
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeSelector": {"team": "a"}, "containers": [container]},
        "status": {"phase": "Pending", "conditions": [unplaced]},
    }
    cluster = DumpedCluster(read_dump(dumps({"kind": "List", "apiVersion": "v1", "items": [pod]}).encode(), "dump"))
    dry_run = plan_once(cluster, [client], read_flat_settings(ON, "test"), Random(1), LOOP)
    assert [type(action).__name__ for action in dry_run.plan.actions] == ["CreateNodeGroup", "IncreaseSize"]
    page = StringIO()
    console = Console(width=200, file=page)
    print_plan(console, dry_run, "dump", (), folded=False)
    said = page.getvalue()
    assert "machine type small; labels team=a" in said
    assert "1 more node in 1 group for 1 pod" in said
    assert as_json(dry_run, "dump", ())["actions"][0]["spec"]["labels"] == {"team": "a"}
    assert provider.cloud.group_names() == ()


def test_a_dry_run_sends_neither_write() -> None:
    provider, client = dry_client()
    provider.cloud.provide_group(NewNodeGroup(group_id="there", machine_type="small", max_size=1))
    client.refresh()
    client.node_groups()
    assert client.create_node_group(NewNodeGroup(group_id="new", machine_type="small", max_size=1)) is None
    assert client.delete_node_group("there") is False
    assert [held.hook for held in client.take_withheld()] == ["create_node_group", "delete_node_group"]
    assert provider.cloud.group_names() == ("there",)
