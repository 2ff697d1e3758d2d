"""Run the suite, as pytest tests or without pytest, and certify its result: a verdict for each promise."""

import unittest
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import closing
from enum import StrEnum
from traceback import walk_tb

import msgspec

from nodewright.model.capability import Capability
from nodewright.model.errors import NodewrightError
from nodewright.testkit.client import Client
from nodewright.testkit.contract.promises import Level, Promise
from nodewright.testkit.contract.registry import CHECKS, BrokenPromise, Check
from nodewright.testkit.contract.situations import group, refresh
from nodewright.testkit.contract.world import CannotHappen, CannotSteer, ContractWorld, NotDeclared, undeclared_controls

WorldFactory = Callable[[], ContractWorld]


class ContractOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class ContractResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check; ``reason`` says how the contract is broken, or why the check was skipped.

    ``applies`` is false if the provider does not declare the capability that the check is about. ``possible`` is false if
    the checked event cannot happen in this cloud.
    """

    check: str
    demand: str
    promise: str
    outcome: ContractOutcome
    reason: str = ""
    applies: bool = True
    possible: bool = True


def run_contract(world_factory: WorldFactory, checks: Iterable[Check] | None = None) -> list[ContractResult]:
    """Run all checks, each on its own world. A fault of the provider is a result, not an exception."""
    return [run_check(check, world_factory) for check in (CHECKS if checks is None else checks)]


def run_check(check: Check, world_factory: WorldFactory) -> ContractResult:
    """Run one check on a new world."""
    outcome, reason, applies, possible = ContractOutcome.PASSED, "", True, True
    try:
        with closing(world_factory()) as world:
            _run(check, world)
    except CannotSteer as cannot:
        outcome, reason = ContractOutcome.SKIPPED, str(cannot)
        applies, possible = not isinstance(cannot, NotDeclared), not isinstance(cannot, CannotHappen)
    except BrokenPromise as violation:
        outcome, reason = ContractOutcome.FAILED, str(violation)
    except NodewrightError as error:
        outcome, reason = ContractOutcome.FAILED, f"{_place(error)}{type(error).__name__}: {error}{_origin(error)}"
    except Exception as error:  # noqa: BLE001 - the cloud under the world may break in any way
        outcome, reason = ContractOutcome.FAILED, f"the world broke, {type(error).__name__}: {error}"
    return ContractResult(
        check=check.name,
        demand=check.demand,
        promise=check.promise.key,
        outcome=outcome,
        reason=reason,
        applies=applies,
        possible=possible,
    )


def _place(error: BaseException) -> str:
    """Return the beginning of a sentence that names the hook which raised the error; empty: no hook did."""
    names = (frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__))
    hook = next((name for name in names if name in vars(Client)), None)
    return f"{hook} raised " if hook is not None else ""


def _origin(error: BaseException) -> str:
    """Return where the exception was raised that a hook let through; empty: the hook let none through."""
    cause = error.__cause__
    if getattr(error, "code", "") != "unexpectedError" or cause is None or cause.__traceback__ is None:
        return ""
    *_, last = walk_tb(cause.__traceback__)
    return f" ({last[0].f_code.co_filename}:{last[1]})"


def _run(check: Check, world: ContractWorld) -> None:
    if check.capability is not None:
        _demand_capability(check.capability, world)
    world.admit(check.touches)
    check.run(world)


def _demand_capability(capability: Capability, world: ContractWorld) -> None:
    """Raise CannotSteer if the capability is not declared, or is switched off for the world's group."""
    if capability not in world.client.info.capabilities:
        raise NotDeclared(f"{capability.value} is not declared")
    refresh(world)
    why_not = group(world).switched_off.get(capability)
    if why_not is not None:
        raise NotDeclared(f"{capability.value} is switched off for {world.group_id}: {why_not}")


class ProviderContract(ABC):
    """Subclass it as ``class TestAcme(ProviderContract)``: every check becomes a test.

    pytest finds the checks through nodewright's pytest plugin, which is installed with nodewright. Checks of
    capabilities that are not declared, or that are switched off for the world's group, are skipped. pytest's summary
    lists the reasons.
    """

    @abstractmethod
    def contract_world(self) -> ContractWorld:
        """Return a new cloud with a new provider."""

    def test_controls(self) -> None:
        """Every control is given, or the world says in ``lacks`` or ``impossible`` why not."""
        with closing(self.contract_world()) as world:
            missing = undeclared_controls(world)
        if missing:
            raise BrokenPromise(
                f"the world lacks {', '.join(missing)}: give them, or say why not in lacks, or in impossible if no such "
                "thing happens in this cloud"
            )

    def test_contract(self, contract_check: Check) -> None:
        result = run_check(contract_check, self.contract_world)
        if result.outcome == ContractOutcome.SKIPPED:
            raise unittest.SkipTest(f"contract: {result.reason}")
        if result.outcome == ContractOutcome.FAILED:
            raise BrokenPromise(f"{result.demand}\n{result.reason}")


class Verdict(StrEnum):
    """Kept: all checks of the promise that apply passed. Partly checked: some passed, others could not run.

    Broken: a check failed. Skipped: no check could run. What cannot happen in the cloud is not checked, and changes no verdict.
    """

    KEPT = "kept"
    PARTLY = "partly checked"
    BROKEN = "broken"
    SKIPPED = "skipped"


class PromiseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One promise of the contract, with its verdict and the results of its checks."""

    promise: str
    sentence: str
    verdict: Verdict
    checks: tuple[ContractResult, ...]

    @property
    def applying(self) -> int:
        """Return how many checks apply: not those of undeclared capabilities, nor of what cannot happen in the cloud."""
        return sum(result.applies and result.possible for result in self.checks)

    def count(self, outcome: ContractOutcome) -> int:
        """Return how many checks had this outcome."""
        return sum(result.outcome == outcome for result in self.checks)


def certify(results: Iterable[ContractResult]) -> tuple[PromiseVerdict, ...]:
    """Return a verdict for each promise that has results, in the order of ``Promise``."""
    of: dict[str, list[ContractResult]] = {}
    for result in results:
        of.setdefault(result.promise, []).append(result)
    return tuple(
        PromiseVerdict(
            promise=promise.key,
            sentence=promise.sentence,
            verdict=_judge(of[promise.key]),
            checks=tuple(of[promise.key]),
        )
        for promise in Promise
        if promise.key in of
    )


def reached(promises: Iterable[PromiseVerdict]) -> Level | None:
    """Return the highest level whose promises, and those of all levels before it, are kept; None: not even the first.

    Promises about undeclared capabilities do not count, nor does what is declared as impossible in the cloud. But
    ``failures`` needs a provider that reports failures.
    """
    by_level: dict[Level, list[PromiseVerdict]] = {}
    for promise in promises:
        by_level.setdefault(Promise[promise.promise.upper()].level, []).append(promise)
    found: Level | None = None
    for level in Level:
        needed = [one for one in by_level.get(level, ()) if one.applying or one.promise == Promise.FAILURES.key]
        if not needed or any(one.verdict != Verdict.KEPT for one in needed):
            break
        found = level
    return found


def _judge(results: Iterable[ContractResult]) -> Verdict:
    outcomes = {result.outcome for result in results if result.applies and result.possible}
    if ContractOutcome.FAILED in outcomes:
        return Verdict.BROKEN
    if ContractOutcome.PASSED not in outcomes:
        return Verdict.SKIPPED
    return Verdict.PARTLY if ContractOutcome.SKIPPED in outcomes else Verdict.KEPT
