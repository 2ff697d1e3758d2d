"""What a run of the suite amounts to, promise by promise."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.suite import ContractOutcome, ContractResult


class Verdict(StrEnum):
    """A promise is kept if a check of it passed and none failed; skipped if no check of it could run."""

    KEPT = "kept"
    BROKEN = "broken"
    SKIPPED = "skipped"


class PromiseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One promise of the contract and the checks that are about it."""

    promise: str
    sentence: str
    verdict: Verdict
    checks: tuple[ContractResult, ...]

    def count(self, outcome: ContractOutcome) -> int:
        return sum(result.outcome == outcome for result in self.checks)


def certify(results: Iterable[ContractResult]) -> tuple[PromiseVerdict, ...]:
    """Every promise, in their order; one without any result is left out."""
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
