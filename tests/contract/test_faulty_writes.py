"""Providers whose writes have one defect each: the contract suite rejects every one of them."""

from collections.abc import Callable, Sequence
from typing import cast

import pytest

from nodewright.spec import TargetChanged, hookimpl
from nodewright_fake import FakeProvider
from nodewright_fake.machines import Phase

Reject = Callable[[type[FakeProvider], str], None]


class KillsOnDecrease(FakeProvider):
    """Sets the size, and the cloud picks the victims."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.cloud.decrease(group_id, expected_target, expected_target)
        self.cloud.set_target(group_id, target)
        return expected_target - target


class KillsWhatArrivedMeanwhile(FakeProvider):
    """Withdraws what had no machine at the last refresh, without looking again."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.cloud.decrease(group_id, expected_target, expected_target)
        seen = self._view(group_id)
        lowest = max(target, len(seen.instances))
        self.cloud.set_target(group_id, lowest)
        return expected_target - lowest


class KillsWhatArrivesDuringTheWrite(FakeProvider):
    """Looks again right before it lowers the size, and not once more."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        lowest = max(target, len(self.cloud.living(group_id)))
        self.cloud.decrease(group_id, expected_target, expected_target)
        self.cloud.set_target(group_id, lowest)
        self._look_again(group_id)
        return expected_target - lowest


class OverwritesWhatHappensDuringADelete(FakeProvider):
    """Deletes, then sets the size that it had in mind before: machines that were requested meanwhile are lost."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        named = set(instance_ids)
        there = len(self.cloud.living(group_id) - named)
        failed = {failure.instance_id for failure in self._view(group_id).failures} & named
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        if failed:
            self.cloud.set_target(group_id, there)
            self._look_again(group_id)
        return accepted


class DecreasesBelowWhatRuns(FakeProvider):
    """Lowers the number and leaves the machines alone: the cloud and the target part ways."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.cloud.decrease(group_id, expected_target, expected_target)
        self.cloud.group(group_id).set_target(target)
        self._look_again(group_id)
        return expected_target - target


class ClaimsMoreThanItWithdrew(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        super().decrease_target_size(group_id, expected_target, target)
        return expected_target - target


class IncreasesTwiceOnRetry(FakeProvider):
    """Adds the difference to the current target."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        now = self.cloud.view(group_id).target
        return self.cloud.increase(group_id, now, now + target - expected_target)


class IgnoresExpectedTarget(FakeProvider):
    """Sets the target, even if another writer changed it in between."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        now = self.cloud.view(group_id).target
        if target > now:
            self.cloud.increase(group_id, now, target)
            self._look_again(group_id)
        return target - expected_target


class ComparesWithItsCache(FakeProvider):
    """Checks expected_target against the last refresh, not against the cloud."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        if self._view(group_id).target != expected_target:
            raise TargetChanged(actual=self._view(group_id).target)
        self.cloud.set_target(group_id, target)
        self._look_again(group_id)
        return target - expected_target


class StaleAfterItsOwnWrite(FakeProvider):
    """Its reads show its write only after the next refresh."""

    def _look_again(self, group_id: str) -> None:
        """The view stays as it was."""


class IncreasesByOneTooMany(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        accepted = super().increase_size(group_id, expected_target, target)
        self.cloud.set_target(group_id, target + 1)
        self._look_again(group_id)
        return accepted


class GoesBeyondTheMaximum(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.cloud.increase(group_id, expected_target, expected_target)
        self.cloud.set_target(group_id, target)
        self._look_again(group_id)
        return target - expected_target


class DeleteKillsANeighbour(FakeProvider):
    """Deletes the named machine by lowering the size once more."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        self.cloud.set_target(group_id, max(0, self.cloud.view(group_id).target - len(accepted)))
        self._look_again(group_id)
        return accepted


class DeleteKeepsTheTarget(FakeProvider):
    """The cloud replaces what was deleted."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        self.cloud.set_target(group_id, expected_target)
        self._look_again(group_id)
        return accepted


class DeleteLowersTooFar(FakeProvider):
    """Sets the target to the machines that are left, and so withdraws what is on its way."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        self.cloud.set_target(group_id, len(self.cloud.living(group_id)))
        self._look_again(group_id)
        return accepted


class DeleteLowersForUnknownIds(FakeProvider):
    """Lowers the target by what was asked for, not by what was there."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = self.cloud.delete(group_id, instance_ids, expected_target)
        self.cloud.group(group_id).set_target(expected_target - len(instance_ids))
        self._look_again(group_id)
        return accepted


class DeleteIgnoresExpectedTarget(FakeProvider):
    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        del expected_target
        return super().delete_instances(group_id, instance_ids, self.cloud.view(group_id).target)


class AcceptsAndDoesNotDelete(FakeProvider):
    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        self.cloud.delete(group_id, (), expected_target)
        self.cloud.group(group_id).set_target(expected_target - len(instance_ids))
        self._look_again(group_id)
        return instance_ids


class CannotDeleteFailures(FakeProvider):
    """Knows machines only by the list of those that exist."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        failed = {machine.id for machine in self.cloud.group(group_id).in_phase(Phase.FAILED)}
        known = [instance_id for instance_id in instance_ids if instance_id not in failed]
        return super().delete_instances(group_id, known, expected_target)


class GrantsAtomicRequestsInPart(FakeProvider):
    """Declares atomic resizes and serves them like any other."""

    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return super().increase_size(group_id, expected_target, min(target, expected_target + 1))


class AnswersNothingToAnIncrease(FakeProvider):
    """Does it and forgets to say so: no return."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return cast("int", _silent(super().increase_size(group_id, expected_target, target)))


class AnswersNothingToADecrease(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        return cast("int", _silent(super().decrease_target_size(group_id, expected_target, target)))


def _silent(_: int) -> None:
    """The answer of a hook that forgot its return."""


REJECTED = [
    (KillsOnDecrease, "decrease_never_kills"),
    (KillsWhatArrivedMeanwhile, "machine_that_arrives_meanwhile_survives_decrease"),
    (KillsWhatArrivesDuringTheWrite, "machine_that_arrives_during_a_decrease_survives"),
    (OverwritesWhatHappensDuringADelete, "machine_that_arrives_while_failures_are_deleted_survives"),
    (DecreasesBelowWhatRuns, "decrease_stops_at_what_runs"),
    (ClaimsMoreThanItWithdrew, "decrease_never_kills"),
    (AnswersNothingToAnIncrease, "increase_is_granted"),
    (AnswersNothingToADecrease, "decrease_withdraws_capacity_without_a_machine"),
    (IncreasesTwiceOnRetry, "repeated_increase_by_a_restarted_process_changes_nothing"),
    (IgnoresExpectedTarget, "wrong_expected_target_refuses_increase"),
    (ComparesWithItsCache, "resize_from_outside_refuses_increase"),
    (StaleAfterItsOwnWrite, "increase_raises_the_target_exactly"),
    (IncreasesByOneTooMany, "increase_raises_the_target_exactly"),
    (GoesBeyondTheMaximum, "increase_beyond_the_maximum_is_refused"),
    (DeleteKillsANeighbour, "delete_removes_exactly_the_named"),
    (DeleteKeepsTheTarget, "delete_removes_exactly_the_named"),
    (DeleteLowersTooFar, "delete_leaves_requested_capacity_alone"),
    (DeleteLowersForUnknownIds, "delete_skips_what_is_gone"),
    (DeleteIgnoresExpectedTarget, "wrong_expected_target_refuses_delete"),
    (AcceptsAndDoesNotDelete, "delete_removes_exactly_the_named"),
    (CannotDeleteFailures, "failed_machines_can_be_deleted"),
    (GrantsAtomicRequestsInPart, "atomic_increase_is_all_or_nothing"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_faulty_writes_are_rejected(faulty: type[FakeProvider], check: str, reject: Reject) -> None:
    reject(faulty, check)
