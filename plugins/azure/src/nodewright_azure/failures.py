"""Creations that failed: machines that Azure left behind as failed, and capacity that it left without a machine.

A machine that could not be created usually stays in its set, fills the capacity and can be deleted. Where none stays,
the set's last operation has failed, and one failure of the contract stands for all the missing machines; capacity that
Azure took back counts too. What was told keeps its id and its words until it is gone.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from nodewright.spec import FailedInstance
from nodewright_azure.errors import classify, short
from nodewright_azure.machines import Unit, Why
from nodewright_azure.shapes import ScaleSet


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Machines that are missing: ``unfilled`` are asked for still, ``lost`` Azure no longer counts."""

    told: FailedInstance
    unfilled: int
    lost: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one set. ``asked`` is the capacity of our last increase, until Azure has done it."""

    asked: int | None = None
    machines: Mapping[str, FailedInstance] = {}
    gap: Gap | None = None
    gaps: int = 0

    @property
    def told(self) -> tuple[FailedInstance, ...]:
        return (*self.machines.values(), *((self.gap.told,) if self.gap is not None else ()))

    def after_increase(self, asked: int) -> "Ledger":
        """What is missing is asked for anew."""
        return msgspec.structs.replace(self, asked=asked, gap=None)

    def after_deletion(self, machines: int) -> "Ledger":
        """So many machines fewer are asked for."""
        asked = self.asked - machines if self.asked is not None else None
        return msgspec.structs.replace(self, asked=asked)

    def without_gap(self) -> "Ledger":
        return msgspec.structs.replace(self, asked=None, gap=None)


def judge(scale_set: ScaleSet, units: Sequence[Unit], ledger: Ledger, why: Callable[[], Why]) -> Ledger:
    """The ledger after a look; ``why`` asks Azure how the set's last operation ended, and is called when it matters."""
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
        gap = Gap(told=_of_gap(scale_set, why(), gaps), unfilled=unfilled, lost=lost)
    if gap is not None:
        told = msgspec.structs.replace(gap.told, count=unfilled + lost)
        gap = Gap(told=told, unfilled=unfilled, lost=lost)
    return Ledger(asked=asked, machines=machines, gap=gap, gaps=gaps)


def _of_machine(scale_set: ScaleSet, unit: Unit, failure: Why, why: Callable[[], Why]) -> FailedInstance:
    """In the machine's own words or, where it has none, in those of the set."""
    if failure == Why() and scale_set.has_failed:
        failure = why()
    machine = unit.machine
    return _failure(f"{scale_set.name}/{machine.properties.vm_id or machine.number}", failure, machine.provider_id)


def _of_gap(scale_set: ScaleSet, why: Why, number: int) -> FailedInstance:
    """Etags are never used again; the number tells gaps of a set apart that has none."""
    return _failure(f"{scale_set.name}/missing-{(scale_set.etag or '').strip(chr(34))}-{number}", why, None)


def _failure(failure_id: str, why: Why, instance_id: str | None) -> FailedInstance:
    error_class, scope = classify(why.code, why.message)
    return FailedInstance(
        failure_id=failure_id,
        instance_id=instance_id,
        error_class=error_class,
        scope=scope,
        code=why.code,
        message=short(why.message),
    )
