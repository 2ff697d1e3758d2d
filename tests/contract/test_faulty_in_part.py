"""Providers that go wrong where a thing happens in part, or between two calls: only one check sees each of them."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from msgspec.structs import replace

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright.testkit.contract import CHECKS, ContractOutcome, ContractResult
from nodewright_fake import FakeProvider

Reject = Callable[[type[FakeProvider], str], None]
Judge = Callable[[type[FakeProvider], str], ContractResult]
_PAGE = 50


class DeletesByAnOldIndex(FakeProvider):
    """Takes the place of a machine in the last refresh's list for its place in a new list."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        old = [one.id for one in self._view(group_id).instances]
        new = [one.id for one in self.cloud.view(group_id).instances]
        moved = {name: new[place] for place, name in enumerate(old) if place < len(new)}
        named = {moved.get(name, name): name for name in instance_ids}
        accepted = super().delete_instances(group_id, list(named), expected_target)
        return [named[name] for name in accepted]


class ReplaysItsAnswers(FakeProvider):
    """Has one key for each group and target, as an idempotency key, and the cloud answers it as it did the first time."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._answered: dict[tuple[str, int], int] = {}

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        key = group_id, target
        if key not in self._answered or self.cloud.view(group_id).target != expected_target:
            self._answered[key] = super().increase_size(group_id, expected_target, target)
        return self._answered[key]


class TakesUnreadFailuresForNone(FakeProvider):
    """Reads failures after the machines, and has none if they cannot be read."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        super().refresh(wanted)
        try:
            with self.cloud.faults.around("refresh"):
                return True
        except spec.ProviderUnavailable:
            self._views = {name: dataclasses.replace(view, failures=()) for name, view in self._views.items()}
        return True


class TakesAnUnreadPageForTheLast(FakeProvider):
    """Ends the list where a page cannot be read."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        super().refresh(wanted)
        for name, view in self._views.items():
            pages = -(-len(view.instances) // _PAGE)
            for page in range(1, pages):
                try:
                    with self.cloud.faults.around("refresh"):
                        continue
                except spec.ProviderUnavailable:
                    self._views[name] = dataclasses.replace(view, instances=view.instances[: page * _PAGE])
                    break
        return True


class ClaimsAllOfAPart(FakeProvider):
    """Says that all are deleted as soon as one is."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        known = {one.id for one in self.cloud.view(group_id).instances}
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        return [name for name in instance_ids if name in known or name in accepted] if accepted else ()


class RaisesAfterAPart(FakeProvider):
    """Calls a deletion refused of which the cloud took the first half."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        known = {one.id for one in self.cloud.view(group_id).instances}
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        if accepted and known.intersection(instance_ids) - {*accepted}:
            raise spec.AccessDenied("the second deletion was refused")
        return accepted


class ClaimsWhatIsGone(FakeProvider):
    """Says of machines that are gone that it deleted them, if it deleted another."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        gone = {*instance_ids} - {one.id for one in self.cloud.view(group_id).instances}
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        return [name for name in instance_ids if name in accepted or name in gone] if accepted else ()


class WithdrawsInPartAndClaimsAll(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        accepted = super().decrease_target_size(group_id, expected_target, target)
        empty = expected_target - len(self._view(group_id).instances)
        return min(expected_target - target, empty) if accepted else 0


class WaitsForeverToWithdraw(FakeProvider):
    """Lowers a size without a time limit."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().decrease_target_size(group_id, expected_target, target)
        except spec.ProviderUnavailable:
            self._clock.sleep(100_000.0)
            raise


class WaitsForeverToDelete(FakeProvider):
    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        try:
            return super().delete_instances(group_id, instance_ids, expected_target)
        except spec.ProviderUnavailable:
            self._clock.sleep(100_000.0)
            raise


class CountsAnswersAlone(FakeProvider):
    """Asks for machines one by one, and returns how many requests were answered."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        asked = expected_target
        target = asked + self.cloud.faults.at_most("increase_size", group_id, target - asked)
        while asked < target:
            try:
                super().increase_size(group_id, asked, asked + 1)
            except BaseException:
                if asked == expected_target:
                    raise
                break
            asked += 1
        return asked - expected_target


class ListsPlaceholders(FakeProvider):
    """Fills the list up to the target."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        view = self._view(group_id)
        there = super().instances(group_id)
        lacking = view.target - len(there) - sum(one.count for one in view.failures)
        creating = spec.InstanceState.CREATING
        return [*there, *(spec.Instance(id=f"placeholder-{n}", state=creating) for n in range(lacking))]


class AsksTheWallClockWhenItWithdraws(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.asked_at = time.time()  # noqa: TID251 - the defect
        return super().decrease_target_size(group_id, expected_target, target)


class AsksTheWallClockForAPrice(FakeProvider):
    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return replace(super().node_price(group_id), source=f"asked at {time.time():.0f}")  # noqa: TID251 - the defect


class TellsNoSecondFailure(FakeProvider):
    """Tells of failures until there are two."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        found = super().failed_instances(group_id)
        return found if len(found) != 2 else ()


class BuysAgainFromALateList(FakeProvider):
    """Takes listings for 1 s late that are 5 s late, and compares a size with them right before it writes."""

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        return replace(super().provider_info(), settles_after=1.0)

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with suppress(spec.TargetChanged):
            return super().increase_size(group_id, expected_target, target)
        now = self.cloud.view(group_id).target
        return super().increase_size(group_id, now, now + target - expected_target)


REJECTED = [
    (DeletesByAnOldIndex, "a_machine_that_vanishes_before_a_deletion_moves_it_to_no_other"),
    (ReplaysItsAnswers, "an_increase_after_a_deletion_buys_again"),
    (TakesUnreadFailuresForNone, "a_cloud_that_is_read_in_part_is_told"),
    (TakesAnUnreadPageForTheLast, "a_page_that_cannot_be_read_is_told"),
    (ClaimsAllOfAPart, "a_partly_refused_deletion_is_exact"),
    (RaisesAfterAPart, "a_partly_refused_deletion_is_exact"),
    (ClaimsWhatIsGone, "deletion_among_machines_that_are_gone_is_exact"),
    (WithdrawsInPartAndClaimsAll, "a_partly_refused_decrease_is_counted"),
    (WaitsForeverToWithdraw, "a_decrease_ends_by_itself"),
    (WaitsForeverToDelete, "a_deletion_ends_by_itself"),
    (CountsAnswersAlone, "an_answer_that_is_lost_midway_is_counted"),
    (ListsPlaceholders, "placeholders_are_not_listed"),
    (AsksTheWallClockWhenItWithdraws, "time_comes_from_the_context"),
    (AsksTheWallClockForAPrice, "time_comes_from_the_context"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_only_one_check_rejects_them(faulty: type[FakeProvider], check: str, reject: Reject, judge: Judge) -> None:
    reject(faulty, check)
    others = [judge(faulty, one.name) for one in CHECKS if one.name != check]
    assert [one.check for one in others if one.outcome == ContractOutcome.FAILED] == []


@pytest.mark.parametrize(
    "check", ["one_failure_at_a_time_can_be_deleted", "one_failure_without_a_machine_at_a_time_can_be_deleted"]
)
def test_the_provider_is_blamed_for_failures_that_it_does_not_tell(check: str, judge: Judge) -> None:
    assert judge(TellsNoSecondFailure, check).reason == "two creations failed, failed_instances reports 0"


def test_an_increase_that_is_taken_twice_may_come_from_late_listings(judge: Judge) -> None:
    found = judge(BuysAgainFromALateList, "repeated_increase_changes_nothing")
    assert found.reason == (
        "increase_size sent twice made the target 4, not 3; "
        "settles_after is 1 s: set it higher if the cloud's listings are later than that"
    )
