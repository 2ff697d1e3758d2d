"""The result of a run of the suite: one verdict for each promise, and the level that they reach together."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from nodewright.testkit.contract.promises import Level, Promise
from nodewright.testkit.contract.suite import ContractOutcome, ContractResult


class Verdict(StrEnum):
    """Kept: all checks of the promise that apply passed. Partly checked: some passed, others could not run.

    Broken: a check failed. Skipped: no check could run.
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
        """Return how many checks apply: those of undeclared capabilities do not."""
        return sum(result.applies for result in self.checks)

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

    Promises about undeclared capabilities do not count, but ``failures`` needs failures that are told.
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
    outcomes = {result.outcome for result in results if result.applies}
    if ContractOutcome.FAILED in outcomes:
        return Verdict.BROKEN
    if ContractOutcome.PASSED not in outcomes:
        return Verdict.SKIPPED
    return Verdict.PARTLY if ContractOutcome.SKIPPED in outcomes else Verdict.KEPT
