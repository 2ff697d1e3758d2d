"""One dry loop on a live cluster."""

from random import Random

import click

from nodewright.adapters.clocks import BootClock, SystemClock
from nodewright.adapters.kube.caches import CacheOptions, Caches, Listeners, optional_kinds
from nodewright.adapters.kube.cluster import DryCluster
from nodewright.adapters.kube.connection import connect
from nodewright.adapters.server_time import ServerTime
from nodewright.cli.connect import Connector
from nodewright.cli.dry_run.dry_run import DryRun, plan_once
from nodewright.engine.planning import Planning
from nodewright.expander.priority import CONFIG_MAP
from nodewright.model.errors import ConfigError, KubeApiError
from nodewright.model.settings import Settings

_SYNC_SECONDS = 60.0


def plan_cluster(settings: Settings, seed: int) -> DryRun:
    """Plan one loop on the live cluster without carrying it out.

    Raise ConfigError without node groups, KubeApiError if the cluster cannot be read within a minute.
    """
    if not settings.providers:
        raise ConfigError("no node groups: give --cloud-provider, or providers: in --config")
    clock, random, cluster = SystemClock(), Random(seed), settings.cluster
    boot = BootClock()
    wall = ServerTime(clock, boot.now)
    api = connect(kubeconfig=cluster.kubeconfig, server=cluster.kubernetes, user_agent=cluster.user_agent, time=wall)
    followed = CacheOptions(
        namespace=cluster.namespace,
        config_maps=(CONFIG_MAP,),
        optional=optional_kinds(settings),
    )
    forbidden: dict[str, str] = {}
    caches = Caches(api, clock, random, followed, Listeners(on_forbidden=forbidden.__setitem__), wall=wall)
    caches.start()
    try:
        if not caches.wait_synced(_SYNC_SECONDS):
            raise KubeApiError(caches.describe_missing(), retryable=True)
        for kind, problem in forbidden.items():
            if problem:
                click.echo(f"kind {kind}: {problem}", err=True)
        providers = Connector(clock=wall, seed=seed).connect_all(settings.providers)
        reader = DryCluster(api, caches, max_age=cluster.max_cache_age)
        return plan_once(reader, providers, settings, random, wall.now(), Planning.timed(boot.now))
    finally:
        caches.stop()
