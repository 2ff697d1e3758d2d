"""Implements the calls of ``api.py`` with boto3."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from nodewright.spec import AccessDenied, ApiCalls, Clock, CloudBusy, ProviderError, ProviderUnavailable
from nodewright.spec.exchanges import Exchanges
from nodewright_aws.api import TagFilter
from nodewright_aws.calls import Calls, convert
from nodewright_aws.discovery import make_filters
from nodewright_aws.options import Options
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

T = TypeVar("T")

_GROUPS_A_CALL = 100
_CONFIGURATIONS_A_CALL = 50
_INSTANCES_A_CALL = 50
_TYPES_A_CALL = 100
_MESSAGES_A_CALL = 10
_EVENT_CODES = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
# Which entry of the price list is that of a plain Linux machine.
_ON_DEMAND_LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
# Parameters that an EC2 operation needs before it checks permissions.
_PROBES: Mapping[str, Raw] = {
    "DescribeLaunchTemplateVersions": {"Versions": ["$Default"], "LaunchTemplateName": "nodewright-doctor"},
    "DescribeImages": {"ImageIds": ["ami-00000000000000000"]},
    "GetInstanceTypesFromInstanceRequirements": {
        "ArchitectureTypes": ["x86_64"],
        "VirtualizationTypes": ["hvm"],
        "InstanceRequirements": {"VCpuCount": {"Min": 2}, "MemoryMiB": {"Min": 1024}},
    },
    "RunInstances": {"MinCount": 1, "MaxCount": 1},
}


class Sdk:
    """One account in one region, through boto3. Thread-safe."""

    def __init__(self, options: Options, clock: Clock, exchanges: Exchanges | None = None) -> None:
        self._calls = Calls(options, clock, exchanges)

    def made(self) -> Sequence[ApiCalls]:
        return self._calls.made()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return self._calls.within(seconds)

    def region(self) -> str:
        return self._calls.region()

    def server_time(self) -> float:
        return self._calls.server_time()

    # Auto Scaling: reads

    def groups_named(self, names: Sequence[str], *, urgent: bool = False) -> Sequence[Group]:
        found: list[Group] = []
        for batch in _batches(names, _GROUPS_A_CALL):
            found += self._groups(AutoScalingGroupNames=batch, urgent=urgent)
        return found

    def groups_tagged(self, tags: TagFilter) -> Sequence[Group]:
        return self._groups(Filters=make_filters(tags))

    def activities(self, group: str) -> Sequence[Activity]:
        answer = self._calls.call(
            "autoscaling", "DescribeScalingActivities", AutoScalingGroupName=group, MaxRecords=100
        )
        return convert(answer["Activities"], list[Activity])

    def launch_configurations(self, names: Sequence[str]) -> Sequence[LaunchConfiguration]:
        found: list[LaunchConfiguration] = []
        for batch in _batches(names, _CONFIGURATIONS_A_CALL):
            answer = self._calls.call("autoscaling", "DescribeLaunchConfigurations", LaunchConfigurationNames=batch)
            found += convert(answer["LaunchConfigurations"], list[LaunchConfiguration])
        return found

    # Auto Scaling: writes

    def set_desired(self, group: str, size: int) -> None:
        self._write("SetDesiredCapacity", AutoScalingGroupName=group, DesiredCapacity=size, HonorCooldown=False)

    def terminate(self, instance_id: str) -> None:
        lower = {"InstanceId": instance_id, "ShouldDecrementDesiredCapacity": True}
        self._write("TerminateInstanceInAutoScalingGroup", **lower)

    def protect(self, group: str, instance_ids: Sequence[str]) -> None:
        for batch in _batches(instance_ids, _INSTANCES_A_CALL):
            named = {"AutoScalingGroupName": group, "InstanceIds": batch, "ProtectedFromScaleIn": True}
            self._write("SetInstanceProtection", **named)

    def protect_new(self, group: str) -> None:
        self._write("UpdateAutoScalingGroup", AutoScalingGroupName=group, NewInstancesProtectedFromScaleIn=True)

    def create_group(self, group: NewGroup) -> None:
        template = {**_naming(group.launch_template), "Version": group.launch_template.version or "$Default"}
        launch = {"LaunchTemplateSpecification": template, "Overrides": [{"InstanceType": group.instance_type}]}
        zones = {"AvailabilityZones": list(group.availability_zones)}
        tags = [
            {"Key": tag.key, "Value": tag.value, "PropagateAtLaunch": tag.propagate_at_launch} for tag in group.tags
        ]
        self._write(
            "CreateAutoScalingGroup",
            AutoScalingGroupName=group.name,
            MinSize=0,
            MaxSize=group.max_size,
            DesiredCapacity=0,
            MixedInstancesPolicy={"LaunchTemplate": launch},
            NewInstancesProtectedFromScaleIn=True,
            Tags=tags,
            **({"VPCZoneIdentifier": group.subnets} if group.subnets else zones),
        )

    def delete_group(self, name: str) -> None:
        self._write("DeleteAutoScalingGroup", AutoScalingGroupName=name, ForceDelete=False)

    # Machine data

    def launch_template(self, spec: TemplateSpec) -> LaunchTemplateData:
        named = _naming(spec)
        answer = self._calls.call(
            "ec2", "DescribeLaunchTemplateVersions", Versions=[spec.version or "$Default"], **named
        )
        versions = answer["LaunchTemplateVersions"]
        if not versions:
            raise ProviderError(f"there is no launch template {spec.named}", code="noLaunchTemplate")
        data = convert(versions[0]["LaunchTemplateData"], LaunchTemplateData)
        return msgspec.structs.replace(data, version=int(versions[0].get("VersionNumber", 0)))

    def image(self, image_id: str) -> Image | None:
        # A filter returns nothing for a missing image; naming it directly would be refused.
        wanted = [{"Name": "image-id", "Values": [image_id]}]
        images = self._calls.call("ec2", "DescribeImages", Filters=wanted)["Images"]
        return convert(images[0], Image) if images else None

    def instance_types(self, names: Sequence[str]) -> Sequence[InstanceTypeInfo]:
        found: list[InstanceTypeInfo] = []
        for batch in _batches(names, _TYPES_A_CALL):
            # A filter ignores a type that the region lacks; naming it directly fails the whole call.
            wanted = [{"Name": "instance-type", "Values": batch}]
            for answer in self._calls.pages("ec2", "DescribeInstanceTypes", Filters=wanted):
                found += convert(answer["InstanceTypes"], list[InstanceTypeInfo])
        return found

    def types_meeting(self, requirements: Raw, image: Image | None) -> Sequence[str]:
        answer = self._calls.call(
            "ec2",
            "GetInstanceTypesFromInstanceRequirements",
            ArchitectureTypes=[image.architecture] if image is not None else ["x86_64", "arm64"],
            VirtualizationTypes=[image.virtualization_type if image is not None else "hvm"],
            InstanceRequirements=requirements,
        )
        return [found["InstanceType"] for found in answer["InstanceTypes"]]

    def nodegroup(self, cluster: str, name: str) -> EksNodegroup:
        answer = self._calls.call("eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name)
        return convert(answer["nodegroup"], EksNodegroup)

    def capacity_reservation(self, reservation_id: str) -> CapacityReservation:
        answer = self._calls.call("ec2", "DescribeCapacityReservations", CapacityReservationIds=[reservation_id])
        [found] = convert(answer["CapacityReservations"], list[CapacityReservation])
        return found

    # Prices

    def list_price(self, instance_type: str) -> tuple[float, str] | None:
        wanted = {**_ON_DEMAND_LINUX, "instanceType": instance_type, "regionCode": self.region()}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
        answer = self._calls.call(
            "pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=filters, FormatVersion="aws_v1"
        )
        found = [price for text in answer["PriceList"] for price in _read_offer(text)]
        return max(found, default=None)

    def spot_prices(self, instance_types: Sequence[str], at: float) -> Sequence[SpotPrice]:
        found: list[SpotPrice] = []
        since = datetime.fromtimestamp(at, UTC)
        for batch in _batches(instance_types, _TYPES_A_CALL):
            for answer in self._calls.pages(
                "ec2",
                "DescribeSpotPriceHistory",
                InstanceTypes=batch,
                ProductDescriptions=["Linux/UNIX"],
                StartTime=since,
            ):
                found += convert(answer["SpotPriceHistory"], list[SpotPrice])
        if not all(_is_amount(one.spot_price) for one in found):
            raise ProviderUnavailable("unexpected response from AWS: a spot price that is no amount")
        return found

    # Interruptions

    def queue_url(self, name: str) -> str:
        return str(self._calls.call("sqs", "GetQueueUrl", urgent=True, QueueName=name)["QueueUrl"])

    def receive_messages(self, url: str, wait_seconds: int, hidden_seconds: int) -> Sequence[Message]:
        answer = self._calls.call(
            "sqs",
            "ReceiveMessage",
            urgent=True,
            QueueUrl=url,
            MaxNumberOfMessages=_MESSAGES_A_CALL,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=hidden_seconds,
        )
        return convert(answer.get("Messages", []), list[Message])

    def delete_messages(self, url: str, receipts: Sequence[str]) -> None:
        for batch in _batches(receipts, _MESSAGES_A_CALL):
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(batch)]
            self._calls.call("sqs", "DeleteMessageBatch", QueueUrl=url, Entries=entries)

    def hide_message(self, url: str, receipt: str, seconds: int) -> None:
        hidden: Raw = {"ReceiptHandle": receipt, "VisibilityTimeout": seconds}
        self._calls.call("sqs", "ChangeMessageVisibility", QueueUrl=url, **hidden)

    def scheduled_events(self) -> Sequence[ScheduledEvent]:
        wanted = [{"Name": "event.code", "Values": list(_EVENT_CODES)}]
        found: list[ScheduledEvent] = []
        for answer in self._calls.pages("ec2", "DescribeInstanceStatus", Filters=wanted):
            for status in answer["InstanceStatuses"]:
                of_instance = {"InstanceId": status["InstanceId"]}
                found += convert([{**of_instance, **event} for event in status.get("Events", [])], list[ScheduledEvent])
        return found

    # Permissions and other writers

    def simulate(self, actions: Sequence[str], group: Group) -> Mapping[str, bool] | None:
        tags = [
            {
                "ContextKeyName": f"{name}/{tag.key}",
                "ContextKeyType": "string",
                "ContextKeyValues": [tag.value],
            }
            for tag in group.tags
            for name in ("aws:ResourceTag", "autoscaling:ResourceTag", "aws:RequestTag")
        ]
        try:
            who = _role_of(str(self._calls.call("sts", "GetCallerIdentity")["Arn"]))
            about: Raw = {"ResourceArns": [group.auto_scaling_group_arn], "ContextEntries": tags}
            asked = self._calls.call(
                "iam", "SimulatePrincipalPolicy", PolicySourceArn=who, ActionNames=list(actions), **about
            )
            results = asked["EvaluationResults"]
        except ProviderError:
            return None
        return {result["EvalActionName"]: result["EvalDecision"] == "allowed" for result in results}

    def dry_run(self, operation: str, template: TemplateSpec | None = None) -> bool:
        asked = {**_PROBES.get(operation, {})}
        if template is not None:
            asked["LaunchTemplate"] = {**_naming(template), "Version": template.version or "$Default"}
        try:
            self._calls.call("ec2", operation, DryRun=True, **asked)
        except AccessDenied:
            return False
        except (ProviderUnavailable, CloudBusy):
            raise
        except ProviderError:
            return True  # AWS checks permissions first: any other refusal means that they are granted
        return True

    def policy_owners(self) -> Collection[str]:
        pages = self._calls.pages("autoscaling", "DescribePolicies")
        return {
            one["AutoScalingGroupName"] for page in pages for one in page["ScalingPolicies"] if one.get("Enabled", True)
        }

    def scheduled_owners(self) -> Collection[str]:
        pages = self._calls.pages("autoscaling", "DescribeScheduledActions")
        return {one["AutoScalingGroupName"] for page in pages for one in page["ScheduledUpdateGroupActions"]}

    def _groups(self, **which: Any) -> list[Group]:
        found: list[Group] = []
        for answer in self._calls.pages("autoscaling", "DescribeAutoScalingGroups", MaxRecords=_GROUPS_A_CALL, **which):
            found += convert(answer["AutoScalingGroups"], list[Group])
        return found

    def _write(self, operation: str, **parameters: Any) -> None:
        self._calls.call("autoscaling", operation, urgent=True, **parameters)


def _read_offer(text: str) -> Iterator[tuple[float, str]]:
    """Yield the prices per hour of one product of the price list, with their currencies."""
    try:
        terms = msgspec.json.decode(text)["terms"]["OnDemand"]
        rates = [rate for term in terms.values() for rate in term["priceDimensions"].values()]
        found = [pair for rate in rates if rate["unit"] == "Hrs" for pair in rate["pricePerUnit"].items()]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise ProviderUnavailable(f"unexpected response from AWS: {type(error).__name__} in the price list") from error
    if not all(_is_amount(amount) for _, amount in found):
        raise ProviderUnavailable("unexpected response from AWS: a list price that is no amount")
    yield from ((float(amount), currency) for currency, amount in found if float(amount) > 0)


def _is_amount(text: str) -> bool:
    """Return whether the text is a finite number of at least 0."""
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def _naming(spec: TemplateSpec) -> Raw:
    """Return the request fields that name a launch template, by id if it is known."""
    if spec.launch_template_id:
        return {"LaunchTemplateId": spec.launch_template_id}
    return {"LaunchTemplateName": spec.launch_template_name}


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _role_of(arn: str) -> str:
    """Return the role of a session's ARN: IAM simulates roles and users, not sessions."""
    head, found, rest = arn.partition(":assumed-role/")
    if not found:
        return arn
    return f"{head.replace(':sts:', ':iam:')}:role/{rest.partition('/')[0]}"
