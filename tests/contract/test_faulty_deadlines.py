"""Providers that call the cloud without a time limit: one for each hook that few providers have."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright.testkit.contract import CHECKS, ContractOutcome, ContractResult
from nodewright_fake import FakeProvider

Reject = Callable[[type[FakeProvider], str], None]
Judge = Callable[[type[FakeProvider], str], ContractResult]
_DEADLINES = [check.name for check in CHECKS if check.promise.key == "deadlines"]


class Endless(FakeProvider):
    """Waits for an answer that does not come."""

    @contextmanager
    def without_limit(self) -> Iterator[None]:
        try:
            yield
        except spec.ProviderUnavailable:
            self._clock.sleep(100_000.0)
            raise


class GrowsAtomicallyForever(Endless):
    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self.without_limit():
            return super().atomic_increase_size(group_id, expected_target, target)


class ForcesForever(Endless):
    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with self.without_limit():
            return super().force_delete_instances(group_id, instance_ids, expected_target)


class MakesAGroupForever(Endless):
    @hookimpl
    def create_node_group(self, spec: spec.NewNodeGroup) -> spec.NodeGroup:
        with self.without_limit():
            return super().create_node_group(spec)


class RemovesAGroupForever(Endless):
    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        with self.without_limit():
            return super().delete_node_group(group_id)


class TakesSilenceForGone(FakeProvider):
    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        try:
            return super().delete_node_group(group_id)
        except spec.ProviderUnavailable:
            return True


class ProvisionsForever(Endless):
    @hookimpl
    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict:
        with self.without_limit():
            return super().provision(request)


class TakesSilenceForConsent(FakeProvider):
    @hookimpl
    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict:
        try:
            return super().provision(request)
        except spec.ProviderUnavailable:
            return spec.ProvisioningVerdict(accepted=True, reason="Provisioned")


class ExaminesForever(Endless):
    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        with self.without_limit():
            return super().diagnose()


REJECTED = [
    (GrowsAtomicallyForever, "an_atomic_increase_ends_by_itself"),
    (ForcesForever, "a_forced_deletion_ends_by_itself"),
    (MakesAGroupForever, "making_a_group_ends_by_itself"),
    (RemovesAGroupForever, "removing_a_group_ends_by_itself"),
    (TakesSilenceForGone, "removing_a_group_ends_by_itself"),
    (ProvisionsForever, "provisioning_ends_by_itself"),
    (TakesSilenceForConsent, "provisioning_ends_by_itself"),
    (ExaminesForever, "a_diagnosis_ends_by_itself"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_only_the_check_of_that_hook_rejects_them(
    faulty: type[FakeProvider], check: str, reject: Reject, judge: Judge
) -> None:
    reject(faulty, check)
    others = [judge(faulty, name) for name in _DEADLINES if name != check]
    assert [one.check for one in others if one.outcome == ContractOutcome.FAILED] == []
