"""The running daemon, and whether it is the leader; build.py builds its parts."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from types import TracebackType
from typing import Self

from nodewright.actuation import Event, Pause, wall_clock_event
from nodewright.adapters.clocks import BootClock, SteadyClock, ThreadAlarm
from nodewright.adapters.config_files import DisruptionFile, PricesFile
from nodewright.adapters.kube.api import GuardedApi, MeteredApi
from nodewright.adapters.kube.caches import Caches
from nodewright.adapters.kube.events import KubeEvents, OwnMaps
from nodewright.adapters.kube.lease import Leadership
from nodewright.adapters.kube.node_cleanup import NodeCleaner
from nodewright.adapters.kube.status_config_map import StatusMap
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.adapters.logs import ConditionLog, DaemonLog, without_numbers
from nodewright.adapters.metrics import LeaseCounts, Metrics, ProviderCalls
from nodewright.adapters.provider import ProviderClient
from nodewright.adapters.provider.client import NoticeWatch
from nodewright.adapters.server_time import JumpWatch, ServerTime
from nodewright.adapters.store.codec import find_groups
from nodewright.adapters.web import HealthCheck, WebServer
from nodewright.cli.connect import find_misspelt
from nodewright.cli.console.history import History
from nodewright.cli.daemon.debug_server import NO_LOOP, DebugServer
from nodewright.cli.daemon.reload import Reloader
from nodewright.cli.daemon.shadow import ShadowReporter
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.daemon import Daemon
from nodewright.engine.planning import DryRunPlanning
from nodewright.engine.ports import Ports
from nodewright.engine.report import LoopReport
from nodewright.engine.timers import NodesReadyAlarm
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError, NodewrightError, ProviderError
from nodewright.model.group import GroupRef
from nodewright.model.write_fence import WriteFence
from nodewright.snapshot.observation import Observation


class LeaderState:
    """Tells whether this process leads, and how long it may write.

    Without ``leadership`` (no leader election) it always leads. With ``only_looks`` (dry run) it never writes.
    """

    def __init__(self, leadership: Leadership | None, log: DaemonLog, *, only_looks: bool) -> None:
        self._leadership, self._log, self._only_looks = leadership, log, only_looks
        self._has_begun = self._is_over = False

    @property
    def leads(self) -> bool:
        return self._leadership is None or self._leadership.remaining() > 0

    @property
    def holder(self) -> str:
        """Return the process that leads; empty if not known."""
        return self._leadership.holder if self._leadership is not None else ""

    def begin(self, lease: str) -> bool:
        """Wait to become the leader; return False if the process is stopped first."""
        if self._leadership is not None:
            self._log.say("waiting to become the leader", lease=lease)
            if not self._leadership.acquire() or self._is_over:
                return False
            self._log.say("leading")
        self._has_begun = True
        return True

    def stop(self) -> None:
        """Stop waiting for the lease; call it from any thread, but not from a signal handler. ``release`` ends a held lease."""
        self._is_over = True
        if self._leadership is not None and not self._has_begun:
            self._leadership.stop()

    def release(self) -> None:
        """Give up the lease."""
        if self._leadership is not None:
            self._leadership.release()

    def remaining(self) -> float:
        """Return for how many seconds this process may write; inf without leader election, 0 in a dry run."""
        if self._only_looks:
            return 0.0
        return self._leadership.remaining() if self._leadership is not None else math.inf

    def excuse(self) -> str:
        """Return why there was no loop yet."""
        if self._leadership is None or self._has_begun:
            return NO_LOOP
        return f"this replica does not lead, so it has no snapshot: ask {self.holder or 'again later'}"

    def counts(self) -> LeaseCounts:
        held = self._leadership
        return LeaseCounts(held.renewed, held.failed, held.remaining()) if held is not None else LeaseCounts()


# Seconds between log lines while the API server does not respond.
_SYNC_SECONDS = 30


class CallMeter:
    """The number and the duration of providers' calls to their clouds, as they count them.

    Call ``take`` in the loop's thread; the other methods are safe in any thread.
    """

    def __init__(self, providers: Sequence[ProviderClient]) -> None:
        self._providers = providers
        self._cloud: tuple[ProviderCalls, ...] = ()
        self._refreshed = 0.0

    def take(self) -> float:
        """Read the counts, once per loop; return the seconds that refreshing took in this loop."""
        found = []
        for provider in self._providers:
            try:
                counted = provider.api_calls() or ()
            except ProviderError:
                continue
            found += [ProviderCalls(provider.name, c.operation, c.result, c.calls, c.seconds) for c in counted]
        self._cloud = tuple(found)
        before, self._refreshed = self._refreshed, self._refresh_seconds()
        return self._refreshed - before

    def cloud_calls(self) -> tuple[ProviderCalls, ...]:
        return self._cloud

    def hooks(self) -> tuple[ProviderCalls, ...]:
        return tuple(
            ProviderCalls(provider.name, hook, result, calls, seconds if result == "ok" else 0.0)
            for provider in self._providers
            for hook, stats in provider.stats().items()
            for result, calls, seconds in (
                ("ok", stats.calls - stats.errors, stats.seconds),
                ("error", stats.errors, stats.seconds),
            )
        )

    def _refresh_seconds(self) -> float:
        stats: list[Mapping[str, float]] = [
            {hook: held.seconds for hook, held in provider.stats().items()} for provider in self._providers
        ]
        return sum(held.get("refresh", 0.0) for held in stats)


@dataclass(frozen=True, kw_only=True)
class ProcessParts:
    """The parts of this process: its log, clocks, source of randomness, settings file, and the files of prices and of disruption.

    ``clock`` is steady: decisions and waiting use it. It follows ``wall``, the API server's time, which events and the lease
    show; logs show the ``machine``'s.
    """

    log: DaemonLog
    conditions: ConditionLog
    machine: Clock
    wall: ServerTime
    boot: BootClock
    clock: SteadyClock
    alarm: ThreadAlarm
    random: Random
    reloader: Reloader
    prices: PricesFile
    disruption: DisruptionFile


@dataclass(frozen=True, kw_only=True)
class ClusterParts:
    """The parts that read from and write to the API server.

    ``guarded`` is ``api`` for the leader alone. ``status``, ``kube_events`` and ``cleaner`` are None where nothing may be
    written (dry run), ``status`` also where the settings switch it off. ``events`` records in the log and in Kubernetes.
    """

    api: MeteredApi
    guarded: GuardedApi
    leader: LeaderState
    fence: WriteFence
    caches: Caches
    new_nodes: NodesReadyAlarm
    store: ConfigMapStore
    status: StatusMap | None
    kube_events: KubeEvents | None
    history: History
    events: OwnMaps
    cleaner: NodeCleaner | None


@dataclass(frozen=True, kw_only=True)
class ReportParts:
    """The parts that report each loop to operators and monitoring. ``shadow`` compares with another autoscaler, if there is one."""

    meter: CallMeter
    metrics: Metrics
    health: HealthCheck
    debug_server: DebugServer
    shadow: ShadowReporter | None
    servers: tuple[WebServer, ...]


@dataclass(frozen=True, kw_only=True)
class EngineParts:
    """The parts that the engine uses. ``dry_run`` is set where plans are reported and not carried out.

    ``notices`` wake the loop; only the leader waits for them, since a queue delivers each message to one reader.
    """

    ports: Ports
    providers: tuple[ProviderClient, ...]
    dry_run: DryRunPlanning | None
    once: bool
    shadows: bool
    notices: NoticeWatch

    @property
    def only_looks(self) -> bool:
        """Return whether this process writes nothing anywhere."""
        return self.dry_run is not None


class ClockReports:
    """Reports each jump of the machine's clock and of the API server's once, and logs when they begin to differ."""

    def __init__(self, process: ProcessParts) -> None:
        self._process = process
        self._machine = JumpWatch(process.machine.now, process.boot.now)
        self._server = JumpWatch(process.wall.now, process.boot.now)

    def take(self) -> Iterator[Event]:
        """Yield an event for each jump since the last call; call it once before each loop."""
        wall = self._process.wall
        self._process.conditions.see("the clock", wall.problem())
        by_machine, by_server = self._machine.take(), self._server.take()
        if by_machine:
            yield wall_clock_event("this machine's clock", by_machine, is_used=not wall.is_heard)
        if by_server and wall.is_heard:
            yield wall_clock_event("the API server's clock", by_server, is_used=True)


class DaemonApp:
    """The daemon and what surrounds it: web servers, caches, events, the lease. Enter it, then ``run``.

    ``stop`` ends it from another thread.
    """

    def __init__(self, process: ProcessParts, cluster: ClusterParts, report: ReportParts, engine: EngineParts) -> None:
        self.log = process.log
        self.lost_leadership = False
        self.last_report: LoopReport | None = None
        self._process = process
        self._cluster = cluster
        self._report = report
        self._engine = engine
        self._autoscaler: Autoscaler | None = None
        self._stopping = False
        # What was logged last: the problem of the last loop without numbers (None: no loop yet), and the withheld actions.
        self._told_problem: str | None = None
        self._told_withheld: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        self._start_servers()
        self.log.say("starting", dry_run=self._engine.only_looks, shadow=self._engine.shadows, ports=self.ports)
        self._cluster.caches.start()
        if self._cluster.kube_events is not None:
            self._cluster.kube_events.start()
        return self

    @property
    def ports(self) -> Mapping[str, int]:
        """Return the ports of the web servers, by the setting that holds the address of each."""
        return {server.name: server.port for server in self._report.servers}

    def _start_servers(self) -> None:
        try:
            for server in self._report.servers:
                server.start()
        except ConfigError:
            for server in self._report.servers:
                server.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the last state and release everything; the loop has ended."""
        if self._cluster.status is not None and self._cluster.leader.leads and not self._engine.once:
            self._cluster.status.remove()
        if self._cluster.kube_events is not None:
            self._cluster.kube_events.stop()
        self._engine.notices.stop()
        self._end_writes()
        self._cluster.leader.release()
        self._cluster.caches.stop()
        for server in self._report.servers:
            server.stop()
        self.log.say("stopped", error=str(error) if error is not None else "")

    def _end_writes(self) -> None:
        """Save that no write is in flight, so that the next leader need not wait for one."""
        if self._autoscaler is None or not self._cluster.leader.leads or self._engine.only_looks:
            return
        try:
            self._autoscaler.end()
        except NodewrightError as error:
            self.log.say(f"the next leader may wait for calls that have ended: {error}", level="warning")

    def stop(self) -> None:
        """Stop the daemon; call it from any thread, but not from a signal handler."""
        self._stopping = True
        self._process.alarm.ring()
        self._cluster.leader.stop()

    def run(self) -> LoopReport | None:
        """Run loops until ``stop`` or until the lease is lost; return the last report.

        With ``once`` run one loop and wait for what it began. Raise ConfigError for a group of ``--nodes`` that does not exist.
        """
        if not self._wait_synced():
            return self.last_report
        # The API server's time is known by now, and nothing was decided yet.
        self._process.clock.start()
        self._check_named()
        if not self._cluster.leader.begin(self._process.reloader.settings.leader.leader_elect_resource_name):
            return self.last_report
        self._report.health.begin()
        if self._cluster.status is not None:
            self._cluster.status.start(self._process.clock.now())
        self._autoscaler = autoscaler = self._make_autoscaler()
        daemon = Daemon(
            self._report.debug_server.in_turn(autoscaler),
            self._process.clock,
            self._process.alarm,
            may_go_on=self._may_go_on,
            on_report=self._take,
            before_loop=partial(self._prepare, autoscaler, ClockReports(self._process)),
        )
        if self._engine.once:
            daemon.run_one()
        else:
            self._engine.notices.start()
            daemon.run()
        return self.last_report

    def _check_named(self) -> None:
        """Raise ConfigError for a group of ``--nodes`` that no listing and no saved state knows; a dry run logs it instead.

        Nothing is refused while the saved state cannot be read.
        """
        try:
            memory = self._cluster.store.peek()
        except NodewrightError:
            return
        for sentence in find_misspelt(self._engine.providers, memory.named | find_groups(memory)):
            if not self._engine.only_looks:
                raise ConfigError(sentence)
            self.log.say(sentence, level="warning")

    def _make_autoscaler(self) -> Autoscaler:
        dry_run, process = self._engine.dry_run, self._process
        planning = dry_run.planning if dry_run is not None else None
        ports, settings = self._engine.ports, process.reloader.settings
        saved = ports.store.load()
        asked = {GroupRef(provider.name, name) for provider in self._engine.providers for name in provider.named}
        saved = replace(saved, memory=replace(saved.memory, named=saved.memory.named & asked))
        return Autoscaler(ports, process.clock, settings, process.random, saved, planning=planning)

    def _may_go_on(self) -> bool:
        if not self._cluster.leader.leads:
            if not self._stopping and not self.lost_leadership:
                self.lost_leadership = True
                self.log.say("another process may lead by now", level="error", holder=self._cluster.leader.holder)
            return False
        return not self._stopping

    def _prepare(self, autoscaler: Autoscaler, clocks: "ClockReports") -> None:
        """Prepare the next loop: report jumps of the clocks, and take over settings that may change while running."""
        self.log.loop = autoscaler.next_loop
        self._cluster.new_nodes.begin()
        for event in clocks.take():
            self._cluster.events.record(event)
        change = self._process.reloader.look()
        if change is None:
            return
        self._report.metrics.reloaded(succeeded=not change.problem)
        if change.problem:
            self.log.say(f"the settings stay as they are: {change.problem}", level="error")
            return
        autoscaler.use(change.settings)
        self._report.metrics.use(change.settings)
        self.log.use(change.settings.logging.level)
        self.log.say("settings were read again", applied=change.applied)
        if change.waiting:
            self.log.say("some settings change only at a restart", level="warning", settings=change.waiting)

    def _take(self, report: LoopReport) -> None:
        """Report a loop that has ended: metrics, health, status ConfigMap, log and debug pages."""
        self.last_report = report
        self._cluster.new_nodes.expect(report)
        self._report.metrics.observe(report)
        self._report.metrics.cache_age(max(self._cluster.caches.ages().values(), default=0.0))
        self._report.metrics.leads(self._cluster.leader.leads)
        self._report.metrics.refresh_seconds(self._report.meter.take())
        self._report.health.ran(succeeded=not report.problem)
        if self._cluster.status is not None and report.state is not None and report.plan is not None:
            self._cluster.status.update(report.state, report.plan)
            self._process.conditions.see("the status ConfigMap", self._cluster.status.problem)
        if self._cluster.kube_events is not None:
            self._process.conditions.see("events", self._cluster.kube_events.problem)
        if report.state is not None:
            log_unreadable(self._process.conditions, report.state.observation)
            log_unlisted(self._process.conditions, self._engine.providers)
            self._process.conditions.see("prices", self._process.prices.problem)
            self._process.conditions.see("prices of groups", self._find_unpriceable(report.state.observation))
            self._process.conditions.see("disruption", self._process.disruption.problem)
            self._process.conditions.see("budgets", self._process.disruption.absence)
        self.log.say(
            report.problem or "loop",
            level=self._level_of(report),
            seconds=round(report.finished - report.started, 3),
            nodes=int(report.state.observation.snapshot.alive.sum()) if report.state is not None else None,
            pending=len(report.state.observation.pending) if report.state is not None else None,
            writes=len(report.outcomes),
        )
        if self._cluster.cleaner is not None and report.state is not None and not report.problem:
            self._cluster.cleaner.clean(report.state, self.log.say)
        if self._engine.dry_run is not None:
            self._log_withheld(self._engine.dry_run, report)
        self._report.debug_server.publish(report, self._process.reloader.settings, self._pause())

    def _level_of(self, report: LoopReport) -> str:
        """Return the log level of a loop: debug for a repeated problem, and for a loop that did nothing."""
        before, self._told_problem = self._told_problem, without_numbers(report.problem)
        if report.problem:
            return "debug" if self._told_problem == before else "warning"
        return "info" if before != "" or report.outcomes or report.begun else "debug"

    def _find_unpriceable(self, seen: Observation) -> str:
        """Return a sentence about prices of unknown groups; empty: there are none, or not all groups could be listed."""
        if any(provider.problem for provider in seen.providers.values()):
            return ""
        return self._process.prices.read().find_unknown(seen.groups)

    def _log_withheld(self, planning: DryRunPlanning, report: LoopReport) -> None:
        plan, withheld = planning.take_withheld()
        for action in withheld:
            self.log.say("would be done", level="debug" if action in self._told_withheld else "info", action=action)
        self._told_withheld = tuple(withheld)
        if self._report.shadow is not None:
            self._report.shadow.take(report, plan, self._process.reloader.settings)

    def _pause(self) -> Pause | None:
        try:
            return self._cluster.store.load_pause()
        except NodewrightError:
            return None

    def _wait_synced(self) -> bool:
        waited, told = 0, None
        while not self._cluster.caches.wait_synced(1.0) and not self._stopping:
            waited += 1
            if waited % _SYNC_SECONDS:
                continue
            if self._engine.once:
                self.log.say(self._cluster.caches.describe_missing(), level="error")
                return False
            missing = self._cluster.caches.missing()
            level = "debug" if missing == told else "warning"
            self.log.say("waiting for the API server", level=level, missing=missing)
            told = missing
        return not self._stopping


def log_unlisted(conditions: ConditionLog, providers: Iterable[ProviderClient]) -> None:
    """Log once for each provider which groups of ``--nodes`` its last listing lacks."""
    for provider in providers:
        names = ", ".join(provider.unlisted)
        conditions.see(f"--nodes of {provider.name}", names and f"not listed by the provider, so not scaled: {names}")


def log_unreadable(conditions: ConditionLog, seen: Observation) -> None:
    """Log each provider and each group once when it can no longer be read, or when its price cannot be used."""
    failing = {name: provider.problem for name, provider in seen.providers.items()}
    for name, problem in failing.items():
        conditions.see(f"provider {name}", problem)
        conditions.see(f"notices of {name}", "" if problem else seen.providers[name].notice_problem)
    for ref, group in seen.groups.items():
        conditions.see(f"group {ref}", "" if failing.get(ref.provider) else group.problem)
        conditions.see(f"price of group {ref}", group.price_problem)
