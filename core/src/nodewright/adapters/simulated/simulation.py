"""Runs the engine against a simulated cluster: only when something changed, on virtual time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol, TypeVar

from nodewright.act.budget import cluster_limit
from nodewright.adapters.simulated.agenda import Agenda, Happening
from nodewright.adapters.simulated.api_server import ApiServer
from nodewright.adapters.simulated.clock import VirtualClock
from nodewright.adapters.simulated.cluster import SimulatedCluster
from nodewright.adapters.simulated.controllers import Deployment, Jobs
from nodewright.adapters.simulated.crash import Boundary, EngineCrashed, Tripwire
from nodewright.adapters.simulated.journal import Journal, What
from nodewright.adapters.simulated.kubelets import Kubelets
from nodewright.adapters.simulated.meter import Meter
from nodewright.adapters.simulated.outages import ready_nodes, turn
from nodewright.adapters.simulated.pacing import Pacing
from nodewright.adapters.simulated.recorder import Recorder
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.adapters.simulated.scheduler import Preference, Scheduler
from nodewright.adapters.simulated.store import MemoryStore
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.brain import Brain
from nodewright.engine.ports import Pause, ProviderPort, World
from nodewright.engine.report import LoopReport
from nodewright.engine.status import StatusReport, make_status
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings
from nodewright.planner.explain import buffers_planned, requests_seen
from nodewright.registry.state import Memory
from nodewright.spec.simulation import NodeStart

T = TypeVar("T")

# From when the engine's pod runs until the engine does.
_START_SECONDS = 5.0


class SimulatedProvider(ProviderPort, Protocol):
    """A provider that can be simulated (capability SIMULATION)."""

    @property
    def name(self) -> str: ...
    def running_machines(self) -> Sequence[NodeStart]: ...
    def next_change(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to simulate. ``end`` in epoch seconds.

    ``every_tick`` runs a loop each scan interval, as a real engine does, to compare with. ``stops_idle`` ends
    the run once nothing is left to happen and no pod waits. ``resources`` are those whose utilisation is
    measured.
    """

    end: float
    title: str = "simulation"
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    every_tick: bool = False
    stops_idle: bool = False
    preference: Preference = Preference.LEAST_ALLOCATED
    resources: tuple[str, ...] = ("cpu", "memory", "nvidia.com/gpu")
    brain: Brain = field(default_factory=Brain)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come; times in epoch seconds."""

    now: float
    start: float
    end: float
    pending: int
    running: int
    nodes: int
    loops: int


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class _Crash:
    """The engine is down for so long after its next crash, and may lose its memory."""

    down_seconds: float
    keeps_memory: bool


class Simulation:
    """A cluster, clouds and an engine. Put workloads on ``agenda`` and ``cluster``, then ``run`` once."""

    def __init__(self, clock: VirtualClock, providers: Sequence[SimulatedProvider], options: RunOptions) -> None:
        self.agenda = Agenda()
        self.journal = Journal()
        self.cluster = SimulatedCluster(Scheduler(options.preference), self.journal)
        self.jobs = Jobs(self.cluster, self.agenda)
        self._wire = Tripwire()
        self.store = MemoryStore(self._wire)
        self.kubelets = Kubelets(
            self.cluster, self.agenda, self.journal, providers, templates=options.settings.templates
        )
        self.api_server = ApiServer(self.cluster, self.agenda, clock, self._wire)
        self._clock = clock
        self._options = options
        self._start = clock.now()
        self._meter = Meter(self.cluster, self._start, options.resources)
        self._recorder = Recorder(clock)
        self._crash = _Crash(down_seconds=0.0, keeps_memory=True)
        guarded = tuple(self._wire.guard(provider) for provider in providers)
        self._world = World(
            cluster=self.api_server,
            providers=guarded,
            store=self.store,
            events=self._recorder,
            audit=self._recorder.audit,
        )
        self._engine: Autoscaler | None = None
        self._is_working = self._is_leaving = self._is_homeless = False
        interval = options.settings.loop.scan_interval
        self._pacing = Pacing(self._start, interval, every_tick=options.every_tick)
        self._cloud_due = self._start
        self._happenings = 0

    def crash_engine(
        self, at: float, *, write: int = 1, after_effect: bool = False, down_seconds: float, keeps_memory: bool
    ) -> None:
        """From ``at`` on the engine dies at its ``write``-th call that changes the cloud, before it or right after
        it took effect, and starts again ``down_seconds`` later, with or without what it had saved.
        """

        def arm(_: float) -> None:
            self._crash = _Crash(down_seconds=down_seconds, keeps_memory=keeps_memory)
            self._wire.arm(write, after_effect=after_effect)

        self.agenda.at(at, arm)

    def restart_engine(self, at: float, *, down_seconds: float = 0.0, keeps_memory: bool = True) -> None:
        """The engine dies ``at``, between two loops, and starts again, with or without what it had saved."""

        def die(_: float) -> None:
            self._crash = _Crash(down_seconds=down_seconds, keeps_memory=keeps_memory)
            self._die()

        self.agenda.at(at, die)

    def host_engine(self, pod: Pod) -> None:
        """The engine runs in a pod like this one from when that first runs. It ends with its pod, once it has done
        what it was about to do, and goes on where the next one runs.
        """
        Deployment(self.cluster, "nodewright", pod, on_start=self._move_in, on_loss=self._move_out).scale(
            1, self._start
        )

    def steer(self, at: float, change: Happening) -> None:
        """Somebody else changes a cloud or the cluster."""

        def happen(moment: float) -> None:
            change(moment)
            self.kubelets.sync(moment)
            self._cloud_due = self.kubelets.next_change()

        self.agenda.at(at, happen)

    def fail_nodes(self, at: float, nodes: int, seconds: float) -> None:
        """The oldest so many ready nodes are not ready for so long."""

        def fail(moment: float) -> None:
            names = ready_nodes(self.cluster, self._options.settings.templates)[:nodes]
            turn(self.cluster, names, ready=False, at=moment)
            self.agenda.at(moment + seconds, lambda due: turn(self.cluster, names, ready=True, at=due))

        self.agenda.at(at, fail)

    def pause(self, at: float, seconds: float) -> None:
        """Somebody orders a pause; one of no length ends the pause that there is."""

        def order(moment: float) -> None:
            self.store.save_pause(Pause(since=moment, until=moment + seconds) if seconds else None)
            self.journal.note(moment, What.PAUSED if seconds else What.RESUMED, "writes")

        self.agenda.at(at, order)

    def kill_engine(self, boundary: int, *, down_seconds: float, keeps_memory: bool) -> None:
        """As ``crash_engine``, at the boundary of that number from the beginning, counted from 1."""
        self._crash = _Crash(down_seconds=down_seconds, keeps_memory=keeps_memory)
        self._wire.arm_boundary(boundary)

    @property
    def boundaries(self) -> Sequence[Boundary]:
        """Where the engine could have died so far."""
        return self._wire.passed

    def run(self, on_progress: OnProgress | None = None) -> SimulationResult:
        """Everything up to the end."""
        self._start_engine(self._start)
        moment = self._next_moment()
        while moment <= self._options.end and not self._is_idle(moment):
            self._clock.advance_to(moment)
            if self._world_due() <= moment:
                self._let_happen(moment)
            elif self._removals_due() <= moment:
                self._step_removals()
            else:
                self._loop()
                if on_progress is not None:
                    on_progress(self._progress())
            moment = self._next_moment()
        return self._finish(moment)

    # The world

    def _next_moment(self) -> float:
        return min(self._world_due(), self._removals_due(), self._pacing.next_loop())

    def _removals_due(self) -> float:
        return self._engine.next_step_at() if self._engine is not None else math.inf

    def _world_due(self) -> float:
        return min(self.agenda.next_due(), self._cloud_due)

    def _let_happen(self, at: float) -> None:
        """All that the clouds and the cluster do at one moment, then the scheduler."""
        self._meter.advance(at)
        if self._cloud_due <= at:
            self.kubelets.sync(at)
            self._cloud_due = self.kubelets.next_change()
        if self.agenda.next_due() <= at:
            self.agenda.run_next()
        self.cluster.schedule(at)
        self._meter.sample(self.kubelets.machine_counts())
        self._pacing.changed(at)
        self._happenings += 1

    def _is_idle(self, moment: float) -> bool:
        """Has everything that was going to happen, happened?"""
        if moment == math.inf:
            return True
        done = self._options.stops_idle and self.agenda.next_due() == self._removals_due() == math.inf
        return done and self._cloud_due > moment and not self.cluster.count_pending()

    # The engine

    def _move_in(self, at: float) -> None:
        """The engine's pod runs; if the engine was waiting for that, it starts."""
        if self._is_homeless:
            self._is_homeless = False
            self.agenda.at(at + _START_SECONDS, self._start_engine)

    def _move_out(self, at: float) -> None:
        """The engine's pod is told to end: at once between two loops, else after what it is doing."""
        self._is_leaving = True
        if not self._is_working:
            self._end_if_leaving(at)

    def _end_if_leaving(self, at: float) -> None:
        if self._is_leaving and self._engine is not None:
            self._is_homeless = True
            self._stop(at, What.ENGINE_STOPPED)
        self._is_leaving = False

    def _work(self, call: Callable[[Autoscaler], T]) -> T | None:
        """Let the engine do something; None when there is none, or not any more."""
        if self._engine is None:
            return None
        self._is_working = True
        try:
            return call(self._engine)
        except EngineCrashed:
            self._recorder.take_crash(self._wire.answer, self._engine.under_way())
            self._die()
            return None
        finally:
            self._is_working = False

    def _start_engine(self, at: float) -> None:
        self._engine = Autoscaler(
            self._world,
            self._clock,
            self._options.settings,
            Random(self._options.seed),
            brain=self._options.brain,
        )
        self.journal.note(at, What.ENGINE_STARTED, "engine")
        self._pacing.ran(at, settled=False, timer=math.inf)

    def _loop(self) -> None:
        report = self._work(lambda engine: engine.run_once())
        if report is None or self._engine is None:
            return
        self._learn(report)
        self._recorder.take(report)
        self._pacing.ran(self._engine.next_loop_at(report), settled=report.is_settled, timer=report.next_timer)
        asked = report.plan is not None and bool(report.plan.provisioning.questions)
        self._after_writes(wrote=asked or bool(report.outcomes))

    def _step_removals(self) -> None:
        outcomes = self._work(lambda engine: engine.step_removals()) or ()
        self._recorder.take_outcomes(outcomes)
        self._pacing.changed(self._clock.now())
        self._after_writes(wrote=bool(outcomes))

    def _after_writes(self, *, wrote: bool) -> None:
        """The clouds and the scheduler have something to do now."""
        self._end_if_leaving(self._clock.now())
        if wrote or self.cluster.has_news:
            self._cloud_due = min(self._cloud_due, self._clock.now())

    def _die(self) -> None:
        now = self._clock.now()
        self._stop(now, What.ENGINE_CRASHED)
        if not self._crash.keeps_memory:
            self.store.lose()
        self.agenda.at(now + self._crash.down_seconds, self._start_engine)

    def _stop(self, at: float, how: What) -> None:
        self.journal.note(at, how, "engine")
        if self._engine is not None:
            self._recorder.take_removals(self._engine.unreported())
        self._engine = None
        self._pacing.ran(math.inf, settled=True, timer=math.inf)
        self._cloud_due = min(self._cloud_due, at)

    def _learn(self, report: LoopReport) -> None:
        """Nodes look as their group's template, and cost what the provider says."""
        if report.state is None:
            return
        seen = report.state.observation.groups
        templates = {ref: group.template for ref, group in seen.items() if group.template is not None}
        self.kubelets.learn(templates, self._clock.now())
        self._meter.prices.update(
            {ref: group.hourly_price for ref, group in seen.items() if group.hourly_price is not None}
        )

    # The result

    def _progress(self) -> Progress:
        return Progress(
            now=self._clock.now(),
            start=self._start,
            end=self._options.end,
            pending=self.cluster.count_pending(),
            running=self.cluster.tally.pods,
            nodes=sum(self.cluster.tally.nodes().values()),
            loops=self._recorder.loops,
        )

    def _finish(self, moment: float) -> SimulationResult:
        """Time runs on to the end, unless the run stopped because nothing was left to happen."""
        stopped_early = self._options.stops_idle and self._is_idle(moment)
        end = self._clock.now() if stopped_early else max(self._options.end, self._clock.now())
        self._meter.advance(end)
        if self._engine is not None:
            self._recorder.take_removals(self._engine.unreported())
        self._meter.sample(self.kubelets.machine_counts())
        result = self._recorder.result(
            title=self._options.title,
            span=(self._start, end),
            happenings=self._happenings,
            meter=self._meter,
            cluster=self.cluster,
            journal=self.journal,
        )
        return replace(result, status=self._status(end))

    def _status(self, at: float) -> StatusReport:
        """How the engine sees things, as a running one would tell."""
        state, limits = self._recorder.state, self._options.settings.deletion_limits
        status = make_status(
            state.memory if state is not None else Memory(),
            at,
            pause=self.store.load_pause(),
            deletion_limit=cluster_limit(state, limits) if state is not None else None,
            removing=self._engine.under_way() if self._engine is not None else (),
            capacity=requests_seen(state, self._recorder.plan) if state is not None else None,
        )
        plan = self._recorder.plan
        return replace(status, buffers=buffers_planned(plan) if plan is not None else None)
