"""The scale sets as last read: when they are read again, which of them, and what failed in them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TypeVar

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
)
from nodewright.spec.cache import attempt, attempt_each, copy_error, not_yet
from nodewright.spec.zones import zone_in_turn
from nodewright_azure.agent_pools import split_name
from nodewright_azure.api import Api
from nodewright_azure.discovery import Limits, Selection
from nodewright_azure.failures import Ledger, update_ledger
from nodewright_azure.machines import Unit, Why, find_failure, lacks_view, read_machines, with_view
from nodewright_azure.options import Options
from nodewright_azure.shapes import InstanceView, Machine, ScaleSet

V = TypeVar("V")

# A listing may lag behind a write: for this long, a listed set with an etag that we know to be old is ignored.
_LAG_SECONDS = 120.0
_EARLIEST = 0.5
# As long as a group backs off after a first failure.
_SHORT_SECONDS = 300.0
# For so long after its deletion a machine that is listed as running is taken for a late listing.
_GONE_SECONDS = 30.0
_AGAIN_SECONDS = 20.0
# No read but that of the listing begins later in a refresh: it may take twenty seconds more, and the core waits for a minute.
REFRESH_SECONDS = 30.0
_NOT_ASKED = "notAsked"
# How long no instance view is asked for after Azure denied one.
_PROBE_SECONDS = 600.0


class MachineList(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a set, valid until ``until`` (epoch seconds); ``trouble``: the error of reading them.

    ``is_known``: these are all machines that there were, so one that is not among them later is new.
    """

    units: tuple[Unit, ...] = ()
    is_known: bool = False
    until: float = float("-inf")
    trouble: ProviderError | None = None


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One set as known.

    ``older``: its earlier etags. ``quiet_since``: when it was first seen in its present state. ``short``: when a machine
    was last seen that could not be created in a zone for lack of capacity, by zone. ``gone``: when we deleted machines, by
    their ids.
    """

    scale_set: ScaleSet
    limits: Limits
    older: frozenset[str | None] = frozenset()
    changed_at: float = float("-inf")
    quiet_since: float = float("-inf")
    machine_list: MachineList = MachineList()
    ledger: Ledger = Ledger()
    short: Mapping[str, float] = {}
    gone: Mapping[str, float] = {}
    trouble: ProviderError | None = None


class Fleet:
    """Lists sets in bulk, and machines only of sets that may have changed. Serves from what it read."""

    def __init__(self, api: Api, selection: Selection, options: Options, clock: Clock, random: Random) -> None:
        self._api = api
        self._selection = selection
        self._options = options
        self._clock = clock
        self._random = random
        self._held: dict[str, Held] = {}
        self._read_at = float("-inf")
        self._probed_at = float("-inf")
        self._ends_at = float("inf")
        self._silent: dict[str, float] = {}
        self.no_views: str | None = None
        self.no_pools: ProviderError | None = None
        self.unusable: dict[str, str] = {}

    def refresh(self, wanted: frozenset[str]) -> None:
        """Read all sets if the interval is over; until then only the wanted ones."""
        self._ends_at = self._clock.now() + REFRESH_SECONDS
        try:
            self._refresh({name.lower() for name in wanted})
        finally:
            self._ends_at = float("inf")

    def _refresh(self, asked_for: set[str]) -> None:
        """Read sets that Azure did not answer for last, so that they hold up no others, and of these the longest unasked first."""
        now = self._clock.now()
        if now - self._read_at >= self._options.refresh_interval:
            self._list()
            self._read_at = now
            looked_at = set(self._held)
        else:
            looked_at = asked_for
        exist = set(self._held) | set(self._selection.named)
        self._silent = {key: tried_at for key, tried_at in self._silent.items() if key in exist}
        silent = sorted(self._silent, key=lambda key: (self._silent[key], key))
        for some in (sorted(exist - set(silent)), silent):
            self._look([key for key in some if key in asked_for])
            known = [self._held[key] for key in some if key in looked_at and key in self._held]
            readable = [one for one in known if one.trouble is None]
            self._read_machines(
                [one for one in readable if one.scale_set.key in asked_for or self._may_differ(one)], asked_for
            )

    # Reads

    @property
    def sets(self) -> Mapping[str, ScaleSet]:
        """The existing sets, by group id."""
        return {self.name(key): self._held[key].scale_set for key in self._order()}

    @property
    def was_read(self) -> bool:
        """Whether a listing has succeeded since the start."""
        return self._read_at > float("-inf")

    def names(self) -> Sequence[str]:
        """Return the names of explicit groups, even if they do not exist, then those of discovered ones."""
        return [self.name(key) for key in self._order(every=True)]

    def name(self, key: str) -> str:
        """Return the name as the flag writes it, or else as Azure does."""
        spec = self._selection.named.get(key)
        return spec.name if spec is not None else self._held[key].scale_set.name

    def find(self, group_id: str) -> ScaleSet | None:
        """Return the set as last read; None: it does not exist."""
        held = self._held.get(group_id.lower())
        return held.scale_set if held is not None else None

    def held(self, group_id: str) -> Held:
        """Return what is known of the set; raise NodeGroupNotFound, or the error of reading it."""
        found = self._held.get(group_id.lower())
        if found is None:
            if self.no_pools is not None and split_name(group_id) is not None:
                raise _once_more(self.no_pools)
            if group_id.lower() in self._selection.named:
                what = "scale set" if split_name(group_id) is None else "size of a served VM pool"
                raise NodeGroupNotFound(f"--nodes names {group_id}: there is no such {what} in {self._api.place()}")
            raise NodeGroupNotFound(f"azure has no group {group_id}")
        if found.trouble is not None:
            raise _once_more(found.trouble)
        return found

    def units(self, group_id: str) -> tuple[Unit, ...]:
        """Return the machines; raise NodeGroupNotFound, or the error of reading the set or its machines."""
        machine_list = self.held(group_id).machine_list
        if machine_list.trouble is not None:
            raise _once_more(machine_list.trouble)
        return machine_list.units

    def told_units(self, group_id: str) -> tuple[Unit, ...]:
        """Return the machines as ``units`` does, but those that we deleted a moment ago as leaving: a listing may lag."""
        units, now, gone = self.units(group_id), self._clock.now(), self.held(group_id).gone
        late = {one for one, at in gone.items() if now < at + _GONE_SECONDS}
        if not late:
            return units
        return tuple(
            msgspec.structs.replace(unit, state=InstanceState.DELETING)
            if unit.machine.id in late and unit.state is InstanceState.RUNNING
            else unit
            for unit in units
        )

    def next_zone(self, group_id: str) -> str:
        """Return the zone in which the next machine is assumed to start; "": the set has none.

        Zones that lacked capacity lately are skipped, unless all of them did.
        """
        held = self.held(group_id)
        now, every = self._clock.now(), held.scale_set.zones or ()
        zones = [zone for zone in every if now >= held.short.get(zone, float("-inf")) + _SHORT_SECONDS] or list(every)
        living = [unit.machine.zones for unit in held.machine_list.units if not unit.is_leaving]
        return zone_in_turn({zone: sum(zone in (one or ()) for one in living) for zone in zones}, now)

    def limits(self, group_id: str) -> Limits:
        """Return minimum and maximum of a listed group."""
        spec = self._selection.named.get(group_id.lower())
        if spec is not None:
            return Limits(min_size=spec.min_size, max_size=spec.max_size)
        return self._held[group_id.lower()].limits

    # For writes

    def reread(self, group_id: str) -> Held:
        """Read the set now and return it; raise NodeGroupNotFound."""
        key = self.held(group_id).scale_set.key
        self._put(self._api.scale_set(self._held[key].scale_set.name))
        return self._held[key]

    def read_units(self, held: Held) -> tuple[Unit, ...]:
        """Read the machines now and return them."""
        self._update_machine_list(held, self._ask_machines([held])[held.scale_set.key], strict=True)
        return self.units(held.scale_set.name)

    def note_write(self, scale_set: ScaleSet, ledger: Ledger) -> None:
        """Store the set after we wrote its capacity."""
        self._put(scale_set)
        self._change(scale_set.key, ledger=ledger, changed_at=self._clock.now())

    def note_deletion(self, held: Held, gone: frozenset[str], leaving: Callable[[Unit], Unit]) -> None:
        """Store the set after we deleted machines: the capacity fell with them, and the new etag is not known yet."""
        key, etag = held.scale_set.key, held.scale_set.etag
        units = tuple(leaving(unit) if unit.machine.id in gone else unit for unit in held.machine_list.units)
        machines = {one: failure for one, failure in held.ledger.machines.items() if one not in gone}
        after = msgspec.structs.replace(held.ledger.after_deletion(len(gone)), machines=machines)
        self._change(
            key,
            scale_set=held.scale_set.with_capacity(max(0, held.scale_set.capacity - len(gone))),
            older=held.older | {etag},
            changed_at=self._clock.now(),
            quiet_since=self._clock.now(),
            machine_list=MachineList(units=units, is_known=held.machine_list.is_known),
            gone={
                **{one: at for one, at in held.gone.items() if self._clock.now() < at + _GONE_SECONDS},
                **dict.fromkeys(gone, self._clock.now()),
            },
            ledger=after,
        )

    def note_ledger(self, key: str, ledger: Ledger) -> None:
        """Store what is remembered of the set's failures."""
        self._change(key, ledger=ledger)

    # How sets and machines are read

    def _order(self, *, every: bool = False) -> list[str]:
        named = [key for key in self._selection.named if every or key in self._held]
        return list(dict.fromkeys((*named, *sorted(self._held))))

    def _list(self) -> None:
        found, self.unusable = {}, {}
        for one in (*self._api.scale_sets(), *self._list_pools()):
            limits = self._selection.limits(one.tags)
            if isinstance(limits, str):
                self.unusable[one.name] = limits
            if one.key in self._selection.named or isinstance(limits, Limits):
                found[one.key] = one
        lost = {
            key for key, held in self._held.items() if held.scale_set.pool is not None and self.no_pools is not None
        }
        self._held = {key: held for key, held in self._held.items() if key in found or key in lost}
        for key in lost:
            self._change(key, trouble=self.no_pools)
        for key, one in found.items():
            held = self._held.get(key)
            lags = held is not None and self._clock.now() - held.changed_at < _LAG_SECONDS
            if held is None or not (lags and one.etag in held.older):
                self._put(one)

    def _list_pools(self) -> Sequence[ScaleSet]:
        """List VM pools. An error of AKS does not concern scale sets."""
        answer = attempt(self._api.pool_sizes)
        self.no_pools = answer if isinstance(answer, ProviderError) else None
        return () if isinstance(answer, ProviderError) else answer

    def _look(self, keys: Sequence[str]) -> None:
        """Read these sets one by one: a listing may lag."""
        names = [self._held[key].scale_set.name if key in self._held else self.name(key) for key in keys]
        answers = self._ask_each(self._api.scale_set, names)
        for key, found in zip(keys, answers, strict=True):
            if isinstance(found, ScaleSet):
                self._put(found)
            elif isinstance(found, NodeGroupNotFound):
                self._held.pop(key, None)
            elif key in self._held:
                self._change(key, trouble=found)

    def _ask_each(self, call: Callable[[str], V], names: Sequence[str]) -> list[V | ProviderError]:
        """Attempt the call for each set, and remember those that Azure did not answer for."""
        answers = attempt_each(
            lambda name: self._in_time(name, partial(call, name)), names, self._options.parallel_calls
        )
        for name, answer in zip(names, answers, strict=True):
            if not isinstance(answer, ProviderUnavailable):
                self._silent.pop(name.lower(), None)
            elif answer.code != _NOT_ASKED:
                self._silent[name.lower()] = self._clock.now()
        return answers

    def _in_time(self, what: str, call: Callable[[], V]) -> V:
        """Make a call; raise ProviderUnavailable instead if the time for a refresh is over."""
        if self._clock.now() > self._ends_at:
            raise ProviderUnavailable(f"{what} was not read: Azure was slow to answer for others", code=_NOT_ASKED)
        return call()

    def _put(self, one: ScaleSet) -> None:
        now, held = self._clock.now(), self._held.get(one.key)
        limits = self._selection.limits(one.tags)
        limits = limits if isinstance(limits, Limits) else Limits(min_size=0, max_size=0)
        if held is None:
            empty = MachineList(is_known=one.is_quiet and not one.capacity)
            self._held[one.key] = Held(scale_set=one, limits=limits, quiet_since=now, machine_list=empty)
            return
        same = held.scale_set.etag == one.etag and held.scale_set.capacity == one.capacity
        older = held.older if held.scale_set.etag == one.etag else held.older | {held.scale_set.etag}
        since = held.quiet_since if same and held.scale_set.is_quiet == one.is_quiet else now
        self._change(one.key, scale_set=one, limits=limits, older=older - {one.etag}, quiet_since=since, trouble=None)

    def _change(self, key: str, **changes: object) -> None:
        self._held[key] = msgspec.structs.replace(self._held[key], **changes)

    def _may_differ(self, held: Held) -> bool:
        """Return whether the machines of this set must be listed again."""
        machine_list, capacity = held.machine_list, held.scale_set.capacity
        if not capacity and not machine_list.units and held.scale_set.is_quiet:
            return machine_list.trouble is not None
        there = sum(not unit.is_leaving for unit in machine_list.units)
        settled = held.scale_set.is_quiet and there == capacity and all(unit.is_settled for unit in machine_list.units)
        return not settled or machine_list.trouble is not None or machine_list.until <= self._clock.now()

    def _read_machines(self, wanted: Sequence[Held], asked_for: set[str]) -> None:
        for key, answer in self._ask_machines(wanted).items():
            self._update_machine_list(self._held[key], answer, strict=key in asked_for)
        short = [self._held[held.scale_set.key] for held in wanted if held.scale_set.has_known_mode]
        for held in short if self._options.watches_failures else ():
            if self._clock.now() > self._ends_at:  # their failures are told of after the next refresh
                return
            ledger = update_ledger(held.scale_set, held.machine_list.units, held.ledger, partial(self._why, held))
            self._change(held.scale_set.key, ledger=ledger, short={**held.short, **self._newly_short(held, ledger)})

    def _newly_short(self, held: Held, ledger: Ledger) -> dict[str, float]:
        """Return the present time for each zone in which a creation is newly known to have failed for lack of capacity."""
        failed = {
            machine_id
            for machine_id, failure in ledger.machines.items()
            if failure.error_class is ErrorClass.OUT_OF_RESOURCES and machine_id not in held.ledger.machines
        }
        units = [unit.machine for unit in held.machine_list.units if unit.machine.id in failed]
        return {zone: self._clock.now() for machine in units for zone in machine.zones or ()}

    def _ask_machines(self, wanted: Sequence[Held]) -> dict[str, Sequence[Machine] | ProviderError]:
        uniform = [held.scale_set for held in wanted if held.scale_set.is_uniform]
        answers = self._ask_each(self._api.machines, [one.name for one in uniform])
        found: dict[str, Sequence[Machine] | ProviderError] = {
            one.key: answer for one, answer in zip(uniform, answers, strict=True)
        }
        loose = [held.scale_set for held in wanted if held.scale_set.is_loose]
        every = attempt(lambda: self._in_time("machines", self._api.loose_machines)) if loose else ()
        for one in loose:
            own = every if isinstance(every, ProviderError) else [vm for vm in every if one.owns(vm)]
            found[one.key] = own if isinstance(own, ProviderError) else self._with_views(one.key, own)
        for held in wanted:
            mode = held.scale_set.properties.orchestration_mode
            strange = (
                f"{held.scale_set.name}: its orchestration mode is {mode or 'not reported'}, not Uniform or Flexible"
            )
            found.setdefault(held.scale_set.key, ProviderError(strange, code="unknownOrchestrationMode"))
        return found

    def _with_views(self, key: str, machines: Sequence[Machine]) -> list[Machine]:
        """Return single machines; read the instance views of those whose creation may have failed, each once."""
        if not self._options.watches_failures:
            return list(machines)
        before = {unit.machine.id: unit for unit in self._held[key].machine_list.units}
        wanted = [one for one in machines if lacks_view(one, before.get(one.id))]
        known = {one.id: before[one.id].machine.properties.instance_view for one in wanted if one.id in before}
        unread = [one for one in wanted if known.get(one.id) is None]
        views = self._read_views(unread or (machines[:1] if self.no_views is not None else ()))
        views |= {machine_id: view for machine_id, view in known.items() if view is not None}
        return [with_view(one, views[one.id]) if one.id in views else one for one in machines]

    def _read_views(self, machines: Sequence[Machine]) -> dict[str, InstanceView]:
        """Return the instance views that can be read, by id. The first one shows whether we may read any."""

        def ask(number: str) -> InstanceView:
            return self._in_time(number, lambda: self._api.machine_view(number))

        now = self._clock.now()
        if not machines or (self.no_views is not None and now - self._probed_at < _PROBE_SECONDS):
            return {}
        first = attempt(lambda: ask(machines[0].number))
        if isinstance(first, AccessDenied):
            self._probed_at = now
            self.no_views = f"no permission Microsoft.Compute/virtualMachines/instanceView/read ({first})"
            return {}
        if not isinstance(first, ProviderError):
            self.no_views = None
        numbers = [one.number for one in machines[1:]]
        answers = [first, *attempt_each(ask, numbers, self._options.parallel_calls)]
        return {one.id: view for one, view in zip(machines, answers, strict=True) if isinstance(view, InstanceView)}

    def _update_machine_list(self, held: Held, answer: Sequence[Machine] | ProviderError, *, strict: bool) -> None:
        """Store the machines. After a temporary error keep the last list for a while, unless ``strict``."""
        now, key = self._clock.now(), held.scale_set.key
        was_there = not isinstance(answer, NodeGroupNotFound)
        if isinstance(answer, NodeGroupNotFound):
            answer = ()
        if isinstance(answer, ProviderError):
            passing = isinstance(answer, CloudBusy | ProviderUnavailable) and held.machine_list.until > float("-inf")
            machine_list = msgspec.structs.replace(held.machine_list, until=now + _AGAIN_SECONDS, trouble=answer)
            if passing and not strict:
                machine_list = msgspec.structs.replace(machine_list, trouble=held.machine_list.trouble)
        else:
            before = {unit.machine.id: unit for unit in held.machine_list.units}
            known = held.machine_list.is_known
            units = read_machines(answer, before, self._options, new_ones_are_new=known)
            lasts = self._options.machines_interval * self._random.uniform(_EARLIEST, 1.0)
            machine_list = MachineList(units=units, until=now + lasts, is_known=was_there)
        self._change(key, machine_list=machine_list)

    def _why(self, held: Held) -> Why:
        found = attempt(lambda: self._api.problems(held.scale_set.name))
        return Why() if isinstance(found, ProviderError) else find_failure(found) or Why()


def _once_more(error: ProviderError) -> ProviderError:
    """Return a copy of the error.

    A temporary error becomes NotYet: only the next refresh can help, so the core must not wait and repeat the call.
    """
    return not_yet(error) if isinstance(error, CloudBusy | ProviderUnavailable) else copy_error(error)
