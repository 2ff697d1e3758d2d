"""The result of a run of the suite: one verdict for each promise."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.suite import ContractOutcome, ContractResult


class Verdict(StrEnum):
    """Kept: a check of the promise passed and none failed. Broken: a check failed. Skipped: no check could run."""

    KEPT = "kept"
    BROKEN = "broken"
    SKIPPED = "skipped"


class PromiseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One promise of the contract, with its verdict and the results of its checks."""

    promise: str
    sentence: str
    verdict: Verdict
    checks: tuple[ContractResult, ...]

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


def _judge(results: Iterable[ContractResult]) -> Verdict:
    outcomes = {result.outcome for result in results}
    if ContractOutcome.FAILED in outcomes:
        return Verdict.BROKEN
    return Verdict.KEPT if ContractOutcome.PASSED in outcomes else Verdict.SKIPPED
