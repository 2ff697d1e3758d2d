"""A whole world on virtual time that a scenario test steers and then asks what happened."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallSettings
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.engine.planning import Planning
from nodewright.model.capability import Capability
from nodewright.model.duration import parse_duration
from nodewright.model.group import GroupRef
from nodewright.model.node import Node, NodeCondition, Taint
from nodewright.model.plan import Plan, PlannedAction
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.spec import ProviderContext
from nodewright.testkit.contract import connect
from nodewright_fake import FakeProvider, fixed
from nodewright_simulator.controllers import DeploymentController
from nodewright_simulator.journal import What
from nodewright_simulator.result import Decision, SimulationResult
from nodewright_simulator.scenario import PodShape
from nodewright_simulator.scenario_file import read_flat_settings
from nodewright_simulator.simulation import RunOptions, Simulation
from nodewright_simulator.workloads import pod_of

MINUTE = 60.0
LOOP = 10.0
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
PROVISION = 900.0
SILENT = (Capability.FAST_FAILURE_DETECTION.value,)
# Settings with which nodes go soon, and without soft taints.
SOON = {"scale-down-unneeded-time": "2m", "scale-down-delay-after-add": "1m", "max-bulk-soft-taint-count": 0}
Moment = Callable[[], object]


class Story:
    """One cluster on one fake cloud. Groups are the fake provider's options, settings are flags without dashes.

    A pod asks for 1 cpu and a machine has 1, so that machines are counted in pods. ``price`` chooses the
    group: the cheapest that is open. The engine is strict, unless it is to do as CA: a plan that breaks a rule
    fails the test. ``as_daemon``: see RunOptions.
    """

    def __init__(
        self,
        *groups: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        minutes: float = 180,
        start: float = 0.0,
        variant: type[FakeProvider] = FakeProvider,
        as_daemon: bool = False,
        **cloud: Any,
    ) -> None:
        shapes = [{"cpu": 1, "memory": "4Gi", "max_size": 50, **group} for group in groups]
        self.clock = VirtualClock(start)
        context = ProviderContext(clock=self.clock, random=Random(1), options={"groups": shapes, **cloud})
        provider = variant(context)
        self.cloud = provider.cloud
        self.loops: list[tuple[ClusterState, Plan]] = []
        tree = read_flat_settings({"expander": "price", **(settings or {})}, "story")
        options = RunOptions(
            end=start + minutes * MINUTE, settings=tree, planning=self._planning(tree), as_daemon=as_daemon
        )
        calls = CallSettings(honours_retry_after=tree.policy.waits_for_busy_clouds)
        self.simulation = Simulation(self.clock, [connect("fake", provider, self.clock, calls)], options)
        self._result: SimulationResult | None = None

    # What is to happen

    def pods(self, count: int, *, at: float = 0.0, until: float = math.inf, name: str = "web", **template: Any) -> None:
        """A deployment of so many pods from ``at`` on, and of none from ``until`` on."""
        self.deploy(name, (at, count), *([(until, 0)] if until < math.inf else ()), **template)

    def deploy(self, name: str, *steps: tuple[float, int], **template: Any) -> None:
        """A deployment, and how many pods it has from when on."""
        pod = pod_of(name, PodShape(**{"cpu": "1", "memory": "1Gi", **template}))
        deployment = DeploymentController(self.simulation.cluster, name, pod)
        for at, count in steps:
            self.simulation.agenda.at(at, partial(deployment.scale, count))

    def at(self, moment: float, happening: Moment) -> None:
        """Another writer does something to the cloud or the cluster."""

        def happen(_: float) -> None:
            happening()

        self.simulation.steer(moment, happen)

    def turn(self, *names: str, at: float, ready: bool, taint: str = "", condition: str = "") -> None:
        """Nodes turn ready or not, and may get a further taint, or a condition that is True."""

        def happen() -> None:
            live = self.simulation.cluster.live
            for name in names:
                node = _turned(live.node(live.row(name)), ready=ready, at=at, condition=condition)
                if taint:
                    node = replace(node, spec=replace(node.spec, taints=(*node.spec.taints, Taint(key=taint))))
                self.simulation.cluster.change_node(node)

        self.at(at, happen)

    def annotate(self, name: str, key: str) -> None:
        """A node gets an annotation with the value "true", now."""
        live = self.simulation.cluster.live
        node = live.node(live.row(name))
        annotations = {**node.metadata.annotations, key: "true"}
        self.simulation.cluster.change_node(replace(node, metadata=replace(node.metadata, annotations=annotations)))

    def slow_down(self, group: str, delay: str) -> None:
        """Machines of the group take that long to start, from now on."""
        held = self.cloud.group(group)
        held.config = replace(held.config, provision_delay=fixed(parse_duration(delay)))

    # What happened

    @property
    def result(self) -> SimulationResult:
        """The run, from beginning to end, once."""
        if self._result is None:
            self._result = self.simulation.run()
        return self._result

    def writes(self, *kinds: str) -> list[tuple[float, str, str, int, int]]:
        """Every write as (when, what, group, size before, size after)."""
        return [
            (d.at, d.what, d.group.removeprefix("fake/"), d.before, d.after)
            for d in self.decisions()
            if not kinds or d.what in kinds
        ]

    def decisions(self) -> list[Decision]:
        return list(self.result.decisions)

    def planned(self, kind: type[PlannedAction], group: str) -> list[tuple[float, PlannedAction]]:
        """Every planned action of one kind for a group, whether it was carried out or not."""
        assert self.result
        actions = ((state.now, action) for state, plan in self.loops for action in plan.actions)
        return [(at, action) for at, action in actions if isinstance(action, kind) and action.group.group_id == group]

    def asked(self, group: str) -> list[float]:
        """When the group was asked for machines, refused or not."""
        return [d.at for d in self.decisions() if d.what == "increase" and d.group == f"fake/{group}"]

    def events(self, reason: str) -> list[tuple[float, str]]:
        """Events of one reason as (when, message)."""
        return [(held.at, held.event.message) for held in self.result.events if held.event.reason == reason]

    def state(self, group: str, at: float) -> GroupState:
        """The group as the last loop up to ``at`` saw it."""
        assert self.result
        state = next(state for state, _ in reversed(self.loops) if state.now <= at)
        return state.groups[GroupRef("fake", group)]

    def states(self) -> list[ClusterState]:
        assert self.result
        return [state for state, _ in self.loops]

    def machines(self, group: str) -> int:
        """Machines of the group that run at the end."""
        assert self.result
        return len(self.cloud.living(group))

    def first_running(self) -> float:
        """When all pods ran for the first time after some waited."""
        series = self.result.series
        waited = False
        for moment, pending in zip(series.times, series.pending, strict=True):
            if waited and not pending:
                return moment
            waited |= pending > 0
        raise AssertionError("some pods never ran")

    def killed(self) -> list[str]:
        """Machines that were nodes and are gone."""
        nodes = {fact.name for fact in self.result.journal if fact.what == What.NODE_ADDED}
        gone = (fact.name for fact in self.result.journal if fact.what == What.MACHINE_GONE)
        return [machine for machine in gone if machine.rpartition("/")[2] in nodes]

    def _planning(self, settings: Settings) -> Planning:
        return Planning(make_plan=self._plan, strict=settings.policy.rule == "prompt")

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, after = make_plan(state, settings, random)
        self.loops.append((state, plan))
        return plan, after


def _turned(node: Node, *, ready: bool, at: float, condition: str = "") -> Node:
    since = datetime.fromtimestamp(at, tz=UTC)
    said = {"Ready": "True" if ready else "False", **({condition: "True"} if condition else {})}
    conditions = tuple(
        NodeCondition(type=what, status=is_so, last_transition_time=since) for what, is_so in said.items()
    )
    others = tuple(taint for taint in node.spec.taints if taint.key != NOT_READY.key)
    spec = replace(node.spec, taints=others if ready else (*others, NOT_READY))
    return replace(node, spec=spec, status=replace(node.status, conditions=conditions))
