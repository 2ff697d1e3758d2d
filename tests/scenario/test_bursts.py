"""Pods that arrive together are planned together (virtual time, the daemon's own pacing): few writes, soon, for few nodes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from tests.scenario.story import MINUTE, Story

from nodewright.model.node import ZONE_LABEL
from nodewright_simulator.controllers import named
from nodewright_simulator.scenario import PodShape
from nodewright_simulator.workloads import job_pod

FAMILIES: tuple[dict[str, Any], ...] = (
    {"name": "general", "zone": "a", "cpu": 4, "memory": "16Gi", "price_per_hour": 0.2},
    {"name": "compute", "zone": "b", "cpu": 8, "memory": "16Gi", "price_per_hour": 0.35},
    {"name": "memory", "zone": "c", "cpu": 4, "memory": "32Gi", "price_per_hour": 0.25},
)
SHAPES: tuple[dict[str, Any], ...] = (
    {"cpu": "500m", "memory": "1Gi"},
    {"cpu": "1", "memory": "1500Mi", "node_selector": {ZONE_LABEL: "b"}},
    {"cpu": "500m", "memory": "5Gi", "node_selector": {ZONE_LABEL: "c"}},
)
EXPANDERS = pytest.mark.parametrize("expander", ["least-waste", "least-cost,least-waste"])
# When the cluster has been quiet for minutes, between two scans.
BEGIN = 123.0
Shape = dict[str, Any]


class Write(NamedTuple):
    """A request for machines."""

    at: float
    group: str
    machines: int


def make_story(*groups: Shape, boots: str = "45s", expander: str = "least-waste", **cloud: Any) -> Story:
    sized = [{"max_size": 500, "provision_delay": boots, **group} for group in groups]
    settings = {"expander": expander, "scale-down-enabled": False}
    return Story(*sized, settings=settings, minutes=10, as_daemon=True, **cloud)


def send_pods(story: Story, shapes: Iterable[Shape], *, begin: float, every: float, lifetime: float = 1e6) -> float:
    """Create a pod of each shape in turn, ``every`` so many seconds; return when the last one comes."""
    at = begin
    for number, shape in enumerate(shapes):
        pod = job_pod(f"job-{begin:g}-{sorted(shape.items())}", PodShape(**shape))
        at = begin + number * every
        story.simulation.agenda.at(at, partial(submit, story, f"pod-{begin:g}-{number}", pod, lifetime))
    return at


def submit(story: Story, name: str, pod: Any, lifetime: float, at: float) -> None:
    story.simulation.jobs.run(named(pod, name, at), lifetime, at)


def writes_of(story: Story, since: float = 0.0, until: float = 1e9) -> list[Write]:
    return [
        Write(at, group, after - before)
        for at, _, group, before, after in story.writes("increase")
        if since <= at < until
    ]


def count_most(writes: Sequence[Write]) -> int:
    """Return how many of the writes are for the group with the most."""
    return max(Counter(write.group for write in writes).values())


def count_nodes(writes: Iterable[Write]) -> int:
    return sum(write.machines for write in writes)


def price_of(writes: Iterable[Write]) -> float:
    """Return what the machines cost in USD an hour."""
    prices = {group["name"]: group["price_per_hour"] for group in FAMILIES}
    return sum(float(prices[write.group]) * write.machines for write in writes)


def one_decision(groups: Sequence[Shape], shapes: Iterable[Shape], expander: str) -> list[Write]:
    """Return what is asked for where all the pods come at one moment."""
    story = make_story(*groups, expander=expander)
    send_pods(story, shapes, begin=BEGIN, every=0.0)
    return writes_of(story, until=BEGIN + 2)


@EXPANDERS
@pytest.mark.parametrize("every", [0.002, 0.016])
def test_a_burst_is_one_decision(every: float, expander: str) -> None:
    """300 pods within 0.6 s; or within 4.8 s, which kube-scheduler takes to try as many."""
    shapes = SHAPES * 100
    story = make_story(*FAMILIES, expander=expander)
    last_pod = send_pods(story, shapes, begin=BEGIN, every=every)
    writes = writes_of(story, until=BEGIN + 45)
    assert count_most(writes) <= 2
    assert writes[-1].at <= last_pod + 3
    assert count_nodes(writes) <= count_nodes(one_decision(FAMILIES, shapes, expander))
    assert story.result.final.pending == 0


@EXPANDERS
def test_a_trickle_is_written_a_few_times_a_minute(expander: str) -> None:
    """Five pods a second for two minutes, which never pause for a second: none waits for more than ten."""
    shapes = SHAPES[:1] * 600
    story = make_story(*FAMILIES, boots="5s", expander=expander)
    last_pod = send_pods(story, shapes, begin=BEGIN, every=0.2)
    writes = writes_of(story)
    assert max(later.at - earlier.at for earlier, later in pairwise([Write(BEGIN, "", 0), *writes])) <= 10.2 + 1e-6
    assert max(len([w for w in writes if 0 <= w.at - first.at < MINUTE]) for first in writes) <= 15
    assert writes[-1].at <= last_pod + 3
    if expander == "least-waste":  # least-cost buys the cheapest nodes for each batch, of whatever size they are
        assert count_nodes(writes) <= count_nodes(one_decision(FAMILIES, shapes, expander))
    else:
        assert price_of(writes) <= 1.05 * price_of(one_decision(FAMILIES, shapes, expander))
    assert story.result.final.pending == 0


@EXPANDERS
@pytest.mark.parametrize("boots", ["5s", "45s"])
def test_a_trickle_for_three_groups_is_written_as_seldom(boots: str, expander: str) -> None:
    """Each batch may ask all three groups: it lasts longer then, up to twice ``--batch-max-duration``."""
    story = make_story(*FAMILIES, boots=boots, expander=expander)
    last_pod = send_pods(story, SHAPES * 200, begin=BEGIN, every=0.2)
    writes = writes_of(story)
    assert max(len([w for w in writes if 0 <= w.at - first.at < MINUTE]) for first in writes) <= 15
    # Later writes are for pods that kube-scheduler placed otherwise than was planned.
    for_arrivals = [BEGIN, *(write.at for write in writes if write.at <= last_pod + 3)]
    assert max(later - earlier for earlier, later in pairwise(for_arrivals)) <= 20.2 + 1e-6
    assert for_arrivals[-1] > last_pod
    assert story.result.final.pending == 0


def test_jobs_that_come_in_waves_are_one_decision_each() -> None:
    """Each wave has 40 pods more than the one before, and finds what that one needed still busy."""
    shape = {"cpu": "1", "memory": "1Gi"}
    story = make_story(FAMILIES[0], boots="5s")
    waves = [BEGIN + 20 * wave for wave in range(4)]
    ends = [
        send_pods(story, [shape] * 40 * number, begin=begin, every=0.01, lifetime=300)
        for number, begin in enumerate(waves, start=1)
    ]
    for number, (begin, last_pod) in enumerate(zip(waves, ends, strict=True), start=1):
        writes = writes_of(story, begin, begin + 20)
        assert 1 <= len(writes) <= 2
        assert writes[-1].at <= last_pod + 3
        assert count_nodes(writes) == 10 * number
    assert story.result.final.pending == 0


def test_several_groups_are_asked_once_each() -> None:
    """40 pods each for ten groups, of which each helps only its own."""
    zones = [f"zone-{number}" for number in range(10)]
    groups = [{"name": zone, "zone": zone, "cpu": 4, "memory": "16Gi"} for zone in zones]
    shapes = [{"cpu": "1", "memory": "1Gi", "node_selector": {ZONE_LABEL: zone}} for zone in zones]
    story = make_story(*groups)
    last_pod = send_pods(story, shapes * 40, begin=BEGIN, every=0.002)
    writes = writes_of(story)
    assert count_most(writes) <= 2
    assert writes[-1].at <= last_pod + 3
    assert {zone: count_nodes(w for w in writes if w.group == zone) for zone in zones} == dict.fromkeys(zones, 10)
    assert story.result.final.pending == 0


@pytest.mark.parametrize("at", [123.0, 129.9, 130.0, 130.1])
def test_a_lone_pod_in_a_quiet_cluster_waits_for_the_idle_second(at: float) -> None:
    """Whether or not a scan is due meanwhile."""
    story = make_story(FAMILIES[0])
    send_pods(story, SHAPES[:1], begin=at, every=0.0)
    assert [write.machines for write in writes_of(story)] == [1]
    assert writes_of(story)[0].at <= at + 1


ZONES: tuple[Shape, ...] = tuple(
    {"name": zone, "zone": zone, "cpu": 4, "memory": "16Gi", "price_per_hour": price}
    for zone, price in (("a", 0.1), ("b", 0.2))
)
REFUSED: dict[str, Any] = {
    "faults": [{"kind": "refuse", "hook": "increase_size", "group": "a", "error": "out_of_capacity"}]
}
SOLD_OUT: dict[str, Any] = {"stock_outs": [{"group": "a"}]}


def test_planning_after_a_refusal_waits_for_no_batch() -> None:
    """Pods go on to come, three a second."""
    story = make_story(*ZONES, expander="price", **REFUSED)
    send_pods(story, SHAPES[:1] * 60, begin=BEGIN, every=0.3)
    refused, other = writes_of(story)[:2]
    assert (refused.group, other.group) == ("a", "b")
    assert other.at == refused.at


@pytest.mark.parametrize("every", [0.0, 0.3])
def test_planning_after_a_failure_that_the_cloud_reports_waits_for_no_batch(every: float) -> None:
    """Even while pods go on to come, three a second. The loop that sees it asks the next group."""
    story = make_story(*ZONES, expander="price", **SOLD_OUT)
    send_pods(story, SHAPES[:1] * 60, begin=BEGIN, every=every)
    failed, other = writes_of(story)[:2]
    assert (failed.group, other.group) == ("a", "b")
    assert other.at <= failed.at + 0.11


def test_that_look_leaves_new_pods_to_their_batch() -> None:
    story = make_story(*ZONES, expander="price", **SOLD_OUT)
    send_pods(story, SHAPES[:1] * 60, begin=BEGIN, every=0.3)
    failed, *others = writes_of(story)
    assert others[0].machines == failed.machines
    assert min(later.at - earlier.at for earlier, later in pairwise(others)) > 5


def test_a_loop_after_a_refusal_leaves_pods_that_came_meanwhile_to_a_batch() -> None:
    """The cloud takes 4 s to refuse, while pods go on to come, five a second and for two seconds more."""
    slowly = {"kind": "slow", "hook": "increase_size", "group": "a", "seconds": 4, "times": 1}
    story = make_story(*ZONES, expander="price", faults=[slowly, *REFUSED["faults"]])
    send_pods(story, SHAPES[:1] * 40, begin=BEGIN, every=0.0)
    last_pod = send_pods(story, SHAPES[:1] * 24, begin=BEGIN + 1.1, every=0.2)
    refused, *others = writes_of(story)
    assert (refused.group, refused.at) == ("a", BEGIN + 1)
    assert [(write.group, write.machines) for write in others] == [("b", 5), ("b", 3)]
    assert others[0].at == refused.at + 4
    assert others[1].at == pytest.approx(last_pod + 1)
    assert story.result.final.pending == 0
