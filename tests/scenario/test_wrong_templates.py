"""A provider's template that promises what its machines have not is corrected by them, also over a restart (docs/adr/0035)."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.scenario.story import MINUTE, SOON, Story

from nodewright.model.node import Node, Taint
from nodewright.model.quantity import Quantity
from nodewright_simulator.journal import What

GPU, DISK = "example.com/gpu", "example.com/disk"
A = {"name": "a", "price_per_hour": 0.1, "cpu": 4, "memory": "16Gi"}
B = {**A, "name": "b", "price_per_hour": 0.4}
TOLD = "TemplateCorrected"
Change = Callable[[Node], Node]


class Lie(NamedTuple):
    """``promised``: what the templates of both groups say. ``truth``: what becomes of a node of group a as it registers.

    ``pods``: what pods ask for that believe the templates. ``late``: what a node still gets so long (seconds) after that.
    """

    promised: dict[str, Any]
    truth: Change
    pods: dict[str, Any]
    late: tuple[float, Change] | None = None


def offering(node: Node, amounts: dict[str, int]) -> Node:
    offers = {**node.status.allocatable, **{name: Quantity.of(amount) for name, amount in amounts.items()}}
    return replace(node, status=replace(node.status, allocatable=offers))


def less(name: str, share: float) -> Change:
    return lambda node: offering(node, {name: int(node.allocatable[name].value * (1 - share))})


def labelled(node: Node, **labels: str | None) -> Node:
    merged = {**node.metadata.labels, **labels}
    kept = {key: value for key, value in merged.items() if value is not None}
    return replace(node, metadata=replace(node.metadata, labels=kept))


def tainted(node: Node, key: str) -> Node:
    taints = (*node.spec.taints, Taint(key=key, value="x", effect="NoSchedule"))
    return replace(node, spec=replace(node.spec, taints=taints))


def untainted(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, taints=tuple(t for t in node.spec.taints if t.key != "agent")))


def lie_of(seed: int) -> Lie:
    random = Random(seed)
    share, count, disk = random.uniform(0.3, 0.6), random.choice([1, 2]), random.choice([None, "hdd"])
    lies = (
        Lie({}, less("memory", 0.08), {"memory": "15Gi"}),
        Lie({}, less("memory", share), {"memory": "11500Mi"}),
        Lie({}, less("cpu", share), {"cpu": "3900m"}),
        Lie({"labels": {"disk": "ssd"}}, partial(labelled, disk=disk), {"node_selector": {"disk": "ssd"}}),
        Lie({}, partial(tainted, key="reserved"), {}),
        Lie({"resources": {GPU: 1}}, partial(offering, amounts={GPU: 0}), {"resources": {GPU: 1}}),
        Lie({"resources": {DISK: 4}}, partial(offering, amounts={DISK: count}), {"resources": {DISK: 3}}),
    )
    return lies[seed % len(lies)]


class World:
    """A story in which group a's machines become nodes that differ from their template; ``asked``: when pods appear."""

    def __init__(
        self,
        lie: Lie,
        minutes: float,
        *asked: float,
        others: bool = True,
        settings: dict[str, Any] | None = None,
        changes: Iterable[dict[str, Any]] = (),
    ) -> None:
        self.lie, self._met = lie, dict[str, float]()
        given = {**SOON, "scan-interval": "30s", **(settings or {})}
        groups = (A, B) if others else (A,)
        self.story = Story(
            *({**group, **lie.promised} for group in groups), settings=given, minutes=minutes, interference=[*changes]
        )
        for moment in (begin + step for begin in asked for step in range(0, 420, 10)):
            self.story.at(moment, partial(self._tell_truth, moment))

    def _tell_truth(self, now: float) -> None:
        cluster = self.story.simulation.cluster
        for _, node in list(cluster.live.nodes()):
            if not node.name.startswith("a-"):
                continue
            if node.name not in self._met:
                self._met[node.name] = now
                cluster.change_node(self.lie.truth(node))
            elif self.lie.late is not None and now == self._met[node.name] + self.lie.late[0]:
                cluster.change_node(self.lie.late[1](node))


def started(story: Story, name: str) -> int:
    return len({f.name for f in story.result.journal if f.what == What.POD_STARTED and f"/{name}-" in f.name})


@pytest.mark.parametrize("seed", range(20))
def test_a_template_that_lies_costs_one_machine_whichever_pods_ask_later(seed: int) -> None:
    """The second pods are of another kind, so that no pause holds, and come after a restart, when the node is long gone."""
    world = World(lie_of(seed), 40, MINUTE, 25 * MINUTE, settings={"scale-down-unneeded-time": "11m"})
    story = world.story
    story.pods(1, at=MINUTE, name="first", **world.lie.pods)
    story.simulation.engine.restart(24 * MINUTE, down_seconds=30)
    story.pods(1, at=25 * MINUTE, name="second", labels={"app": "other"}, priority=5, **world.lie.pods)
    assert len(story.asked("a")) == 1
    assert (started(story, "first"), started(story, "second")) == (1, 1)
    assert story.machines("a") == 0
    assert len(story.events(TOLD)) == 1


def test_a_device_that_is_late_is_waited_for_the_second_time() -> None:
    """What is learned from the first machine: how late devices come."""
    lie = Lie(
        {"resources": {GPU: 1}},
        lambda node: offering(node, {GPU: 0}),
        {"resources": {GPU: 1}},
        late=(240.0, lambda node: offering(node, {GPU: 1})),
    )
    world = World(lie, 30, MINUTE, 15 * MINUTE, others=False, settings={"scale-down-enabled": False})
    story = world.story
    story.pods(1, at=MINUTE, name="first", **lie.pods)
    story.pods(1, at=15 * MINUTE, name="second", labels={"app": "other"}, priority=5, **lie.pods)
    assert started(story, "second") == 1
    in_vain = [at for at, _ in story.events("AddedNodeDoesNotFit")]
    assert len(in_vain) == 1
    assert in_vain[0] < 15 * MINUTE
    assert len([one for one in story.asked("a") if one >= 15 * MINUTE]) == 1
    assert story.events(TOLD) == []


def test_a_taint_that_nodes_lose_soon_after_they_are_ready_is_not_planned_with() -> None:
    lie = Lie({"taints": [{"key": "agent", "effect": "NoSchedule"}]}, lambda node: node, {}, late=(90.0, untainted))
    world = World(lie, 45, 0.0, 30 * MINUTE)
    story = world.story
    story.cloud.set_target("a", 1)
    story.at(20 * MINUTE, lambda: story.cloud.set_target("a", 0))
    story.simulation.engine.restart(25 * MINUTE, down_seconds=30)
    story.pods(1, at=30 * MINUTE, **lie.pods)
    assert len(story.asked("a")) == 1
    assert started(story, "web") == 1


def test_the_providers_fresh_template_stands_above_a_node_that_is_gone() -> None:
    """kubernetes/autoscaler#6452."""
    larger = [{"do": "change", "group": "a", "start": "10m", "cpu": 16}]
    story = Story({**A, "size": 1}, settings=SOON, interference=larger, minutes=60)
    story.at(2 * MINUTE, lambda: story.cloud.set_target("a", 0))
    story.pods(1, at=30 * MINUTE, cpu="15")
    assert started(story, "web") == 1


def test_a_changed_template_ends_the_pause_of_pods() -> None:
    repaired = [{"do": "change", "group": "a", "start": "20m", "cpu": 8}]
    world = World(Lie({}, less("cpu", 0.3), {"cpu": "3900m"}), 50, MINUTE, 20 * MINUTE, others=False, changes=repaired)
    story = world.story
    story.pods(1, at=MINUTE, **world.lie.pods)
    first, second = story.asked("a")
    assert second - first < 45 * MINUTE
    assert started(story, "web") == 1
