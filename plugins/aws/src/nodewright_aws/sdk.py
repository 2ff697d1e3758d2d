"""boto3 behind the typed face. The only module that imports it, and only when AWS is really asked.

The SDK retries nothing: the core repeats reads and settles writes, and two owners of retries would multiply.
Every call has its own time limits. Credentials come from the SDK's own chain (environment, shared files and
profiles, web identity, container and instance roles) and never pass through this plugin.
"""

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from nodewright.spec import AccessDenied, ApiCalls, Clock, ProviderError, ProviderUnavailable, Throttled
from nodewright.spec.meter import Meter
from nodewright_aws.api import TagFilter
from nodewright_aws.discovery import make_filters
from nodewright_aws.errors import NO_CREDENTIALS, NO_REGION, from_response
from nodewright_aws.options import Options
from nodewright_aws.shapes import (
    Activity,
    EksNodegroup,
    Group,
    Image,
    InstanceTypeInfo,
    LaunchConfiguration,
    LaunchTemplateData,
    NewGroup,
    Raw,
    TemplateSpec,
)

T = TypeVar("T")

_GROUPS_A_CALL = 100
_CONFIGURATIONS_A_CALL = 50
_INSTANCES_A_CALL = 50
_TYPES_A_CALL = 100
_NOT_MADE = "badRequest"
# What an EC2 operation must be given before it looks at permissions.
_PROBES: Mapping[str, Raw] = {
    "DescribeLaunchTemplateVersions": {"Versions": ["$Default"], "LaunchTemplateName": "nodewright-doctor"},
    "DescribeImages": {"ImageIds": ["ami-00000000000000000"]},
    "GetInstanceTypesFromInstanceRequirements": {
        "ArchitectureTypes": ["x86_64"],
        "VirtualizationTypes": ["hvm"],
        "InstanceRequirements": {"VCpuCount": {"Min": 2}, "MemoryMiB": {"Min": 1024}},
    },
    "RunInstances": {"ImageId": "ami-00000000000000000", "MinCount": 1, "MaxCount": 1},
}


class Sdk:
    """One account in one region, through boto3. Safe for threads."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self._meter = Meter(clock, options.api_calls_per_minute)
        self._options = options
        self._lock = threading.Lock()
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self._server_time = 0.0

    def __repr__(self) -> str:
        return f"Sdk(region={self._options.region!r})"

    def made(self) -> Sequence[ApiCalls]:
        return self._meter.made()

    def region(self) -> str:
        name = self._options.region or os.environ.get("AWS_REGION") or self._open().region_name
        if not name:
            raise ProviderError("no region: set providers.aws.options.region, or AWS_REGION", code=NO_REGION)
        return str(name)

    def server_time(self) -> float:
        return self._server_time

    # Auto Scaling: reads

    def groups_named(self, names: Sequence[str], *, urgent: bool = False) -> Sequence[Group]:
        found: list[Group] = []
        for batch in _batches(names, _GROUPS_A_CALL):
            found += self._groups(AutoScalingGroupNames=batch, urgent=urgent)
        return found

    def groups_tagged(self, tags: TagFilter) -> Sequence[Group]:
        return self._groups(Filters=make_filters(tags))

    def activities(self, group: str) -> Sequence[Activity]:
        answer = self._ask("autoscaling", "DescribeScalingActivities", AutoScalingGroupName=group, MaxRecords=100)
        return _convert(answer["Activities"], list[Activity])

    def launch_configurations(self, names: Sequence[str]) -> Sequence[LaunchConfiguration]:
        found: list[LaunchConfiguration] = []
        for batch in _batches(names, _CONFIGURATIONS_A_CALL):
            answer = self._ask("autoscaling", "DescribeLaunchConfigurations", LaunchConfigurationNames=batch)
            found += _convert(answer["LaunchConfigurations"], list[LaunchConfiguration])
        return found

    # Auto Scaling: writes

    def set_desired(self, group: str, size: int) -> None:
        self._tell("SetDesiredCapacity", AutoScalingGroupName=group, DesiredCapacity=size, HonorCooldown=False)

    def terminate(self, instance_id: str) -> None:
        lower = {"InstanceId": instance_id, "ShouldDecrementDesiredCapacity": True}
        self._tell("TerminateInstanceInAutoScalingGroup", **lower)

    def protect(self, group: str, instance_ids: Sequence[str]) -> None:
        for batch in _batches(instance_ids, _INSTANCES_A_CALL):
            named = {"AutoScalingGroupName": group, "InstanceIds": batch, "ProtectedFromScaleIn": True}
            self._tell("SetInstanceProtection", **named)

    def protect_new(self, group: str) -> None:
        self._tell("UpdateAutoScalingGroup", AutoScalingGroupName=group, NewInstancesProtectedFromScaleIn=True)

    def create_group(self, group: NewGroup) -> None:
        template = {**_naming(group.launch_template), "Version": group.launch_template.version or "$Default"}
        launch = {"LaunchTemplateSpecification": template, "Overrides": [{"InstanceType": group.instance_type}]}
        zones = {"AvailabilityZones": list(group.availability_zones)}
        tags = [
            {"Key": tag.key, "Value": tag.value, "PropagateAtLaunch": tag.propagate_at_launch} for tag in group.tags
        ]
        self._tell(
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
        self._tell("DeleteAutoScalingGroup", AutoScalingGroupName=name, ForceDelete=False)

    # What machines are like

    def launch_template(self, spec: TemplateSpec) -> LaunchTemplateData:
        named = _naming(spec)
        answer = self._ask("ec2", "DescribeLaunchTemplateVersions", Versions=[spec.version or "$Default"], **named)
        versions = answer["LaunchTemplateVersions"]
        if not versions:
            raise ProviderError(f"there is no launch template {spec.named}", code="noLaunchTemplate")
        return _convert(versions[0]["LaunchTemplateData"], LaunchTemplateData)

    def image(self, image_id: str) -> Image | None:
        # A filter passes over an image that is not there; naming it outright would be refused.
        wanted = [{"Name": "image-id", "Values": [image_id]}]
        images = self._ask("ec2", "DescribeImages", Filters=wanted)["Images"]
        return _convert(images[0], Image) if images else None

    def instance_types(self, names: Sequence[str]) -> Sequence[InstanceTypeInfo]:
        found: list[InstanceTypeInfo] = []
        for batch in _batches(names, _TYPES_A_CALL):
            # A filter passes over a type that the region lacks; naming it outright fails the whole call.
            wanted = [{"Name": "instance-type", "Values": batch}]
            for answer in self._pages("ec2", "DescribeInstanceTypes", Filters=wanted):
                found += _convert(answer["InstanceTypes"], list[InstanceTypeInfo])
        return found

    def types_meeting(self, requirements: Raw, image: Image | None) -> Sequence[str]:
        answer = self._ask(
            "ec2",
            "GetInstanceTypesFromInstanceRequirements",
            ArchitectureTypes=[image.architecture] if image is not None else ["x86_64", "arm64"],
            VirtualizationTypes=[image.virtualization_type if image is not None else "hvm"],
            InstanceRequirements=requirements,
        )
        return [found["InstanceType"] for found in answer["InstanceTypes"]]

    def nodegroup(self, cluster: str, name: str) -> EksNodegroup:
        answer = self._ask("eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name)
        return _convert(answer["nodegroup"], EksNodegroup)

    # Who may do what, and who else does

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
            who = _role_of(str(self._ask("sts", "GetCallerIdentity")["Arn"]))
            about: Raw = {"ResourceArns": [group.auto_scaling_group_arn], "ContextEntries": tags}
            asked = self._ask("iam", "SimulatePrincipalPolicy", PolicySourceArn=who, ActionNames=list(actions), **about)
            results = asked["EvaluationResults"]
        except ProviderError:
            return None
        return {result["EvalActionName"]: result["EvalDecision"] == "allowed" for result in results}

    def dry_run(self, operation: str) -> bool:
        try:
            self._ask("ec2", operation, DryRun=True, **_PROBES.get(operation, {}))
        except AccessDenied:
            return False
        except (ProviderUnavailable, Throttled):
            raise
        except ProviderError:
            return True  # whatever else AWS has against the request, it looked at it: permissions come first
        return True

    def policy_owners(self) -> Collection[str]:
        pages = self._pages("autoscaling", "DescribePolicies")
        return {
            one["AutoScalingGroupName"] for page in pages for one in page["ScalingPolicies"] if one.get("Enabled", True)
        }

    def scheduled_owners(self) -> Collection[str]:
        pages = self._pages("autoscaling", "DescribeScheduledActions")
        return {one["AutoScalingGroupName"] for page in pages for one in page["ScheduledUpdateGroupActions"]}

    # The calls themselves

    def _groups(self, **which: Any) -> list[Group]:
        found: list[Group] = []
        for answer in self._pages("autoscaling", "DescribeAutoScalingGroups", MaxRecords=_GROUPS_A_CALL, **which):
            found += _convert(answer["AutoScalingGroups"], list[Group])
        return found

    def _pages(self, service: str, operation: str, **parameters: Any) -> Iterator[Raw]:
        token: Raw = {}
        while True:
            answer = self._ask(service, operation, **parameters, **token)
            yield answer
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}

    def _ask(self, service: str, operation: str, *, urgent: bool = False, **parameters: Any) -> Raw:
        return self._call(service, operation, parameters, urgent=urgent)

    def _tell(self, operation: str, **parameters: Any) -> None:
        self._call("autoscaling", operation, parameters, urgent=True)

    def _call(self, service: str, operation: str, parameters: Raw, *, urgent: bool) -> Raw:
        client = self._client(service)
        return self._meter.call(operation, lambda: self._send(client, operation, parameters), urgent=urgent)

    def _send(self, client: Any, operation: str, parameters: Raw) -> Raw:
        from botocore import exceptions, parsers, xform_name  # noqa: PLC0415 - the SDK is heavy, see the first lines

        try:
            answer: Raw = getattr(client, xform_name(operation))(**parameters)
        except exceptions.ClientError as error:
            self._note_time(error.response)
            raise from_response(operation, error.response)[1] from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            said = f"{operation}: {error}; see the README of nodewright-aws for where they come from"
            raise AccessDenied(said, code=NO_CREDENTIALS) from error
        except (exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError) as error:
            said = f"{operation}: credentials could not be fetched ({type(error).__name__})"
            raise AccessDenied(said, code=NO_CREDENTIALS) from error
        except exceptions.ParamValidationError as error:
            raise ProviderError(f"{operation}: {error}", code=_NOT_MADE) from error
        except (exceptions.BotoCoreError, parsers.ResponseParserError) as error:
            raise ProviderUnavailable(f"{operation} in {self.region()}: {type(error).__name__}: {error}") from error
        self._note_time(answer)
        return answer

    def _note_time(self, answer: Mapping[str, Any]) -> None:
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date:
            self._server_time = parsedate_to_datetime(date).timestamp()

    def _open(self) -> Any:
        with self._lock:
            if self._session is None:
                import boto3  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
                from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - as above

                try:
                    self._session = boto3.Session(profile_name=self._options.profile)
                except BotoCoreError as error:
                    raise AccessDenied(f"providers.aws.options.profile: {error}") from error
            return self._session

    def _client(self, service: str) -> Any:
        session, region = self._open(), self.region()
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._build(session, service, region)
            return self._clients[service]

    def _build(self, session: Any, service: str, region: str) -> Any:
        from botocore.config import Config  # noqa: PLC0415 - the SDK is heavy, see the module's first lines
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - as above

        options = self._options
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=options.connect_timeout,
            read_timeout=options.read_timeout,
            max_pool_connections=options.parallel_calls,
            user_agent_extra="nodewright",
        )
        try:
            return session.client(
                service, region_name=region, endpoint_url=options.endpoints.get(service), config=config
            )
        except (BotoCoreError, ValueError) as error:
            raise ProviderError(f"no client for {service} in {region}: {error}", code="badConfiguration") from error


def _naming(spec: TemplateSpec) -> Raw:
    """A launch template as requests name it, by id where that is known."""
    if spec.launch_template_id:
        return {"LaunchTemplateId": spec.launch_template_id}
    return {"LaunchTemplateName": spec.launch_template_name}


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _convert(answer: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ProviderUnavailable(f"AWS answered something unexpected: {error}") from error


def _role_of(arn: str) -> str:
    """The role behind a session's ARN: IAM simulates roles and users, not sessions."""
    head, found, rest = arn.partition(":assumed-role/")
    if not found:
        return arn
    return f"{head.replace(':sts:', ':iam:')}:role/{rest.partition('/')[0]}"
