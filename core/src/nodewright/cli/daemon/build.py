"""Builds the parts of ``nodewright run``: files are read, connections opened and plugins loaded here."""

import os
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import BinaryIO, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST

from nodewright.actuation.ports import STATUS_KIND
from nodewright.adapters.clocks import BootClock, SteadyClock, SystemClock, ThreadAlarm
from nodewright.adapters.config_files import DisruptionFile, PricesFile
from nodewright.adapters.kube.api import GuardedApi, MeteredApi
from nodewright.adapters.kube.caches import CacheOptions, Caches, Listeners, optional_kinds
from nodewright.adapters.kube.cluster import DryCluster, DryStore, KubeCluster
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.connection import connect
from nodewright.adapters.kube.events import KubeEvents, OwnMaps
from nodewright.adapters.kube.lease import Leadership, LeaseOptions
from nodewright.adapters.kube.node_cleanup import NodeCleaner
from nodewright.adapters.kube.status_config_map import StatusMap
from nodewright.adapters.kube.store import PAUSE_NAME, ConfigMapStore, read_pause_text
from nodewright.adapters.kube.token_review import TokenReviewer
from nodewright.adapters.logs import ConditionLog, DaemonLog, LoggedEvents
from nodewright.adapters.metrics import Metrics, RunningWaits, Sources
from nodewright.adapters.provider import ProviderClient
from nodewright.adapters.provider.client import NoticeWatch
from nodewright.adapters.server_time import ServerTime
from nodewright.adapters.tls import CertificateFiles
from nodewright.adapters.web import HealthCheck, HealthLimits, Page, Pages, Query, Secured, WebServer
from nodewright.cli.connect import Connector
from nodewright.cli.console.history import History
from nodewright.cli.daemon.app import (
    CallMeter,
    ClusterParts,
    DaemonApp,
    EngineParts,
    LeaderState,
    ProcessParts,
    ReportParts,
)
from nodewright.cli.daemon.debug_server import BundleSources, DebugServer
from nodewright.cli.daemon.reload import watch_settings
from nodewright.cli.daemon.shadow import ShadowReporter
from nodewright.cli.settings.flags import SettingsSource
from nodewright.clusterstate.readiness import is_ready
from nodewright.engine.planning import DryRunPlanning
from nodewright.engine.ports import Ports
from nodewright.engine.timers import NodesReadyAlarm
from nodewright.expander import CONFIG_MAP
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError
from nodewright.model.interruption import signals_newly
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.settings import ServingSettings, Settings
from nodewright.model.write_fence import WriteFence

_IN_A_POD = "KUBERNETES_SERVICE_HOST"
_HEALTH_PAGE, _READY_PAGE = "/health-check", "/readyz"
# As with Kubernetes' own components, which need a right for /metrics and none for their health.
_OPEN_TO_ALL = frozenset((_HEALTH_PAGE, _READY_PAGE))


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """The options of this run on the command line, beside the settings.

    ``shadow``: compare with another autoscaler that manages this cluster. It writes nothing, as with ``dry_run``.
    ``console``: serve the private pages and nothing else, to look at a cluster. It writes nothing either.
    ``once``: run one loop. ``seed`` makes the random expander repeatable; None: a new seed each time. ``wall``: the
    machine's clock.
    """

    dry_run: bool = False
    shadow: bool = False
    console: bool = False
    once: bool = False
    seed: int | None = None
    wall: Clock = field(default_factory=SystemClock)

    @property
    def only_looks(self) -> bool:
        """Return whether this process writes nothing anywhere."""
        return self.dry_run or self.shadow or self.console

    @property
    def note(self) -> str:
        """Return a sentence for the page if this process writes nothing anywhere; empty otherwise."""
        return "This process only plans: it writes nothing." if self.only_looks else ""


class _Seeds(NamedTuple):
    """Seeds drawn in this order from that of the command line, so that a run can be repeated."""

    shadow: int
    providers: int


def build_daemon(source: SettingsSource, settings: Settings, options: DaemonOptions, log: BinaryIO) -> DaemonApp:
    """Return the daemon, ready to be entered. ``settings`` are the present content of ``source``.

    Raise ConfigError or PluginError if a kubeconfig, an address, a file of prices or a plugin cannot be used, or if there
    are no providers.
    """
    process = _build_process(source, settings, options, log)
    running = RunningWaits()
    cluster = _build_cluster(process, settings, options, running)
    seeds = _Seeds(
        shadow=process.random.randrange(2**32) if options.shadow else 0, providers=process.random.randrange(2**32)
    )
    providers = _connect_providers(process, cluster, settings, options, seeds.providers)
    planning = DryRunPlanning() if options.only_looks else None
    shadow_seed = seeds.shadow if options.shadow else None
    report = _build_report(process, cluster, options, providers, running, shadow_seed)
    kind = DryCluster if options.only_looks else KubeCluster
    ports = Ports(
        cluster=kind(cluster.guarded, cluster.caches, max_age=settings.cluster.max_cache_age),
        providers=providers,
        store=DryStore(cluster.store) if options.only_looks else cluster.store,
        events=cluster.events,
        audit=process.log,
        gate=cluster.fence,
        prices=process.prices,
        disruption=process.disruption,
    )
    notices = NoticeWatch(
        () if options.only_looks else providers,
        process.alarm.ring_urgently,
        lambda name, problem: process.conditions.see(f"waiting for notices of {name}", problem),
    )
    engine = EngineParts(
        ports=ports,
        providers=providers,
        dry_run=planning,
        once=options.once,
        shadows=options.shadow,
        notices=notices,
    )
    return DaemonApp(process, cluster, report, engine)


def _build_process(source: SettingsSource, settings: Settings, options: DaemonOptions, log: BinaryIO) -> ProcessParts:
    # Logs show the machine's time of day, events and the lease the API server's. Decisions and waiting use the steady clock.
    machine, boot = options.wall, BootClock()
    wall = ServerTime(machine, boot.now)
    is_text = settings.logging.logging_format == "text" or (settings.logging.logging_format == "auto" and log.isatty())
    daemon_log = DaemonLog(log, machine, settings.logging.level, is_text=is_text)
    reloader = watch_settings(source, settings)
    prices = PricesFile(lambda: reloader.settings.scale_up)
    prices.check()
    disruption = DisruptionFile(lambda: reloader.settings.safety)
    disruption.check()
    return ProcessParts(
        log=daemon_log,
        conditions=ConditionLog(daemon_log),
        machine=machine,
        wall=wall,
        boot=boot,
        clock=SteadyClock(wall.now, boot.now, wall.sleep),
        alarm=ThreadAlarm(),
        random=Random(options.seed),
        reloader=reloader,
        prices=prices,
        disruption=disruption,
    )


def _build_cluster(
    process: ProcessParts, settings: Settings, options: DaemonOptions, running: RunningWaits
) -> ClusterParts:
    cluster, looks = settings.cluster, options.only_looks
    connection = connect(
        kubeconfig=cluster.kubeconfig, server=cluster.kubernetes, user_agent=cluster.user_agent, time=process.wall
    )
    api = MeteredApi(connection)
    elects = settings.leader.leader_elect and not looks
    leadership = _make_leadership(process, api, settings, lambda: not store.exists()) if elects else None
    leader = LeaderState(leadership, process.log, only_looks=looks)
    # The engine writes through this client. The lease and events are also written by a process that does not lead.
    guarded = GuardedApi(api, leader.remaining)
    new_nodes = NodesReadyAlarm(partial(_ring_for_new_nodes, process))

    def see_pod(pod: Pod) -> None:
        running.see(pod, process.wall.now(), leads=leader.leads)

    caches = _make_caches(process, api, settings, new_nodes, see_pod, follows_status=options.shadow)
    maps = ConfigMaps(guarded, cluster.namespace)
    shows = cluster.write_status_configmap and not looks
    status = StatusMap(maps, cluster.status_config_map_name) if shows else None

    def read_pause() -> str | None:
        held = next(iter(caches.config_map(PAUSE_NAME).all()), None)
        return read_pause_text(held.data) if held is not None else None

    map_name = cluster.disruption_config_map_name
    process.disruption.follow(map_name, partial(caches.config_map_data, map_name))

    def find_uid(kind: str, name: str) -> str:
        if (kind, name) == (STATUS_KIND, f"{cluster.namespace}/{cluster.status_config_map_name}"):
            return status.uid if status is not None else ""
        return caches.uid_of(kind, name)

    store = ConfigMapStore(maps, read_pause)
    kube_events = None if looks else KubeEvents(api, process.wall, find_uid)
    history = History(process.wall, LoggedEvents(process.log, kube_events))
    return ClusterParts(
        api=api,
        guarded=guarded,
        leader=leader,
        fence=WriteFence(process.boot.now, leader.remaining),
        caches=caches,
        new_nodes=new_nodes,
        store=store,
        status=status,
        kube_events=kube_events,
        history=history,
        events=OwnMaps(history, cluster.namespace, cluster.status_config_map_name),
        cleaner=None if looks else NodeCleaner(guarded, cluster.node_object_cleanup_delay),
    )


def _make_leadership(
    process: ProcessParts, api: MeteredApi, settings: Settings, is_first: Callable[[], bool]
) -> Leadership:
    options = lease_options(settings, is_first)
    report_problem = partial(process.conditions.see, "the lease")
    return Leadership(api, options, process.boot, process.wall, process.random, report_problem)


def _ring_for_new_nodes(process: ProcessParts) -> None:
    settings = process.reloader.settings
    if settings.loop.frequent_loops_enabled and settings.policy.looks_after_new_nodes:
        process.alarm.ring()


def _make_caches(
    process: ProcessParts,
    api: MeteredApi,
    settings: Settings,
    new_nodes: NodesReadyAlarm,
    see_pod: Callable[[Pod], None],
    *,
    follows_status: bool,
) -> Caches:
    cluster = settings.cluster
    names = (CONFIG_MAP, PAUSE_NAME, *((cluster.status_config_map_name,) if follows_status else ()))
    names = (*names, *filter(None, (cluster.disruption_config_map_name,)))
    followed = CacheOptions(namespace=cluster.namespace, config_maps=names, optional=optional_kinds(settings))

    def see_unschedulable() -> None:
        if process.reloader.settings.loop.frequent_loops_enabled:
            process.alarm.ring()

    def see_node(known: Node | None, node: Node) -> None:
        settings = process.reloader.settings
        templates, signals = settings.templates, settings.interruptions.interruption_signal
        if settings.interruptions.interruption_handling and signals_newly(known, node, signals):
            process.alarm.ring_urgently()
        if is_ready(node, templates) and (known is None or not is_ready(known, templates)):
            new_nodes.see_ready()

    def see_forbidden(kind: str, problem: str) -> None:
        process.conditions.see(f"kind {kind}", problem)

    listeners = Listeners(
        on_unschedulable=see_unschedulable, on_pod=see_pod, on_node=see_node, on_forbidden=see_forbidden
    )
    return Caches(api, process.boot, process.random, followed, listeners, wall=process.wall)


def _connect_providers(
    process: ProcessParts, cluster: ClusterParts, settings: Settings, options: DaemonOptions, seed: int
) -> tuple[ProviderClient, ...]:
    if not settings.providers:
        raise ConfigError("no node groups: give --cloud-provider, or providers: in --config")
    connector = Connector(
        clock=process.clock,
        seed=seed,
        dry_run=options.only_looks,
        honours_retry_after=settings.policy.waits_for_busy_clouds,
        gate=cluster.fence,
    )
    return connector.connect_all(settings.providers)


def _build_report(
    process: ProcessParts,
    cluster: ClusterParts,
    options: DaemonOptions,
    providers: tuple[ProviderClient, ...],
    running: RunningWaits,
    shadow_seed: int | None,
) -> ReportParts:
    meter, events, settings = CallMeter(providers), cluster.kube_events, process.reloader.settings
    counts = Sources(
        kube_requests=cluster.api.counts,
        lease=cluster.leader.counts,
        hooks=meter.hooks,
        cloud_calls=meter.cloud_calls,
        dropped_events=lambda: events.dropped if events is not None else 0,
        state_writes=lambda: cluster.store.writes,
        running=running,
    )
    metrics = Metrics(settings, counts)
    health = HealthCheck(health_limits(settings), process.clock)
    sources = BundleSources(
        metrics=metrics.page,
        log=process.log.tail,
        objects=lambda kind: cluster.caches.of(kind).all() if cluster.caches.follows(kind) else (),
        settings=lambda: process.reloader.settings,
    )
    debug_server = DebugServer(process.clock, cluster.leader.excuse, cluster.history, sources, options.note)
    name = settings.cluster.status_config_map_name
    shadow = None if shadow_seed is None else ShadowReporter(cluster.caches, name, process.log, metrics, shadow_seed)
    private = {**debug_server.pages(), **(shadow.pages() if shadow is not None else {})}
    public = None if options.console else public_pages(metrics, health, cluster.caches)
    return ReportParts(
        meter=meter,
        metrics=metrics,
        health=health,
        debug_server=debug_server,
        shadow=shadow,
        servers=make_servers(settings, public, private, _make_secured(process, cluster.api, settings.serving)),
    )


def lease_options(settings: Settings, is_first: Callable[[], bool]) -> LeaseOptions:
    """Return the lease options of the settings, with an identity that no other process has."""
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


def make_servers(
    settings: Settings, public: Pages | None, private: Pages, secured: Secured | None
) -> tuple[WebServer, ...]:
    """Return the servers of the public pages, if there are any, and, where an address is set, of the private ones.

    Every client that reaches the pod may read the public pages. With ``secured`` there is one more, for both.
    Raise ConfigError for an invalid address.
    """
    serving = settings.serving
    address = serving.address or usual_address(os.environ)
    servers: tuple[WebServer, ...] = (WebServer("address", address, public),) if public is not None else ()
    if serving.debug_address:
        servers += (WebServer("debug_address", serving.debug_address, private),)
    if secured is not None:
        pages = {**(public or {}), **private}
        servers += (WebServer("secure_address", serving.secure_address, pages, secured=secured),)
    return servers


def _make_secured(process: ProcessParts, api: MeteredApi, serving: ServingSettings) -> Secured | None:
    """Return what protects the secure address; None without one. Raise ConfigError for a certificate that cannot be used."""
    if not serving.secure_address:
        return None
    see = partial(process.conditions.see, "the TLS certificate")
    certificate = CertificateFiles(serving.tls_cert_file, serving.tls_private_key_file, see, process.boot.now)
    return Secured(certificate.context(), TokenReviewer(api, process.boot.now), _OPEN_TO_ALL)


def usual_address(environ: Mapping[str, str]) -> str:
    """Return the default address: in a pod that of cluster-autoscaler, elsewhere one that only this machine reaches."""
    return ":8085" if _IN_A_POD in environ else "127.0.0.1:8085"


def health_limits(settings: Settings) -> HealthLimits:
    """Return after how many seconds without a loop or without success the process counts as unhealthy."""
    serving = settings.serving
    return HealthLimits(
        inactivity=serving.max_inactivity, failing=serving.max_failing_time, startup=serving.max_startup_time
    )


def public_pages(metrics: Metrics, health: HealthCheck, caches: Caches) -> Pages:
    """Return /metrics, /health-check and /readyz: pages that show nothing of pods or nodes."""

    def check(_: Query) -> Page:
        problem = health.problem()
        return Page(f"Error: {problem}\n".encode(), 500) if problem else Page(b"OK\n")

    def ready(_: Query) -> Page:
        missing = caches.missing()
        return Page(f"not listed yet: {', '.join(missing)}\n".encode(), 503) if missing else Page(b"OK\n")

    return {
        "/metrics": lambda _: Page(metrics.page(), content_type=CONTENT_TYPE_LATEST),
        _HEALTH_PAGE: check,
        _READY_PAGE: ready,
    }
