"""The groups as last read: when they are read again, which of them, and what failed in them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from nodewright.spec import AccessDenied, Capability, Clock, NodeGroup, NodeGroupNotFound, ProviderError
from nodewright.spec.cache import attempt, attempt_each
from nodewright_aws.api import Api
from nodewright_aws.discovery import Selection
from nodewright_aws.failures import Ledger, update_ledger
from nodewright_aws.options import Options
from nodewright_aws.own_writes import OwnWrites, with_ended
from nodewright_aws.shapes import Activity, Group
from nodewright_aws.tags import machine_type_of, mark_of

_FAST = Capability.FAST_FAILURE_DETECTION
_PROBE_SECONDS = 600.0


class Fleet:
    """Reads groups in bulk, and activities only of groups that are not full. Serves from what it read."""

    def __init__(self, api: Api, selection: Selection, options: Options, clock: Clock) -> None:
        self._api = api
        self._selection = selection
        self._options = options
        self._clock = clock
        self._groups: dict[str, Group] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._own_writes = OwnWrites(clock)
        self._read_at = float("-inf")
        self._probed_at = float("-inf")
        self._denied: str | None = None

    @property
    def groups(self) -> Mapping[str, Group]:
        """The existing groups, by name."""
        return self._groups

    @property
    def was_read(self) -> bool:
        """Whether a listing has succeeded since the start."""
        return self._read_at > float("-inf")

    def refresh(self, wanted: frozenset[str]) -> None:
        """Read all groups if the interval is over; until then only the wanted ones."""
        now = self._clock.now()
        if now - self._read_at >= self._options.refresh_interval:
            self._groups = {group.name: self._own_writes.apply(group) for group in self._list() if not group.is_going}
            self._read_at = now
            looked_at = list(self._groups)
        else:
            looked_at = sorted(name for name in wanted if self._is_ours(name))
            self._replace(looked_at)
        self._probe()
        self._examine([self._groups[name] for name in looked_at if name in self._groups])

    def group(self, name: str) -> Group:
        """Return the group as last read; raise NodeGroupNotFound."""
        if name in self._groups:
            return self._groups[name]
        if name in self._selection.named:
            raise NodeGroupNotFound(
                f"--nodes names {name}: there is no such Auto Scaling group in {self._api.region()}"
            )
        raise NodeGroupNotFound(f"aws has no group {name}")

    def reread(self, name: str) -> Group:
        """Read the group now and return it; raise NodeGroupNotFound."""
        self.group(name)
        self._replace([name])
        return self.group(name)

    def listed(self, name: str, also_off: Mapping[Capability, str], most: int | None = None, **known: Any) -> NodeGroup:
        """Return the group with its limits: those of the flag for an explicit group, its own otherwise.

        ``most`` lowers the maximum, not below the minimum; None: it does not. ``known`` are further fields of the group.
        """
        spec, group = self._selection.named.get(name), self._groups.get(name)
        off = dict(also_off)
        if self._denied is not None and self._options.detect_failures:
            off[_FAST] = self._denied
        if spec is not None:
            maximum = _lowered(spec.max_size, spec.min_size, most)
            return NodeGroup(id=name, min_size=spec.min_size, max_size=maximum, switched_off=off, **known)
        assert group is not None
        return NodeGroup(
            id=name,
            min_size=min(group.min_size, group.max_size),
            max_size=_lowered(group.max_size, group.min_size, most),
            switched_off=off,
            autoprovisioned=self._made_of(group),
            **known,
        )

    def names(self) -> Sequence[str]:
        """Return the names of explicit groups, even if they do not exist, then those of discovered ones."""
        return list(dict.fromkeys((*self._selection.named, *sorted(self._groups))))

    def ledger(self, name: str) -> Ledger:
        """Return what is remembered of the group's failures."""
        return self._ledgers.get(name, Ledger())

    def next_zone(self, group: Group) -> str:
        """Return the zone in which AWS is assumed to start the next machine: not one that lately lacked capacity.

        As in CA it is the first zone otherwise, although AWS prefers zones with fewer machines. "": the group has no zone.
        """
        short = self.ledger(group.name).zones_without_capacity(self._api.server_time())
        open_zones = [zone for zone in group.availability_zones if zone not in short]
        return next(iter(open_zones or group.availability_zones), "")

    def hides_our_write(self, name: str) -> bool:
        """Return whether AWS's last listing of the group showed a former size: late, or set again by another writer."""
        return self._own_writes.is_hidden(name)

    def note_write(self, group: Group) -> None:
        """Store the group after we wrote its size: earlier failures do not count any more."""
        self._own_writes.note_size(group.name, self._groups[group.name].desired_capacity, group.desired_capacity)
        self._groups[group.name] = group
        self._ledgers[group.name] = self.ledger(group.name).cleared(self._api.server_time())

    def note_deletion(self, name: str, instance_ids: frozenset[str]) -> None:
        """Store the group after we terminated instances with ``ShouldDecrement…``: its failures still count."""
        if not instance_ids:
            return
        group = self.group(name)
        lowered = max(0, group.desired_capacity - len(instance_ids))
        self._own_writes.note_ended(instance_ids)
        self._own_writes.note_size(name, group.desired_capacity, lowered)
        self._groups[name] = msgspec.structs.replace(with_ended(group, instance_ids), desired_capacity=lowered)

    def take(self, group: Group) -> None:
        """Add a group that was just created."""
        self._groups = dict(sorted((self._groups | {group.name: group}).items()))

    def forget(self, name: str) -> None:
        """Remove a group that was just deleted."""
        self._groups.pop(name, None)

    def _made_of(self, group: Group) -> str:
        return machine_type_of(group.tags, self._options.cluster) if self._options.autoprovisioning else ""

    def _is_ours(self, name: str) -> bool:
        return name in self._groups or name in self._selection.named

    def _list(self) -> Iterator[Group]:
        named = list(self._selection.named)
        if named:
            yield from self._api.groups_named(named)
        if self._selection.tags is not None:
            yield from self._api.groups_tagged(self._selection.tags)
        if self._options.autoprovisioning is not None:
            yield from self._api.groups_tagged({mark_of(self._options.cluster): ""})

    def _replace(self, names: Sequence[str]) -> None:
        found = {group.name: group for group in self._api.groups_named(names, urgent=True)} if names else {}
        for name in names:
            self._groups.pop(name, None)
        there = {name: self._own_writes.apply(group) for name, group in found.items() if not group.is_going}
        self._groups = dict(sorted((self._groups | there).items()))

    def _probe(self) -> None:
        """Check whether we may read activities, before anything fails, so that the capability is off if we may not."""
        now = self._clock.now()
        if not self._options.detect_failures or not self._groups or now - self._probed_at < _PROBE_SECONDS:
            return
        self._probed_at = now
        self._note_permission(attempt(lambda: self._api.activities(next(iter(self._groups)))))

    def _examine(self, groups: Sequence[Group]) -> None:
        """Find failures in these groups. A full group costs no call."""
        short = [group for group in groups if group.unfilled]
        for group in groups:
            if not group.unfilled:
                self._ledgers[group.name] = self.ledger(group.name).cleared(self._api.server_time())
        if not short or not self._options.detect_failures or self._denied is not None:
            return
        since = self._api.server_time() - self._options.failure_memory
        answers = attempt_each(self._api.activities, [group.name for group in short], self._options.parallel_calls)
        for group, answer in zip(short, answers, strict=True):
            self._note_permission(answer)
            if not isinstance(answer, ProviderError):
                self._ledgers[group.name] = update_ledger(group, answer, self.ledger(group.name), since)
        self._ledgers = {name: ledger for name, ledger in self._ledgers.items() if name in self._groups}

    def _note_permission(self, answer: Sequence[Activity] | ProviderError) -> None:
        if isinstance(answer, AccessDenied):
            self._denied = f"no permission autoscaling:DescribeScalingActivities ({answer})"
        elif not isinstance(answer, ProviderError):
            self._denied = None


def _lowered(maximum: int, minimum: int, most: int | None) -> int:
    return maximum if most is None else min(maximum, max(minimum, most))
