"""The suite covers every promise, and each of its checks can fail."""

from tests.contract import (
    test_faulty_capabilities,
    test_faulty_deadlines,
    test_faulty_in_part,
    test_faulty_machines,
    test_faulty_races,
    test_faulty_reads,
    test_faulty_refusals,
    test_faulty_writes,
)

from nodewright.testkit.contract import CHECKS, Promise

FAULTY = (
    test_faulty_capabilities,
    test_faulty_deadlines,
    test_faulty_in_part,
    test_faulty_machines,
    test_faulty_races,
    test_faulty_reads,
    test_faulty_refusals,
    test_faulty_writes,
)


def test_every_check_rejects_some_faulty_provider() -> None:
    rejecting = {check for module in FAULTY for _, check in module.REJECTED}
    assert {check.name for check in CHECKS} == rejecting


def test_every_promise_has_a_check() -> None:
    assert {check.promise for check in CHECKS} == set(Promise)
