"""The number of call frames of a loop: to the packing of pods, and into actuation."""

import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import CodeType, FrameType
from typing import Any

import pytest
from core.tests.engine.conftest import EngineHarness

from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.planning import Planning
from nodewright.engine.ports import ClusterObservation, Ports
from nodewright.estimator.binpacking import estimate
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.plan import Plan, ScaleDownReport
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import ScaleUpSettings, Settings
from nodewright.optimizer.mix import find_mix
from nodewright.testkit import FakeClock, build_node, build_pod

MOST_FRAMES = 8


def stack() -> list[FrameType]:
    """Return the calls that are under way, the innermost first."""
    frames = list[FrameType]()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def make(harness: EngineHarness, planning: Planning) -> Autoscaler:
    world = Ports(cluster=harness, providers=(harness,), store=harness, events=harness, audit=harness.audit)
    return Autoscaler(world, harness.clock, harness.settings, Random(1), harness.load(), planning=planning)


def place(codes: list[CodeType], function: Callable[..., Any]) -> int:
    return codes.index(function.__code__)


class WatchedClock(FakeClock):
    """A clock that notes the calls from ``run_once`` to packing whenever packing reads it to see whether time is up."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.chains: list[list[str]] = []

    def now(self) -> float:
        codes = [frame.f_code for frame in stack()]
        for packing in (estimate, find_mix):
            if packing.__code__ in codes:
                calls = codes[place(codes, packing) : place(codes, Autoscaler.run_once) + 1]
                self.chains.append([code.co_qualname for code in reversed(calls)])
        return super().now()


class PendingPods(EngineHarness):
    """A cluster in which a pod is pending, with the planning of the daemon."""

    def __init__(self, expander: str) -> None:
        super().__init__()
        self.watched = self.clock = WatchedClock(1000.0)
        self.settings = Settings(scale_up=ScaleUpSettings(expander=expander))

    def read(self, now: float) -> ClusterObservation:
        seen = super().read(now)
        seen.snapshot.add_nodes([build_node("there", provider_id="a-0")])
        return replace(seen, pending=(build_pod("p", "3"), build_pod("q", "3")))

    def autoscaler(self) -> Autoscaler:
        return make(self, Planning())


@pytest.mark.parametrize(("expander", "packing"), [("least-waste", "estimate"), ("least-cost", "find_mix")])
def test_few_calls_lie_between_the_loop_and_packing(expander: str, packing: str) -> None:
    harness = PendingPods(expander)
    report = harness.autoscaler().run_once()
    assert report.plan is not None
    assert [action.group for action in report.plan.actions] == [GroupRef("p", "a")]
    first = harness.watched.chains[0]
    assert (first[0], first[-1]) == ("Autoscaler.run_once", packing)
    assert len(first) <= MOST_FRAMES, first


class Removals(EngineHarness):
    """Notes by which call the engine entered the actuation room for each write to a node."""

    def __init__(self) -> None:
        super().__init__()
        self.entered: list[FrameType] = []

    def autoscaler(self) -> Autoscaler:
        """Return an engine that takes every removal for allowed."""
        return make(self, Planning(make_plan=self._plan, check_actions=self._check, check_removals=lambda *_: ()))

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        frames = stack()
        rooms = [frame.f_globals["__name__"].split(".")[:2] for frame in frames]
        self.entered.append(frames[rooms.index(["nodewright", "engine"]) - 1])
        edit(build_node(name))
        return build_node(name)


def removal(name: str, *pods: str) -> NodeRemoval:
    reason = RemovalReason.UNDERUTILIZED if pods else RemovalReason.EMPTY
    return NodeRemoval(node=name, group=GroupRef("p", "a"), instance_id=name, reason=reason, pods=pods)


def test_a_loop_enters_the_actuation_room_once_for_all_removals() -> None:
    harness = Removals()
    engine = harness.autoscaler()
    removals = (removal("a-0"), removal("a-1"), removal("a-2", "default/p"))
    harness.plans = [
        Plan(),
        Plan(scale_down=ScaleDownReport(removals=removals, soft_taint=("a-3",), soft_untaint=("a-4",))),
    ]
    engine.run_once()
    assert not harness.entered
    report = engine.run_once()
    assert report.begun == removals
    assert len(harness.entered) == len(removals) + 2
    assert {frame.f_code.co_qualname for frame in harness.entered} == {"Actuator.scale_down"}
    assert len({id(frame) for frame in harness.entered}) == 1
