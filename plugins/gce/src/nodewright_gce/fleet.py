"""The groups as last read: when they are read again, and which of them."""

from collections.abc import Mapping, Sequence

import msgspec

from nodewright.spec import (
    AccessDenied,
    Clock,
    CloudBusy,
    ErrorClass,
    InstanceState,
    NodeGroupNotFound,
    ProviderError,
    ProviderUnavailable,
    Throttled,
)
from nodewright.spec.cache import attempt, attempt_each, copy_error, not_yet
from nodewright.spec.zones import zone_in_turn
from nodewright_gce.api import Api
from nodewright_gce.bulk import assign, is_at_rest
from nodewright_gce.discovery import Selection
from nodewright_gce.options import Options
from nodewright_gce.refs import Place, Ref
from nodewright_gce.shapes import Manager
from nodewright_gce.states import Machine, read_managed

# With this many groups at rest in one zone, all its machines are listed with one call.
_MANY = 6
# As long as a group backs off after a first failure.
_SHORT_SECONDS = 300.0
_LACKING = ErrorClass.OUT_OF_RESOURCES


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its machines, including failed creations, without those for which a resize request waits.

    ``waiting``: machines of such requests that Compute Engine lists already. ``queued``: the number of the others.
    """

    ref: Ref
    manager: Manager
    machines: tuple[Machine, ...]
    waiting: tuple[Machine, ...] = ()
    queued: int = 0

    @property
    def target(self) -> int:
        """The number of requested machines, including those of which Compute Engine has only a request so far."""
        return self.manager.target + self.queued

    @property
    def places(self) -> frozenset[Place]:
        """The zones of its machines."""
        if not self.ref.place.is_regional:
            return frozenset((self.ref.place,))
        return frozenset(Place(self.ref.project, zone) for zone in self.manager.zones)

    @property
    def failed(self) -> tuple[Machine, ...]:
        return tuple(one for one in self.machines if one.failure is not None)


class Fleet:
    """Reads groups zone by zone, and machines in bulk where nothing changes. Serves from what it read."""

    def __init__(self, api: Api, selection: Selection, options: Options, clock: Clock) -> None:
        self._api = api
        self._selection = selection
        self._options = options
        self._clock = clock
        self._groups: dict[str, Group] = {}
        self._troubles: dict[Place, ProviderError] = {}
        self._refused: dict[str, tuple[Ref, ProviderError]] = {}
        self._missed: dict[Ref, Manager] = {}
        self._queued: dict[str, tuple[int, frozenset[str]]] = {}
        self._short: dict[str, dict[Ref, float]] = {}
        self._read_at = float("-inf")

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups that exist and could be read, by id."""
        return self._groups

    @property
    def troubles(self) -> Mapping[Place, ProviderError]:
        """Zones that could not be read, with the error."""
        return self._troubles

    @property
    def was_read(self) -> bool:
        """Whether a listing has succeeded since the start."""
        return self._read_at > float("-inf")

    def refresh(self, wanted: frozenset[str]) -> None:
        """Read all groups if the interval is over; until then only wanted groups and those that could not be read."""
        now = self._clock.now()
        if now - self._read_at >= self._options.refresh_interval:
            self._read_all()
            self._read_at = now
            return
        refs = [self._ref(group_id) for group_id in sorted(wanted)]
        self._read_each([ref for ref in refs if ref is not None])
        self._list_machines(self._missed.copy(), self._groups.copy(), urgent=False)

    def names(self) -> Sequence[str]:
        """Return the ids of explicit groups, even if they do not exist, then those of discovered ones."""
        return list(dict.fromkeys((*self._selection.named, *sorted({*self._groups, *self._refused}))))

    def group(self, group_id: str) -> Group:
        """Return the group as last read; raise NodeGroupNotFound, or the error of reading it."""
        if group_id in self._groups:
            return self._groups[group_id]
        if group_id in self._refused:
            raise copy_error(self._refused[group_id][1])
        named = self._selection.named.get(group_id)
        if named is None:
            raise NodeGroupNotFound(f"gce has no group {group_id}")
        trouble = self._troubles.get(named.ref.place)
        if trouble is not None:
            said = f"--nodes names {group_id}: zone {named.ref.zone} of project {named.ref.project}: {trouble}"
            raise type(trouble)(said, code=trouble.code)
        raise NodeGroupNotFound(
            f"--nodes names {group_id}: there is no managed instance group {named.ref.name} in"
            f" {named.ref.project}, {named.ref.zone}"
        )

    def limits(self, group_id: str) -> tuple[int, int]:
        """Return minimum and maximum of a listed group; raise NodeGroupNotFound."""
        ref = self._ref(group_id)
        found = self._selection.limits(ref) if ref is not None else None
        if found is None:
            raise NodeGroupNotFound(f"gce has no group {group_id}")
        return found

    def next_zone(self, group: Group) -> str:
        """Return the zone in which the group's next machine is assumed to start.

        Zones that lacked capacity lately are skipped, unless all of them did.
        """
        every, now = group.manager.zones, self._clock.now()
        if not group.ref.place.is_regional or not every:
            return group.ref.zone
        lacking = self._short.get(group.ref.group_id, {})
        short = {one.zone for one, at in lacking.items() if now < at + _SHORT_SECONDS}
        zones = [zone for zone in every if zone not in short] or list(every)
        living = [one.ref.zone for one in group.machines if one.state is not InstanceState.DELETING]
        return zone_in_turn({zone: living.count(zone) for zone in zones}, now)

    def reread(self, group_id: str, *, machines: bool) -> Group:
        """Read the group now and return it, with its machines if ``machines``; raise NodeGroupNotFound.

        While resize requests wait, the machines are always read: only they tell whether the size counts the requests.
        """
        known = self.group(group_id)
        try:
            manager = self._api.manager(known.ref, urgent=True)
            is_listed = machines or group_id in self._queued
            there = read_managed(self._api.managed(known.ref, urgent=True)) if is_listed else known.machines
        except NodeGroupNotFound:
            self._groups.pop(group_id, None)
            raise
        self.note(Group(ref=known.ref, manager=manager, machines=there))
        return self._groups[group_id]

    def note(self, group: Group) -> None:
        """Store the group as it is now, and since when machines of a regional group have failed for lack of capacity."""
        group_id, now = group.ref.group_id, self._clock.now()
        self._groups[group_id] = _split(group, *self._queued.get(group_id, (0, frozenset())))
        if not group.ref.place.is_regional:
            return
        lacking = {one.ref for one in group.failed if one.failure and one.failure.error_class is _LACKING}
        known = self._short.get(group_id, {})
        late = {one: at for one, at in known.items() if now < at + _SHORT_SECONDS}
        self._short[group_id] = late | {one: known.get(one, now) for one in lacking}

    def count_queued(self, group_id: str, machines: int, others: frozenset[str]) -> None:
        """Count these machines in the group's target: resize requests for them wait.

        ``others``: names of machines in creation that are not of these requests.
        """
        self._queued.pop(group_id, None)
        if machines:
            self._queued[group_id] = machines, others
        if group_id in self._groups:
            self.note(self._groups[group_id])

    def _ref(self, group_id: str) -> Ref | None:
        if group_id in self._groups:
            return self._groups[group_id].ref
        if group_id in self._refused:
            return self._refused[group_id][0]
        named = self._selection.named.get(group_id)
        return named.ref if named is not None else None

    def _places(self) -> list[Place]:
        named = {one.ref.place for one in self._selection.named.values()}
        found = self._api.places() if self._selection.discoveries else ()
        return sorted(named.union(found))

    def _read_all(self) -> None:
        places = self._places()
        told = attempt_each(self._api.managers, places, self._options.parallel_calls)
        answers = dict(zip(places, told, strict=True))
        self._troubles = {place: answer for place, answer in answers.items() if isinstance(answer, ProviderError)}
        self._raise_if_hopeless(places)
        found = {
            Ref(*place, manager.name): manager
            for place, answer in answers.items()
            if not isinstance(answer, ProviderError)
            for manager in answer
        }
        ours = {ref: manager for ref, manager in found.items() if self._selection.limits(ref) is not None}
        kept = {
            group_id: group
            for group_id, group in self._groups.items()
            if isinstance(self._troubles.get(group.ref.place), ProviderUnavailable)
        }
        self._refused, self._missed = {}, {}
        self._groups, before = kept, self._groups
        try:
            self._fill(ours, before)
        except Throttled:
            self._groups = before
            raise

    def _raise_if_hopeless(self, places: Sequence[Place]) -> None:
        """Raise the error if calls are throttled or no zone can be read.

        A single zone that cannot be read does not prevent the other zones from being read.
        """
        throttled = next((error for error in self._troubles.values() if isinstance(error, Throttled)), None)
        if throttled is not None:
            raise throttled
        if not places or len(self._troubles) < len(places):
            return
        place, error = next(iter(self._troubles.items()))
        if isinstance(error, ProviderUnavailable | AccessDenied):
            raise error
        if not self._selection.named:
            raise type(error)(f"zone {place.zone} of project {place.project}: {error}", code=error.code)

    def _read_each(self, refs: Sequence[Ref]) -> None:
        """Read each group with a call of its own."""
        answers = attempt_each(lambda ref: self._api.manager(ref, urgent=True), refs, self._options.parallel_calls)
        found: dict[Ref, Manager] = {}
        for ref, answer in zip(refs, answers, strict=True):
            if isinstance(answer, NodeGroupNotFound):
                self._groups.pop(ref.group_id, None)
            elif isinstance(answer, ProviderError):
                raise answer
            else:
                found[ref] = answer
        self._list_machines(found, self._groups.copy(), urgent=True)

    def _fill(self, managers: Mapping[Ref, Manager], before: Mapping[str, Group]) -> None:
        """Read the machines of all groups with as few calls as possible."""
        empty = {ref for ref, manager in managers.items() if is_at_rest(manager) and manager.target == 0}
        resting = {ref: manager for ref, manager in managers.items() if is_at_rest(manager) and ref not in empty}
        known: dict[Ref, tuple[Machine, ...]] = dict.fromkeys(empty, ())
        for place in sorted({ref.place for ref in resting}):
            here = {ref: manager for ref, manager in resting.items() if ref.place == place}
            if len(here) >= _MANY and not place.is_regional:
                told = attempt(lambda place=place: self._api.vms(place))  # type: ignore[misc]  # mypy cannot type a lambda with a default
                if isinstance(told, Throttled):
                    raise told  # reading group by group would need many more calls
                if not isinstance(told, ProviderError):
                    known |= assign(here, told)
        for ref, machines in known.items():
            self.note(Group(ref=ref, manager=managers[ref], machines=machines))
        self._list_machines({ref: one for ref, one in managers.items() if ref not in known}, before, urgent=False)

    def _list_machines(self, managers: Mapping[Ref, Manager], before: Mapping[str, Group], *, urgent: bool) -> None:
        """Read machines group by group.

        If a temporary error prevents that, the group keeps its last state, if there is one, and is read again at the
        next refresh; with ``urgent`` the error is raised.
        """
        refs = sorted(managers)
        answers = attempt_each(lambda ref: self._api.managed(ref, urgent=urgent), refs, self._options.parallel_calls)
        for ref, answer in zip(refs, answers, strict=True):
            group_id = ref.group_id
            self._missed.pop(ref, None)
            self._refused.pop(group_id, None)
            if not isinstance(answer, ProviderError):
                self.note(Group(ref=ref, manager=managers[ref], machines=read_managed(answer)))
            elif isinstance(answer, NodeGroupNotFound):
                self._groups.pop(group_id, None)
            elif not isinstance(answer, CloudBusy | ProviderUnavailable):
                self._refused[group_id] = ref, answer
            elif urgent:
                raise answer
            else:
                self._missed[ref] = managers[ref]
                self._keep_last(ref, before, answer)

    def _keep_last(self, ref: Ref, before: Mapping[str, Group], trouble: ProviderError) -> None:
        if ref.group_id in before:
            self.note(before[ref.group_id])
        else:
            self._refused[ref.group_id] = ref, not_yet(trouble)


def _split(group: Group, count: int, others: frozenset[str]) -> Group:
    """Return the group with ``count`` machines of resize requests that wait apart from the others.

    The size counts them if Compute Engine lists machines in creation that no other request asked for. Of these, those that
    exist already are not hidden.
    """
    every = (*group.machines, *group.waiting)
    able = [one for one in every if one.state is InstanceState.CREATING and one.ref.name not in others]
    counted = sorted(able, key=lambda one: (one.is_there, one.failure is not None))[:count]
    waiting = tuple(one for one in counted if not one.is_there)
    hidden = {one.ref for one in waiting}
    shown = tuple(one for one in every if one.ref not in hidden)
    return msgspec.structs.replace(group, machines=shown, waiting=waiting, queued=count - len(counted))
