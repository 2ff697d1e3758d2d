"""Gangs on the fake cloud: all machines of a gang or none, over groups, failures, restarts and removals."""

import math
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.scenario.kills import kill_everywhere
from tests.scenario.story import LOOP, PROVISION, SOON, Story

from nodewright.model.capability import Capability
from nodewright.model.reason import BlockingCode
from nodewright.snapshot.running_gangs import count_running
from nodewright_simulator.controllers import DeploymentController
from nodewright_simulator.scenario import PodShape
from nodewright_simulator.simulation import Simulation
from nodewright_simulator.workloads import gang_pod, pod_group, pod_of

POOL = {"name": "pool", "max_size": 20, "price_per_hour": 0.1}
OTHER = {"name": "other", "max_size": 20, "cpu": 2, "memory": "8Gi", "price_per_hour": 0.9}
SILENT = (Capability.ATOMIC_RESIZE.value, Capability.FAST_FAILURE_DETECTION.value)
KEEP = {"scale-down-enabled": False}
ASKED = 60.0
OUT_OF_TIME = ASKED + PROVISION + LOOP


def add_gang(
    story: Story, name: str, count: int, *, least: int = 0, at: float = ASKED, until: float = math.inf, cpu: str = "1"
) -> None:
    """A gang of ``count`` pods, of which at least ``least`` (0: all) must start together; they are gone from ``until`` on."""
    cluster = story.simulation.cluster
    group = pod_group(name, "default", least or count)
    cluster.pod_groups[group.key] = group
    pod = gang_pod(pod_of(name, PodShape(cpu=cpu, memory="1Gi")), name)
    workers = DeploymentController(cluster, name, pod)
    story.simulation.agenda.at(at, partial(workers.scale, count))
    if until < math.inf:
        story.simulation.agenda.at(until, partial(workers.scale, 0))


def make(
    *groups: dict[str, Any],
    count: int = 6,
    least: int = 0,
    until: float = math.inf,
    minutes: float = 30,
    settings: dict[str, Any] | None = None,
    **cloud: Any,
) -> Story:
    """A story of one gang."""
    story = Story(*groups, minutes=minutes, settings={**KEEP, **(settings or {})}, **cloud)
    add_gang(story, "train", count, least=least, until=until)
    return story


def grown(story: Story) -> list[tuple[float, str, int, int]]:
    return [(at, group, before, after) for at, _, group, before, after in story.writes("increase")]


def test_six_pods_and_four_machines_left() -> None:
    story = make({**POOL, "max_size": 4})
    assert story.result.final.pending == 6
    assert grown(story) == []
    said = {
        str(reason)
        for _, plan in story.loops
        for one in plan.salvo
        for u in one.unhelped
        for reason in u.reasons.values()
    }
    assert "gang default/train needs 6 pods to start together: 4 of 6 pods would have room" in said


def test_two_groups_serve_one_gang() -> None:
    story = make({**POOL, "max_size": 4}, {**POOL, "name": "twin", "max_size": 4, "labels": {"kind": "other"}})
    assert story.result.final.running == 6
    assert sorted(after for _, _, _, after in grown(story)) == [2, 4]
    assert {at for at, *_ in grown(story)} == {ASKED}


def test_a_group_that_delivers_a_part_is_relieved_of_it_and_the_next_one_is_asked() -> None:
    story = make(POOL, OTHER, switched_off=SILENT, stock_outs=[{"group": "pool", "remaining": 2}])
    assert story.result.final.running == 6
    first, second = grown(story)
    assert first == (ASKED, "pool", 0, 6)
    assert second == (OUT_OF_TIME, "other", 0, 3)
    assert story.machines("pool") == story.cloud.group("pool").target == 0
    assert not story.states()[-1].memory.provisioning.reservations
    assert {ref.group_id for state in story.states() for ref in state.memory.backoffs} == {"pool"}


NO_ATOMIC = (Capability.ATOMIC_RESIZE.value,)
# What becomes of an increase, and when it is known that not all of its machines will come.
_PARTLY: dict[str, tuple[float, dict[str, Any]]] = {
    "the cloud accepts two": (
        ASKED + LOOP,
        {"faults": [{"kind": "partial", "hook": "increase_size", "group": "pool", "at_most": 2}]},
    ),
    "the cloud reports failures": (ASKED + LOOP, {"stock_outs": [{"group": "pool", "remaining": 2}]}),
    "the cloud takes one back": (100.0, {"interference": [{"do": "take_back", "group": "pool", "start": 100}]}),
}


def make_partly(trouble: str, *, least: int) -> Story:
    """Of two groups, which are asked for three machines each, ``pool`` delivers only a part of its own."""
    _, cloud = _PARTLY[trouble]
    slow = {**POOL, "register_delay": 300}
    twin = {**slow, "name": "twin", "max_size": 3, "price_per_hour": 0.05, "labels": {"kind": "other"}}
    story = make(slow, twin, OTHER, least=least, switched_off=NO_ATOMIC, **cloud)
    assert story.result.final.running == 6
    assert {group for at, group, *_ in grown(story) if at == ASKED} == {"pool", "twin"}
    assert not story.states()[-1].memory.provisioning.reservations
    assert {ref.group_id for state in story.states() for ref in state.memory.backoffs} == {"pool"}
    return story


@pytest.mark.parametrize("trouble", _PARTLY)
def test_what_comes_only_partly_is_withdrawn_once_that_is_known(trouble: str) -> None:
    """All of it goes, and the next group is asked for the whole gang in that loop."""
    known_at, _ = _PARTLY[trouble]
    story = make_partly(trouble, least=6)
    assert [one for one in grown(story) if one[0] > ASKED] == [(known_at, "other", 0, 3)]
    assert story.writes("delete", "withdraw")[0][0] <= known_at + LOOP
    assert story.machines("twin") == story.cloud.group("twin").target == 0


@pytest.mark.parametrize("trouble", _PARTLY)
def test_machines_that_suffice_for_the_minimum_are_kept(trouble: str) -> None:
    """Five machines came for a gang that starts with four pods: they stay, and only the sixth pod gets another one."""
    known_at, _ = _PARTLY[trouble]
    story = make_partly(trouble, least=4)
    is_replaced = trouble == "the cloud takes one back"  # then the cloud makes another machine by itself
    assert [one for one in grown(story) if one[0] > ASKED] == ([] if is_replaced else [(known_at, "other", 0, 1)])
    assert story.machines("twin") == story.cloud.group("twin").target == 3
    assert story.machines("pool") == story.cloud.group("pool").target == (3 if is_replaced else 2)


@pytest.mark.parametrize(("came", "least"), [(5, 5), (4, 5)])
def test_machines_that_never_come_cost_the_others_only_if_these_do_not_suffice(came: int, least: int) -> None:
    story = make(POOL, OTHER, least=least, switched_off=SILENT, stock_outs=[{"group": "pool", "remaining": came}])
    assert story.result.final.running == 6
    suffices = came >= least
    assert grown(story)[1:] == [(OUT_OF_TIME, "other", 0, 1 if suffices else 3)]
    assert story.machines("pool") == story.cloud.group("pool").target == (came if suffices else 0)
    started_at = next(state.now for state in story.states() if count_running(state.observation.snapshot).total())
    assert (started_at < OUT_OF_TIME) == suffices  # kube-scheduler starts it with the first five
    assert not story.states()[-1].memory.provisioning.reservations


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_machine_that_is_of_no_use_is_given_up_alone_if_the_others_suffice(is_dead: bool) -> None:
    """It never becomes a node, or its node never becomes ready; twelve other nodes keep the cluster healthy."""
    slow = POOL if is_dead else {**POOL, "ready_delay": "100h"}
    twin = {**POOL, "name": "twin", "max_size": 5, "price_per_hour": 0.05, "labels": {"kind": "other"}}
    well = {"name": "well", "size": 12, "max_size": 12, "price_per_hour": 9.0, "labels": {"for": "others"}}
    dead = [{"group": "pool"}] if is_dead else []
    story = Story(slow, twin, OTHER, well, minutes=60, settings=KEEP, switched_off=SILENT, dead_boots=dead)
    story.pods(12, name="others", node_selector={"for": "others"})
    add_gang(story, "train", 6, least=5)
    assert story.result.final.running == 18
    assert {group for at, group, *_ in grown(story) if at == ASKED} == {"pool", "twin"}
    assert [(group, after) for at, group, _, after in grown(story) if at > ASKED] == [("other", 1)]
    assert story.machines("twin") == story.cloud.group("twin").target == 5
    assert story.machines("pool") == story.cloud.group("pool").target == 0
    assert not story.states()[-1].memory.provisioning.reservations


def test_a_restart_at_any_moment_keeps_the_machines_that_suffice() -> None:
    def simulation() -> Simulation:
        slow = {**POOL, "register_delay": 60}
        twin = {**slow, "name": "twin", "max_size": 3, "price_per_hour": 0.05, "labels": {"kind": "other"}}
        stock = [{"group": "pool", "remaining": 2}]
        return make(slow, twin, OTHER, least=4, minutes=10, switched_off=NO_ATOMIC, stock_outs=stock).simulation

    nodes = {"fake/pool": 2, "fake/twin": 3, "fake/other": 1}
    for kill in kill_everywhere(simulation, down_seconds=30.0):
        assert (kill.result.final.running, kill.result.final.nodes) == (6, nodes), str(kill)
        assert not kill.result.problems, str(kill)


def test_of_two_groups_the_one_that_delivered_loses_its_machines_and_no_trust() -> None:
    some = {**POOL, "max_size": 4}
    late = {**POOL, "name": "late", "max_size": 4, "request_delay": "100h", "price_per_hour": 0.2}
    story = make(some, late, OTHER, switched_off=SILENT)
    assert story.result.final.running == 6
    assert grown(story)[-1][:2] == (OUT_OF_TIME, "other")
    assert story.machines("pool") == story.machines("late") == 0
    assert {ref.group_id for state in story.states() for ref in state.memory.backoffs} == {"late"}


def test_a_gang_that_is_given_up_leaves_no_machines_that_are_still_to_come() -> None:
    story = make({**POOL, "request_delay": "5m"}, minutes=20, until=120)
    assert [(group, after) for _, _, group, _, after in story.writes("withdraw")] == [("pool", 0)]
    assert story.machines("pool") == 0


def test_a_restart_at_any_moment_buys_nothing_twice() -> None:
    def simulation() -> Simulation:
        return make(
            {**POOL, "max_size": 4}, {**POOL, "name": "twin", "max_size": 4, "labels": {"a": "b"}}, minutes=10
        ).simulation

    for kill in kill_everywhere(simulation, down_seconds=30.0):
        running = sum(kill.result.final.nodes.values())
        assert (kill.result.final.running, running) == (6, 6), str(kill)
        assert not kill.result.problems, str(kill)


def test_nodes_of_a_gang_that_runs_stay_although_its_pods_would_fit_elsewhere() -> None:
    """Six machines of two cpus with one pod each are half used, and any pod fits on the next machine."""
    large = {"name": "large", "cpu": 2, "memory": "8Gi", "size": 6, "max_size": 6}
    settings = {**SOON, "scale-down-enabled": True, "scale-down-utilization-threshold": 0.9}
    for least, goes in ((6, False), (5, True)):
        story = make(large, least=least, minutes=60, settings=settings)
        assert story.result.final.running == 6
        assert bool(story.writes("delete")) == goes
        codes = {why.pod_code for _, plan in story.loops for why in plan.scale_down.unremovable.values()}
        assert BlockingCode.GANG_MINIMUM in codes
        running = [count_running(state.observation.snapshot).total() for state in story.states()]
        assert min(running[running.index(6) :]) >= least


def test_gangs_and_other_pods_in_one_loop_share_a_group() -> None:
    story = make({**POOL, "max_size": 10}, count=4)
    add_gang(story, "other", 3)
    add_gang(story, "late", 4)
    story.pods(2, at=ASKED)
    assert story.result.final.running == 9
    assert [(at, before, after) for at, _, before, after in grown(story)] == [
        (ASKED, 0, 4),
        (ASKED, 4, 7),
        (ASKED, 7, 9),
    ]
    assert not story.result.problems


@pytest.mark.parametrize("seed", range(12))
def test_gangs_start_whole_or_cost_nothing(seed: int) -> None:
    """Groups of random limits, some of which deliver late, not at all or a part; gangs of random sizes come and go."""
    random = Random(seed)
    groups = [
        {
            "name": f"group-{number}",
            "max_size": random.choice([2, 4, 8]),
            "cpu": (cpu := random.choice([1, 2, 4])),
            "memory": f"{4 * cpu}Gi",
            "price_per_hour": round(0.1 * cpu * random.uniform(0.8, 1.2), 3),
            "request_delay": random.choice(["10s", "1m", "5m"]),
        }
        for number in range(3)
    ]
    stock_outs = [{"group": "group-0", "remaining": random.choice([0, 1, 3])}] if random.random() < 0.5 else []
    story = Story(*groups, minutes=150, settings=SOON, stock_outs=stock_outs, switched_off=SILENT)
    sizes = {}
    for number in range(4):
        size, start = random.randint(2, 12), 600.0 * number + random.choice([0.0, 5.0])
        sizes[f"gang-{number}"] = least = random.randint(1, size)
        until = start + random.choice([1200.0, 3600.0])
        add_gang(story, f"gang-{number}", size, least=least, at=start, until=until, cpu=random.choice(["1", "500m"]))
    story.pods(random.randint(0, 3), at=300, until=4000)
    assert not story.result.problems
    assert (story.result.final.running, story.result.final.pending) == (0, 0)
    assert sum(story.result.final.nodes.values()) == 0
    before: dict[str, int] = {}
    for state in story.states():
        running = {ref.name: count for ref, count in count_running(state.observation.snapshot).items()}
        for name, count in running.items():
            assert count >= sizes[name] or count <= before.get(name, 0), f"{name} starts with {count} at {state.now}"
        before = running
