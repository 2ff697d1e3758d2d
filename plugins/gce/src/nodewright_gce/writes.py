"""Writes, all of them by name.

A group's size is never set: lowering it lets Compute Engine pick the machines to end, and no condition can be put on
it. Machines are added by ``createInstances`` and ended by ``deleteInstances``, which move the size by as many as they name;
what somebody else writes at the same time stays. Every unit of a size has a named machine, be it only on its way, so
nothing is left that could be withdrawn without a name.

A write whose answer was lost is repeated with the same names and the same request id: Compute Engine counts it once.
"""

from collections.abc import Iterator, Sequence
from random import Random
from uuid import UUID

import msgspec

from nodewright.spec import Clock, InstanceState, NodeGroup, ProviderError, ProviderUnavailable, TargetChanged
from nodewright_gce.api import Api
from nodewright_gce.errors import TOO_SLOW
from nodewright_gce.failures import Failures
from nodewright_gce.fleet import Fleet, Group
from nodewright_gce.refs import Ref
from nodewright_gce.shapes import Manager
from nodewright_gce.states import Machine

_AT_ONCE = 1000
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SUFFIX = 4
_TRIES = 100
_MAX_NAME = 63
_REMEMBERED_SECONDS = 120.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A write that may have taken effect: what it was called with, so that it can be sent again."""

    expected: int
    target: int
    names: tuple[str, ...]
    request_ids: tuple[str, ...]
    made_at: float

    def is_repeated_by(self, expected: int, target: int, now: float) -> bool:
        return (self.expected, self.target) == (expected, target) and now - self.made_at <= _REMEMBERED_SECONDS


class Writer:
    """Changes groups, and tells the fleet how they are then."""

    def __init__(self, api: Api, fleet: Fleet, failures: Failures, clock: Clock, random: Random) -> None:
        self._api = api
        self._fleet = fleet
        self._failures = failures
        self._clock = clock
        self._random = random
        self._open: dict[str, Attempt] = {}

    def increase(self, listed: NodeGroup, expected: int, target: int) -> int:
        """Asks for more machines; answers how many. Part of it may be granted: a request holds 1000 names."""
        group = self.expect(listed.id, expected, machines=False)
        demand_room(listed, target)
        attempt = self.attempt(group, expected, target)
        made: list[str] = []
        for number, request_id in enumerate(attempt.request_ids):
            names = attempt.names[number * _AT_ONCE : (number + 1) * _AT_ONCE]
            try:
                self._api.create(group.ref, names, request_id)
            except ProviderUnavailable:
                raise
            except ProviderError as error:
                self.settle(listed.id)
                if error.code == TOO_SLOW:
                    return self._what_came(listed.id, expected, target, error)
                if not made:
                    raise
                break
            made += names
        self.settle(listed.id)
        self.note_created(group, made)
        return len(made)

    def decrease(self, group_id: str, expected: int) -> int:
        """Nothing: see the module's first lines."""
        self.expect(group_id, expected, machines=False)
        return 0

    def delete(self, listed: NodeGroup, ids: Sequence[str], expected: int, *, force: bool) -> tuple[str, ...]:
        """Ends machines by name, those that never came among them; answers those that were accepted.

        What was told to have failed and runs by now is left alone: nobody wanted to end a machine that runs.
        """
        group = self.expect(listed.id, expected, machines=True)
        told = self._failures.told(listed.id)
        there = {one.ref.provider_id: one for one in group.machines if one.state is not InstanceState.DELETING}
        doomed = [there[one] for one in ids if one in there and not (one in told and _came_true(there[one]))]
        if not doomed:
            return ()
        healthy = any(one.failure is None for one in doomed)
        if healthy and not force and group.manager.target - len(doomed) < listed.min_size:
            message = f"{group.ref.name} would go below its minimum of {listed.min_size}"
            raise ProviderError(message, code="belowMinimum")
        refs = [one.ref for one in doomed]
        try:
            self._api.delete(group.ref, refs, self.new_request_id())
        except ProviderError as error:
            if error.code != TOO_SLOW:
                raise
        self._fleet.note(_without(group, frozenset(refs)))
        accepted = {ref.provider_id for ref in refs}
        return tuple(one for one in ids if one in accepted)

    # What all writes begin and end with

    def expect(self, group_id: str, expected: int, *, machines: bool) -> Group:
        """The group as it is this moment; raises TargetChanged if its size is another."""
        group = self._fleet.reread(group_id, machines=machines)
        if group.manager.target != expected:
            raise TargetChanged(actual=group.manager.target, group_id=group_id)
        return group

    def attempt(self, group: Group, expected: int, target: int) -> Attempt:
        """The same as before if this is the repetition of a write whose answer was lost."""
        group_id, now = group.ref.group_id, self._clock.now()
        known = self._open.get(group_id)
        if known is not None and known.is_repeated_by(expected, target, now):
            return known
        count = target - expected
        requests = tuple(self.new_request_id() for _ in range(0, count, _AT_ONCE))
        made = Attempt(
            expected=expected, target=target, names=self._new_names(group, count), request_ids=requests, made_at=now
        )
        self._open[group_id] = made
        return made

    def settle(self, group_id: str) -> None:
        """The last write of this group is not in doubt any more."""
        self._open.pop(group_id, None)

    def settle_moved(self) -> None:
        """After a look at the cloud: what has another size than an open write began with is not repeated."""
        groups = self._fleet.groups
        for group_id, attempt in list(self._open.items()):
            if group_id not in groups or groups[group_id].manager.target != attempt.expected:
                self.settle(group_id)

    def note_created(self, group: Group, names: Sequence[str]) -> None:
        """The group after machines of these names were accepted, as Compute Engine will tell it."""
        coming = tuple(
            Machine(ref=group.ref._replace(name=name), state=InstanceState.CREATING, is_there=False) for name in names
        )
        manager = _resized(group.manager, len(names))
        self._fleet.note(msgspec.structs.replace(group, manager=manager, machines=(*group.machines, *coming)))

    def new_request_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def _new_names(self, group: Group, count: int) -> tuple[str, ...]:
        """Names as the manager gives them itself, none of them in use."""
        base = group.manager.base_instance_name or group.ref.name
        base = base[: _MAX_NAME - _SUFFIX - 1]
        used = {one.ref.name for one in group.machines}
        names: list[str] = []
        for _ in range(count):
            name = next(name for name in self._tries(base) if name not in used)
            used.add(name)
            names.append(name)
        return tuple(names)

    def _tries(self, base: str) -> Iterator[str]:
        """Made as they are needed: the first is free nearly always."""
        return (f"{base}-{''.join(self._random.choices(_LETTERS, k=_SUFFIX))}" for _ in range(_TRIES))

    def _what_came(self, group_id: str, expected: int, target: int, error: ProviderError) -> int:
        """An operation took too long: what it has done so far is what was accepted."""
        came = self._fleet.reread(group_id, machines=True).manager.target - expected
        if came <= 0:
            raise error
        return min(came, target - expected)


def demand_room(listed: NodeGroup, target: int) -> None:
    """Raises ProviderError above the maximum."""
    if target > listed.max_size:
        raise ProviderError(f"{target} is above the maximum {listed.max_size} of {listed.id}", code="aboveMaximum")


def _came_true(machine: Machine) -> bool:
    """It could not be created at first, and it runs now."""
    return machine.failure is None and machine.state is InstanceState.RUNNING


def _without(group: Group, gone: frozenset[Ref]) -> Group:
    """The group after these machines were ended; those that never were leave the list at once."""
    machines = tuple(
        msgspec.structs.replace(one, state=InstanceState.DELETING, failure=None) if one.ref in gone else one
        for one in group.machines
    )
    return msgspec.structs.replace(group, manager=_resized(group.manager, -len(gone)), machines=machines)


def _resized(manager: Manager, by: int) -> Manager:
    return msgspec.structs.replace(manager, target_size=max(0, manager.target_size + by))
