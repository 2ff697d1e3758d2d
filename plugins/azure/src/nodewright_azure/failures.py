"""Creations that failed: machines that Azure left behind as failed, and capacity without a machine.

A machine that could not be created usually stays in its set, counts in the capacity and can be deleted. If none stays,
the set's last operation has failed, and one failure of the contract stands for all missing machines, including capacity
that Azure took back. A reported failure keeps its id and its text until it is gone.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from nodewright.spec import ErrorClass, FailedInstance
from nodewright_azure.errors import classify, quota_in, short
from nodewright_azure.machines import Unit, Why
from nodewright_azure.shapes import ScaleSet


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Missing machines: ``unfilled`` are still requested, ``lost`` are not counted by Azure any more."""

    reported: FailedInstance
    unfilled: int
    lost: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one set. ``asked``: the capacity of our last increase, until Azure has carried it out."""

    asked: int | None = None
    machines: Mapping[str, FailedInstance] = {}
    gap: Gap | None = None
    gaps: int = 0

    @property
    def reported(self) -> tuple[FailedInstance, ...]:
        """All failures that are reported now."""
        return (*self.machines.values(), *((self.gap.reported,) if self.gap is not None else ()))

    def after_increase(self, asked: int) -> "Ledger":
        """Return the ledger after an increase, which requests the missing machines again."""
        return msgspec.structs.replace(self, asked=asked, gap=None)

    def after_deletion(self, machines: int) -> "Ledger":
        """Return the ledger after a deletion of this many machines."""
        asked = self.asked - machines if self.asked is not None else None
        return msgspec.structs.replace(self, asked=asked)

    def without_gap(self) -> "Ledger":
        """Return the ledger without the failure for missing machines."""
        return msgspec.structs.replace(self, asked=None, gap=None)


def update_ledger(scale_set: ScaleSet, units: Sequence[Unit], ledger: Ledger, why: Callable[[], Why]) -> Ledger:
    """Return the ledger after the set and its machines were read.

    ``why`` reads from Azure how the set's last operation ended. It is called only if that is needed.
    """
    machines = {}
    for unit in units:
        if unit.failure is not None:
            known = ledger.machines.get(unit.machine.id)
            machines[unit.machine.id] = known or _of_machine(scale_set, unit, unit.failure, why)
    unfilled = max(0, scale_set.capacity - sum(not unit.is_leaving for unit in units))
    lost = max(0, (ledger.asked or 0) - scale_set.capacity)
    done = scale_set.is_quiet and not scale_set.has_failed
    asked = None if done else ledger.asked
    if done or not unfilled + lost:
        return Ledger(asked=asked, machines=machines, gaps=ledger.gaps)
    gap, gaps = ledger.gap, ledger.gaps
    if gap is None and scale_set.has_failed:
        gaps += 1
        gap = Gap(reported=_of_gap(scale_set, why(), gaps), unfilled=unfilled, lost=lost)
    if gap is not None:
        reported = msgspec.structs.replace(gap.reported, count=unfilled + lost)
        gap = Gap(reported=reported, unfilled=unfilled, lost=lost)
    return Ledger(asked=asked, machines=machines, gap=gap, gaps=gaps)


def _of_machine(scale_set: ScaleSet, unit: Unit, failure: Why, why: Callable[[], Why]) -> FailedInstance:
    """Return the failure of a machine, with the machine's own message or else that of the set."""
    if failure == Why() and scale_set.has_failed:
        failure = why()
    machine = unit.machine
    return _failure(f"{scale_set.name}/{machine.properties.vm_id or machine.number}", failure, machine.provider_id)


def _of_gap(scale_set: ScaleSet, why: Why, number: int) -> FailedInstance:
    """Return the failure for missing machines. Etags are never used again; the number is for a set without one."""
    return _failure(f"{scale_set.name}/missing-{(scale_set.etag or '').strip(chr(34))}-{number}", why, None)


def _failure(failure_id: str, why: Why, instance_id: str | None) -> FailedInstance:
    error_class, scope = classify(why.code, why.message)
    return FailedInstance(
        failure_id=failure_id,
        instance_id=instance_id,
        error_class=error_class,
        scope=scope,
        bucket=quota_in(why.message) if error_class is ErrorClass.QUOTA else "",
        code=why.code,
        message=short(why.message),
    )
