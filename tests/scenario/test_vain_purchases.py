"""Machines that do not take the pods they were bought for are not bought for them again and again (docs/adr/0027)."""

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.story import LOOP, MINUTE, SOON, Story

from nodewright.model.cluster import CsiDriver, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import CsiAllocatable, CsiNode, CsiNodeDriver, CsiNodeSpec, Taint
from nodewright.model.pod import ClaimSource, Volume
from nodewright.model.quantity import Quantity
from nodewright.snapshot.context import Context
from nodewright_simulator.controllers import DeploymentController
from nodewright_simulator.journal import What
from nodewright_simulator.scenario import PodShape, SpreadSpec
from nodewright_simulator.workloads import pod_of

HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
A = {"name": "a", "price_per_hour": 0.1, "cpu": 2}
B = {"name": "b", "price_per_hour": 0.4, "cpu": 4}
SMALL = {"group": "a", "offers": {"cpu": "1"}}
TOLD = "AddedNodeDoesNotFit"


def started(story: Story) -> dict[str, float]:
    return {fact.name: fact.at for fact in story.result.journal if fact.what == What.POD_STARTED}


def recreate_smaller(story: Story) -> None:
    """An operator makes the group again, with machines of half the size."""
    held = story.cloud.group("a")
    held.config = replace(held.config, cpu=1)
    story.cloud.set_target("a", 0)


def taint_by_hand(story: Story) -> None:
    for _, node in list(story.simulation.cluster.live.nodes()):
        spec = replace(node.spec, taints=(*node.spec.taints, Taint(key="by-hand", effect="NoSchedule")))
        story.simulation.cluster.change_node(replace(node, spec=spec))


def test_pods_go_to_the_next_group_as_soon_as_a_machine_came_that_does_not_take_them() -> None:
    story = Story(A, B, settings=SOON, small_machines=[SMALL], minutes=60)
    story.pods(3, at=5 * MINUTE, cpu="1900m")
    (asked,) = [at for at, *_ in story.writes("increase") if at and _[1] == "a"]
    came = next(fact.at for fact in story.result.journal if fact.what == What.NODE_READY and fact.name.startswith("a-"))
    assert [at for at, _, group, *_ in story.writes("increase") if group == "b"] == [pytest.approx(came, abs=LOOP)]
    assert asked < came
    assert len(started(story)) == 3
    [(_, message)] = story.events(TOLD)
    assert "of group fake/a was added for pods like default/web-0 and does not take them: Insufficient cpu" in message
    assert "is not grown for such pods before" in message


def test_a_group_that_is_made_anew_with_smaller_machines_is_not_asked_for_what_the_former_ones_took() -> None:
    story = Story({**A, "size": 1}, B, settings=SOON, minutes=3 * 60)
    story.at(10 * MINUTE, lambda: recreate_smaller(story))
    story.pods(1, at=15 * MINUTE, cpu="1900m")
    assert [(group, after - before) for _, _, group, before, after in story.writes("increase")] == [("b", 1)]


@pytest.mark.parametrize("restarts", [False, True])
def test_no_pod_causes_more_than_three_machines_in_a_day_that_it_does_not_use(restarts: bool) -> None:
    """The cloud's template says two cpus forever."""
    story = Story(A, settings={**SOON, "scan-interval": "1m"}, small_machines=[SMALL], minutes=3 * 24 * 60)
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    for hour in range(1, 72, 5) if restarts else ():
        story.simulation.engine.restart(hour * HOUR, down_seconds=60)
    asked = story.asked("a")
    assert asked
    assert all(sum(at <= other < at + DAY for other in asked) <= 3 for at in asked)
    assert len(story.events(TOLD)) == len(asked)
    assert story.machines("a") == 0


NAMES = ("a", "b", "c", "d", "e")
LYING = [{**A, "name": name, "price_per_hour": 0.1 * number} for number, name in enumerate(NAMES, 1)]


def test_not_more_than_three_in_a_day_where_five_groups_promise_too_much_and_each_is_tried_in_the_end() -> None:
    small = [{**SMALL, "group": name} for name in NAMES]
    story = Story(*LYING, settings={**SOON, "scan-interval": "1m"}, small_machines=small, minutes=3 * 24 * 60)
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    asked = sorted(at for name in NAMES for at in story.asked(name))
    assert all(sum(at <= other < at + DAY for other in asked) <= 3 for at in asked)
    assert all(map(story.asked, NAMES))


def test_groups_that_could_be_created_count_as_groups_that_were_never_tried() -> None:
    """Three groups and three machine types promise too much: in a day three machines are bought, of whichever."""
    kinds = [
        {"name": f"m{number}", "cpu": 2, "memory": "8Gi", "price_per_hour": 0.4 + 0.1 * number} for number in (1, 2, 3)
    ]
    settings = {**SOON, "scan-interval": "1m", "node-autoprovisioning-enabled": True}
    small = [{**SMALL, "group": "*"}]
    story = Story(*LYING[:2], settings=settings, small_machines=small, machine_types=kinds, minutes=2 * 24 * 60)
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    asked = [(at, group) for at, _, group, *_ in story.writes("increase")]
    assert all(sum(at <= other < at + DAY for other, _ in asked) <= 3 for at, _ in asked)
    assert {group[:6] for _, group in asked} == {"a", "b", "nap-m1", "nap-m2", "nap-m3"}


SOUND = {**A, "name": "sound", "price_per_hour": 0.9, "size": 1, "min_size": 1}


def test_a_group_that_has_a_node_which_takes_such_pods_is_asked_after_two_in_vain() -> None:
    small = [{**SMALL, "group": name} for name in NAMES[:4]]
    story = Story(*LYING[:4], SOUND, settings=SOON, small_machines=small, minutes=2 * 60)
    story.pods(2, at=5 * MINUTE, cpu="1900m")
    assert sum(len(story.asked(name)) for name in NAMES[:4]) == 2
    assert story.machines("sound") == 2
    assert story.result.final.pending == 0


def test_machines_that_one_loop_asks_of_several_groups_count_once() -> None:
    """Each is for another pod. The next groups were never tried, and the last of them is right."""
    settings = {**SOON, "balance-similar-node-groups": True}
    similar = [{**group, "price_per_hour": 0.1} for group in LYING[:4]]
    small = [{**SMALL, "group": name} for name in NAMES]
    right = {**B, "name": "right", "price_per_hour": 0.9}
    story = Story(*similar, LYING[4], right, settings=settings, small_machines=small, minutes=60)
    story.pods(4, at=5 * MINUTE, cpu="1900m")
    assert [len(story.asked(name)) for name in NAMES] == [1] * 5
    assert story.machines("right") == 2
    assert story.result.final.pending == 0


def test_a_proof_that_holds_no_longer_costs_one_machine_for_each_group_that_has_it() -> None:
    """A node of each of three groups takes such pods, but their next machines do not."""
    more = [{**SOUND, "name": name, "price_per_hour": price} for name, price in (("other", 1.0), ("third", 1.1))]
    groups = [*LYING[:4], SOUND, *more]
    small = [{**SMALL, "group": "*", "start": "4m"}]
    day = Story(*groups[:5], settings=SOON, small_machines=small, minutes=23 * 60)
    day.pods(2, at=5 * MINUTE, cpu="1900m")
    assert [group for *_, group, _, _ in day.writes("increase")] == ["a", "b", "sound"]
    assert day.result.final.pending == 1
    day = Story(*groups, settings=SOON, small_machines=small, minutes=23 * 60)
    day.pods(4, at=5 * MINUTE, cpu="1900m")
    assert [group for *_, group, _, _ in day.writes("increase")] == ["a", "b", "sound", "other", "third"]
    assert day.result.final.pending > 0


def test_a_group_that_is_known_to_be_right_is_asked_after_four_in_vain() -> None:
    """Pods of one kind come one by one, so that four groups are asked before the first machine is there."""
    lying = [{**group, "max_size": 1, "provision_delay": "4m"} for group in LYING[:4]]
    small = [{**SMALL, "group": name} for name in NAMES[:4]]
    settings = {**SOON, "scan-interval": "10s"}
    story = Story(*lying, SOUND, settings=settings, small_machines=small, minutes=60)
    for number in range(4):
        story.pods(1, at=5 * MINUTE + number * 40, cpu="1900m", name=f"w{number}")
    assert [len(story.asked(name)) for name in NAMES[:4]] == [1] * 4
    assert max(started(story).values()) < 20 * MINUTE
    assert story.result.final.pending == 0


REFUSES = {"kind": "refuse", "hook": "increase_size", "group": "sound", "error": "out_of_capacity", "times": 1}
BY_ZONE = SpreadSpec()


@pytest.mark.parametrize(
    ("limits", "cloud", "pod"),
    [({"max_size": 1}, {}, {}), ({}, {"faults": [REFUSES]}, {}), ({}, {}, {"spread": (BY_ZONE,)})],
    ids=["full", "in backoff", "in the wrong zone"],
)
def test_a_group_with_proof_that_does_not_help_now_keeps_no_other_group_waiting(
    limits: dict[str, Any], cloud: dict[str, Any], pod: dict[str, Any]
) -> None:
    """The third group is right, and was never tried."""
    small = [{**SMALL, "group": name} for name in NAMES[:2]]
    groups = [{**group, "zone": group["name"]} for group in (*LYING[:3], {**SOUND, **limits})]
    story = Story(*groups, settings=SOON, small_machines=small, minutes=60, **cloud)
    story.pods(2, at=5 * MINUTE, cpu="1900m", **pod)
    assert [len(story.asked(name)) for name in NAMES[:3]] == [1, 1, 1]
    assert story.result.final.pending == 0


def test_a_new_description_ends_the_wait_of_its_group_at_once() -> None:
    small = [{**SMALL, "group": name} for name in ("b", "c")]
    changes = [{"do": "change", "group": "a", "start": "50m", "cpu": 3}]
    story = Story(
        *LYING[:3],
        settings=SOON,
        small_machines=[{**SMALL, "end": "45m"}, *small],
        interference=changes,
        minutes=2 * 60,
    )
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    asked = [(group, at) for at, _, group, *_ in story.writes("increase")]
    assert [group for group, _ in asked] == ["a", "b", "c", "a"]
    assert asked[-1][1] == pytest.approx(50 * MINUTE, abs=2 * LOOP)
    assert story.result.final.pending == 0


def test_a_description_that_changes_all_the_time_buys_four_machines_a_day_at_most() -> None:
    changes = [{"do": "change", "group": "a", "start": f"{10 + n * 30}m", "cpu": 2 + n % 2} for n in range(90)]
    settings = {**SOON, "scan-interval": "1m"}
    story = Story(A, settings=settings, small_machines=[SMALL], interference=changes, minutes=2 * 24 * 60)
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    asked = story.asked("a")
    assert max(sum(at <= other < at + DAY for other in asked) for at in asked) == 4


def test_what_fits_the_machines_is_bought_all_the_same() -> None:
    story = Story(A, settings=SOON, small_machines=[SMALL], minutes=60)
    story.pods(1, at=5 * MINUTE, cpu="1900m", name="large")
    story.pods(2, at=20 * MINUTE, cpu="900m", name="small")
    assert {name.split("/")[1].split("-")[0] for name in started(story)} == {"small"}
    assert story.machines("a") == 2


def test_a_group_whose_machines_are_right_again_is_asked_as_soon_as_its_description_changes() -> None:
    """While the provider says the same as before, its last machines are believed (docs/adr/0035)."""
    changes = [{"do": "change", "group": "a", "start": "50m", "cpu": 3}]
    story = Story(A, settings=SOON, small_machines=[{**SMALL, "end": "30m"}], interference=changes, minutes=2 * 60)
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    first, second = story.asked("a")
    assert 45 * MINUTE <= second - first < 60 * MINUTE
    assert len(started(story)) == 1


@pytest.mark.parametrize("comes", [True, False])
def test_a_device_that_comes_later_than_its_node_is_waited_for(comes: bool) -> None:
    device = {"example.com/dev": 1}
    small = [{"group": "a", "offers": {"example.com/dev": 0}}]
    story = Story({**A, "resources": device}, settings=SOON, small_machines=small, minutes=60)
    story.pods(1, at=5 * MINUTE, resources=device)

    def plug_in() -> None:
        for _, node in list(story.simulation.cluster.live.nodes()):
            offers = {**node.status.allocatable, "example.com/dev": Quantity.of(1)}
            status = replace(node.status, allocatable=offers, capacity=offers)
            story.simulation.cluster.change_node(replace(node, status=status))

    if comes:
        for moment in range(410, 520, 10):
            story.at(moment, plug_in)
    assert len(story.asked("a")) == 1
    assert len(started(story)) == comes
    assert len(story.events(TOLD)) == (not comes)


def test_a_taint_that_somebody_sets_on_the_only_node_does_not_close_the_group() -> None:
    """The node is the group's sample, and stays it once it is gone."""
    story = Story({**A, "size": 1}, settings={"scale-down-enabled": False}, minutes=60)
    story.at(10 * MINUTE, lambda: taint_by_hand(story))
    story.at(12 * MINUTE, lambda: story.cloud.set_target("a", 0))
    story.pods(1, at=15 * MINUTE, cpu="1900m")
    assert story.asked("a") == [pytest.approx(15 * MINUTE, abs=LOOP)]
    assert len(started(story)) == 1


def test_cluster_autoscaler_buys_on() -> None:
    settings: dict[str, Any] = {**SOON, "profile": "ca"}
    story = Story(A, settings=settings, small_machines=[{**SMALL}], minutes=6 * 60)
    story.pods(1, at=5 * MINUTE, cpu="1900m")
    story.simulation.engine.restart(3 * HOUR, down_seconds=60)
    assert len(story.asked("a")) > 1
    assert story.events(TOLD) == []


def add_volumes(story: Story, limit: int | None) -> None:
    """A pod with two claims that wait for it, and nodes of group a whose driver attaches ``limit`` volumes."""
    driver = CsiNodeDriver(name="csi", allocatable=CsiAllocatable(count=limit))
    nodes = [ObjectMeta(name=f"a-{number}") for number in range(40)]
    claims = [
        PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace="default"), spec=PersistentVolumeClaimSpec(storage_class_name="s")
        )
        for name in ("c", "d")
    ]
    kind = StorageClass(metadata=ObjectMeta(name="s"), provisioner="csi", volume_binding_mode="WaitForFirstConsumer")
    story.simulation.cluster.live.context = Context(
        claims={one.key: one for one in claims},
        storage_classes={"s": kind},
        csi_nodes={meta.name: CsiNode(metadata=meta, spec=CsiNodeSpec(drivers=(driver,))) for meta in nodes},
        csi_drivers={"csi": CsiDriver(metadata=ObjectMeta(name="csi"))},
    )


def stateful(story: Story, at: float) -> None:
    """A pod that uses both claims."""
    pod = pod_of("db", PodShape(cpu="1", memory="1Gi"))
    volumes = tuple(Volume(name=name, persistent_volume_claim=ClaimSource(claim_name=name)) for name in ("c", "d"))
    pod = replace(pod, spec=replace(pod.spec, volumes=volumes))
    workers = DeploymentController(story.simulation.cluster, "db", pod)
    story.simulation.agenda.at(at, partial(workers.scale, 1))


def test_a_machine_that_attaches_too_few_volumes_is_not_bought_again() -> None:
    """The next template has the limit of the node that came, also when this one is gone."""
    story = Story(A, settings=SOON, minutes=5 * 60)
    add_volumes(story, 1)
    stateful(story, 5 * MINUTE)
    assert len(story.asked("a")) == len(story.events(TOLD)) == 1
    assert story.machines("a") == 0
    (last,) = story.loops[-1][1].scale_up.unhelped
    assert [str(reason) for reason in last.reasons.values()] == ["node(s) exceed max volume count"]


def test_a_driver_that_attaches_more_by_now_ends_the_pause_of_its_pods() -> None:
    story = Story(A, settings={"scale-down-enabled": False}, minutes=60)
    add_volumes(story, 1)
    stateful(story, 5 * MINUTE)

    def update() -> None:
        add_volumes(story, 2)
        live = story.simulation.cluster.live
        story.simulation.cluster.change_node(live.node(live.row("a-0")))  # so that the scheduler tries again

    story.at(20 * MINUTE, update)
    assert len(story.asked("a")) == 1
    assert started(story) == {"default/db-0": pytest.approx(20 * MINUTE, abs=2 * LOOP)}
