"""On which quotas and pools of capacity the machines of a group draw.

AWS limits the vCPUs that run by families of instance types (m5 and c5 share a limit, x2gd has another), on demand and
spot apart. Machines of one type in one zone come from one pool of capacity, again on demand and spot apart. Each takes an
address of its subnet.
Source: "Amazon EC2 instance type quotas" and "EC2 Spot" in AWS's documentation.
"""

import re

import msgspec

from nodewright.spec import FailedInstance, FailureScope
from nodewright_aws.catalogue import Launch
from nodewright_aws.errors import OF_ADDRESSES, OF_CAPACITY, OF_VCPUS
from nodewright_aws.prices import buys_spot
from nodewright_aws.shapes import Group

_FAMILY = re.compile(r"[a-z]+")
_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
# The letters with which an instance type begins → the limit that counts its vCPUs, as Service Quotas names it.
_LIMITS = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), _STANDARD),
    **dict.fromkeys(("g", "gr", "vt"), "G and VT"),
    "dl": "DL",
    "f": "F",
    "hpc": "HPC",
    "inf": "Inf",
    "p": "P",
    "trn": "Trn",
    "u": "High Memory",
    "x": "X",
}


def vcpu_limit(instance_type: str) -> str:
    """Return the name of the limit that counts the vCPUs of an instance type; "": it is not known."""
    family = _FAMILY.match(instance_type)
    return _LIMITS.get(family[0], "") if family is not None else ""


def buckets_of(group: Group, launch: Launch) -> frozenset[str]:
    """Return what each new machine of the group draws on; less where AWS may choose among several, or has reserved it."""
    return frozenset(filter(None, (_limit_of(group, launch), _pool_of(group, launch), _addresses_of(group))))


def with_reach(failure: FailedInstance, group: Group, launch: Launch) -> FailedInstance:
    """Return the failure with the bucket that it has used up, and with the scope for groups that do not list it.

    In a group of one zone, a lack of capacity or of addresses is one of the zone. Where AWS chose among several types or
    markets, no bucket narrows that down to what the other groups start, so it stays a failure of the group.
    """
    bucket = ""
    if failure.code in OF_VCPUS:
        bucket = _limit_of(group, launch)
    elif failure.code in OF_CAPACITY:
        bucket = _pool_of(group, launch)
    elif failure.code == OF_ADDRESSES:
        bucket = _addresses_of(group)
    is_of_zone = failure.code in OF_CAPACITY or failure.code == OF_ADDRESSES
    scope = FailureScope.ZONE if bucket and is_of_zone else failure.scope
    return msgspec.structs.replace(failure, bucket=bucket, scope=scope)


def _addresses_of(group: Group) -> str:
    """Return the addresses that new machines take: those of the group's only subnet; "": it has several, or names none."""
    subnets = [one.strip() for one in group.vpc_zone_identifier.split(",") if one.strip()]
    return f"addresses in {subnets[0]}" if len(subnets) == 1 else ""


def _limit_of(group: Group, launch: Launch) -> str:
    limits = {vcpu_limit(name) for name in launch.type_names}
    market = _market(group, launch)
    is_one = len(limits) == 1 and launch.requirements is None and market
    return f"vCPUs, {market}, {limits.pop()}" if is_one and "" not in limits else ""


def _pool_of(group: Group, launch: Launch) -> str:
    market, zones = _market(group, launch), group.availability_zones
    is_one = len(zones) == len(launch.type_names) == 1 and launch.requirements is None and market
    return f"capacity, {market}, {launch.type_name} in {zones[0]}" if is_one else ""


def _market(group: Group, launch: Launch) -> str:
    """Return what all new machines of the group are; "": it buys both kinds, or takes up a capacity reservation.

    What is reserved has capacity and counts against the limits already, so new machines draw on neither.
    """
    if launch.reserved_in:
        return ""
    if buys_spot(group, launch):
        return "spot"
    policy = group.mixed_instances_policy if group.launch_template is None else None
    is_mixed = policy is not None and policy.instances_distribution.on_demand_percentage_above_base_capacity < 100
    return "" if is_mixed else "on demand"
