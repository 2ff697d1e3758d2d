"""Writes, all of them by machine name.

A group's size is never set: Compute Engine would choose the machines to delete when it falls, and a resize has no
condition. Machines are added by ``createInstances`` and deleted by ``deleteInstances``, which change the size by the
number of names. So a change by another writer at the same time stays. Every machine that counts in the size has a
name, even before it exists, so there is no capacity to withdraw without a name.

A write whose response was lost is repeated with the same names and the same request id: Compute Engine carries it out
only once.
"""

from collections.abc import Iterator, Sequence
from random import Random
from uuid import UUID

import msgspec

from nodewright.spec import Clock, InstanceState, NodeGroup, ProviderError, ProviderUnavailable, TargetChanged
from nodewright.spec.cache import attempt
from nodewright_gce.api import Api
from nodewright_gce.errors import TOO_SLOW
from nodewright_gce.failures import Failures
from nodewright_gce.fleet import Fleet, Group
from nodewright_gce.refs import Ref
from nodewright_gce.resize_queue import ResizeQueue
from nodewright_gce.shapes import Manager
from nodewright_gce.states import Machine

_AT_ONCE = 1000
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SUFFIX = 4
_TRIES = 100
_MAX_NAME = 63
_REMEMBERED_SECONDS = 120.0


class PendingWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that may have taken effect: its arguments, so that it can be sent again."""

    expected: int
    target: int
    names: tuple[str, ...]
    request_ids: tuple[str, ...]
    made_at: float

    def is_repeated_by(self, expected: int, target: int, now: float) -> bool:
        """Return whether a call with these arguments repeats the write."""
        return (self.expected, self.target) == (expected, target) and now - self.made_at <= _REMEMBERED_SECONDS


class Writer:
    """Changes groups, and updates the fleet."""

    def __init__(
        self, api: Api, fleet: Fleet, queue: ResizeQueue, failures: Failures, clock: Clock, random: Random
    ) -> None:
        self._api = api
        self._fleet = fleet
        self._queue = queue
        self._failures = failures
        self._clock = clock
        self._random = random
        self._open: dict[str, PendingWrite] = {}

    def increase(self, listed: NodeGroup, expected: int, target: int) -> int:
        """Request more machines and return how many. A request holds 1000 names, so a part may be granted."""
        group = self.expect(listed.id, expected, machines=False)
        demand_room(listed, target)
        pending = self.open_write(group, expected, target)
        self._queue.set_apart(listed.id, pending.names)
        made: list[str] = []
        for number, request_id in enumerate(pending.request_ids):
            names = pending.names[number * _AT_ONCE : (number + 1) * _AT_ONCE]
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
        if group.ref.place.is_regional:  # in which zones they start, only Compute Engine knows
            seen = attempt(lambda: self._fleet.reread(listed.id, machines=True))
            if isinstance(seen, ProviderError):
                self._fleet.note(msgspec.structs.replace(group, manager=_resized(group.manager, len(made))))
        else:
            self.note_created(group, made)
        return len(made)

    def decrease(self, group_id: str, expected: int, target: int) -> int:
        """Cancel resize requests that wait; return their machines.

        Nothing else can be withdrawn without a name, as the module's docstring says.
        """
        self.expect(group_id, expected, machines=False)
        return self._queue.withdraw(group_id, expected - target)

    def delete(self, listed: NodeGroup, ids: Sequence[str], expected: int, *, force: bool) -> tuple[str, ...]:
        """Delete machines by name, also those that were never created; return the accepted ids.

        A request holds 1000 names, so a part may be accepted. If the response of one is lost, the others are not sent.
        A machine that was reported as failed and runs by now is not deleted: nodewright wanted to delete a failure.
        """
        group = self.expect(listed.id, expected, machines=True)
        reported = self._failures.reported(listed.id)
        there = {one.ref.provider_id: one for one in group.machines if one.state is not InstanceState.DELETING}
        doomed = [there[one] for one in ids if one in there and not (one in reported and _came_true(there[one]))]
        healthy = any(one.failure is None for one in doomed)
        ended = sum(one.count for one in self._queue.failures(listed.id) if one.failure_id in ids)
        if healthy and not force and group.target - ended - len(doomed) < listed.min_size:
            message = f"{group.ref.name} would go below its minimum of {listed.min_size}"
            raise ProviderError(message, code="belowMinimum")
        accepted = set(self._queue.drop(listed.id, ids))
        for start in range(0, len(doomed), _AT_ONCE):
            refs = [one.ref for one in doomed[start : start + _AT_ONCE]]
            try:
                self._api.delete(group.ref, refs, self.new_request_id())
            except ProviderError as error:
                if error.code != TOO_SLOW:
                    if isinstance(error, ProviderUnavailable) or not accepted:
                        raise
                    break
            self._fleet.note(_without(self._fleet.group(listed.id), frozenset(refs)))
            accepted |= {ref.provider_id for ref in refs}
        return tuple(one for one in ids if one in accepted)

    # Begin and end of all writes

    def expect(self, group_id: str, expected: int, *, machines: bool) -> Group:
        """Read and return the group; raise TargetChanged if its size is not the expected one."""
        self._fleet.reread(group_id, machines=machines)
        self._queue.poll(group_id)
        group = self._fleet.group(group_id)
        if group.target != expected:
            raise TargetChanged(actual=group.target, group_id=group_id)
        return group

    def open_write(self, group: Group, expected: int, target: int) -> PendingWrite:
        """Return the write to send: the earlier one if this repeats a write whose response was lost."""
        group_id, now = group.ref.group_id, self._clock.now()
        known = self._open.get(group_id)
        if known is not None and known.is_repeated_by(expected, target, now):
            return known
        count = target - expected
        requests = tuple(self.new_request_id() for _ in range(0, count, _AT_ONCE))
        made = PendingWrite(
            expected=expected, target=target, names=self._new_names(group, count), request_ids=requests, made_at=now
        )
        self._open[group_id] = made
        return made

    def settle(self, group_id: str) -> None:
        """Note that the result of the group's last write is known."""
        self._open.pop(group_id, None)

    def settle_moved(self) -> None:
        """Forget, after a refresh, writes to groups whose size has changed: they are not repeated."""
        groups = self._fleet.groups
        for group_id, pending in list(self._open.items()):
            if group_id not in groups or groups[group_id].target != pending.expected:
                self.settle(group_id)

    def note_created(self, group: Group, names: Sequence[str]) -> None:
        """Store the group as Compute Engine will report it after machines of these names were accepted."""
        coming = tuple(
            Machine(ref=group.ref._replace(name=name), state=InstanceState.CREATING, is_there=False) for name in names
        )
        manager = _resized(group.manager, len(names))
        self._fleet.note(msgspec.structs.replace(group, manager=manager, machines=(*group.machines, *coming)))

    def new_request_id(self) -> str:
        """Return a new request id."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def _new_names(self, group: Group, count: int) -> tuple[str, ...]:
        """Return names like those of the manager, none of them in use."""
        base = group.manager.base_instance_name or group.ref.name
        base = base[: _MAX_NAME - _SUFFIX - 1]
        used = {one.ref.name for one in (*group.machines, *group.waiting)}
        names: list[str] = []
        for _ in range(count):
            name = next(name for name in self._tries(base) if name not in used)
            used.add(name)
            names.append(name)
        return tuple(names)

    def _tries(self, base: str) -> Iterator[str]:
        """Yield names lazily: nearly always the first one is free."""
        return (f"{base}-{''.join(self._random.choices(_LETTERS, k=_SUFFIX))}" for _ in range(_TRIES))

    def _what_came(self, group_id: str, expected: int, target: int, error: ProviderError) -> int:
        """Return how many machines were accepted by an operation that takes too long; raise its error if none."""
        came = self._fleet.reread(group_id, machines=True).target - expected
        if came <= 0:
            raise error
        return min(came, target - expected)


def demand_room(listed: NodeGroup, target: int) -> None:
    """Raise ProviderError if the target is above the maximum."""
    if target > listed.max_size:
        raise ProviderError(f"{target} is above the maximum {listed.max_size} of {listed.id}", code="aboveMaximum")


def _came_true(machine: Machine) -> bool:
    """Return whether the machine runs, though it could not be created at first."""
    return machine.failure is None and machine.state is InstanceState.RUNNING


def _without(group: Group, gone: frozenset[Ref]) -> Group:
    """Return the group after these machines were deleted."""
    machines = tuple(
        msgspec.structs.replace(one, state=InstanceState.DELETING, failure=None) if one.ref in gone else one
        for one in group.machines
    )
    return msgspec.structs.replace(group, manager=_resized(group.manager, -len(gone)), machines=machines)


def _resized(manager: Manager, by: int) -> Manager:
    return msgspec.structs.replace(manager, target_size=max(0, manager.target_size + by))
