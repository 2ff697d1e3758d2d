"""Writes. Every capacity is written on the condition that no other writer has written the set since it was read.

Azure chooses itself which machines to delete when a capacity falls below their number. So capacity is only withdrawn
from a set that is at rest, and was for a while: there no machine arrives by itself. The set is read, then its machines
are counted, and the write fails if anything changed in between. Machines are deleted by id only, and the capacity falls
with them.
"""

from collections.abc import Sequence

import msgspec

from nodewright.spec import (
    Clock,
    InstanceState,
    NodeGroup,
    ProviderError,
    ProviderUnavailable,
    TargetChanged,
)
from nodewright_azure.api import Api
from nodewright_azure.errors import INSTANCE_NOT_FOUND, NOT_ALLOWED, Stale
from nodewright_azure.fleet import Fleet, Held
from nodewright_azure.machines import Unit
from nodewright_azure.shapes import ScaleSet

# A listing of machines may lag: for this long after the last change it does not prove that a machine is missing.
_QUIET_SECONDS = 60.0
_TRIES = 3


class Writer:
    """Changes sets, and updates the fleet."""

    def __init__(self, api: Api, fleet: Fleet, clock: Clock, *, force: bool) -> None:
        self._api = api
        self._fleet = fleet
        self._clock = clock
        self._force = force

    def increase(self, listed: NodeGroup, expected_target: int, target: int) -> int:
        """Request more machines and return how many."""
        held = self._expect(listed.id, expected_target)
        if target > listed.max_size:
            raise ProviderError(f"{target} is above the maximum {listed.max_size} of {listed.id}", code="aboveMaximum")
        if held.scale_set.pool is not None:
            self._demand_no_more_than(target, held)
        held, written = self._resize(held, expected_target, target)
        self._fleet.note_write(written, held.ledger.after_increase(target))
        return target - expected_target

    def decrease(self, group_id: str, expected_target: int, target: int) -> int:
        """Withdraw capacity without a machine, never below the number of machines; return how much."""
        return self._withdraw(self._expect(group_id, expected_target), target)

    def delete(
        self, listed: NodeGroup, ids: Sequence[str], expected_target: int, *, courteous: bool = True
    ) -> tuple[str, ...]:
        """Delete machines by id and withdraw failures; return the accepted ids.

        ``courteous``: refuse to go below the minimum size, and force nothing unless the options say so.
        """
        held = self._expect(listed.id, expected_target)
        there = {unit.machine.provider_id.lower(): unit for unit in self._fleet.read_units(held) if not unit.is_leaving}
        doomed = {one: there[one.lower()] for one in ids if one.lower() in there}
        stays = held.scale_set.capacity - len(doomed)
        if courteous and stays < listed.min_size and any(unit.failure is None for unit in doomed.values()):
            raise ProviderError(f"{listed.id} would go below its minimum of {listed.min_size}", code="belowMinimum")
        accepted = set(self._end(held, doomed, force=self._force or not courteous))
        gap = held.ledger.gap
        if gap is not None and gap.reported.failure_id in ids and self._close_gap(listed.id):
            accepted.add(gap.reported.failure_id)
        return tuple(one for one in ids if one in accepted)

    def _expect(self, group_id: str, expected_target: int) -> Held:
        """Read and return the set; raise TargetChanged if its capacity is not the expected one."""
        held = self._fleet.reread(group_id)
        if held.scale_set.capacity != expected_target:
            raise TargetChanged(actual=held.scale_set.capacity, group_id=group_id)
        return held

    def _demand_no_more_than(self, target: int, held: Held) -> None:
        """Raise ProviderError if a pool has more machines than ``target``: AKS would delete some of them."""
        there = sum(not unit.is_leaving for unit in self._fleet.read_units(held))
        if there > target:
            said = f"{held.scale_set.name} has {there} machines, more than the requested {target}"
            raise ProviderError(said, code="moreMachinesThanAsked")

    def _resize(self, held: Held, expected: int, capacity: int) -> tuple[Held, ScaleSet]:
        """Write the capacity; repeat it if only something other than the capacity was written meanwhile."""
        for _ in range(_TRIES):
            try:
                return held, self._api.resize(held.scale_set, capacity).with_capacity(capacity)
            except Stale:
                held = self._expect(held.scale_set.name, expected)
        raise ProviderUnavailable(f"{held.scale_set.name} is being written by another writer all the time")

    def _withdraw(self, held: Held, target: int) -> int:
        """Withdraw capacity. Do not repeat a stale write: the other writer may have requested machines."""
        one = held.scale_set
        if one.etag is None or not one.is_quiet or self._clock.now() - held.quiet_since < _QUIET_SECONDS:
            return 0
        there = sum(not unit.is_leaving for unit in self._fleet.read_units(held))
        lowered = max(target, there)
        if lowered >= one.capacity:
            return 0
        try:
            written = self._api.resize(one, lowered).with_capacity(lowered)
        except Stale:
            self._expect(one.name, one.capacity)
            return 0
        self._fleet.note_write(written, held.ledger.without_gap())
        return one.capacity - lowered

    def _close_gap(self, group_id: str) -> bool:
        """Settle the failure for missing machines and return whether that was possible.

        Capacity that is still requested is withdrawn. Capacity that Azure took back needs no write.
        """
        held = self._fleet.held(group_id)
        gap = held.ledger.gap
        if gap is not None and gap.unfilled and not self._withdraw(held, held.scale_set.capacity - gap.unfilled):
            return False
        held = self._fleet.held(group_id)
        self._fleet.note_ledger(held.scale_set.key, held.ledger.without_gap())
        return True

    def _end(self, held: Held, doomed: dict[str, Unit], *, force: bool) -> list[str]:
        """Delete the machines in one call. If Azure refuses because one of them is gone, delete the others."""
        if not doomed:
            return []
        try:
            self._send(held, doomed, force=force)
        except ProviderError as error:
            if error.code != INSTANCE_NOT_FOUND:
                raise
            there = {unit.machine.id for unit in self._fleet.read_units(held) if not unit.is_leaving}
            doomed = {one: unit for one, unit in doomed.items() if unit.machine.id in there}
            if doomed:
                self._send(held, doomed, force=force)
        gone = frozenset(unit.machine.id for unit in doomed.values())
        self._fleet.note_deletion(self._fleet.held(held.scale_set.name), gone, _leaving)
        return list(doomed)

    def _send(self, held: Held, doomed: dict[str, Unit], *, force: bool) -> None:
        numbers = [unit.machine.number for unit in doomed.values()]
        try:
            self._api.delete(held.scale_set.name, numbers, force=force)
        except ProviderError as error:
            # Some machines (on dedicated hosts, isolated sizes) cannot be forced.
            if not force or error.code != NOT_ALLOWED:
                raise
            self._api.delete(held.scale_set.name, numbers)


def _leaving(unit: Unit) -> Unit:
    return msgspec.structs.replace(unit, state=InstanceState.DELETING, failure=None)
