"""Builds what ``nodewright run`` runs, in the order in which its parts depend on one another, and ends it again."""

import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import TracebackType
from typing import BinaryIO, Self

from prometheus_client import CONTENT_TYPE_LATEST

from nodewright.actuation import Pause, wall_clock_jumped
from nodewright.actuation.ports import STATUS_KIND
from nodewright.adapters.clocks import BootClock, SteadyClock, SystemClock, ThreadAlarm
from nodewright.adapters.kube.api import GuardedApi, MeteredApi
from nodewright.adapters.kube.caches import CacheOptions, Caches, optional_kinds
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.connection import connect
from nodewright.adapters.kube.dry_run import DryCluster, DryStore
from nodewright.adapters.kube.events import KubeEvents, OwnMaps
from nodewright.adapters.kube.lease import Leadership, LeaseOptions
from nodewright.adapters.kube.node_cleanup import NodeCleaner
from nodewright.adapters.kube.status_config_map import StatusMap
from nodewright.adapters.kube.store import PAUSE_NAME, ConfigMapStore, read_pause_text
from nodewright.adapters.logs import ConditionLog, JsonLog, LoggedEvents
from nodewright.adapters.metrics import Metrics, ProviderCalls, Sources
from nodewright.adapters.provider import ProviderClient
from nodewright.adapters.web import HealthCheck, HealthLimits, Page, Pages, Query, WebServer
from nodewright.cli.connect import Connector
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.cli.daemon.dry_run_planning import DryRunPlanning
from nodewright.cli.daemon.leader_state import LeaderState
from nodewright.cli.daemon.reload import Reloader
from nodewright.cli.daemon.shadow import ShadowTeller
from nodewright.cli.settings.flags import SettingsSource
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.daemon import Daemon
from nodewright.engine.ports import Ports
from nodewright.engine.report import LoopReport
from nodewright.expander.priority import CONFIG_MAP
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError, NodewrightError, ProviderError
from nodewright.model.settings import Settings
from nodewright.model.write_fence import WriteFence
from nodewright.snapshot.observation import Observation

_IN_A_POD = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """``shadow``: another autoscaler works here, and is compared with; nothing is written then, as in a ``dry_run``.

    ``wall`` tells the time of day.
    """

    dry_run: bool = False
    shadow: bool = False
    once: bool = False
    seed: int | None = None
    wall: Clock = field(default_factory=SystemClock)

    @property
    def only_looks(self) -> bool:
        return self.dry_run or self.shadow


def lease_options(settings: Settings, is_first: Callable[[], bool]) -> LeaseOptions:
    leader = settings.leader
    return LeaseOptions(
        namespace=leader.leader_elect_resource_namespace or settings.cluster.namespace,
        name=leader.leader_elect_resource_name,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        duration=leader.leader_elect_lease_duration,
        renew_deadline=leader.leader_elect_renew_deadline,
        retry_period=leader.leader_elect_retry_period,
        is_first=is_first,
    )


def make_servers(settings: Settings, public: Pages, private: Pages) -> tuple[WebServer, ...]:
    """``public`` pages may be read by everybody, so that they are the ones that leave a pod. Raises ConfigError."""
    serving = settings.serving
    address = serving.address or usual_address(os.environ)
    servers: tuple[WebServer, ...] = (WebServer("address", address, public),)
    if serving.debug_address:
        servers += (WebServer("debug_address", serving.debug_address, private),)
    return servers


def usual_address(environ: Mapping[str, str]) -> str:
    """CA's inside a pod; elsewhere nobody else is told anything."""
    return ":8085" if _IN_A_POD in environ else "127.0.0.1:8085"


def health_limits(settings: Settings) -> HealthLimits:
    serving = settings.serving
    return HealthLimits(
        inactivity=serving.max_inactivity, failing=serving.max_failing_time, startup=serving.max_startup_time
    )


def tell_unreadable(lasting: ConditionLog, seen: Observation) -> None:
    """Say which providers and groups begin to fail: what nobody asked of them would else be told nowhere."""
    failing = {name: provider.problem for name, provider in seen.providers.items()}
    for name, problem in failing.items():
        lasting.see(f"provider {name}", problem)
    for ref, group in seen.groups.items():
        lasting.see(f"group {ref}", "" if failing.get(ref.provider) else group.problem)


class CloudMeter:
    """What providers count of themselves; ``take`` in the loop's thread, the rest in any."""

    def __init__(self, providers: Callable[[], Sequence[ProviderClient]]) -> None:
        self._providers = providers
        self._cloud: tuple[ProviderCalls, ...] = ()
        self._refreshed = 0.0

    def take(self) -> float:
        """Once in a loop; answers the seconds that refreshing took in it."""
        found = []
        for provider in self._providers():
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
            for provider in self._providers()
            for hook, stats in provider.stats().items()
            for result, calls, seconds in (
                ("ok", stats.calls - stats.errors, stats.seconds),
                ("error", stats.errors, stats.seconds),
            )
        )

    def _refresh_seconds(self) -> float:
        stats: list[Mapping[str, float]] = [
            {hook: held.seconds for hook, held in provider.stats().items()} for provider in self._providers()
        ]
        return sum(held.get("refresh", 0.0) for held in stats)


def public_pages(metrics: Metrics, health: HealthCheck, caches: Caches) -> Pages:
    """/metrics, /health-check and /readyz."""

    def check(_: Query) -> Page:
        problem = health.problem()
        return Page(f"Error: {problem}\n".encode(), 500) if problem else Page(b"OK\n")

    def ready(_: Query) -> Page:
        missing = caches.missing()
        return Page(f"not listed yet: {', '.join(missing)}\n".encode(), 503) if missing else Page(b"OK\n")

    return {
        "/metrics": lambda _: Page(metrics.page(), content_type=CONTENT_TYPE_LATEST),
        "/health-check": check,
        "/readyz": ready,
    }


# Where the cluster does not answer at all, the log says so this often.
_SYNC_SECONDS = 30


class DaemonApp:
    """The daemon and everything around it; as a context manager, for its time. ``stop`` ends it.

    ``settings`` are those that ``source`` says now.
    """

    def __init__(self, source: SettingsSource, settings: Settings, options: DaemonOptions, log: BinaryIO) -> None:
        self._settings = settings
        self._options = options
        self._reloader = Reloader(source, settings)
        # What people read carries the time of day; whatever is decided or waited for takes its time from the other.
        self._wall = options.wall
        self._boot = BootClock()
        self._clock = SteadyClock(self._wall.now, self._boot.now, self._wall.sleep)
        self._alarm = ThreadAlarm()
        self._random = Random(options.seed)
        self._stopping = False
        self.lost_leadership = False
        self.last_report: LoopReport | None = None
        self.log = JsonLog(log, self._wall)
        self._lasting = ConditionLog(self.log)
        cluster, looks = settings.cluster, options.only_looks
        server = connect(kubeconfig=cluster.kubeconfig, server=cluster.kubernetes, user_agent=cluster.user_agent)
        self._api = MeteredApi(server)
        elects = settings.leader.leader_elect and not looks
        self._tenure = LeaderState(self._make_leadership() if elects else None, self.log, only_looks=looks)
        self._gate = WriteFence(self._boot.now, self._tenure.remaining)
        # Whatever the engine writes goes through this one; the lease itself, and events, do not depend on leading.
        self._guarded = GuardedApi(self._api, self._tenure.remaining)
        self._caches = self._make_caches()
        maps = ConfigMaps(self._guarded, cluster.namespace)
        shows = cluster.write_status_configmap and not looks
        self._status = StatusMap(maps, cluster.status_config_map_name) if shows else None
        self._events = None if looks else KubeEvents(self._api, self._wall, self._find_uid)
        self._told = OwnMaps(LoggedEvents(self.log, self._events), cluster.namespace, cluster.status_config_map_name)
        self._store = ConfigMapStore(maps, self._read_pause)
        self._cleaner = None if looks else NodeCleaner(self._guarded, cluster.node_object_cleanup_delay)
        self._brain = DryRunPlanning() if looks else None
        self._meter = CloudMeter(lambda: self._providers)
        self._metrics = Metrics(settings, self._sources())
        self._health = HealthCheck(health_limits(settings), self._clock)
        self._inquiries = DebugServer(self._clock, self._tenure.excuse)
        self._shadow = self._make_shadow() if options.shadow else None
        private = {**self._inquiries.pages(), **(self._shadow.pages() if self._shadow is not None else {})}
        self._servers = make_servers(settings, public_pages(self._metrics, self._health, self._caches), private)
        self._autoscaler: Autoscaler | None = None
        self._providers: tuple[ProviderClient, ...] = ()
        self._providers = self._connect()

    def __enter__(self) -> Self:
        ports = {server.name: server.port for server in self._servers}
        self.log.say("starting", dry_run=self._options.only_looks, shadow=self._options.shadow, ports=ports)
        for server in self._servers:
            server.start()
        self._caches.start()
        if self._events is not None:
            self._events.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing of ours is under way here: the loop has ended."""
        if self._status is not None and self._tenure.leads and not self._options.once:
            self._status.remove()
        if self._events is not None:
            self._events.stop()
        self._end_writes()
        self._tenure.release()
        self._caches.stop()
        for server in self._servers:
            server.stop()
        self.log.say("stopped", error=str(error) if error is not None else "")

    def _end_writes(self) -> None:
        """No write is under way: who leads next need not wait for any."""
        if self._autoscaler is None or not self._tenure.leads or self._options.only_looks:
            return
        try:
            self._autoscaler.end()
        except NodewrightError as error:
            self.log.say(f"the next leader may wait for calls that are over: {error}", level="warning")

    def stop(self) -> None:
        """From any thread but not from a signal handler."""
        self._stopping = True
        self._alarm.ring()
        self._tenure.stop()

    def run(self) -> LoopReport | None:
        """Until told to stop, the lease is lost or, with ``once``, one loop has run and what it began is over; answers
        the last report.
        """
        if not self._wait_synced() or not self._tenure.begin(self._settings.leader.leader_elect_resource_name):
            return self.last_report
        self._health.begin()
        if self._status is not None:
            self._status.start(self._clock.now())
        self._autoscaler = autoscaler = self._make_autoscaler()
        daemon = Daemon(
            self._inquiries.in_turn(autoscaler),
            self._clock,
            self._alarm,
            may_go_on=self._may_go_on,
            on_report=self._take,
            before_loop=partial(self._prepare, autoscaler),
        )
        if self._options.once:
            daemon.run_one()
        else:
            daemon.run()
        return self.last_report

    # Parts

    def _connect(self) -> tuple[ProviderClient, ...]:
        """Raises ConfigError and PluginError."""
        if not self._settings.providers:
            raise ConfigError("no node groups: give --cloud-provider, or providers: in --config")
        connector = Connector(
            clock=self._clock,
            seed=self._random.randrange(2**32),
            dry_run=self._options.only_looks,
            honours_retry_after=self._settings.policy.waits_for_busy_clouds,
            gate=self._gate,
        )
        return connector.connect_all(self._settings.providers)

    def _make_leadership(self) -> Leadership:
        options = lease_options(self._settings, lambda: not self._store.exists())
        tell = partial(self._lasting.see, "the lease")
        return Leadership(self._api, options, self._boot, self._wall, self._random, tell)

    def _make_autoscaler(self) -> Autoscaler:
        looks, cluster = self._options.only_looks, self._settings.cluster
        kind = DryCluster if looks else KubeCluster
        world = Ports(
            cluster=kind(self._guarded, self._caches, max_age=cluster.max_cache_age),
            providers=self._providers,
            store=DryStore(self._store) if looks else self._store,
            events=self._told,
            audit=self.log,
            gate=self._gate,
        )
        brain = self._brain.brain if self._brain is not None else None
        return Autoscaler(world, self._clock, self._settings, self._random, brain=brain)

    def _make_caches(self) -> Caches:
        cluster = self._settings.cluster
        names = [CONFIG_MAP, PAUSE_NAME]
        if self._options.shadow:
            names.append(cluster.status_config_map_name)
        followed = CacheOptions(
            namespace=cluster.namespace,
            config_maps=tuple(names),
            optional=optional_kinds(self._settings),
        )
        return Caches(self._api, self._clock, self._random, followed, self._see_unschedulable)

    def _make_shadow(self) -> ShadowTeller:
        name = self._settings.cluster.status_config_map_name
        return ShadowTeller(self._caches, name, self.log, self._metrics, self._random.randrange(2**32))

    def _sources(self) -> Sources:
        return Sources(
            kube_requests=self._api.counts,
            lease=self._tenure.counts,
            hooks=self._meter.hooks,
            cloud_calls=self._meter.cloud_calls,
            dropped_events=lambda: self._events.dropped if self._events is not None else 0,
            state_writes=lambda: self._store.writes,
        )

    # While it runs

    def _may_go_on(self) -> bool:
        if not self._tenure.leads:
            if not self._stopping and not self.lost_leadership:
                self.lost_leadership = True
                self.log.say("another process may lead by now", level="error", holder=self._tenure.holder)
            return False
        return not self._stopping

    def _see_unschedulable(self) -> None:
        if self._settings.loop.frequent_loops_enabled:
            self._alarm.ring()

    def _prepare(self, autoscaler: Autoscaler) -> None:
        """A loop comes: from now on it is told of, and runs by what is safe of a settings file that has changed."""
        self.log.loop = autoscaler.next_loop
        jump = self._clock.take_jump()
        if jump:
            self._told.record(wall_clock_jumped(jump))
        change = self._reloader.look()
        if change is None:
            return
        self._metrics.reloaded(succeeded=not change.problem)
        if change.problem:
            self.log.say(f"the settings stay as they are: {change.problem}", level="error")
            return
        self._settings = change.settings
        autoscaler.use(change.settings)
        self._metrics.use(change.settings)
        self.log.say("settings were read again", applied=change.applied)
        if change.waiting:
            self.log.say("some settings change only at a restart", level="warning", settings=change.waiting)

    def _take(self, report: LoopReport) -> None:
        """A loop has ended: tell everybody."""
        self.last_report = report
        self._metrics.observe(report)
        self._metrics.cache_age(max(self._caches.ages().values(), default=0.0))
        self._metrics.leads(self._tenure.leads)
        self._metrics.refresh_seconds(self._meter.take())
        self._health.ran(succeeded=not report.problem)
        if self._status is not None and report.state is not None and report.plan is not None:
            self._status.update(report.state, report.plan)
            self._lasting.see("the status ConfigMap", self._status.problem)
        if self._events is not None:
            self._lasting.see("events", self._events.problem)
        if report.state is not None:
            tell_unreadable(self._lasting, report.state.observation)
        self.log.say(
            report.problem or "loop",
            level="warning" if report.problem else "info",
            seconds=round(report.finished - report.started, 3),
            nodes=int(report.state.observation.snapshot.alive.sum()) if report.state is not None else None,
            pending=len(report.state.observation.pending) if report.state is not None else None,
            writes=len(report.outcomes),
        )
        if self._cleaner is not None and report.state is not None and not report.problem:
            self._cleaner.clean(report.state, self.log.say)
        if self._brain is not None:
            self._tell_withheld(self._brain, report)
        self._inquiries.learn(report, self._settings, self._pause())

    def _tell_withheld(self, brain: DryRunPlanning, report: LoopReport) -> None:
        plan, withheld = brain.take_withheld()
        for action in withheld:
            self.log.say("would be done", action=action)
        if self._shadow is not None:
            self._shadow.take(report, plan, self._settings)

    def _pause(self) -> Pause | None:
        try:
            return self._store.load_pause()
        except NodewrightError:
            return None

    def _wait_synced(self) -> bool:
        waited = 0
        while not self._caches.wait_synced(1.0) and not self._stopping:
            waited += 1
            if waited % _SYNC_SECONDS:
                continue
            if self._options.once:
                self.log.say(self._caches.complaint(), level="error")
                return False
            self.log.say("waiting for the API server", level="warning", missing=self._caches.missing())
        return not self._stopping

    def _read_pause(self) -> str | None:
        for held in self._caches.config_map(PAUSE_NAME).all():
            return read_pause_text(held.data)
        return None

    def _find_uid(self, kind: str, name: str) -> str:
        cluster = self._settings.cluster
        if (kind, name) == (STATUS_KIND, f"{cluster.namespace}/{cluster.status_config_map_name}"):
            return self._status.uid if self._status is not None else ""
        return self._caches.uid_of(kind, name)
