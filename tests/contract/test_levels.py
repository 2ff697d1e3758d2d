"""How far a certificate reaches."""

import pytest

from nodewright.testkit.contract import ContractOutcome, ContractResult, certify, reached
from nodewright.testkit.contract.promises import Level, Promise


def results(broken: str) -> list[ContractResult]:
    """Return one check for each promise: all pass but that of the broken one."""
    return [
        ContractResult(
            check=one.key,
            demand=one.sentence,
            promise=one.key,
            outcome=ContractOutcome.FAILED if one.key == broken else ContractOutcome.PASSED,
        )
        for one in Promise
    ]


@pytest.mark.parametrize(
    ("broken", "level"),
    [
        ("", Level.COMPLETE),
        ("diagnosis", Level.AUTOSCALER_SAFE),
        ("restart", Level.FAILURES),
        ("refusals", Level.CORE),
        # A provider that ends running machines is not even safe while nothing goes wrong.
        ("nothing_dies", None),
        ("deletion", None),
    ],
)
def test_a_level_needs_its_promises_and_all_below(broken: str, level: Level | None) -> None:
    assert reached(certify(results(broken))) == level
