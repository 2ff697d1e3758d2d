"""Providers with one defect in what they can do beyond the required hooks, or in single values."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright_fake import FakeProvider

Reject = Callable[[type[FakeProvider], str], None]


class ListsAGhost(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return [*super().instances(group_id), spec.Instance(id="fake:///a/ghost")]


class KeepsDeletedMachines(FakeProvider):
    """A group that was listed once is listed forever."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._known: dict[str, spec.Instance] = {}

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        super().refresh(wanted)
        self._known |= {found.id: found for found in super().instances("a")}
        return True

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        super().instances(group_id)
        return list(self._known.values())


class TargetBeyondItsLimits(FakeProvider):
    @hookimpl
    def target_size(self, group_id: str) -> int:
        return super().target_size(group_id) + 1000


class StatesThatAreNone(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        state = cast("spec.InstanceState", "up")
        return [replace(found, state=state) for found in super().instances(group_id)]


class TemplateIsTheFirstMachines(FakeProvider):
    """Describes the machine that is there, and has nothing to say of an empty group."""

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        if not super().instances(group_id):
            raise spec.ProviderError("there is no machine to look at", code="noMachine")
        return super().template_node(group_id)


class TellsOfFailuresThatAreNone(FakeProvider):
    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return [*super().failed_instances(group_id), spec.FailedInstance(failure_id="nothing", code="NONE")]


class ForgetsTheCode(FakeProvider):
    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return [replace(failure, code="") for failure in super().failed_instances(group_id)]


class BlamesTheAccount(FakeProvider):
    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return [replace(failure, scope=spec.FailureScope.ACCOUNT) for failure in super().failed_instances(group_id)]


class BucketOnEverything(FakeProvider):
    """Names the quota of the group's family for each failure, whatever its cause."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return [replace(failure, bucket="family") for failure in super().failed_instances(group_id)]


class RemovesNoGroup(FakeProvider):
    """Says that it is gone."""

    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        return bool(group_id)


class RemovesAnyGroup(FakeProvider):
    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        self.cloud.set_target(group_id, 0)
        return True


class MakesAnotherGroupEachTime(FakeProvider):
    made = 0

    @hookimpl
    def create_node_group(self, spec: spec.NewNodeGroup) -> spec.NodeGroup:
        self.made += 1
        group = super().create_node_group(replace(spec, group_id=f"{spec.group_id}-{self.made}"))
        return replace(group, id=spec.group_id)


class MakesGroupsWithoutTaints(FakeProvider):
    @hookimpl
    def create_node_group(self, spec: spec.NewNodeGroup) -> spec.NodeGroup:
        return super().create_node_group(replace(spec, taints=()))


class ForgetsThatItMadeThem(FakeProvider):
    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [replace(group, autoprovisioned="") for group in super().node_groups()]


class RemovesGroupsThatGrow(FakeProvider):
    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        if self.cloud.group(group_id).autoprovisioned:
            self.cloud.remove_group(group_id)
            return True
        return False


class MachineTypesWithoutPods(FakeProvider):
    @hookimpl
    def machine_types(self) -> Sequence[spec.MachineType]:
        bare = spec.NodeTemplate(allocatable={"cpu": spec.Quantity.of("4")})
        return [spec.MachineType(name="big", template=bare)]


class NoAcceleratorResources(FakeProvider):
    @hookimpl
    def gpu_resources(self) -> Sequence[str]:
        return ()


class NamesALabelTwice(FakeProvider):
    @hookimpl
    def ignored_labels(self) -> Sequence[str]:
        return ["pool", "pool"]


class ServesOneClassTwice(FakeProvider):
    @hookimpl
    def provisioning_classes(self) -> Sequence[spec.CloudProvisioningClass]:
        return [spec.CloudProvisioningClass(name="check.fake"), spec.CloudProvisioningClass(name="check.fake")]


class ServesEveryClass(FakeProvider):
    @hookimpl
    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict:
        return spec.ProvisioningVerdict(accepted=True, reason="Provisioned", message=request.key)


class ServesEachQuestion(FakeProvider):
    """Takes a request that is asked again for another one."""

    @hookimpl
    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict:
        return super().provision(replace(request, key=f"{request.key}-{self.cloud.group('a').target}"))


class TellsOfEveryMachine(FakeProvider):
    """Takes all machines for interrupted ones."""

    @hookimpl
    def interruptions(self) -> Sequence[spec.Interruption]:
        kind = spec.InterruptionKind.REBALANCE
        return [spec.Interruption(id=one.id, instance_id=one.id, kind=kind) for one in self.instances("a")]


class TellsOfANoticeOnce(FakeProvider):
    """Deletes the message when it has read it."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._told: set[str] = set()

    @hookimpl
    def interruptions(self) -> Sequence[spec.Interruption]:
        fresh = [notice for notice in super().interruptions() if notice.id not in self._told]
        self._told |= {notice.id for notice in fresh}
        return fresh


class NumbersNoticesByRead(FakeProvider):
    """Gives a notice another id in every refresh."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._reads = 0

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self._reads += 1
        return super().refresh(wanted)

    @hookimpl
    def interruptions(self) -> Sequence[spec.Interruption]:
        return [replace(notice, id=f"{notice.id}#{self._reads}") for notice in super().interruptions()]


class WakesAllTheTime(FakeProvider):
    @hookimpl
    def await_interruption(self, timeout: float) -> bool:
        return timeout > 0


class ForgetsARunningMachine(FakeProvider):
    @hookimpl
    def running_machines(self) -> Sequence[spec.NodeStart]:
        return super().running_machines()[1:]


class ProbesByResizing(FakeProvider):
    """Tries its permission out."""

    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        for group in self.node_groups():
            self.cloud.set_target(group.id, self.target_size(group.id) + 1)
        return super().diagnose()


class FindingsWithoutWords(FakeProvider):
    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        return [replace(found, message="") for found in super().diagnose()]


class NoPolicy(FakeProvider):
    @hookimpl
    def minimal_policy(self) -> str:
        return ""


class RespectsTheMinimum(FakeProvider):
    """Also where it is told not to."""

    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        return super().delete_instances(group_id, instance_ids, expected_target)


class CountsNothing(FakeProvider):
    @hookimpl
    def api_calls(self) -> Any:
        return ()


REJECTED = [
    (ListsAGhost, "instances_are_the_machines_of_the_cloud"),
    (KeepsDeletedMachines, "deleted_machines_leave_the_listing"),
    (TargetBeyondItsLimits, "target_is_within_limits"),
    (StatesThatAreNone, "values_have_valid_types_throughout"),
    (TemplateIsTheFirstMachines, "empty_groups_have_a_template"),
    (TellsOfFailuresThatAreNone, "nothing_failed_is_empty"),
    (ForgetsTheCode, "failures_keep_the_clouds_code"),
    (BlamesTheAccount, "unexplained_failures_reach_their_group_only"),
    (BucketOnEverything, "unexplained_failures_reach_their_group_only"),
    (RemovesNoGroup, "groups_can_be_made_and_removed"),
    (RemovesAnyGroup, "groups_of_others_are_not_removed"),
    (MakesAnotherGroupEachTime, "groups_are_made_once"),
    (MakesGroupsWithoutTaints, "groups_can_be_made_and_removed"),
    (ForgetsThatItMadeThem, "groups_can_be_made_and_removed"),
    (RemovesGroupsThatGrow, "groups_that_are_used_are_not_removed"),
    (MachineTypesWithoutPods, "machine_types_are_complete"),
    (NoAcceleratorResources, "gpu_names_are_told"),
    (NamesALabelTwice, "similarity_labels_are_keys"),
    (ServesOneClassTwice, "provisioning_classes_have_names"),
    (ServesEveryClass, "unknown_provisioning_classes_are_refused"),
    (ServesEachQuestion, "provision_under_one_key_makes_nothing_twice"),
    (TellsOfEveryMachine, "notices_are_told_of_machines_that_exist"),
    (TellsOfANoticeOnce, "a_notice_names_its_machine_until_it_is_gone"),
    (NumbersNoticesByRead, "a_notice_names_its_machine_until_it_is_gone"),
    (WakesAllTheTime, "waiting_ends_when_a_notice_comes"),
    (ForgetsARunningMachine, "simulated_machines_are_the_running_ones"),
    (ProbesByResizing, "diagnosis_changes_nothing"),
    (FindingsWithoutWords, "findings_say_what_and_how"),
    (NoPolicy, "minimal_policy_is_told"),
    (RespectsTheMinimum, "force_delete_goes_below_the_minimum"),
    (CountsNothing, "calls_are_counted"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_faulty_capabilities_are_rejected(faulty: type[FakeProvider], check: str, reject: Reject) -> None:
    reject(faulty, check)
