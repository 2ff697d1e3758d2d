"""Builds what ``nodewright run`` runs, in the order in which its parts depend on one another, and ends it again."""

import math
import os
import socket
import uuid
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import BinaryIO, Self

from nodewright.act.ports import STATUS_NAME
from nodewright.adapters.kube.caches import CacheOptions, Caches
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.connection import connect
from nodewright.adapters.kube.dry import DryCluster, DryStore
from nodewright.adapters.kube.events import KubeEvents
from nodewright.adapters.kube.guard import GuardedApi, GuardedRunner
from nodewright.adapters.kube.lease import Leadership, LeaseOptions
from nodewright.adapters.kube.status_map import StatusMap
from nodewright.adapters.kube.store import PAUSE_NAME, ConfigMapStore, read_pause_text
from nodewright.adapters.logs import JsonLog, LoggedEvents
from nodewright.adapters.metrics import Metrics
from nodewright.adapters.provider import ProviderClient
from nodewright.adapters.provider.runner import ThreadRunner
from nodewright.adapters.web import HealthCheck, WebServer
from nodewright.adapters.web.health import HealthLimits
from nodewright.cli.clock import SystemClock
from nodewright.cli.connect import Connector
from nodewright.cli.daemon_pages import debug_pages, public_pages
from nodewright.cli.dry_brain import DryBrain
from nodewright.cli.waiting import BootClock, ThreadAlarm
from nodewright.engine.autoscaler import Autoscaler, LoopReport
from nodewright.engine.daemon import Daemon
from nodewright.engine.ports import World
from nodewright.expander.priority import CONFIG_MAP
from nodewright.model.errors import ConfigError, KubeApiError
from nodewright.model.settings import Settings

# Where the cluster does not answer at all, the log says so this often.
_SYNC_SECONDS = 30
_IN_A_POD = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    dry_run: bool = False
    once: bool = False
    seed: int | None = None


class LiveEngine:
    """The daemon and everything around it; as a context manager, for its time. ``stop`` ends it."""

    def __init__(self, settings: Settings, options: DaemonOptions, log: BinaryIO) -> None:
        self._settings = settings
        self._options = options
        self._clock = SystemClock()
        self._alarm = ThreadAlarm()
        self._random = Random(options.seed)
        self._stopping = False
        self.lost_leadership = False
        self.last_report: LoopReport | None = None
        self._log = JsonLog(log, self._clock)
        cluster = settings.cluster
        self._api = connect(kubeconfig=cluster.kubeconfig, server=cluster.kubernetes)
        self._leadership = self._make_leadership()
        # Whatever the engine writes goes through this one; the lease itself, and events, do not depend on leading.
        self._guarded = GuardedApi(self._api, self._remaining)
        followed = CacheOptions(namespace=cluster.namespace, config_maps=(CONFIG_MAP, PAUSE_NAME))
        self._caches = Caches(self._api, self._clock, self._random, followed, self._alarm.ring)
        maps = ConfigMaps(self._guarded, cluster.namespace)
        shows = cluster.write_status_configmap and not options.dry_run
        self._status = StatusMap(maps, cluster.status_config_map_name) if shows else None
        self._events = None if options.dry_run else KubeEvents(self._api, self._clock, self._find_uid)
        self._store = ConfigMapStore(maps, self._read_pause)
        self._brain = DryBrain() if options.dry_run else None
        self._metrics = Metrics(settings)
        self._health = HealthCheck(_limits(settings), self._clock)
        self._servers = self._make_servers()
        self._leading = False
        self._providers = self._connect()

    def __enter__(self) -> Self:
        ports = {server.name: server.port for server in self._servers}
        self._log.say("starting", dry_run=self._options.dry_run, ports=ports)
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
        if self._status is not None and self._leads and not self._options.once:
            self._status.remove()
        if self._events is not None:
            self._events.stop()
        if self._leadership is not None:
            self._leadership.release()
        self._caches.stop()
        for server in self._servers:
            server.stop()
        self._log.say("stopped", error=str(error) if error is not None else "")

    def stop(self) -> None:
        """From any thread but not from a signal handler."""
        self._stopping = True
        self._alarm.ring()
        if self._leadership is not None and not self._leading:
            self._leadership.stop()

    def run(self) -> LoopReport | None:
        """Until told to stop, the lease is lost or, with ``once``, one loop has run; answers its report."""
        if not self._wait_synced() or not self._wait_leader():
            return self.last_report
        self._leading = True
        self._health.begin()
        if self._status is not None:
            self._status.start(self._clock.now())
        daemon = Daemon(
            self._make_autoscaler(),
            self._clock,
            self._alarm,
            may_go_on=self._may_go_on,
            on_report=self._take,
        )
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
            dry_run=self._options.dry_run,
            make_runner=lambda: GuardedRunner(ThreadRunner("cloud"), self._remaining_for_clouds),
        )
        return connector.connect_all(self._settings.providers)

    def _make_autoscaler(self) -> Autoscaler:
        dry, age = self._options.dry_run, self._settings.cluster.max_cache_age
        kind = DryCluster if dry else KubeCluster
        world = World(
            cluster=kind(self._guarded, self._caches, max_age=age),
            providers=self._providers,
            store=DryStore(self._store) if dry else self._store,
            events=LoggedEvents(self._log, self._events),
            audit=self._log,
        )
        brain = self._brain.brain if self._brain is not None else None
        return Autoscaler(world, self._clock, self._settings, self._random, brain=brain)

    def _make_leadership(self) -> Leadership | None:
        leader = self._settings.leader
        if self._options.dry_run or not leader.leader_elect:
            return None
        options = LeaseOptions(
            namespace=self._settings.cluster.namespace,
            name=leader.leader_elect_resource_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            duration=leader.leader_elect_lease_duration,
            renew_deadline=leader.leader_elect_renew_deadline,
            retry_period=leader.leader_elect_retry_period,
            grace=max((provider.call_timeout for provider in self._settings.providers.values()), default=0.0),
        )
        return Leadership(self._api, options, BootClock(), self._clock, self._random)

    def _make_servers(self) -> list[WebServer]:
        serving = self._settings.serving
        usual = ":8085" if _IN_A_POD in os.environ else "127.0.0.1:8085"
        pages = public_pages(self._metrics, self._health, self._caches)
        servers = [WebServer("address", serving.address or usual, pages)]
        if serving.debug_address:
            shown = debug_pages(lambda: self.last_report)
            servers.append(WebServer("debug_address", serving.debug_address, shown))
        return servers

    # While it runs

    @property
    def _leads(self) -> bool:
        return self._leadership is None or self._leadership.remaining() > 0

    def _remaining(self) -> float:
        """How long this process may write to the API server: for ever if it elects nobody, never in a dry run."""
        if self._options.dry_run:
            return 0.0
        return self._leadership.remaining() if self._leadership is not None else math.inf

    def _remaining_for_clouds(self) -> float:
        """Before it leads a process only asks plugins who they are; in a dry run their clients withhold writes."""
        return self._remaining() if self._leading and not self._options.dry_run else math.inf

    def _may_go_on(self) -> bool:
        if self._leadership is not None and not self._leads:
            self.lost_leadership = not self._stopping
            if self.lost_leadership:
                self._log.say("another process may lead by now", level="error", holder=self._leadership.holder)
            return False
        return not self._stopping and not (self._options.once and self.last_report is not None)

    def _take(self, report: LoopReport) -> None:
        """A loop has ended: tell everybody."""
        self.last_report = report
        self._log.loop = report.loop
        self._metrics.observe(report)
        self._metrics.cache_age(max(self._caches.ages().values(), default=0.0))
        self._metrics.leads(self._leads)
        self._health.ran(succeeded=not report.problem)
        if self._status is not None and report.state is not None and report.plan is not None:
            self._status.update(report.state, report.plan)
        self._log.say(
            report.problem or "loop",
            level="warning" if report.problem else "info",
            seconds=round(report.finished - report.started, 3),
            nodes=int(report.state.observation.snapshot.alive.sum()) if report.state is not None else None,
            pending=len(report.state.observation.pending) if report.state is not None else None,
            writes=len(report.outcomes),
        )
        for action in self._brain.take_withheld() if self._brain is not None else ():
            self._log.say("would be done", action=action)

    def _wait_synced(self) -> bool:
        waited = 0
        while not self._caches.wait_synced(1.0) and not self._stopping:
            waited += 1
            if waited % _SYNC_SECONDS:
                continue
            missing = self._caches.missing()
            self._log.say("waiting for the API server", level="warning", missing=missing)
            if self._options.once:
                raise KubeApiError(f"the cluster cannot be read: {missing}", retryable=True)
        return not self._stopping

    def _wait_leader(self) -> bool:
        if self._leadership is None:
            return True
        self._log.say("waiting to become the leader", lease=self._settings.leader.leader_elect_resource_name)
        leads = self._leadership.acquire() and not self._stopping
        if leads:
            self._log.say("leading")
        return leads

    def _read_pause(self) -> str | None:
        for held in self._caches.config_map(PAUSE_NAME).all():
            return read_pause_text(held.data)
        return None

    def _find_uid(self, kind: str, name: str) -> str:
        if name == STATUS_NAME:
            return self._status.uid if self._status is not None else ""
        if kind not in ("Pod", "Node"):
            return ""
        held = self._caches.of(kind).get(name)
        return held.metadata.uid if held is not None else ""


def _limits(settings: Settings) -> HealthLimits:
    serving = settings.serving
    return HealthLimits(
        inactivity=serving.max_inactivity, failing=serving.max_failing_time, startup=serving.max_startup_time
    )
