"""Providers that see some of the machines, or others', or describe them wrongly; and that forget failures."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from nodewright import spec
from nodewright.spec import hookimpl
from nodewright_fake import FakeProvider
from nodewright_fake.machines import view_of

Reject = Callable[[type[FakeProvider], str], None]
_PAGE = 100


class ReadsTheFirstPage(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return super().instances(group_id)[:_PAGE]


class ListsWhatRuns(FakeProvider):
    """Filters the cloud's list by its state."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return [one for one in super().instances(group_id) if one.state != spec.InstanceState.CREATING]


class CallsEverythingRunning(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return [spec.Instance(id=one.id) for one in super().instances(group_id)]


class ForgetsStoppedMachines(FakeProvider):
    """Lists machines by the ones that answer."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        answering = {start.instance_id for start in self._view(group_id).running}
        return [one for one in super().instances(group_id) if one.id in answering]


class FailsForWhatIsGone(FakeProvider):
    """Refuses a deletion altogether if one of the machines is gone."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        missing = [name for name in instance_ids if name not in self.cloud.group(group_id).machines]
        if missing:
            raise spec.ProviderError(f"no machine {missing[0]}", code="notFound")
        return super().delete_instances(group_id, instance_ids, expected_target)


class ListsStrangers(FakeProvider):
    """Takes every group of the account for its own."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        for name in ("a", "of-somebody-else"):
            if self.cloud.has_group(name):
                self.cloud.group(name).is_listed = True
        return super().refresh(wanted)


class ListsGroupsOnce(FakeProvider):
    """Keeps the list of groups of its first reading."""

    _first: Sequence[spec.NodeGroup] = ()

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        self._first = self._first or super().node_groups()
        return self._first


class OneListForAllGroups(FakeProvider):
    """Filters servers by the cluster's label, and not by the group's."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        super().instances(group_id)
        return [one for name in self.cloud.group_names() for one in super(OneListForAllGroups, self).instances(name)]


class TellsFailuresOfAll(FakeProvider):
    """Tells of the account's failed actions in each group."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        super().failed_instances(group_id)
        every = self.cloud.group_names()
        return [one for name in every for one in super(TellsFailuresOfAll, self).failed_instances(name)]


class GrowsEveryGroup(FakeProvider):
    """Sets the size of whatever carries the cluster's label."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        accepted = super().increase_size(group_id, expected_target, target)
        for name in self.cloud.group_names():
            if name != group_id:
                self.cloud.set_target(name, self.cloud.group(name).target + accepted)
        return accepted


class DeletesInEveryGroup(FakeProvider):
    """Finds a machine by its id among all machines of the cluster."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        deleted = list(super().delete_instances(group_id, instance_ids, expected_target))
        for name in self.cloud.group_names():
            there = [one for one in instance_ids if one in self.cloud.group(name).machines]
            if name != group_id and there:
                deleted += super().delete_instances(name, there, self.cloud.group(name).target)
        return deleted


class DeletesWhateverIsNamed(FakeProvider):
    """Deletes by id alone, in whatever group the machine is."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        accepted = [*super().delete_instances(group_id, instance_ids, expected_target)]
        for name in instance_ids:
            other = name.removeprefix("fake:///").partition("/")[0]
            if other != group_id and self.cloud.has_group(other):
                self.cloud.take_away(other, 1)
                accepted.append(name)
        return accepted


class HasLimitsOfItsOwn(FakeProvider):
    """Lists every group from 0 on."""

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [replace(group, min_size=0) for group in super().node_groups()]


class HasAMaximumOfItsOwn(FakeProvider):
    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [replace(group, max_size=10) for group in super().node_groups()]


class ListsAMaximumAndForgetsIt(FakeProvider):
    """Lists the configured maximum, and grows up to that of the cloud."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.cloud.set_target(group_id, target)
        self._look_again(group_id)
        return target - expected_target


class CancelsWhatStarts(FakeProvider):
    """Takes a machine that does not run yet for one that does not exist."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        starting = [one.id for one in super().instances(group_id) if one.state == spec.InstanceState.CREATING]
        if not starting:
            return super().decrease_target_size(group_id, expected_target, target)
        self.cloud.delete(group_id, starting[: expected_target - target], expected_target)
        self._look_again(group_id)
        return expected_target - self._view(group_id).target


class AsksTheCloudForTemplates(FakeProvider):
    """Reads the machine type whenever a template is wanted."""

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        with self.cloud.faults.around("refresh"):
            return super().template_node(group_id)


class IdsOfTheConsole(FakeProvider):
    """Names machines as the cloud's console does, not as nodes do. The world under it does the same."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return [replace(one, id=one.id.removeprefix("fake:///")) for one in super().instances(group_id)]


class TemplateOfTheDataSheet(FakeProvider):
    """Offers what the machine has, without what the system keeps for itself."""

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        more = spec.Quantity.of(int(found.allocatable["memory"].nano / 1e9 * 1.08))
        return replace(found, allocatable={**found.allocatable, "memory": more})


class TemplateWithAGpuTooMany(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        return replace(found, allocatable={**found.allocatable, "nvidia.com/gpu": spec.Quantity.of(1)})


class TemplateOfAnotherZone(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        return replace(found, labels={**found.labels, "topology.kubernetes.io/zone": "elsewhere"})


class TemplateOfAnotherArchitecture(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        return replace(found, labels={**found.labels, "kubernetes.io/arch": "arm64"})


class TemplateWithATaint(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        return replace(found, taints=(*found.taints, spec.Taint(key="dedicated", value="x", effect="NoSchedule")))


class TellsFailuresForTenMinutes(FakeProvider):
    """Reports what the cloud's list of operations still has."""

    def __init__(self, context: spec.ProviderContext) -> None:
        super().__init__(context)
        self._first: dict[str, float] = {}

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        now = self._clock.now()
        found = super().failed_instances(group_id)
        return [one for one in found if now - self._first.setdefault(one.failure_id, now) < 600]


class ForgetsAllFailuresWithOne(FakeProvider):
    """Takes the deletion of one failure for that of all."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        failures = {one.instance_id or one.failure_id for one in self._view(group_id).failures}
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        if failures & set(instance_ids):
            for name in failures - set(instance_ids):
                self.cloud.delete(group_id, [name], self.cloud.view(group_id).target)
            self._look_again(group_id)
        return accepted


class ForgetsAllPlaceholdersWithOne(FakeProvider):
    """Takes the deletion of a failure that left no machine for that of all of its kind."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        without = {one.failure_id for one in self._view(group_id).failures if one.instance_id is None}
        accepted = super().delete_instances(group_id, instance_ids, expected_target)
        if without & set(instance_ids):
            for name in without - set(instance_ids):
                self.cloud.delete(group_id, [name], self.cloud.view(group_id).target)
            self._look_again(group_id)
        return accepted


class CallsTheZoneUsedUp(FakeProvider):
    """Takes a lack of one type for a lack of the whole zone."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        zone, shortage = spec.FailureScope.ZONE, spec.ErrorClass.OUT_OF_RESOURCES
        found = super().failed_instances(group_id)
        return [replace(one, scope=zone) if one.error_class == shortage else one for one in found]


class CallsNothingCapacity(FakeProvider):
    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return [replace(one, error_class=spec.ErrorClass.OTHER) for one in super().failed_instances(group_id)]


class CallsEverythingCapacity(FakeProvider):
    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        shortage = spec.ErrorClass.OUT_OF_RESOURCES
        return [replace(one, error_class=shortage) for one in super().failed_instances(group_id)]


class NeedsAMachineToFail(FakeProvider):
    """Looks for failures among the machines only."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return [one for one in super().failed_instances(group_id) if one.instance_id is not None]


class LowersItsTargetForAFailure(FakeProvider):
    """Counts a failed machine as taken back: nobody is told that it was wanted."""

    @hookimpl
    def target_size(self, group_id: str) -> int:
        failed = sum(one.count for one in view_of(self.cloud.group(group_id)).failures) if group_id == "a" else 0
        return super().target_size(group_id) - failed


REJECTED = [
    (ReadsTheFirstPage, "every_page_is_read"),
    (ListsWhatRuns, "starting_machines_are_listed"),
    (CallsEverythingRunning, "starting_machines_are_listed"),
    (ForgetsStoppedMachines, "a_stopped_machine_is_listed"),
    (FailsForWhatIsGone, "deletion_among_machines_that_are_gone_is_exact"),
    (ListsGroupsOnce, "own_groups_are_told_apart"),
    (OneListForAllGroups, "own_groups_are_told_apart"),
    (TellsFailuresOfAll, "own_groups_are_told_apart"),
    (GrowsEveryGroup, "writes_to_a_group_leave_other_own_groups_alone"),
    (DeletesInEveryGroup, "writes_to_a_group_leave_other_own_groups_alone"),
    (ListsStrangers, "strangers_are_not_listed"),
    (DeletesWhateverIsNamed, "strangers_are_not_deleted"),
    (HasLimitsOfItsOwn, "the_configured_limits_are_kept"),
    (HasAMaximumOfItsOwn, "the_configured_limits_are_kept"),
    (ListsAMaximumAndForgetsIt, "the_configured_limits_are_kept"),
    (CancelsWhatStarts, "a_starting_machine_survives_decrease"),
    (AsksTheCloudForTemplates, "reads_call_no_cloud"),
    (IdsOfTheConsole, "ids_are_the_nodes_provider_ids"),
    (TemplateOfTheDataSheet, "templates_offer_what_nodes_offer"),
    (TemplateWithAGpuTooMany, "templates_offer_what_nodes_offer"),
    (TemplateOfAnotherZone, "templates_have_the_nodes_labels"),
    (TemplateOfAnotherArchitecture, "templates_have_the_nodes_labels"),
    (TemplateWithATaint, "templates_have_the_nodes_taints"),
    (TellsFailuresForTenMinutes, "failures_are_told_for_an_hour"),
    (ForgetsAllFailuresWithOne, "one_failure_at_a_time_can_be_deleted"),
    (ForgetsAllPlaceholdersWithOne, "one_failure_without_a_machine_at_a_time_can_be_deleted"),
    (CallsTheZoneUsedUp, "failures_for_capacity_are_told_as_such"),
    (CallsNothingCapacity, "failures_for_capacity_are_told_as_such"),
    (CallsEverythingCapacity, "failures_for_a_quota_are_told_as_such"),
    (NeedsAMachineToFail, "failures_without_a_machine_are_told"),
    (LowersItsTargetForAFailure, "a_partly_failed_increase_is_counted"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_faulty_views_of_machines_are_rejected(faulty: type[FakeProvider], check: str, reject: Reject) -> None:
    reject(faulty, check)
