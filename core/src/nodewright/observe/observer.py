"""Every read of one loop, once."""

from collections.abc import Iterable, Mapping

from nodewright.model.action import Outcome
from nodewright.model.group import GroupOptions, GroupRef
from nodewright.model.removal import Removing
from nodewright.model.settings import Settings
from nodewright.observe.groups import KEPT_SECONDS, ProviderWatch
from nodewright.observe.ports import ClusterReader, ProviderReads
from nodewright.registry.state import Memory
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen


class Observer:
    """Reads the cluster, then each provider in turn."""

    def __init__(self, cluster: ClusterReader, providers: Iterable[ProviderReads], settings: Settings) -> None:
        defaults = default_options(settings)
        self._cluster = cluster
        kept = 0.0 if settings.is_ca else KEPT_SECONDS
        self._watches = [ProviderWatch(provider, defaults, kept) for provider in providers]

    def use(self, settings: Settings) -> None:
        """Other settings from the next loop on."""
        for watch in self._watches:
            watch.use(default_options(settings))

    def observe(
        self,
        now: float,
        memory: Memory,
        outcomes: Iterable[Outcome] = (),
        removing: Mapping[str, Removing] | None = None,
    ) -> tuple[Observation, str]:
        """The world at ``now``, and why it must not be acted upon (empty: it may).

        The cluster is read before the clouds: a machine that becomes a node in between counts as upcoming,
        whereas the other way round its node would belong to nobody. Raises KubeApiError.
        """
        picture = self._cluster.read(now)
        in_flight = find_in_flight(memory, outcomes)
        providers: dict[str, ProviderSeen] = {}
        groups: dict[GroupRef, GroupSeen] = {}
        for watch in self._watches:
            wanted = frozenset(ref.group_id for ref in in_flight if ref.provider == watch.name)
            last_known = {ref: seen for ref, seen in memory.last_known.items() if ref.provider == watch.name}
            providers[watch.name], found = watch.read(wanted, last_known, now)
            groups.update(found)
        seen = Observation(
            now=now,
            snapshot=picture.snapshot,
            pending=picture.pending,
            groups=groups,
            providers=providers,
            daemon_sets=picture.daemon_sets,
            priorities=picture.priorities,
            workloads=picture.workloads,
            removing=removing or {},
            provisioning=picture.provisioning,
            buffers=picture.buffers,
            quotas=picture.quotas,
        )
        return seen, picture.problem


def default_options(settings: Settings) -> GroupOptions:
    """What holds for a group of which its provider says nothing else."""
    failures, scale_down = settings.failures, settings.scale_down
    return GroupOptions(
        max_node_provision_seconds=failures.ordinary_provision_seconds,
        max_node_startup_seconds=failures.max_node_startup_time,
        scale_down_unneeded_seconds=scale_down.scale_down_unneeded_time,
        scale_down_unready_seconds=scale_down.scale_down_unready_time,
        scale_down_utilization_threshold=scale_down.scale_down_utilization_threshold,
        scale_down_gpu_utilization_threshold=scale_down.scale_down_gpu_utilization_threshold,
        ignore_daemonsets_utilization=scale_down.ignore_daemonsets_utilization,
    )


def find_in_flight(memory: Memory, outcomes: Iterable[Outcome]) -> frozenset[GroupRef]:
    """Groups whose provider may not answer from a cache: machines are asked for, failing, or not nodes yet.

    So are groups that were written to since, the more so when nobody knows whether the write took effect.
    """
    written = {outcome.action.group for outcome in outcomes}
    failing = {ref for ref, _ in memory.seen_failures}
    unregistered = {ref for ref, _ in memory.unregistered_since}
    return frozenset(written | failing | unregistered | memory.requests.keys())
