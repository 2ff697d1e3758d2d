"""Providers that write correctly until another writer writes meanwhile, or until a call is repeated."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from nodewright.spec import NodeGroupNotFound, TargetChanged, hookimpl
from nodewright_fake import FakeProvider

Reject = Callable[[type[FakeProvider], str], None]


class WritesToUnknownGroupsAreNothing(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().increase_size(group_id, expected_target, target)
        except NodeGroupNotFound:
            return 0


class AddsTheDifference(FakeProvider):
    """Adds to the current target."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        now = self.cloud.view(group_id).target
        return super().increase_size(group_id, now, now + target - expected_target)


class AddsTheDifferenceTwice(FakeProvider):
    """Tries again after a conflict, and the first try has taken effect."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with suppress(TargetChanged):
            return super().increase_size(group_id, expected_target, target)
        for _ in range(2):
            now = self.cloud.view(group_id).target
            super().increase_size(group_id, now, now + target - expected_target)
        return target - expected_target


class DecreaseIgnoresExpectedTarget(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        now = self.cloud.view(group_id).target
        withdrawn = super().decrease_target_size(group_id, now, min(now, target))
        return min(withdrawn, expected_target - target)


class SubtractsTheDifference(FakeProvider):
    """Subtracts from the current target: sent twice, it withdraws twice."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        now = self.cloud.view(group_id).target
        return super().decrease_target_size(group_id, now, now - (expected_target - target))


class LowersByTheDifferenceOnAConflict(FakeProvider):
    """After a conflict it sets the size that it finds less what it wanted to withdraw; the cloud picks the victims."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        try:
            return super().decrease_target_size(group_id, expected_target, target)
        except TargetChanged as changed:
            self.cloud.set_target(group_id, changed.actual - (expected_target - target))
            self._look_again(group_id)
        return expected_target - target


class DeletesByNumberOnAConflict(FakeProvider):
    """After a conflict it lowers the size of what runs, and lets the cloud pick the victims."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        try:
            return super().delete_instances(group_id, instance_ids, expected_target)
        except TargetChanged:
            self.cloud.set_target(group_id, 0)
            self._look_again(group_id)
        return instance_ids


class LowersByOneForSeveral(FakeProvider):
    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        self.cloud.group(group_id).set_target(expected_target - min(1, len(accepted)))
        self._look_again(group_id)
        return accepted


class LowersAgainForWhatIsGone(FakeProvider):
    """Remembers what it deleted, and accepts it once more."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        super().delete_instances(group_id, instance_ids, expected_target)
        self.cloud.group(group_id).set_target(expected_target - len(instance_ids))
        self._look_again(group_id)
        return instance_ids


class ForceDeleteKillsANeighbour(FakeProvider):
    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = super().force_delete_instances(group_id, instance_ids, expected_target)
        self.cloud.set_target(group_id, 0)
        self._look_again(group_id)
        return accepted


class ForceDeleteIgnoresExpectedTarget(FakeProvider):
    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        del expected_target
        return super().force_delete_instances(group_id, instance_ids, self.cloud.view(group_id).target)


class AtomicIncreaseHasNoMaximum(FakeProvider):
    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.cloud.set_target(group_id, target)
        self._look_again(group_id)
        return target - expected_target


class AtomicIncreaseIgnoresExpectedTarget(FakeProvider):
    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        now = self.cloud.view(group_id).target
        return super().atomic_increase_size(group_id, now, now + target - expected_target)


class ForgetsWhileItWrites(FakeProvider):
    """Reads find nothing until the write is over."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        return True if self._writes else super().refresh(wanted)

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        kept, self._views, self._writes = self._views, {}, True
        try:
            return super().increase_size(group_id, expected_target, target)
        finally:
            self._views, self._writes = {**kept, **self._views}, False

    _writes = False


class LooksBeforeAndAddsAfter(FakeProvider):
    """Has its condition checked before the write, not with it."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        if self.cloud.view(group_id).target != expected_target:
            raise TargetChanged(actual=self.cloud.view(group_id).target)
        with suppress(TargetChanged):
            self.cloud.decrease(group_id, expected_target, expected_target)
        self.cloud.set_target(group_id, target)
        self._look_again(group_id)
        return target - expected_target


REJECTED = [
    (WritesToUnknownGroupsAreNothing, "unknown_groups_are_refused_in_writes"),
    (AddsTheDifference, "repeated_increase_changes_nothing"),
    (AddsTheDifferenceTwice, "resize_from_outside_during_an_increase_kills_nobody"),
    (DecreaseIgnoresExpectedTarget, "wrong_expected_target_refuses_decrease"),
    (DecreaseIgnoresExpectedTarget, "resize_from_outside_refuses_decrease"),
    (SubtractsTheDifference, "repeated_decrease_withdraws_once"),
    (LowersByTheDifferenceOnAConflict, "resize_from_outside_during_a_decrease_kills_nobody"),
    (DeletesByNumberOnAConflict, "resize_from_outside_during_a_delete_kills_nobody_else"),
    (DeletesByNumberOnAConflict, "resize_from_outside_kills_nobody_else_on_delete"),
    (LowersByOneForSeveral, "delete_of_several_lowers_the_target_by_as_many"),
    (LowersAgainForWhatIsGone, "repeated_delete_lowers_once"),
    (ForceDeleteKillsANeighbour, "force_delete_removes_exactly_the_named"),
    (ForceDeleteIgnoresExpectedTarget, "wrong_expected_target_refuses_force_delete"),
    (ForgetsWhileItWrites, "reads_during_a_write_are_answered"),
    (LooksBeforeAndAddsAfter, "of_overlapping_increases_one_is_accepted"),
    (AtomicIncreaseHasNoMaximum, "atomic_increase_beyond_the_maximum_is_refused"),
    (AtomicIncreaseIgnoresExpectedTarget, "wrong_expected_target_refuses_atomic_increase"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_faulty_writes_in_a_race_are_rejected(faulty: type[FakeProvider], check: str, reject: Reject) -> None:
    reject(faulty, check)
