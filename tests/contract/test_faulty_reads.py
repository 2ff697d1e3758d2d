"""Providers whose reads have one defect each: the contract suite rejects every one of them."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright import spec
from nodewright.spec import Capability, ProviderContext, hookimpl
from nodewright_fake import FakeProvider

Reject = Callable[[type[FakeProvider], str], None]


class AnswersNone(FakeProvider):
    """Forgets a ``return``."""

    @hookimpl
    def template_node(self, group_id: str) -> Any:
        super().template_node(group_id)


class ForgetsAFailedInstance(FakeProvider):
    """Tells of the last failure only."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return super().failed_instances(group_id)[-1:]


class TellsFailuresOneRefreshLate(FakeProvider):
    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._late: dict[str, Sequence[spec.FailedInstance]] = {}

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self._late = {name: view.failures for name, view in self._views.items()}
        return super().refresh(wanted)

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        super().failed_instances(group_id)
        return self._late.get(group_id, ())


class TellsAFailureOnce(FakeProvider):
    """Answers what is new since the last call."""

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._told: set[str] = set()

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        new = [f for f in super().failed_instances(group_id) if f.failure_id not in self._told]
        self._told |= {f.failure_id for f in new}
        return new


class ReusesFailureIds(FakeProvider):
    """Numbers the failures of today."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        found = super().failed_instances(group_id)
        return [replace(failure, failure_id=f"failure-{number}") for number, failure in enumerate(found)]


class CallsAllMachinesFailed(FakeProvider):
    """Takes the failed state of the group's last operation for that of each machine."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        found = super().failed_instances(group_id)
        names = [instance.id for instance in self._view(group_id).instances] if found else ()
        return [*found, *(spec.FailedInstance(failure_id=f"of-{name}", instance_id=name, code="X") for name in names)]

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return () if super().failed_instances(group_id) else super().instances(group_id)


class LosesMachinesBesideAFailure(FakeProvider):
    """Lists no machine of a group whose last operation failed."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return () if super().failed_instances(group_id) else super().instances(group_id)


class DeclaresDetectionItHasNot(FakeProvider):
    """Declares fast failure detection and never tells of a failure."""

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        super().failed_instances(group_id)
        return ()


class ListsFailuresAsMachines(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        failed = [f.instance_id for f in self._view(group_id).failures if f.instance_id]
        return [*super().instances(group_id), *(spec.Instance(id=name) for name in failed)]


class UnstableIds(FakeProvider):
    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._readings = count()

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        number = next(self._readings)
        return [replace(found, id=f"{found.id}#{number}") for found in super().instances(group_id)]


class DuplicateIds(FakeProvider):
    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return [replace(found, id="fake:///a/same") for found in super().instances(group_id)]


class ListsAGroupTwice(FakeProvider):
    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [*super().node_groups(), *super().node_groups()]


class ForgetsMachinesThatStart(FakeProvider):
    """Lists what it saw at its first refresh."""

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return super().instances(group_id)[:2]


class AsksTheCloudOnEveryRead(FakeProvider):
    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self.cloud.view(group_id).target


class KeepsItsCacheForWantedGroups(FakeProvider):
    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        del wanted
        return bool(self._views) or super().refresh(frozenset())


class RaisesTheSdksError(FakeProvider):
    """Lets a KeyError out, as an SDK's own error would come."""

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._views[group_id].target


class UnknownGroupIsEmpty(FakeProvider):
    """Answers 0 for an unknown group: the core would buy its pods again."""

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._views[group_id].target if group_id in self._views else 0


class TemplateWithoutPods(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        return replace(found, allocatable={k: v for k, v in found.allocatable.items() if k != "pods"})


class HidesEmptyGroups(FakeProvider):
    """Lists groups that have machines, or shall have some."""

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [group for group in super().node_groups() if self._views[group.id].target]


class LowersTheMaximumOfEmptyGroups(FakeProvider):
    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [
            group if self._views[group.id].target else replace(group, max_size=1) for group in super().node_groups()
        ]


class FindsGroupsByTheirMachines(FakeProvider):
    """Lists the groups of which it has seen a machine."""

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._seen: set[str] = set()

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        self._seen |= {name for name, view in self._views.items() if view.instances}
        return [group for group in super().node_groups() if group.id in self._seen]


class TakesAmountsFromAMachine(FakeProvider):
    """Offers what a running machine has, and a guess without one."""

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        found = super().template_node(group_id)
        guess = {**found.allocatable, "cpu": spec.Quantity.of("1")}
        return found if self._views[group_id].instances else replace(found, allocatable=guess)


class TakesLabelsFromAMachine(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        labels = {"example.com/machine": "seen"} if self._views[group_id].instances else {}
        return replace(super().template_node(group_id), labels=labels)


class TakesTaintsFromAMachine(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        taint = spec.Taint(key="example.com/machine", value="seen", effect="NoSchedule")
        return replace(super().template_node(group_id), taints=(taint,) if self._views[group_id].instances else ())


class SizesThatAreNoNumbers(FakeProvider):
    @hookimpl
    def target_size(self, group_id: str) -> Any:
        return str(super().target_size(group_id))


class LabelsThatAreNoText(FakeProvider):
    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        labels: dict[str, Any] = {"zone": 3}
        return replace(super().template_node(group_id), labels=labels)


class SwitchesOffWhatItNeverHad(FakeProvider):
    """Its groups lack a capability that the provider does not declare."""

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        found = super().provider_info()
        return replace(found, capabilities=found.capabilities - {Capability.GPU})

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [replace(group, switched_off={Capability.GPU: "no drivers"}) for group in super().node_groups()]


class FreeMachines(FakeProvider):
    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return replace(super().node_price(group_id), per_hour=0.0)


class DatesEveryRead(FakeProvider):
    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return replace(super().node_price(group_id), as_of=self._clock.now())


class InventsOptions(FakeProvider):
    @hookimpl
    def group_options(self, group_id: str, defaults: spec.GroupOptions) -> spec.GroupOptions:
        found = super().group_options(group_id, defaults)
        return replace(found, max_node_provision_seconds=defaults.max_node_provision_seconds * 2)


REJECTED = [
    (AnswersNone, "templates_parse"),
    (ForgetsAFailedInstance, "every_failure_is_told"),
    (TellsFailuresOneRefreshLate, "failure_shows_in_the_next_refresh"),
    (TellsAFailureOnce, "failures_are_stable_until_deleted"),
    (ReusesFailureIds, "new_failures_have_new_ids"),
    (CallsAllMachinesFailed, "a_machine_that_ran_is_no_failed_creation"),
    (LosesMachinesBesideAFailure, "a_machine_that_ran_is_no_failed_creation"),
    (DeclaresDetectionItHasNot, "failure_shows_in_the_next_refresh"),
    (ListsFailuresAsMachines, "failed_machines_are_not_instances"),
    (UnstableIds, "ids_are_stable_over_refreshes"),
    (DuplicateIds, "world_is_as_promised"),
    (ListsAGroupTwice, "world_is_as_promised"),
    (ForgetsMachinesThatStart, "arriving_machines_are_listed"),
    (AsksTheCloudOnEveryRead, "reads_answer_from_the_last_refresh"),
    (KeepsItsCacheForWantedGroups, "refresh_bypasses_caches_for_wanted_groups"),
    (RaisesTheSdksError, "unknown_groups_are_refused_in_reads"),
    (UnknownGroupIsEmpty, "unknown_groups_are_refused_in_reads"),
    (TemplateWithoutPods, "templates_parse"),
    (HidesEmptyGroups, "empty_groups_stay_listed"),
    (LowersTheMaximumOfEmptyGroups, "empty_groups_stay_listed"),
    (FindsGroupsByTheirMachines, "empty_groups_stay_listed"),
    (TakesAmountsFromAMachine, "templates_do_not_depend_on_machines"),
    (TakesLabelsFromAMachine, "templates_do_not_depend_on_machines"),
    (TakesTaintsFromAMachine, "templates_do_not_depend_on_machines"),
    (SizesThatAreNoNumbers, "world_is_as_promised"),
    (LabelsThatAreNoText, "templates_parse"),
    (SwitchesOffWhatItNeverHad, "undeclared_capabilities_are_absent"),
    (FreeMachines, "machines_cost_something"),
    (DatesEveryRead, "prices_change_only_with_a_refresh"),
    (InventsOptions, "group_options_start_from_the_defaults"),
]


@pytest.mark.parametrize(("faulty", "check"), REJECTED)
def test_faulty_reads_are_rejected(faulty: type[FakeProvider], check: str, reject: Reject) -> None:
    reject(faulty, check)
