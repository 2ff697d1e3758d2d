"""Providers that mistake what a cloud refuses, or forget what they did when an answer is late or lost."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright_fake import FakeProvider

Reject = Callable[[type[FakeProvider], str], None]


@contextmanager
def _becomes(seen: type[spec.ProviderError], told: Callable[[str], spec.ProviderError]) -> Iterator[None]:
    """Translate one class of errors wrongly."""
    try:
        yield
    except seen as error:
        raise told(str(error)) from error


class TakesNoCapacityForAQuota(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.OutOfCapacity, spec.QuotaExceeded):
            return super().increase_size(group_id, expected_target, target)


class TakesAQuotaForNoCapacity(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.QuotaExceeded, spec.OutOfCapacity):
            return super().increase_size(group_id, expected_target, target)


class TakesEachErrorForAnother(FakeProvider):
    """Has one error for everything."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.ProviderError, spec.ProviderError):
            return super().increase_size(group_id, expected_target, target)


class TakesThrottlingForAnOutage(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.Throttled, spec.ProviderUnavailable):
            return super().increase_size(group_id, expected_target, target)


class TakesAMissingPermissionForAnOutage(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.AccessDenied, spec.ProviderUnavailable):
            return super().increase_size(group_id, expected_target, target)


class TakesAnOutageForARefusal(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.ProviderUnavailable, spec.OutOfCapacity):
            return super().increase_size(group_id, expected_target, target)


class TakesALockForARefusal(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _becomes(spec.OperationInProgress, spec.OutOfCapacity):
            return super().increase_size(group_id, expected_target, target)


class TakesNoCapacityForOneOfTheAccount(FakeProvider):
    """Lets a lack of one type stop every group of the account."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().increase_size(group_id, expected_target, target)
        except spec.OutOfCapacity as error:
            raise spec.OutOfCapacity(str(error), code=error.code, scope=spec.FailureScope.ACCOUNT) from error


class AnswersNoneInsteadOfARefusal(FakeProvider):
    """Returns that no machine was accepted, and keeps the reason to itself."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().increase_size(group_id, expected_target, target)
        except spec.Shortage:
            return 0


class RaisesItsTargetBeforeItAsks(FakeProvider):
    """Counts what it wants as granted, also when the cloud refuses."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().increase_size(group_id, expected_target, target)
        except spec.Shortage:
            self._views[group_id] = dataclasses.replace(self._views[group_id], target=target)
            raise


class ClaimsWhatItAskedFor(FakeProvider):
    """Returns the number that it asked for, whatever was granted."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        super().increase_size(group_id, expected_target, target)
        return target - expected_target


class SaysDeletedWhenRefused(FakeProvider):
    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with suppress(spec.AccessDenied):
            return super().delete_instances(group_id, instance_ids, expected_target)
        return instance_ids


class DeletesPastALock(FakeProvider):
    """Takes the lock away, as a careless author does with deletion protection."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with suppress(spec.OperationInProgress):
            return super().delete_instances(group_id, instance_ids, expected_target)
        self.cloud.delete(group_id, instance_ids, expected_target, force=True)
        self._look_again(group_id)
        return instance_ids


class SaysGoneWhenThrottled(FakeProvider):
    """Returns that there was nothing to delete."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with suppress(spec.Throttled):
            return super().delete_instances(group_id, instance_ids, expected_target)
        return ()


class SaysWithdrawnWhenRefused(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        with suppress(spec.AccessDenied):
            return super().decrease_target_size(group_id, expected_target, target)
        return expected_target - target


class EmptyWhenUnreadable(FakeProvider):
    """Lists no group while the cloud is out of order."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        with suppress(spec.ProviderUnavailable):
            return super().refresh(wanted)
        self._views = {}
        return True


class EmptiesItselfFirst(FakeProvider):
    """Forgets what it knew before it asks."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self._views = {}
        return super().refresh(wanted)


class ForgetsHalfWay(FakeProvider):
    """Reads the machines after the groups, and has thrown away those it knew before they are read."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        super().refresh(wanted)
        read = self._views
        self._views = {name: dataclasses.replace(view, instances=()) for name, view in read.items()}
        with self.cloud.faults.around("refresh"):
            self._views = read
        return True


class FreshWhenUnreadable(FakeProvider):
    """Says that it has read the cloud, which did not answer."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        with suppress(spec.ProviderUnavailable):
            return super().refresh(wanted)
        return True


class AnswersFalseWhenUnreadable(FakeProvider):
    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        with suppress(spec.ProviderUnavailable):
            return super().refresh(wanted)
        return False


class ReadsNothingWithoutPermission(FakeProvider):
    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        with suppress(spec.AccessDenied):
            return super().refresh(wanted)
        return True


class ReadsNothingWhenThrottled(FakeProvider):
    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        with suppress(spec.Throttled):
            return super().refresh(wanted)
        return True


class BuysAgainWhenInDoubt(FakeProvider):
    """Repeats its own write when the answer does not come, on top of what the first one did."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().increase_size(group_id, expected_target, target)
        except BaseException:
            self.cloud.set_target(group_id, self.cloud.view(group_id).target + 1)
            raise


class BuysAgainIfALateListDoesNotShowIt(FakeProvider):
    """Looks into a list when the answer does not come, and buys again if the list does not show what was bought."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().increase_size(group_id, expected_target, target)
        except spec.ProviderUnavailable:
            self.refresh(frozenset({group_id}))
            if self._views[group_id].target != expected_target:
                raise
            now = self.cloud.view(group_id).target
            return super().increase_size(group_id, now, now + target - expected_target)


class DeletesTheNextWhenInDoubt(FakeProvider):
    """Lowers the size when the answer does not come, and the cloud picks a victim."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        try:
            return super().delete_instances(group_id, instance_ids, expected_target)
        except BaseException:
            self.cloud.set_target(group_id, expected_target - len(instance_ids) - 1)
            raise


class WithdrawsAgainWhenInDoubt(FakeProvider):
    """Repeats its own decrease when the answer does not come, on top of what the first one did."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().decrease_target_size(group_id, expected_target, target)
        except BaseException:
            self.cloud.set_target(group_id, self.cloud.view(group_id).target - 1)
            raise


class KnowsOnlyWhatItMadeItself(FakeProvider):
    """Keeps the target in its memory: a new process starts with what runs."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._targets: dict[str, int] = {}

    @hookimpl
    def target_size(self, group_id: str) -> int:
        super().target_size(group_id)
        return self._targets.get(group_id, len(self._view(group_id).instances))

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        accepted = super().increase_size(group_id, expected_target, target)
        self._targets[group_id] = expected_target + accepted
        return accepted


class ComparesWithItsOwnMemory(FakeProvider):
    """Compares expected_target with what it last wrote itself, and adds the difference."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._written: dict[str, int] = {}

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        if self._written.get(group_id, expected_target) != expected_target:
            raise spec.TargetChanged(actual=self._written[group_id])
        self.cloud.set_target(group_id, self.cloud.view(group_id).target + target - expected_target)
        self._written[group_id] = target
        self._look_again(group_id)
        return target - expected_target


class NumbersFailuresByProcess(FakeProvider):
    """Counts the failures that this process has seen."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._process = id(self)

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        found = super().failed_instances(group_id)
        return [replace(one, failure_id=f"{self._process}-{one.failure_id}") for one in found]


class DeclaresNoDelay(FakeProvider):
    """Trusts late listings at once."""

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        return replace(super().provider_info(), settles_after=0.0)


class SaysThatItRemembers(FakeProvider):
    """Says that it corrects late listings by its own writes, and believes each listing."""

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        return replace(super().provider_info(), remembers_writes=True)


class AsksTheWallClock(FakeProvider):
    """Tells from the computer's own clock how old its data is."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self.read_at = time.time()  # noqa: TID251 - the defect
        return super().refresh(wanted)


class AsksTheCalendar(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        self.read_on = datetime.now(UTC)  # noqa: TID251 - the defect
        return super().instances(group_id)


class WaitsForever(FakeProvider):
    """Calls without a time limit."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        try:
            return super().refresh(wanted)
        except spec.ProviderUnavailable:
            self._clock.sleep(100_000.0)
            raise


class WritesUntilItIsAnswered(FakeProvider):
    """Repeats a write for as long as the cloud does not answer."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        while True:
            with suppress(spec.ProviderUnavailable):
                return super().increase_size(group_id, expected_target, target)


class GivesUpAtOnce(FakeProvider):
    """Takes every answer that needs more than a second for none, and the machines for not granted."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        started = self._clock.now()
        accepted = super().increase_size(group_id, expected_target, target)
        return accepted if self._clock.now() - started < 1 else 0


REJECTED = [
    (TakesNoCapacityForAQuota, "no_capacity_is_told_as_such"),
    (TakesNoCapacityForOneOfTheAccount, "no_capacity_is_told_as_such"),
    (AnswersNoneInsteadOfARefusal, "no_capacity_is_told_as_such"),
    (RaisesItsTargetBeforeItAsks, "no_capacity_is_told_as_such"),
    (TakesAQuotaForNoCapacity, "a_used_up_quota_is_told_as_such"),
    (TakesEachErrorForAnother, "a_used_up_quota_is_told_as_such"),
    (TakesThrottlingForAnOutage, "throttling_is_told_as_such"),
    (TakesEachErrorForAnother, "throttling_is_told_as_such"),
    (TakesAMissingPermissionForAnOutage, "a_missing_permission_is_told_as_such"),
    (TakesAnOutageForARefusal, "an_unavailable_cloud_is_told_as_such"),
    (TakesALockForARefusal, "a_conflict_is_told_as_such"),
    (ClaimsWhatItAskedFor, "a_partly_granted_increase_is_counted"),
    (SaysDeletedWhenRefused, "a_refused_deletion_is_no_deletion"),
    (DeletesPastALock, "a_locked_machine_is_not_deleted"),
    (SaysGoneWhenThrottled, "a_throttled_deletion_is_told_as_such"),
    (SaysWithdrawnWhenRefused, "a_refused_decrease_withdraws_nothing"),
    (EmptyWhenUnreadable, "an_unreadable_cloud_is_no_empty_cloud"),
    (EmptiesItselfFirst, "an_unreadable_cloud_is_no_empty_cloud"),
    (ForgetsHalfWay, "a_cloud_that_is_read_in_part_is_told"),
    (FreshWhenUnreadable, "an_unreadable_cloud_is_no_empty_cloud"),
    (AnswersFalseWhenUnreadable, "an_unreadable_cloud_is_no_empty_cloud"),
    (ReadsNothingWithoutPermission, "a_cloud_that_may_not_be_read_is_no_empty_cloud"),
    (ReadsNothingWhenThrottled, "a_cloud_that_throttles_reads_is_no_empty_cloud"),
    (BuysAgainWhenInDoubt, "a_lost_answer_buys_nothing_twice"),
    (BuysAgainIfALateListDoesNotShowIt, "a_lost_answer_is_not_looked_up_in_a_late_list"),
    (DeletesTheNextWhenInDoubt, "a_lost_answer_deletes_nothing_else"),
    (WithdrawsAgainWhenInDoubt, "a_lost_answer_withdraws_nothing_twice"),
    (KnowsOnlyWhatItMadeItself, "a_new_process_sees_the_same"),
    (ComparesWithItsOwnMemory, "a_new_process_makes_nothing_twice"),
    (NumbersFailuresByProcess, "a_new_process_tells_failures_by_the_same_ids"),
    (DeclaresNoDelay, "late_listings_hide_no_increase"),
    (SaysThatItRemembers, "late_listings_hide_no_increase"),
    (DeclaresNoDelay, "late_listings_bring_no_machine_back"),
    (SaysThatItRemembers, "late_listings_bring_no_machine_back"),
    (DeclaresNoDelay, "late_listings_hide_nothing_from_a_new_process"),
    (AsksTheWallClock, "time_comes_from_the_context"),
    (AsksTheCalendar, "time_comes_from_the_context"),
    (WaitsForever, "a_call_ends_by_itself"),
    (WritesUntilItIsAnswered, "a_write_ends_by_itself"),
    (GivesUpAtOnce, "a_slow_cloud_is_waited_for"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_faulty_refusals_are_rejected(faulty: type[FakeProvider], check: str, reject: Reject) -> None:
    reject(faulty, check)
