"""A cluster as ``kubectl get … -A -o json`` wrote it down, and one dry loop on it."""

import dataclasses
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from nodewright.adapters.clocks import BootClock, SystemClock
from nodewright.adapters.provider import installed_providers
from nodewright.cli import bundle
from nodewright.cli.connect import Connector, find_unlisted
from nodewright.cli.dry_run.dry_run import DryRun, plan_once, read_cluster
from nodewright.cli.dry_run.dump_groups import DumpedGroups, GroupEntry, group_by_label, read_groups_file
from nodewright.cli.dry_run.dump_options import DumpSource
from nodewright.cli.dry_run.what_if import WhatIf
from nodewright.engine.planning import Planning
from nodewright.expander import CONFIG_KEY, CONFIG_MAP
from nodewright.model.decode import decode_objects
from nodewright.model.errors import ConfigError
from nodewright.model.node import Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.settings import Settings, take_over
from nodewright.observe import ClusterObservation
from nodewright.snapshot.context import Context, Workloads
from nodewright.snapshot.observation import Buffers, Provisioning
from nodewright.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from nodewright.model.pod import Pod
    from nodewright.model.provisioning_request import ProvisioningRequest
    from nodewright.observe import ProviderReads

_HOW = (
    "make a dump with: kubectl get nodes,pods,daemonsets,rs,rc,statefulsets,jobs,pdb,pvc,pv,storageclasses,csinodes,csidrivers,csistoragecapacities,volumeattachments,"
    "namespaces -A -o json"
)


def read_dump(source: bytes, name: str) -> ClusterObjects:
    """Return the objects of the dump; raise ConfigError. A node without a providerID gets one made from its name."""
    objects = decode_objects(source, name)
    if not objects.nodes and not objects.pods:
        raise ConfigError(f"{name}: holds no node and no pod; {_HOW}")
    return replace(objects, nodes=tuple(identify(node) for node in objects.nodes))


def newest_moment(objects: ClusterObjects) -> float:
    """Return the newest time in the dump (epoch seconds): the best guess at when it was made. 0 without times.

    Times are those at which an object was created, or a condition of a node, pod or request changed.
    """
    return max((moment.timestamp() for moment in _moments(objects)), default=0.0)


def parse_moment(text: str, flag: str = "--now") -> float:
    """Return the epoch seconds of an RFC 3339 time, UTC without an offset; raise ConfigError, which names the flag."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{flag}: '{text}' is not a time like 2026-01-31T12:00:00Z") from None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


class DumpedCluster:
    """Implements ClusterReader for one dump.

    ``strays`` are pods on nodes that the dump does not hold: they take no part in planning.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self.strays: list[Pod] = []
        self._objects = objects

    def read(self, now: float) -> ClusterObservation:  # noqa: ARG002 - a dump is of one moment
        """Return the cluster; the oldest pending pod comes first.

        Pods that ended are left out. Nominated pods count as on their node. A pod on a node that the dump lacks is a stray.
        """
        snapshot = Snapshot(Context.of(self._objects))
        snapshot.add_nodes(list(self._objects.nodes))
        pending: list[Pod] = []
        placed: defaultdict[int, list[Pod]] = defaultdict(list)
        self.strays = []
        for pod in self._objects.pods:
            host = pod.host
            if pod.is_terminal:
                continue
            if host in snapshot:
                placed[snapshot.row(host)].append(pod)
            elif host:
                self.strays.append(pod)
            else:
                pending.append(pod)
        snapshot.place_pods(placed.items())
        pending.sort(key=attrgetter("created"))
        maps = {config.key: config.data for config in self._objects.config_maps}
        return ClusterObservation(
            snapshot=snapshot,
            pending=tuple(pending),
            daemon_sets=self._objects.daemon_sets,
            workloads=Workloads.of(self._objects, listed=_lists_controllers(self._objects)),
            provisioning=Provisioning.of(self._objects),
            quotas=self._objects.capacity_quotas,
            pod_groups=self._objects.gang_objects(),
            buffers=Buffers.of(self._objects),
            priorities=maps.get(f"kube-system/{CONFIG_MAP}", {}).get(CONFIG_KEY),
        )

    def config_map_data(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return the data of a ConfigMap; None: the dump does not hold it."""
        return next((held.data for held in self._objects.config_maps if held.key == f"{namespace}/{name}"), None)


def _lists_controllers(objects: ClusterObjects) -> bool:
    """Return whether the dump holds controllers: if not, each pod's owner would seem to be gone."""
    return any((objects.replica_sets, objects.replication_controllers, objects.stateful_sets, objects.jobs))


def identify(node: Node) -> Node:
    """Return the node with a providerID: its own, or one made from its name."""
    if node.spec.provider_id:
        return node
    return replace(node, spec=replace(node.spec, provider_id=f"dump:///{node.name}"))


def _moments(objects: ClusterObjects) -> Iterator[datetime]:
    changing: Iterable[Node | Pod | ProvisioningRequest]
    changing = (*objects.nodes, *objects.pods, *objects.provisioning_requests)
    for thing in changing:
        if thing.metadata.creation_timestamp is not None:
            yield thing.metadata.creation_timestamp
        for condition in thing.status.conditions:
            if condition.last_transition_time is not None:
                yield condition.last_transition_time


def plan_dump(settings: Settings, dumped: DumpSource) -> tuple[DryRun, DumpedCluster]:
    """Plan one loop on a dumped cluster, that of a support bundle, or the live one; raise ConfigError, or KubeApiError."""
    settings, dumped, objects = _load(settings, dumped)
    return plan_objects(settings, dumped, objects)


def plan_what_if(settings: Settings, dumped: DumpSource, what: WhatIf) -> tuple[DryRun, DryRun, DumpedCluster]:
    """Plan one loop on a dumped cluster, and one with the changes of ``what``; also return the changed cluster.

    Raise ConfigError.
    """
    what.check()
    if what.removed_nodes and settings.providers:
        raise ConfigError("--remove-node: needs --groups or --group-by: a provider would still list the machine")
    settings, dumped, objects = _load(settings, dumped)
    now, _ = plan_objects(settings, dumped, objects)
    then, cluster = plan_objects(settings, dumped, objects, what)
    return now, then, cluster


def plan_objects(
    settings: Settings, dumped: DumpSource, objects: ClusterObjects, what: WhatIf | None = None
) -> tuple[DryRun, DumpedCluster]:
    """Plan one loop on these objects, changed by ``what``; raise ConfigError."""
    what = what or WhatIf()
    now = parse_moment(dumped.now) if dumped.now is not None else newest_moment(objects)
    entries = _dumped_groups(objects, dumped)
    entries = (*entries, *what.more_groups([entry.name for entry in entries]))
    objects = what.change(objects)
    clients = Connector(clock=SystemClock(), seed=dumped.seed).connect_all(settings.providers)
    providers: list[ProviderReads] = [*([DumpedGroups(entries, objects.nodes)] if entries else []), *clients]
    if not providers:
        raise ConfigError(f"no node groups: give --groups, --group-by or --cloud-provider{_on_offer()}")
    cluster = DumpedCluster(objects)
    random = Random(dumped.seed)
    planned = plan_once(cluster, providers, settings, random, now, Planning.timed(BootClock().now))
    for sentence in find_unlisted(clients):
        raise ConfigError(sentence)
    if planned.disruption_problem:
        click.echo(planned.disruption_problem, err=True)
    return planned, cluster


def _load(settings: Settings, dumped: DumpSource) -> tuple[Settings, DumpSource, ClusterObjects]:
    """Read a dump, the live cluster, or a bundle with its groups, time and settings.

    Flags and settings that were given take precedence over those of a bundle.
    """
    if dumped.dump is None:
        live, at = read_cluster(settings)
        now = dumped.now or datetime.fromtimestamp(at, UTC).isoformat()
        nodes = tuple(identify(node) for node in live.nodes)
        return settings, dataclasses.replace(dumped, now=now), replace(live, nodes=nodes)
    source, name = _read(dumped.dump)
    if not source.startswith(bundle.MAGIC):
        return settings, dumped, read_dump(source, name)
    held = bundle.read_bundle(source, name)
    if dumped.groups is None and dumped.group_by is None and not settings.providers:
        dumped = dataclasses.replace(dumped, entries=held.groups)
    if dumped.now is None:
        dumped = dataclasses.replace(dumped, now=datetime.fromtimestamp(held.at, UTC).isoformat())
    laid = take_over(held.settings, settings, dumped.given)
    laid = replace(laid, providers=settings.providers)
    return laid, dumped, read_dump(held.cluster, f"{name}: {bundle.CLUSTER}")


def _read(path: str) -> tuple[bytes, str]:
    """Return the content and the name of a file; ``-`` is stdin."""
    if path == "-":
        return sys.stdin.buffer.read(), "stdin"
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _dumped_groups(objects: ClusterObjects, dumped: DumpSource) -> tuple[GroupEntry, ...]:
    """Return the dump's groups, or none."""
    if dumped.groups is not None and dumped.group_by is not None:
        raise ConfigError("--groups and --group-by: give one of them, not both")
    if dumped.groups is not None:
        return read_groups_file(*_read(dumped.groups))
    if dumped.group_by is not None:
        return group_by_label(objects.nodes, dumped.group_by, dumped.group_max)
    return dumped.entries


def _on_offer() -> str:
    names = sorted({plugin.name for plugin in installed_providers()})
    return f" (installed: {', '.join(names)})" if names else ""
