"""The permissions that the plugin needs in AWS, and the policy that holds them."""

import json

import msgspec

from nodewright.spec import Capability, FindingLevel
from nodewright_aws.options import Making, Options
from nodewright_aws.tags import OWNED, cluster_tag

_CREATE, START = "autoscaling:CreateAutoScalingGroup", "ec2:RunInstances"


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """An action of IAM, and what does not work without it."""

    action: str
    without: str
    is_write: bool = False
    level: FindingLevel = FindingLevel.PROBLEM
    capability: Capability | None = None

    @property
    def is_of_queue(self) -> bool:
        """Return whether the action is about the queue of notices, which has a statement and a resource of its own."""
        return self.action.startswith("sqs:")


_PERMISSIONS = (
    Permission(action="autoscaling:DescribeAutoScalingGroups", without="no group can be read"),
    Permission(
        action="autoscaling:DescribeScalingActivities",
        without="failed launches are noticed only when the provision time is over",
        level=FindingLevel.WARNING,
        capability=Capability.FAST_FAILURE_DETECTION,
    ),
    Permission(
        action="autoscaling:DescribeLaunchConfigurations",
        without="groups with launch configurations have no template",
        level=FindingLevel.WARNING,
    ),
    Permission(action="ec2:DescribeLaunchTemplateVersions", without="groups with launch templates have no template"),
    Permission(
        action="ec2:DescribeInstanceTypes",
        without="instance types are those of the option instance_types and of the bundled table",
        level=FindingLevel.WARNING,
    ),
    Permission(
        action="ec2:DescribeImages",
        without="groups with instance requirements have no template",
        level=FindingLevel.WARNING,
    ),
    Permission(
        action="ec2:GetInstanceTypesFromInstanceRequirements",
        without="groups with instance requirements have no template",
        level=FindingLevel.WARNING,
    ),
    Permission(
        action="ec2:DescribeCapacityReservations",
        without="the free room of capacity reservations is not known, and launches beyond it fail",
        level=FindingLevel.WARNING,
    ),
    Permission(
        action="eks:DescribeNodegroup",
        without="labels and taints of EKS node groups are known from tags alone",
        level=FindingLevel.WARNING,
    ),
    Permission(
        action="pricing:GetProducts",
        without="on-demand prices are those of the bundled table",
        level=FindingLevel.WARNING,
        capability=Capability.PRICING,
    ),
    Permission(
        action="ec2:DescribeSpotPriceHistory",
        without="groups of spot machines have no price",
        level=FindingLevel.WARNING,
        capability=Capability.PRICING,
    ),
    Permission(
        action="ec2:DescribeInstanceStatus",
        without="scheduled events of instances are not known",
        level=FindingLevel.WARNING,
        capability=Capability.INTERRUPTION,
    ),
    Permission(
        action="sqs:GetQueueUrl", without="the queue of notices is not found", capability=Capability.INTERRUPTION
    ),
    Permission(action="sqs:ReceiveMessage", without="no notice is read", capability=Capability.INTERRUPTION),
    Permission(
        action="sqs:DeleteMessage",
        without="messages stay in the queue and are read again",
        level=FindingLevel.WARNING,
        capability=Capability.INTERRUPTION,
    ),
    Permission(
        action="sqs:ChangeMessageVisibility",
        without="messages without a near deadline are read again every 30 seconds",
        level=FindingLevel.WARNING,
        capability=Capability.INTERRUPTION,
    ),
    Permission(action="autoscaling:SetDesiredCapacity", without="no size can be changed", is_write=True),
    Permission(
        action="autoscaling:TerminateInstanceInAutoScalingGroup", without="no instance can be deleted", is_write=True
    ),
    Permission(action="autoscaling:SetInstanceProtection", without="no size can be lowered safely", is_write=True),
    Permission(
        action="autoscaling:UpdateAutoScalingGroup",
        without="sizes are lowered only in groups with NewInstancesProtectedFromScaleIn",
        is_write=True,
        level=FindingLevel.WARNING,
    ),
    Permission(
        action=_CREATE,
        without="no group can be created",
        is_write=True,
        capability=Capability.AUTOPROVISIONING,
    ),
    Permission(
        action="autoscaling:DeleteAutoScalingGroup",
        without="groups that nodewright created stay when they are empty",
        is_write=True,
        level=FindingLevel.WARNING,
        capability=Capability.AUTOPROVISIONING,
    ),
    Permission(
        action=START,
        without="no group can be created: AWS requires it where a launch template is used",
        capability=Capability.AUTOPROVISIONING,
    ),
)
# What a launch template can have tagged as a machine starts.
_TAGGED_AT_START = ("instance", "network-interface", "volume")
# EC2 as IAM calls it, also in China.
_EC2_SERVICES = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]
# These actions have separate statements in the policy.
_FOR_CREATING = (_CREATE, START)
# The partition of a resource is any: an account is in one alone, and those of China and of governments have other names.
_EC2 = "arn:*:ec2:*:*:"
# What AWS checks when a machine starts, beside its launch template. Images and snapshots belong to no account there.
_STARTED_WITH = (
    "capacity-reservation",
    "image",
    "instance",
    "key-pair",
    "network-interface",
    "placement-group",
    "security-group",
    "snapshot",
    "subnet",
    "volume",
)


def needed_permissions(options: Options) -> list[Permission]:
    """Return the permissions that are needed with these options."""
    return [one for one in _PERMISSIONS if _is_needed(one, options)]


def minimal_policy(options: Options) -> str:
    """Return an IAM policy document. If a cluster is named, writes are allowed only on groups with its tag."""
    needed = [one for one in needed_permissions(options) if one.action not in _FOR_CREATING and not one.is_of_queue]
    reads = [one.action for one in needed if not one.is_write]
    tag = cluster_tag(options.cluster or "<cluster name>")
    writes = {
        "Sid": "NodewrightWrites",
        "Effect": "Allow",
        "Action": [one.action for one in needed if one.is_write],
        "Resource": "*",
        "Condition": {"StringEquals": {f"aws:ResourceTag/{tag}": OWNED}},
    }
    statements = [{"Sid": "NodewrightReads", "Effect": "Allow", "Action": reads, "Resource": "*"}, writes]
    if options.interruption_queue:
        statements.append(_queue_statement(options))
    if options.autoprovisioning is not None:
        statements += _creating_statements(tag, options.autoprovisioning)
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def _queue_statement(options: Options) -> dict[str, object]:
    actions = [one.action for one in needed_permissions(options) if one.is_of_queue]
    resource = f"arn:*:sqs:*:*:{options.interruption_queue}"
    return {"Sid": "NodewrightQueue", "Effect": "Allow", "Action": actions, "Resource": resource}


def _creating_statements(tag: str, making: Making) -> list[dict[str, object]]:
    """Return the statements that creating groups needs in addition.

    Tags are set in the same call. Those that a launch template gives to machines may be set as they start, not later. AWS also checks that the caller may start machines of the launch template and pass
    their role; those machines carry no tag yet. Other templates cannot be used: one that is not named must have the
    cluster's tag. No other role can be passed: a caller that passes a role has its rights.
    """
    made = {"StringEquals": {f"aws:RequestTag/{tag}": OWNED}}
    passed = {"StringEquals": {"iam:PassedToService": _EC2_SERVICES}}
    template = f"{_EC2}launch-template/{making.launch_template or '*'}"
    templates: dict[str, object] = {
        "Sid": "NodewrightTemplates",
        "Effect": "Allow",
        "Action": [START],
        "Resource": template,
    }
    if not making.launch_template:
        templates["Condition"] = {"StringEquals": {f"aws:ResourceTag/{tag}": OWNED}}
    return [
        {
            "Sid": "NodewrightMakes",
            "Effect": "Allow",
            "Action": [_CREATE, "autoscaling:CreateOrUpdateTags"],
            "Resource": "*",
            "Condition": made,
        },
        templates,
        {
            "Sid": "NodewrightStarts",
            "Effect": "Allow",
            "Action": [START],
            "Resource": [f"{_EC2}{kind}/*" for kind in _STARTED_WITH],
            "Condition": {"ArnLike": {"ec2:LaunchTemplate": template}},
        },
        {
            "Sid": "NodewrightTags",
            "Effect": "Allow",
            "Action": ["ec2:CreateTags"],
            "Resource": [f"{_EC2}{kind}/*" for kind in _TAGGED_AT_START],
            "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
        },
        {
            "Sid": "NodewrightPasses",
            "Effect": "Allow",
            "Action": ["iam:PassRole"],
            "Resource": f"arn:*:iam::*:role/{making.node_role or '<role of the nodes>'}",
            "Condition": passed,
        },
    ]


def _is_needed(one: Permission, options: Options) -> bool:
    if one.capability is Capability.FAST_FAILURE_DETECTION:
        return options.detect_failures
    if one.capability is Capability.PRICING:
        return options.refresh_prices
    if one.capability is Capability.INTERRUPTION:
        return bool(options.interruption_queue)
    if one.capability is Capability.AUTOPROVISIONING:
        return options.autoprovisioning is not None
    return not (one.action == "ec2:DescribeInstanceTypes" and options.use_static_instance_list)
