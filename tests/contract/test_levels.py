"""How far a certificate reaches."""

import pytest
from msgspec.structs import replace

from fake_world import FakeCloudWorld
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import (
    CHECKS,
    BrokenPromise,
    CannotHappen,
    CannotSteer,
    ContractOutcome,
    ContractResult,
    ContractWorld,
    ProviderContract,
    Trouble,
    Verdict,
    certify,
    reached,
    run_check,
    undeclared_controls,
)
from nodewright.testkit.contract.promises import Level, Promise
from nodewright_fake import FakeProvider


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


def test_what_cannot_happen_in_the_cloud_is_not_needed_and_what_was_not_tested_is() -> None:
    passed = results("")
    untested = [replace(one, outcome=ContractOutcome.SKIPPED) if one.promise == "once" else one for one in passed]
    assert reached(certify(untested)) is None
    impossible = [replace(one, possible=False) if one.promise == "once" else one for one in untested]
    assert reached(certify(impossible)) == Level.COMPLETE
    [once] = [one for one in certify(impossible) if one.promise == "once"]
    assert (once.verdict, once.applying) == (Verdict.SKIPPED, 0)


def test_failures_that_are_never_told_do_not_reach_the_level_of_failures() -> None:
    skipped = [
        replace(one, outcome=ContractOutcome.SKIPPED, possible=False) if one.promise == "failures" else one
        for one in results("")
    ]
    assert reached(certify(skipped)) == Level.CORE


class WithoutLateListings(FakeCloudWorld):
    """A cloud whose listings are never late; its world was never taught how to be slow, and does not say so."""

    impossible = {"lag": "its listings are never late", "slow": "it always answers at once"}
    lacks = {"begin": "the fake starts no machine in two steps", "stop": ""}
    lag = ContractWorld.lag
    slow = ContractWorld.slow
    begin = ContractWorld.begin
    stop = ContractWorld.stop

    def __init__(self) -> None:
        self.clock, self.group_id = FakeClock(), "a"
        self.connect_to(FakeProvider, {"groups": [{"name": "a", "size": 2, "request_delay": "100h"}]})

    def refuse(
        self, group_id: str, kind: Trouble, times: int = 1, *, reads: bool = False, granted: int | None = None
    ) -> None:
        if granted is not None:
            raise CannotHappen("it grants everything or nothing")
        if kind == Trouble.QUOTA:
            raise CannotSteer("its quota is not modelled")
        super().refuse(group_id, kind, times, reads=reads)


@pytest.mark.parametrize(
    ("check", "is_possible", "reason"),
    [
        ("late_listings_hide_no_increase", False, "lag cannot happen in this cloud: its listings are never late"),
        ("a_partly_granted_increase_is_counted", False, "it grants everything or nothing"),
        ("a_used_up_quota_is_told_as_such", True, "its quota is not modelled"),
        (
            "starting_machines_are_listed",
            True,
            "this world has no control begin: the fake starts no machine in two steps",
        ),
        # Every cloud is slow some day.
        ("a_call_ends_by_itself", True, "this world has no control slow: it does not say why (lacks)"),
    ],
)
def test_a_skipped_check_says_whether_it_could_happen(check: str, is_possible: bool, reason: str) -> None:
    [named] = [one for one in CHECKS if one.name == check]
    found = run_check(named, WithoutLateListings)
    assert (found.outcome, found.possible, found.reason) == (ContractOutcome.SKIPPED, is_possible, reason)


def test_controls_that_are_missing_without_a_reason_are_named() -> None:
    assert undeclared_controls(WithoutLateListings()) == ("stop", "slow")


class _Suite(ProviderContract):
    __test__ = False

    def __init__(self, world: type[ContractWorld]) -> None:
        self.world = world

    def contract_world(self) -> ContractWorld:
        return self.world()


def test_the_suite_has_a_test_for_them() -> None:
    with pytest.raises(BrokenPromise, match=r"the world lacks stop, slow: give them, or say why not in lacks"):
        _Suite(WithoutLateListings).test_controls()


def test_a_world_that_declares_all_that_it_lacks_passes_it() -> None:
    declared = {"lacks": {"slow": "calls take real time", "begin": "not modelled", "stop": "not modelled"}}
    _Suite(type("Declared", (WithoutLateListings,), declared)).test_controls()
