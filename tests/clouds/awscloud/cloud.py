"""One AWS account: moto behind the proxy, and methods that change it from outside.

What moto lacks is played here: capacity that is asked for and does not come, launches that fail with an activity,
instances that take their time, sizes outside the limits, refusals by name, throttling, lost answers.
"""

import dataclasses
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import boto3
from botocore.config import Config

from awscloud.listing import group_in, moment, rewrite_groups, with_groups, without_instances, write_activities
from awscloud.pricing import refuse_json, write_price_list, write_spot_prices
from awscloud.proxy import Answer, LostAnswer, Proxy, Request, refuse
from awscloud.reservations import Reservation, write_reservations
from mishaps import Mishap, Mishaps

REGION = "us-east-1"
CREDENTIALS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"}
ENVIRONMENT = {**{name.upper(): value for name, value in CREDENTIALS.items()}, "AWS_EC2_METADATA_DISABLED": "true"}
STOCK_OUT = "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (us-east-1a)."
_PROTECTABLE = ("InService", "EnteringStandby", "Standby")
_SIZE_WRITES = ("SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup")
# Says of a call that it comes from the hands outside: nothing goes wrong with it, and it is not counted.
_OUTSIDE = "from-outside"
_NUMBERS = itertools.count(1)


class AwsCloud:
    """``calls`` counts what came in by action. ``held`` groups get machines only by ``arrive``; others at once, as far as there is room."""

    def __init__(self, moto_port: int, now: Callable[[], float]) -> None:
        self._now = now
        self._asked: dict[str, int] = {}
        self._held: set[str] = set()
        self._room: dict[str, int] = {}
        self._activities: dict[str, list[dict[str, str]]] = {}
        self._states: dict[str, str] = {}
        self._members: dict[str, dict[str, str]] = {}
        self._hidden = ""
        self._lag = 0.0
        self._earlier: dict[str, list[tuple[float, bytes]]] = {}
        self._denied: set[str] = set()
        self._only_template = ""
        # What the price list has by instance type, as text; spot prices by instance type and zone.
        self.list_prices: dict[str, str] = {}
        self.spot_prices: dict[tuple[str, str], str] = {}
        self.reservations: dict[str, Reservation] = {}
        self.mishaps: Mishaps[Answer] = Mishaps()
        self._lock = threading.RLock()
        self.calls: Counter[str] = Counter()
        self.proxy = Proxy(moto_port, self._play, now)
        self._asg, self.ec2, self.eks = (_behind(moto_port, service) for service in ("autoscaling", "ec2", "eks"))
        self._sqs = _behind(moto_port, "sqs")
        self.asg = _client("autoscaling", self.proxy.url, user_agent_extra=_OUTSIDE)

    @property
    def options(self) -> dict[str, Any]:
        """Those that bring the plugin here: every service is behind the proxy."""
        services = ("autoscaling", "ec2", "eks", "iam", "pricing", "sqs", "sts")
        return {"region": REGION, "endpoints": dict.fromkeys(services, self.proxy.url)}

    def close(self) -> None:
        self.proxy.close()

    # What is there

    def instances(self, group: str) -> list[dict[str, Any]]:
        """Every instance of a group, as AWS lists it."""
        found = self.asg.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
        return [one for one in found[0]["Instances"] if not one["LifecycleState"].startswith("Terminating")]

    def machines(self, group: str) -> frozenset[str]:
        """Provider ids of what lives in a group."""
        return frozenset(f"aws:///{one['AvailabilityZone']}/{one['InstanceId']}" for one in self.instances(group))

    def group(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.asg.describe_auto_scaling_groups(AutoScalingGroupNames=[name])[
            "AutoScalingGroups"
        ][0]
        return found

    def group_names(self) -> list[str]:
        """Return the names of all groups on the server, those of other tests included, page by page."""
        pages = self.asg.get_paginator("describe_auto_scaling_groups").paginate()
        return [group["AutoScalingGroupName"] for page in pages for group in page["AutoScalingGroups"]]

    # Making things

    def add_template(self, instance_type: str = "m5.large", **data: Any) -> str:
        name = f"lt-{next(_NUMBERS)}-{uuid4().hex[:6]}"
        content = {"ImageId": "ami-12c6146b", **({"InstanceType": instance_type} if instance_type else {}), **data}
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=content)
        return name

    def add_group(self, name: str = "", *, size: int = 0, tags: dict[str, str] | None = None, **settings: Any) -> str:
        """A group with running machines; answers its name."""
        name = name or f"asg-{next(_NUMBERS)}-{uuid4().hex[:6]}"
        if not {"LaunchTemplate", "MixedInstancesPolicy", "LaunchConfigurationName"} & set(settings):
            settings["LaunchTemplate"] = {"LaunchTemplateName": self.add_template(), "Version": "$Latest"}
        own = [
            {
                "Key": key,
                "Value": value,
                "ResourceId": name,
                "ResourceType": "auto-scaling-group",
                "PropagateAtLaunch": True,
            }
            for key, value in (tags or {}).items()
        ]
        wanted = {"MinSize": 0, "MaxSize": 10, "AvailabilityZones": ["us-east-1a"], **settings}
        self._asg.create_auto_scaling_group(AutoScalingGroupName=name, DesiredCapacity=size, Tags=own, **wanted)
        return name

    def reserve(self, machines: int, size: int = 0, **told: Any) -> tuple[str, str]:
        """A group whose machines start in a capacity reservation alone, for so many; answers its name and the reservation's id."""
        reservation = f"cr-{uuid4().hex[:17]}"
        target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
        template = self.add_template(CapacityReservationSpecification=target)
        name = self.add_group(size=size, LaunchTemplate={"LaunchTemplateName": template, "Version": "$Latest"})
        self.reservations[reservation] = Reservation(name, machines, **told)
        self.limit(name, machines)
        return name, reservation

    def remove_group(self, name: str) -> None:
        """The group disappears, if it is there, with all its machines."""
        if self._find(name):
            self._asg.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)

    def clear(self) -> None:
        """Remove every group and machine of the server, those of other tests included.

        moto goes through all instances in most calls: what earlier tests left there makes the later ones slow.
        """
        for name in self.group_names():
            self.remove_group(name)
        # moto keeps machines that are protected from scale-in.
        left = [status["InstanceId"] for status in self.ec2.describe_instance_status()["InstanceStatuses"]]
        if left:
            self.ec2.terminate_instances(InstanceIds=left)

    # Notices

    def add_queue(self, name: str) -> None:
        """A queue of SQS without messages."""
        self._sqs.create_queue(QueueName=name)

    def send(self, queue: str, event: dict[str, Any]) -> None:
        """EventBridge puts an event into the queue."""
        url = self._sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        self._sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))

    def interrupt(self, queue: str, instance_id: str) -> None:
        """AWS says that it will interrupt a spot instance in two minutes."""
        time = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kind, detail = "EC2 Spot Instance Interruption Warning", {"instance-id": instance_id}
        self.send(queue, {"id": str(uuid4()), "detail-type": kind, "time": time, "detail": detail})

    def messages(self, queue: str) -> int:
        """How many messages are in the queue, hidden ones included."""
        url = self._sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(map(int, counts.values()))

    # What happens by itself

    def hold(self, group: str) -> None:
        """From now on machines come only by ``arrive``."""
        self._held.add(group)

    def limit(self, group: str, machines: int) -> None:
        """There is room for so many machines: what is asked for beyond fails with a stock-out."""
        self._room[group] = machines

    def set_target(self, group: str, size: int) -> None:
        """Another writer resizes the group."""
        with self._lock:
            self._resize(group, size)

    def arrive(self, group: str) -> str:
        """One machine that was asked for is there; answers its provider id."""
        before = self.machines(group)
        with self._lock:
            self._asg.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=len(before) + 1)
        [arrived] = self.machines(group) - before
        return arrived

    def begin(self, group: str) -> str:
        """One machine that was asked for exists, and does not run yet; answers its provider id."""
        begun = self.arrive(group)
        self._states[begun.rpartition("/")[2]] = "Pending"
        return begun

    def vanish(self, machine: str) -> None:
        """An instance is gone, and AWS starts another in its place."""
        self.ec2.terminate_instances(InstanceIds=[machine.rpartition("/")[2]])

    def fail(self, group: str, message: str = STOCK_OUT, zone: str = "") -> None:
        """A launch fails in a zone (the first one); AWS goes on trying, so the capacity stays asked for."""
        found = self._find(group) or {"AvailabilityZones": [""]}
        zone = zone or found["AvailabilityZones"][0]
        said = f"{message} Launching EC2 instance failed."
        activity = {
            "ActivityId": str(uuid4()),
            "AutoScalingGroupName": group,
            "Description": f"Launching a new EC2 instance.  Status Reason: {said}",
            "Cause": "an instance was started in response to a difference between desired and actual capacity.",
            "StartTime": moment(self._now()),
            "EndTime": moment(self._now()),
            "StatusCode": "Failed",
            "StatusMessage": said,
            "Progress": "100",
            "Details": json.dumps({"Subnet ID": f"subnet-{zone}", "Availability Zone": zone}),
        }
        self._activities.setdefault(group, []).insert(0, activity)

    def set_state(self, instance_id: str, lifecycle: str) -> None:
        """The instance is listed in this lifecycle state."""
        self._states[instance_id] = lifecycle

    def set_member(self, group: str, name: str, text: str) -> None:
        """The group is listed with this member, as DesiredCapacityType, which moto does not know."""
        self._members.setdefault(group, {})[name] = text

    def hide_once(self, group: str) -> None:
        """The next read shows it as it was when it was empty."""
        self._hidden = group

    def lag(self, seconds: float) -> None:
        """From now on a listing shows a group for so long as it was before a call of ours changed its size."""
        self._lag = seconds

    # What goes wrong with calls

    def deny(self, *actions: str) -> None:
        """No permission for these actions from now on."""
        self._denied |= set(actions)

    def start_only(self, template_id: str) -> None:
        """No permission to start machines of another launch template, nor without one."""
        self._only_template = template_id

    def allow(self, *actions: str) -> None:
        self._denied -= set(actions)

    def refuse_once(self, action: str, code: str, message: str = "", status: int = 400, retry_after: str = "") -> None:
        headers = {"Retry-After": retry_after} if retry_after else {}  # the proxy adds Date
        self.mishaps.plan(action, refuse(code, message, status, headers))

    def lose_answer_once(self, action: str) -> None:
        """The next such call takes effect, and its answer is lost."""
        self.mishaps.plan(action, Mishap.LOST)

    def before_write(self, happening: Callable[[], object]) -> None:
        """Takes place when the next write of a size has arrived and was not looked at yet."""
        self.mishaps.before_write(happening)

    # How each call is answered

    def _play(self, request: Request) -> Answer:
        if _OUTSIDE in request.headers.get("User-Agent", ""):
            return self._act(request)
        action = request.action
        self.calls[action or f"{request.service} {request.method}"] += 1
        if action in _SIZE_WRITES and request.form.get("AutoScalingGroupName", "") in ("", *self._known()):
            self.mishaps.write_arrives()
        template = request.form.get("LaunchTemplate.LaunchTemplateId", "")
        is_foreign = action == "RunInstances" and self._only_template not in ("", template)
        if action in self._denied or is_foreign:
            if request.service == "pricing":
                return refuse_json("AccessDeniedException", f"User is not authorized to perform pricing:{action}")
            code = "UnauthorizedOperation" if request.service == "ec2" else "AccessDenied"
            return refuse(code, f"User is not authorized to perform {request.service}:{action}", 403)
        mishap = self.mishaps.take(action)
        if isinstance(mishap, Answer):
            return mishap
        if mishap is Mishap.GIVEN_UP:
            raise LostAnswer
        before = self._listed_before(request) if self._lag and action in _SIZE_WRITES else None
        answer = self._act(request)
        if before is not None and answer.status == 200:
            name, seen = before
            self._earlier.setdefault(name, []).append((self._now() + self._lag, seen))
        if mishap is Mishap.LOST:
            raise LostAnswer
        return answer

    def _known(self) -> set[str]:
        return {*self._asked, *self._held}

    def _act(self, request: Request) -> Answer:
        if request.form.get("DryRun") == "true":
            return refuse("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        if request.service == "pricing":
            return write_price_list(request.body, self.list_prices)
        if request.action == "DescribeSpotPriceHistory":
            return write_spot_prices(request.form, self.spot_prices)
        if request.action == "DescribeCapacityReservations":
            return write_reservations(request.form, self.reservations, lambda name: len(self.machines(name)))
        if request.service != "autoscaling":
            return self.proxy.forward(request)
        play = {
            "DescribeAutoScalingGroups": self._describe,
            "DescribeScalingActivities": self._tell_activities,
            "SetDesiredCapacity": self._set_desired,
            "TerminateInstanceInAutoScalingGroup": self._terminate,
            "SetInstanceProtection": self._protect,
            "UpdateAutoScalingGroup": self._if_there,
            "CreateAutoScalingGroup": self._create,
            "DeleteAutoScalingGroup": self._delete,
        }.get(request.action, self.proxy.forward)
        with self._lock:
            return play(request)

    def _tell_activities(self, request: Request) -> Answer:
        told = self._activities.get(request.form.get("AutoScalingGroupName", ""), [])[:100]
        return Answer(200, write_activities(told), {"Content-Type": "text/xml"})

    def _describe(self, request: Request) -> Answer:
        answer = self.proxy.forward(request)
        if answer.status != 200:
            return answer
        body = rewrite_groups(answer.body, self._asked.get, self._states.get, self._members.get)
        if request.form.get("AutoScalingGroupNames.member.1") == self._hidden:
            self._hidden, body = "", without_instances(body)
        if _OUTSIDE not in request.headers.get("User-Agent", ""):
            body = with_groups(body, self._old_listings())
        return Answer(200, body, {"Content-Type": "text/xml"})

    def _listed_before(self, request: Request) -> tuple[str, bytes] | None:
        """Return the name of the group that the call is about, and how listings show it before the call."""
        name = request.form.get("AutoScalingGroupName", "")
        if not name:
            owners = self._asg.describe_auto_scaling_instances(InstanceIds=[request.form["InstanceId"]])
            name = next((one["AutoScalingGroupName"] for one in owners["AutoScalingInstances"]), "")
        if not self._find(name):
            return None
        form = {"Action": "DescribeAutoScalingGroups", "Version": "2011-01-01", "AutoScalingGroupNames.member.1": name}
        body = urlencode(form).encode()
        headers = {**request.headers, "Content-Length": str(len(body))}
        asked = dataclasses.replace(request, action=form["Action"], form=form, headers=headers, body=body)
        return name, group_in(self._describe(asked).body, name)

    def _old_listings(self) -> dict[str, bytes]:
        """Return the groups that listings still show as they were: before the oldest change that they do not show yet."""
        hidden = {name: [seen for until, seen in kept if self._now() < until] for name, kept in self._earlier.items()}
        return {name: kept[0] for name, kept in hidden.items() if kept}

    def _if_there(self, request: Request) -> Answer:
        group = request.form["AutoScalingGroupName"]
        return self.proxy.forward(request) if self._find(group) else _no_group(group)

    def _protect(self, request: Request) -> Answer:
        """moto protects an instance in any state. AWS refuses the whole call if one of them is not in service."""
        asked = (value for key, value in request.form.items() if key.startswith("InstanceIds.member."))
        strange = [one for one in asked if self._states.get(one, "InService") not in _PROTECTABLE]
        if strange:
            said = f"The instance {strange[0]} is not in InService or EnteringStandby or Standby."
            return refuse("ValidationError", said)
        return self._if_there(request)

    def _set_desired(self, request: Request) -> Answer:
        name, size = request.form["AutoScalingGroupName"], int(request.form["DesiredCapacity"])
        group = self._find(name)
        if group is None:
            return _no_group(name)
        if size > group["MaxSize"]:
            limit = f"above max value {group['MaxSize']}"
        elif size < group["MinSize"]:
            limit = f"below min value {group['MinSize']}"
        else:
            self._resize(name, size)
            return Answer(200, b"<SetDesiredCapacityResponse/>", {"Content-Type": "text/xml"})
        return refuse("ValidationError", f"New SetDesiredCapacity value {size} is {limit} for the AutoScalingGroup.")

    def _resize(self, name: str, size: int) -> None:
        group = self._find(name)
        assert group is not None
        there, before = len(group["Instances"]), self._asked.get(name, group["DesiredCapacity"])
        self._asked[name] = size
        if size < there:
            self._asg.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=size)
        elif size > before and name not in self._held:
            filled = min(size, max(there, self._room.get(name, size)))
            self._asg.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=filled)
            if filled < size:
                self.fail(name)

    def _terminate(self, request: Request) -> Answer:
        instance_id = request.form["InstanceId"]
        listed = self._asg.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"]
        if not listed:
            return refuse(
                "ValidationError", f"Instance Id not found - No managed instance found for instance ID: {instance_id}"
            )
        name = listed[0]["AutoScalingGroupName"]
        group = self._find(name)
        assert group is not None
        asked = self._asked.get(name, group["DesiredCapacity"])
        if asked - 1 < group["MinSize"]:
            return refuse("ValidationError", f"Currently, desiredSize equals minSize ({group['MinSize']}).")
        # moto fills up to its own idea of the size: it is told what is there.
        self._asg.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=len(group["Instances"]))
        self._asked[name] = asked - 1
        return self.proxy.forward(request)

    def _create(self, request: Request) -> Answer:
        """moto replaces a group of that name, and does not look for the launch template."""
        name = request.form["AutoScalingGroupName"]
        if self._find(name):
            return refuse("AlreadyExists", f"AutoScalingGroup by this name already exists - {name}")
        launch = "MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification"
        by_id, by_name = (request.form.get(f"{launch}.LaunchTemplate{part}") for part in ("Id", "Name"))
        wanted = {"LaunchTemplateIds": [by_id]} if by_id else {"LaunchTemplateNames": [by_name]}
        try:
            self.ec2.describe_launch_templates(**wanted)
        except self.ec2.exceptions.ClientError:
            said = "You must use a valid fully-formed launch template. The specified launch template does not exist."
            return refuse("ValidationError", said)
        return self.proxy.forward(request)

    def _delete(self, request: Request) -> Answer:
        """moto ends the instances first."""
        name = request.form["AutoScalingGroupName"]
        group = self._find(name)
        if group is None:
            return _no_group(name)
        if group["Instances"]:
            said = "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s)"
            return refuse("ResourceInUse", f"{said} still in the group.")
        return self.proxy.forward(request)

    def _find(self, name: str) -> dict[str, Any] | None:
        """The group as moto has it."""
        found = self._asg.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        return found[0] if found else None


@cache
def _behind(moto_port: int, service: str) -> Any:
    """A client past the proxy, for things that are only made: clients are slow to build."""
    return _client(service, f"http://127.0.0.1:{moto_port}")


def _client(service: str, url: str, **settings: Any) -> Any:
    config = Config(retries={"mode": "standard", "total_max_attempts": 1}, **settings)
    return boto3.client(service, endpoint_url=url, region_name=REGION, config=config, **CREDENTIALS)


def _no_group(name: str) -> Answer:
    return refuse("ValidationError", f"AutoScalingGroup name not found - AutoScalingGroup {name} not found")
