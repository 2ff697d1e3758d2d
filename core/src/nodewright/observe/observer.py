"""Make all reads of one loop: first the cluster, then each provider."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import msgspec

from nodewright.clusterstate.memory import ArrivalHistory, Memory
from nodewright.clusterstate.provision_times import usual_time
from nodewright.model.action import DeleteNodeGroup, Done, Outcome
from nodewright.model.disruption import DisruptionConfig, Schedule, next_edge, next_opening, opening
from nodewright.model.duration import parse_duration
from nodewright.model.group import GroupOptions, GroupRef, NodeGroup
from nodewright.model.removal import Removing
from nodewright.observe.ports import (
    ClusterObservation,
    ClusterReader,
    DisruptionReader,
    NoDisruption,
    NoPrices,
    PriceReader,
    ProviderReads,
)
from nodewright.observe.pricing import Pricing, price_types
from nodewright.observe.provider_watch import KEPT_SECONDS, ProviderWatch
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.snapshot.running_gangs import find_running


class Observer:
    """Reads the cluster, then each provider in turn.

    ``defaults`` are the options of groups for which a provider sets none. With ``keeps_unlisted`` a group that its
    provider ceases to list is kept for a while. ``prices`` and ``disruption`` are the operator's own.
    """

    def __init__(
        self,
        cluster: ClusterReader,
        providers: Iterable[ProviderReads],
        defaults: GroupOptions,
        *,
        keeps_unlisted: bool = True,
        prices: PriceReader | None = None,
        disruption: DisruptionReader | None = None,
    ) -> None:
        self._cluster = cluster
        kept = KEPT_SECONDS if keeps_unlisted else 0.0
        self._prices: PriceReader = prices or NoPrices()
        self._pricing = Pricing()
        self._disruption: DisruptionReader = disruption or NoDisruption()
        self._scheduling = Scheduling()
        self._watches = [ProviderWatch(provider, defaults, kept) for provider in providers]

    def use(self, defaults: GroupOptions) -> None:
        """Use other default options from the next loop on."""
        for watch in self._watches:
            watch.use(defaults)

    def observe(
        self,
        now: float,
        memory: Memory,
        outcomes: Collection[Outcome] = (),
        removing: Mapping[str, Removing] | None = None,
    ) -> tuple[Observation, str]:
        """Return the observation at ``now`` (epoch seconds), and why nothing may be done because of it (empty: it may).

        The cluster is read before the clouds: a machine that becomes a node in between counts as upcoming. In the other
        order its node would belong to no group. Raise KubeApiError if the cluster cannot be read.
        """
        observed = self._cluster.read(now)
        providers, groups = self._read_clouds(now, memory, outcomes)
        disruption = self._disruption.read()
        groups, edge = self._scheduling.apply(groups, disruption, memory.arrivals, now)
        seen = Observation(
            now=now,
            snapshot=observed.snapshot,
            pending=observed.pending,
            groups=groups,
            providers=providers,
            daemon_sets=observed.daemon_sets,
            priorities=observed.priorities,
            workloads=_with_gangs(observed, removing or {}),
            removing=removing or {},
            provisioning=observed.provisioning,
            quotas=observed.quotas,
            buffers=observed.buffers,
            pod_groups=observed.pod_groups,
            disruption=disruption,
            next_edge=edge,
        )
        return seen, observed.problem

    def _read_clouds(
        self, now: float, memory: Memory, outcomes: Collection[Outcome]
    ) -> tuple[dict[str, ProviderSeen], dict[GroupRef, GroupSeen]]:
        """Read each provider and its groups, and price them. A group that nodewright deleted is not kept."""
        in_flight = find_in_flight(memory, outcomes)
        deleted = {outcome.action.group for outcome in outcomes if _is_deleted(outcome)}
        last_known = {ref: group for ref, group in memory.last_known.items() if ref not in deleted}
        providers: dict[str, ProviderSeen] = {}
        groups: dict[GroupRef, GroupSeen] = {}
        for watch in self._watches:
            wanted = frozenset(ref.group_id for ref in in_flight if ref.provider == watch.name)
            known = {ref: group for ref, group in last_known.items() if ref.provider == watch.name}
            providers[watch.name], found = watch.read(wanted, known, now)
            groups.update(found)
        book = self._prices.read()
        return {name: price_types(seen, book) for name, seen in providers.items()}, self._pricing.price(groups, book)


def _with_gangs(observed: ClusterObservation, removing: Mapping[str, Removing]) -> Workloads:
    """Return the workloads with the gangs that run."""
    leaving = frozenset(name for name, held in removing.items() if held.removal.drains)
    gangs = find_running(observed.snapshot, observed.pod_groups, observed.pending, leaving)
    return replace(observed.workloads, gangs=gangs) if gangs else observed.workloads


def _is_deleted(outcome: Outcome) -> bool:
    """Return whether nodewright deleted the group."""
    return isinstance(outcome.action, DeleteNodeGroup) and isinstance(outcome, Done) and outcome.accepted > 0


def find_in_flight(memory: Memory, outcomes: Iterable[Outcome]) -> frozenset[GroupRef]:
    """Return the groups that the provider must read from the cloud, not from a cache.

    Such a group has machines that are requested, failed or are not nodes yet, or it was written to since the last loop,
    possibly with an unknown outcome.
    """
    written = {outcome.action.group for outcome in outcomes}
    failing = {ref for ref, _ in memory.seen_failures}
    unregistered = {ref for ref, _ in memory.unregistered_since}
    return frozenset(written | failing | unregistered | memory.requests.keys() | memory.writes_in_flight.keys())


# What a schedule sets, by the name of its field in the file.
_Changes = Mapping[str, float | bool]


class Scheduling:
    """Applies schedules. An unchanged group stays the same object, because callers cache by its identity."""

    def __init__(self) -> None:
        self._held: dict[GroupRef, tuple[GroupSeen, _Changes, GroupSeen]] = {}

    def apply(
        self,
        groups: Mapping[GroupRef, GroupSeen],
        config: DisruptionConfig,
        arrivals: Mapping[GroupRef, ArrivalHistory],
        now: float,
    ) -> tuple[dict[GroupRef, GroupSeen], float]:
        """Return the groups with the changes of schedules at ``now``, and when a schedule or budget next begins or ends."""
        windows = (*(budget.when for budget in config.disruption), *(schedule.when for schedule in config.schedules))
        edge = next_edge(windows, now)
        found: dict[GroupRef, GroupSeen] = {}
        held: dict[GroupRef, tuple[GroupSeen, _Changes, GroupSeen]] = {}
        for ref, seen in groups.items():
            changes, sooner = _find_changes(seen, config.schedules, arrivals, now)
            edge = min(edge, sooner)
            if not changes and seen.stated is None:
                found[ref] = seen
                continue
            before = self._held.get(ref)
            is_same = before is not None and before[0] is seen and before[1] == changes
            found[ref] = before[2] if before is not None and is_same else _with_changes(seen, changes)
            held[ref] = (seen, changes, found[ref])
        self._held = held
        return found, edge


def _find_changes(
    seen: GroupSeen, schedules: Iterable[Schedule], arrivals: Mapping[GroupRef, ArrivalHistory], now: float
) -> tuple[_Changes, float]:
    """Return the changes of schedules to a group, and when a minimum rises before its window (epoch seconds; inf: never)."""
    changes: dict[str, float | bool] = {}
    edge = float("inf")
    labels = seen.template.metadata.labels if seen.template is not None else {}
    for schedule in schedules:
        if not schedule.match.covers(seen.ref, labels):
            continue
        given = schedule.set.given()
        if opening(schedule.when, now).is_open:
            changes |= given
        lead = _lead(schedule, seen, arrivals)
        if lead and "min" in given:
            ahead = next_opening(schedule.when, now) - lead
            if ahead > now:
                edge = min(edge, ahead)
            else:
                changes["min"] = max(given["min"], changes.get("min", 0))
    return changes, edge


def _lead(schedule: Schedule, seen: GroupSeen, arrivals: Mapping[GroupRef, ArrivalHistory]) -> float:
    """Return how long before the window the minimum is raised, in seconds."""
    if schedule.lead != "auto":
        return parse_duration(schedule.lead) if schedule.lead else 0.0
    own = usual_time([arrivals[seen.ref]]) if seen.ref in arrivals else None
    return own or usual_time(arrivals.values()) or seen.options.max_node_provision_seconds


def _with_changes(seen: GroupSeen, changes: _Changes) -> GroupSeen:
    """Return the group with these changes to its provider's values; the maximum is at most the provider's."""
    group, options = seen.stated or (seen.group, seen.options)
    if not changes:
        return replace(seen, group=group, options=options, stated=None, is_min_scheduled=False, consolidates=True)
    most = min(group.max_size, int(changes.get("max", group.max_size)))
    least = min(most, int(changes.get("min", group.min_size)))
    others = {name: value for name, value in changes.items() if name not in ("min", "max", "consolidation")}
    return replace(
        seen,
        group=_sized(group, least, most),
        options=_with_options(options, others),
        stated=(group, options),
        is_min_scheduled="min" in changes,
        consolidates=bool(changes.get("consolidation", True)),
    )


def _sized(group: NodeGroup, least: int, most: int) -> NodeGroup:
    return msgspec.structs.replace(group, min_size=least, max_size=most)


def _with_options(options: GroupOptions, changes: _Changes) -> GroupOptions:
    return msgspec.structs.replace(options, **changes)
