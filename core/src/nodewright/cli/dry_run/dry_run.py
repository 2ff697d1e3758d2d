"""One loop without its writes, of a cluster or of any reader: observe, fold, plan, check."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Protocol, runtime_checkable

import click

from nodewright.adapters.clocks import BootClock, SystemClock
from nodewright.adapters.config_files import DisruptionFile, PricesFile
from nodewright.adapters.kube.caches import CacheOptions, Caches, Listeners, optional_kinds
from nodewright.adapters.kube.cluster import DryCluster
from nodewright.adapters.kube.connection import Connection, connect
from nodewright.adapters.server_time import ServerTime
from nodewright.cli.connect import Connector, find_unlisted
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.expander import CONFIG_MAP
from nodewright.model.errors import ConfigError, InvariantError, KubeApiError, ProviderUnavailable
from nodewright.model.objects import KINDS, ClusterObjects
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings, default_options
from nodewright.observe import ClusterReader, Observer, ProviderReads


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """The result of one loop that wrote nothing.

    ``planned_from`` is the state from which the plan was made, without the plan's own memory; None: not kept.
    ``problem``: why the plan was not carried out; empty: nothing stopped it. ``disruption_problem``: why the ConfigMap of budgets
    and schedules is not read; empty: it is, or none is named.
    """

    state: ClusterState
    plan: Plan
    settings: Settings
    planned_from: ClusterState | None = None
    problem: str = ""
    disruption_problem: str = ""


@runtime_checkable
class ReadsConfigMaps(Protocol):
    """A reader of a cluster that can also read ConfigMaps named in the settings."""

    def config_map_data(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return the data of a ConfigMap; None: there is none."""
        ...


def plan_once(
    cluster: ClusterReader,
    providers: Sequence[ProviderReads],
    settings: Settings,
    random: Random,
    now: float,
    planning: Planning | None = None,
) -> DryRun:
    """Plan the cluster as of ``now``, without memory of earlier loops.

    Raise ProviderUnavailable if no provider can be read, ConfigError for a limit that could not be kept or a bad file of
    prices, and InvariantError for a plan that breaks a rule.
    """
    keeps = settings.policy.keeps_unlisted_groups
    prices = PricesFile(lambda: settings.scale_up)
    prices.check()
    disruption = DisruptionFile(lambda: settings.safety)
    disruption.check()
    if isinstance(cluster, ReadsConfigMaps):
        name = settings.cluster.disruption_config_map_name
        disruption.follow(name, partial(cluster.config_map_data, settings.cluster.namespace, name))
    observer = Observer(
        cluster, providers, default_options(settings), keeps_unlisted=keeps, prices=prices, disruption=disruption
    )
    seen, _ = observer.observe(now, Memory())
    problems = [f"provider {name}: {held.problem}" for name, held in seen.providers.items() if held.problem]
    if problems and len(problems) == len(seen.providers):
        raise ProviderUnavailable("; ".join(problems))
    if settings.limits.gpu_total and not any(held.gpu_label for held in seen.providers.values()):
        raise ConfigError(
            "--gpu-total: no provider here reports which nodes have GPUs, so the limit would have no effect"
        )
    state = fold(Memory(), seen, (), settings)
    planning = planning or Planning()
    plan, memory = planning.make_plan(state, settings, random)
    violations = planning.check(seen, plan, memory, settings)
    if violations:
        raise InvariantError(f"a plan breaks its rules: {violations}")
    after = replace(state, memory=memory.put_into(state.memory))
    unread = "; ".join(filter(None, (disruption.problem, disruption.absence)))
    return DryRun(state=after, plan=plan, settings=settings, planned_from=state, disruption_problem=unread)


_SYNC_SECONDS = 60.0


def plan_cluster(settings: Settings, seed: int) -> DryRun:
    """Plan one loop on the live cluster without carrying it out.

    Raise ConfigError without node groups, KubeApiError if the cluster cannot be read within a minute.
    """
    if not settings.providers:
        raise ConfigError("no node groups: give --cloud-provider, or providers: in --config")
    boot, random = BootClock(), Random(seed)
    wall = ServerTime(SystemClock(), boot.now)
    with _follow_cluster(settings, wall, random) as (api, caches):
        providers = Connector(clock=wall, seed=seed).connect_all(settings.providers)
        reader = DryCluster(api, caches, max_age=settings.cluster.max_cache_age)
        planned = plan_once(reader, providers, settings, random, wall.now(), Planning.timed(boot.now))
        for sentence in (*find_unlisted(providers), *filter(None, (planned.disruption_problem,))):
            click.echo(sentence, err=True)
        return planned


def read_cluster(settings: Settings) -> tuple[ClusterObjects, float]:
    """Return the objects of the live cluster, and the API server's time (epoch seconds).

    Raise KubeApiError if the cluster cannot be read within a minute.
    """
    wall = ServerTime(SystemClock(), BootClock().now)
    with _follow_cluster(settings, wall, Random()) as (_, caches):
        held = {kind.field: caches.of(kind.name).all() for kind in KINDS.values() if caches.follows(kind.name)}
        maps = [config for name in _config_maps(settings) for config in caches.config_map(name).all()]
        return ClusterObjects(**held, config_maps=tuple(maps)), wall.now()


@contextmanager
def _follow_cluster(settings: Settings, wall: ServerTime, random: Random) -> Iterator[tuple[Connection, Caches]]:
    """Give the connection to the live cluster, and caches that hold all of it."""
    cluster = settings.cluster
    api = connect(kubeconfig=cluster.kubeconfig, server=cluster.kubernetes, user_agent=cluster.user_agent, time=wall)
    followed = CacheOptions(
        namespace=cluster.namespace, config_maps=_config_maps(settings), optional=optional_kinds(settings)
    )
    forbidden: dict[str, str] = {}
    caches = Caches(api, SystemClock(), random, followed, Listeners(on_forbidden=forbidden.__setitem__), wall=wall)
    caches.start()
    try:
        if not caches.wait_synced(_SYNC_SECONDS):
            raise KubeApiError(caches.describe_missing(), retryable=True)
        for kind, problem in forbidden.items():
            if problem:
                click.echo(f"kind {kind}: {problem}", err=True)
        yield api, caches
    finally:
        caches.stop()


def _config_maps(settings: Settings) -> tuple[str, ...]:
    return (CONFIG_MAP, *filter(None, (settings.cluster.disruption_config_map_name,)))
