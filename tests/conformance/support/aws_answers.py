"""AWS as the cases tell it: every answer is given beforehand."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from nodewright.spec import ApiCalls, ProviderContext, ProviderError
from nodewright.testkit import FakeClock
from nodewright_aws.api import Api, TagFilter
from nodewright_aws.provider import AwsProvider
from nodewright_aws.shapes import (
    Activity,
    CapacityReservation,
    EksNodegroup,
    Group,
    Image,
    InstanceTypeInfo,
    LaunchConfiguration,
    LaunchTemplateData,
    Message,
    NewGroup,
    Raw,
    ScheduledEvent,
    SpotPrice,
    TemplateSpec,
)

LONG_AFTER = datetime.fromisoformat("2026-03-02T00:00:00Z").timestamp()


class AnsweredApi(Api):
    """Answers from the input of one case; ``now`` is AWS's clock."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.group = msgspec.convert(given.get("autoScalingGroup", _NO_GROUP), Group)
        self.now = LONG_AFTER
        self.asked_tags: list[TagFilter] = []

    def region(self) -> str:
        """The zone without its last letter, which is right for the cases that are not marked as defects."""
        return self.group.availability_zones[0][:-1] if self.group.availability_zones else "us-east-1"

    def server_time(self) -> float:
        return self.now

    def groups_named(self, names: Sequence[str], *, urgent: bool = False) -> Sequence[Group]:
        del urgent
        return [self.group] if self.group.name in names else []

    def groups_tagged(self, tags: TagFilter) -> Sequence[Group]:
        self.asked_tags.append(tags)
        return [self.group] if "autoScalingGroup" in self._given else []

    def activities(self, group: str) -> Sequence[Activity]:
        del group
        return msgspec.convert(self._given.get("scalingActivities", []), list[Activity])

    def launch_configurations(self, names: Sequence[str]) -> Sequence[LaunchConfiguration]:
        found = msgspec.convert(self._given.get("launchConfigurations", []), list[LaunchConfiguration])
        return [one for one in found if one.launch_configuration_name in names]

    def launch_template(self, spec: TemplateSpec) -> LaunchTemplateData:
        versions = [
            one
            for one in self._given.get("launchTemplateVersions", [])
            if one["LaunchTemplateName"] == spec.launch_template_name
        ]
        newest = max((one["VersionNumber"] for one in versions), default=0)
        for one in versions:
            names = {str(one["VersionNumber"]), "$Latest" if one["VersionNumber"] == newest else ""}
            if (spec.version or "$Default") in names | {"$Default" if one["DefaultVersion"] else ""}:
                return msgspec.convert(one["LaunchTemplateData"], LaunchTemplateData)
        raise ProviderError(f"there is no launch template {spec.named}")

    def image(self, image_id: str) -> Image | None:
        found = (one for one in self._given.get("images", []) if one["ImageId"] == image_id)
        return next((msgspec.convert(one, Image) for one in found), None)

    def instance_types(self, names: Sequence[str]) -> Sequence[InstanceTypeInfo]:
        found = msgspec.convert(self._given.get("instanceTypes", []), list[InstanceTypeInfo])
        return [one for one in found if one.instance_type in names]

    def types_meeting(self, requirements: Raw, image: Image | None) -> Sequence[str]:
        del requirements, image
        return list(self._given.get("instanceTypesFromInstanceRequirements", []))

    def nodegroup(self, cluster: str, name: str) -> EksNodegroup:
        for one in self._given.get("nodegroups", []):
            if (one["clusterName"], one["nodegroupName"]) == (cluster, name):
                return msgspec.convert(one, EksNodegroup)
        raise ProviderError(f"there is no node group {name} in {cluster}")

    def set_desired(self, group: str, size: int) -> None:
        del group
        self.group = msgspec.structs.replace(self.group, desired_capacity=size)

    # What no case asks for

    def made(self) -> Sequence[ApiCalls]:
        raise _untold("made")

    def within(self, seconds: float) -> AbstractContextManager[None]:
        raise _untold(f"within {seconds}")

    def terminate(self, instance_id: str) -> None:
        raise _untold("terminate", instance_id)

    def protect(self, group: str, instance_ids: Sequence[str]) -> None:
        raise _untold("protect", group, *instance_ids)

    def protect_new(self, group: str) -> None:
        raise _untold("protect_new", group)

    def create_group(self, group: NewGroup) -> None:
        raise _untold("create_group", group.name)

    def delete_group(self, name: str) -> None:
        raise _untold("delete_group", name)

    def simulate(self, actions: Sequence[str], group: Group) -> None:
        raise _untold("simulate", group.name, *actions)

    def dry_run(self, operation: str, template: TemplateSpec | None = None) -> bool:
        raise _untold("dry_run", operation, template.named if template is not None else "")

    def list_price(self, instance_type: str) -> tuple[float, str] | None:
        raise _untold("list_price", instance_type)

    def spot_prices(self, instance_types: Sequence[str], at: float) -> Sequence[SpotPrice]:
        raise _untold("spot_prices", *instance_types, f"{at}")

    def queue_url(self, name: str) -> str:
        raise NotImplementedError(name)

    def receive_messages(self, url: str, wait_seconds: int, hidden_seconds: int) -> Sequence[Message]:
        raise NotImplementedError(url, wait_seconds, hidden_seconds)

    def delete_messages(self, url: str, receipts: Sequence[str]) -> None:
        raise NotImplementedError(url, receipts)

    def hide_message(self, url: str, receipt: str, seconds: int) -> None:
        raise NotImplementedError(url, receipt, seconds)

    def capacity_reservation(self, reservation_id: str) -> CapacityReservation:
        raise _untold("DescribeCapacityReservations", reservation_id)

    def scheduled_events(self) -> Sequence[ScheduledEvent]:
        return ()

    def policy_owners(self) -> Sequence[str]:
        return ()

    def scheduled_owners(self) -> Sequence[str]:
        return ()


def _untold(*call: str) -> ProviderError:
    return ProviderError(f"the cases do not tell what {' '.join(call)} would answer")


_NO_GROUP = {"AutoScalingGroupName": "none", "MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0}


def make_provider(api: AnsweredApi, *nodes: str, discoveries: Sequence[str] = ()) -> AwsProvider:
    """The plugin as it is, before an account that answers from the case. As in cluster-autoscaler, nodes have whole machines."""
    context = ProviderContext(
        clock=FakeClock(),
        random=Random(0),
        options={"refresh_interval": 0, "eks_nodes": {"apply": "never"}},
        node_group_specs=nodes,
        auto_discovery_specs=tuple(discoveries),
    )
    return AwsProvider(context, api)
