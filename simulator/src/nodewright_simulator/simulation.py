"""Run the engine against a simulated cluster on virtual time, only at moments that can change something."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from nodewright.actuation.write_gate import ClusterLimits, cluster_limits
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.config_files import DisruptionFile, PricesFile
from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.readiness import is_ready
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.daemon import Daemon, Scope
from nodewright.engine.planning import Planning
from nodewright.engine.ports import Pause, Ports, ProviderPort
from nodewright.engine.report import LoopReport
from nodewright.engine.status import StatusReport, make_status
from nodewright.engine.timers import NodesReadyAlarm
from nodewright.model.duration import virtual_moments
from nodewright.model.interruption import signals_newly
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings
from nodewright.planner.explain import buffers_planned, requests_seen
from nodewright.spec.simulation import NodeStart
from nodewright_simulator.agenda import Agenda, Happening
from nodewright_simulator.api_server import ApiServer
from nodewright_simulator.cluster import SimulatedCluster
from nodewright_simulator.controllers import DeploymentController, Jobs
from nodewright_simulator.engine_process import EngineClock, EngineLife
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.kubelets import Kubelets
from nodewright_simulator.node_faults import RENAME, ready_nodes, touch, turn, undo
from nodewright_simulator.recorder import Recorder, UsageMeter
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scheduler import Preference, Scheduler


class Pacing:
    """The grid of ticks on which loops fall, one scan interval apart, shifted by each loop that ran.

    A tick matters when the world changed since the last loop, when a timer has passed, or when the last loop
    left work unsettled. All others would change nothing, so that leaving them out gives the same outcome. Only searches for
    moves of consolidation, whose times count from the search before, may fall on other ticks.
    """

    def __init__(self, start: float, interval: float, *, every_tick: bool = False) -> None:
        self._interval = interval
        self._every_tick = every_tick
        self._due = start
        self._changed = -math.inf
        self._timer = math.inf

    def changed(self, at: float) -> None:
        """Record that the world changed."""
        self._changed = min(self._changed, at)

    def ran(self, due: float, *, settled: bool, timer: float = math.inf) -> None:
        """Record that a loop ran; the next tick is ``due``. ``timer`` is ``next_timer`` of its LoopReport."""
        self._due = due
        self._changed = math.inf if settled else -math.inf
        self._timer = timer

    def next_loop(self) -> float:
        """Return when the engine runs next, unless the cluster or a cloud changes before; infinity: only then."""
        if self._every_tick:
            return self._due
        wake = math.inf
        if self._changed < math.inf:
            wake = self._tick(math.ceil((self._changed - self._due) / self._interval) if self._is_late() else 0)
        if self._timer < math.inf:
            wake = min(wake, self._tick(math.floor((self._timer - self._due) / self._interval) + 1))
        return wake

    def _is_late(self) -> bool:
        return self._changed > self._due

    def _tick(self, number: int) -> float:
        return self._due + max(0, number) * self._interval


class SimulatedProvider(ProviderPort, Protocol):
    """A provider that can be simulated (capability SIMULATION)."""

    @property
    def name(self) -> str: ...
    def running_machines(self) -> Sequence[NodeStart]: ...
    def next_change(self) -> float: ...
    def await_interruption(self, timeout: float) -> bool | None: ...


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to simulate. ``end`` in epoch seconds.

    ``every_tick`` runs a loop each scan interval, to compare with. With ``as_daemon`` the Daemon decides when a loop runs,
    for example soon after pods find no place or a group grew; such a run has no crashes and no clock jumps. Otherwise
    loops fall on the grid of scans. ``stops_idle`` ends the run once nothing is left to happen and no pod waits.
    ``resources`` are those whose utilisation is measured. ``meters_costs``: the result has the cost of machines and a bound.
    ``on_loop`` is called with the report of each loop.
    """

    end: float
    title: str = "simulation"
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    every_tick: bool = False
    as_daemon: bool = False
    stops_idle: bool = False
    meters_costs: bool = True
    preference: Preference = Preference.LEAST_ALLOCATED
    resources: tuple[str, ...] = ("cpu", "memory", "nvidia.com/gpu")
    planning: Planning = field(default_factory=Planning)
    on_loop: Callable[[LoopReport], None] | None = None


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


class Simulation:
    """A cluster, clouds and an engine. Put workloads on ``agenda`` and ``cluster``, then ``run`` once."""

    def __init__(self, clock: VirtualClock, providers: Sequence[SimulatedProvider], options: RunOptions) -> None:
        self.agenda = Agenda()
        self.journal = Journal()
        self.cluster = SimulatedCluster(Scheduler(options.preference), self.journal)
        self.jobs = Jobs(self.cluster, self.agenda)
        self.engine = EngineLife(self, clock, self.agenda, self.journal)
        self.kubelets = Kubelets(
            self.cluster, self.agenda, self.journal, providers, templates=options.settings.templates
        )
        self.api_server = ApiServer(self.cluster, self.agenda, clock, self.engine.wire)
        self._clock = clock
        self._providers = providers
        self._engine_clock = EngineClock(clock)
        self._options = options
        self._start = clock.now()
        self._meter = UsageMeter(self.cluster, self._start, options.resources)
        self._recorder = Recorder(clock)
        guarded = tuple(self.engine.wire.guard(provider) for provider in providers)
        prices = PricesFile(lambda: options.settings.scale_up)
        prices.check()
        disruption = DisruptionFile(lambda: options.settings.safety)
        disruption.check()
        self._world = Ports(
            cluster=self.api_server,
            providers=guarded,
            store=self.engine.store,
            events=self._recorder,
            audit=self._recorder.audit,
            prices=prices,
            disruption=disruption,
        )
        interval = options.settings.loop.scan_interval
        self._pacing = Pacing(self._start, interval, every_tick=options.every_tick)
        self._cloud_due = self._start
        self._happenings = 0
        # When the last pause that was ordered ends (epoch seconds).
        self._pause_ends = -math.inf

    def host_engine(self, pod: Pod) -> None:
        """Run the engine in a pod like this one.

        It stops with its pod, after it has finished what it was doing, and starts again where the next pod runs.
        """
        DeploymentController(
            self.cluster, "nodewright", pod, on_start=self.engine.move_in, on_loss=self.engine.move_out
        ).scale(1, self._start)

    def steer(self, at: float, change: Happening) -> None:
        """Schedule a change of a cloud or the cluster by another writer."""

        def happen(moment: float) -> None:
            change(moment)
            self.kubelets.sync(moment)
            self._cloud_due = self.kubelets.next_change()

        self.agenda.at(at, happen)

    def fail_nodes(self, at: float, nodes: int, seconds: float) -> None:
        """Make the oldest ready nodes not ready for so long."""

        def fail(moment: float) -> None:
            names = ready_nodes(self.cluster, self._options.settings.templates)[:nodes]
            turn(self.cluster, names, ready=False, at=moment)
            self.agenda.at(moment + seconds, lambda due: turn(self.cluster, names, ready=True, at=due))

        self.agenda.at(at, fail)

    def touch_nodes(self, at: float, how: str, nodes: int, seconds: float) -> None:
        """Let an operator touch the oldest ready nodes, and undo it after so long."""

        def begin(moment: float) -> None:
            names = ready_nodes(self.cluster, self._options.settings.templates)[:nodes]
            deleted, renamed = touch(self.cluster, names, how, moment), how == RENAME

            def end(due: float) -> None:
                if deleted:
                    self.kubelets.register_again(deleted, due, renamed=renamed)
                else:
                    undo(self.cluster, names, how, due)

            self.agenda.at(moment + seconds, end)

        self.agenda.at(at, begin)

    def misread(self, at: float, shows: str, seconds: float, *, is_direct: bool = False) -> None:
        """Show the engine a wrong list of the cluster for so long; ``is_direct``: and wrong pods of single nodes."""
        misreads = self.api_server.misreads

        def begin(moment: float) -> None:
            misreads.begin(shows, moment + seconds, is_direct=is_direct)
            misreads.remember(held.pod.metadata.uid for held in self.cluster.pods())

        self.agenda.at(at, begin)
        self.agenda.at(at + seconds, lambda _: None)  # a loop reads the correct list

    def fill_disk(self, at: float, seconds: float) -> None:
        """Let every save of state fail for so long."""

        def fill(moment: float, *, full: bool) -> None:
            del moment
            self.engine.store.fail = full

        self.agenda.at(at, lambda moment: fill(moment, full=True))
        self.agenda.at(at + seconds, lambda moment: fill(moment, full=False))

    def jump_clock(self, at: float, by: float, lasts: float | None, *, has_dates: bool = True) -> None:
        """Move the wall clock of the engine's machine, for so long or for good.

        ``has_dates``: the API server's responses tell its time, at any moment of this run.
        """
        self._engine_clock.expect_jumps(has_dates=has_dates)
        self.agenda.at(at, lambda _: self._engine_clock.jump(by))
        if lasts is not None:
            self.agenda.at(at + lasts, lambda _: self._engine_clock.jump(-by))

    def pause(self, at: float, seconds: float) -> None:
        """Order a pause, which replaces an earlier one; 0 seconds end a pause."""

        def order(moment: float) -> None:
            self.engine.store.save_pause(Pause(since=moment, until=moment + seconds) if seconds else None)
            self._pause_ends = moment + seconds
            if seconds:
                self.journal.note(moment, What.PAUSED, "writes")
                self.agenda.at(moment + seconds, end)
            else:
                self.journal.note(moment, What.RESUMED, "writes")

        def end(moment: float) -> None:
            if moment == self._pause_ends:
                self.journal.note(moment, What.RESUMED, "writes")

        self.agenda.at(at, order)

    def run(self, on_progress: OnProgress | None = None) -> SimulationResult:
        """Run everything up to the end. Texts of events and reasons tell times since the start."""
        with virtual_moments():
            return self._run(on_progress)

    def _run(self, on_progress: OnProgress | None) -> SimulationResult:
        self.engine.start(self._start)
        if self._options.as_daemon:
            self._run_daemon()
            return self._finish(self._next_moment())
        moment = self._next_moment()
        while moment <= self._options.end and not self._is_idle(moment):
            self._clock.advance_to(moment)
            if self._world_due() <= moment:
                self._run_due_happenings(moment)
            elif self._removals_due() <= moment:
                self._step_removals()
            elif self._pacing.next_loop() <= moment:
                self._loop()
                if on_progress is not None:
                    on_progress(self._progress())
            moment = self._next_moment()
        return self._finish(moment)

    # The world

    def _next_moment(self) -> float:
        return min(self._world_due(), self._removals_due(), self._pacing.next_loop())

    def _removals_due(self) -> float:
        if self.engine.alive is None:
            return math.inf
        return self._engine_clock.true_time(self.engine.alive.next_step_at())

    def _world_due(self) -> float:
        return min(self.agenda.next_due(), self._cloud_due)

    def _run_due_happenings(self, at: float) -> None:
        """Carry out all that is due in the clouds and the cluster, then let the scheduler place pods."""
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
        """Return whether nothing is left to happen."""
        if moment == math.inf:
            return True
        done = self._options.stops_idle and self.agenda.next_due() == self._removals_due() == math.inf
        return done and self._cloud_due > moment and not self.cluster.count_pending()

    # The engine

    def make_engine(self) -> Autoscaler:
        """Return a new engine, which starts from what the last one saved."""
        options = self._options
        clock, world = self._engine_clock.start(), self._world
        saved = world.store.load()
        self.api_server.misreads.remember(())
        return Autoscaler(world, clock, options.settings, Random(options.seed), saved, planning=options.planning)

    def started(self, at: float) -> None:
        self._pacing.ran(at, settled=False)

    def broke_off(self, engine: Autoscaler, answer: object) -> None:
        self._recorder.take_crash(answer, engine.under_way())

    def stopped(self, engine: Autoscaler | None, at: float) -> None:
        if engine is not None:
            self._recorder.take_removals(engine.unreported())
            self._recorder.take_interrupted(engine.under_way(), at)
        self._pacing.ran(math.inf, settled=True)
        self._cloud_due = min(self._cloud_due, at)

    def _run_daemon(self) -> None:
        """Let the Daemon run loops and the steps of removals; while it waits, the world goes on."""
        alive = self.engine.alive
        assert alive is not None
        hosted = _HostedEngine(alive, self._loop, self._step_removals)
        end, rings = self._options.end, _Rings(self.cluster, self._providers)
        new_nodes = NodesReadyAlarm(rings.ring)
        settings = self._options.settings
        if settings.policy.looks_after_new_nodes and settings.loop.frequent_loops_enabled:
            self._let_see(new_nodes, rings)
        waits = _WorldAlarm(self._clock, end, self._world_due, self._run_due_happenings, rings)
        Daemon(
            hosted,
            self._clock,
            waits,
            may_go_on=lambda: self._clock.now() < end,
            on_report=new_nodes.expect,
            before_loop=new_nodes.begin,
        ).run()

    def _let_see(self, new_nodes: NodesReadyAlarm, rings: "_Rings") -> None:
        """Report nodes that become ready or are interrupted, as the watch of the API server does."""
        templates, signals = self._options.settings.templates, self._options.settings.interruptions.interruption_signal

        def see_node(known: Node | None, node: Node) -> None:
            if signals_newly(known, node, signals):
                rings.ring_urgently()
            if is_ready(node, templates) and (known is None or not is_ready(known, templates)):
                new_nodes.see_ready()

        self.cluster.on_node = see_node

    def _loop(self, scope: Scope = Scope.ALL) -> LoopReport | None:
        self._engine_clock.hear()
        report = self.engine.work(lambda engine: engine.run_once(scope))
        engine = self.engine.alive
        if report is None or engine is None:
            return None
        self._update_templates(report)
        self._recorder.take(report)
        if self._options.on_loop is not None:
            self._options.on_loop(report)
        due, timer = map(self._engine_clock.true_time, (engine.next_loop_at(report), report.next_timer))
        self._pacing.ran(due, settled=report.is_settled, timer=timer)
        asked = report.plan is not None and bool(report.plan.provisioning.calls)
        self._after_writes(wrote=asked or bool(report.outcomes))
        return report

    def _step_removals(self) -> None:
        outcomes = self.engine.work(lambda engine: engine.step_removals()) or ()
        self._recorder.take_outcomes(outcomes)
        self._pacing.changed(self._clock.now())
        self._after_writes(wrote=bool(outcomes))

    def _after_writes(self, *, wrote: bool) -> None:
        """Let the clouds and the scheduler act now, if the engine wrote something."""
        self.engine.end_if_leaving(self._clock.now())
        if wrote or self.cluster.has_news:
            self._cloud_due = min(self._cloud_due, self._clock.now())

    def _update_templates(self, report: LoopReport) -> None:
        """Give nodes the shape of their group's template and the price of the provider."""
        if report.state is None:
            return
        seen = report.state.observation.groups
        templates = {ref: group.template for ref, group in seen.items() if group.template is not None}
        self.kubelets.set_templates(templates, self._clock.now())
        if self._options.meters_costs:
            self._meter.costs.look(report.state, self._options.settings)

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
        """Run to the end, unless the run stopped because nothing was left to happen."""
        stopped_early = self._options.stops_idle and self._is_idle(moment)
        end = self._clock.now() if stopped_early else max(self._options.end, self._clock.now())
        self._meter.advance(end)
        if self.engine.alive is not None:
            self._recorder.take_removals(self.engine.alive.unreported())
            self._recorder.take_interrupted(self.engine.alive.under_way(), end)
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
        """Return the status as a running engine would report it."""
        state, limits = self._recorder.state, self._options.settings.deletion_limits
        status = make_status(
            state.memory if state is not None else Memory(),
            at,
            pause=self.engine.store.load_pause(),
            limits=cluster_limits(state, limits) if state is not None else ClusterLimits(),
            removing=self.engine.alive.under_way() if self.engine.alive is not None else (),
            capacity=requests_seen(state, self._recorder.plan) if state is not None else None,
        )
        plan = self._recorder.plan
        return replace(status, buffers=buffers_planned(plan) if plan is not None else None)


class _HostedEngine:
    """Implements Engine of the Daemon; the simulation records what each loop and step did."""

    def __init__(self, engine: Autoscaler, loop: Callable[..., LoopReport | None], step: Callable[[], object]) -> None:
        self._loop = loop
        self.next_loop_at, self.next_step_at, self.batch_window = (
            engine.next_loop_at,
            engine.next_step_at,
            engine.batch_window,
        )
        self.step_removals = step

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport:
        report = self._loop(scope)
        assert report is not None, "an engine that runs as the daemon cannot crash"
        return report


class _Rings:
    """Count the happenings that wake the daemon."""

    def __init__(self, cluster: SimulatedCluster, providers: Sequence[SimulatedProvider]) -> None:
        self._cluster = cluster
        self._providers = providers
        self._others = 0
        self._has_notice = False

    def ring(self) -> None:
        self._others += 1

    def ring_urgently(self) -> None:
        self._others += 1
        self._has_notice = True

    def count(self) -> int:
        """Return how many pods have found no place so far, and how often something else rang."""
        came = [provider.await_interruption(0.0) for provider in self._providers]
        self._has_notice |= any(came)
        self._others += any(came)
        return self._cluster.found_no_place + self._others

    def take_notice(self) -> bool:
        """Return whether a notice of an interruption rang since the last call."""
        has_notice, self._has_notice = self._has_notice, False
        return has_notice


class _WorldAlarm:
    """Implements Alarm of the Daemon: waiting lets the world go on, and ends when something rings."""

    def __init__(
        self,
        clock: VirtualClock,
        end: float,
        next_due: Callable[[], float],
        let_happen: Callable[[float], None],
        rings: _Rings,
    ) -> None:
        self._clock, self._end = clock, end
        self._next_due, self._run_due_happenings, self._rings = next_due, let_happen, rings

    def take_urgent(self) -> bool:
        return self._rings.take_notice()

    def wait(self, seconds: float) -> bool:
        until, before = min(self._clock.now() + seconds, self._end), self._rings.count()
        while (due := self._next_due()) <= until:
            self._clock.advance_to(due)
            self._run_due_happenings(due)
            if self._rings.count() > before:
                return True
        self._clock.advance_to(until)
        return False
