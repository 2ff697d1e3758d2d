"""The permissions that the plugin needs in Azure, and the custom roles that hold them."""

import json
import re
from collections.abc import Iterable, Sequence

import msgspec

from nodewright.spec import Capability, FindingLevel
from nodewright_azure.account import Account
from nodewright_azure.options import Options
from nodewright_azure.shapes import RolePermissions

_SETS = "Microsoft.Compute/virtualMachineScaleSets"
SKUS = "Microsoft.Compute/skus/read"


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """An action of Azure's roles, and what is lost without it."""

    action: str
    without: str
    level: FindingLevel = FindingLevel.PROBLEM
    capability: Capability | None = None


_READ_SETS = Permission(action=f"{_SETS}/read", without="no scale set can be read")
_READ_MACHINES = Permission(action=f"{_SETS}/virtualMachines/read", without="no machine of a uniform set can be read")
_READ_FLEXIBLE = Permission(
    action="Microsoft.Compute/virtualMachines/read", without="no machine of a flexible set or a VM pool can be read"
)
_READ_VIEW = Permission(
    action=f"{_SETS}/instanceView/read",
    without="failures are reported without Azure's reason",
    level=FindingLevel.WARNING,
    capability=Capability.FAST_FAILURE_DETECTION,
)
_READ_MACHINE_VIEW = Permission(
    action="Microsoft.Compute/virtualMachines/instanceView/read",
    without="machines of flexible sets and VM pools that could not be created are noticed only when the provision time is over",
    level=FindingLevel.WARNING,
    capability=Capability.FAST_FAILURE_DETECTION,
)
READ_SKUS = Permission(
    action=SKUS,
    without="only sizes of the option instance_types are known; it must be granted on the subscription",
)
# Why an operation of ours failed. Operations belong to the subscription and the location.
READ_OPERATIONS = Permission(
    action="Microsoft.Compute/locations/operations/read",
    without="failures that leave no machine are reported without Azure's reason; it must be granted on the subscription",
    level=FindingLevel.WARNING,
    capability=Capability.FAST_FAILURE_DETECTION,
)
READ_POOL_OPERATIONS = Permission(
    action="Microsoft.ContainerService/locations/operations/read",
    without="failures of VM pools are reported without AKS's reason; it must be granted on the subscription",
    level=FindingLevel.WARNING,
    capability=Capability.FAST_FAILURE_DETECTION,
)
_POOLS = "Microsoft.ContainerService/managedClusters/agentPools"
ON_CLUSTER = (
    Permission(action=f"{_POOLS}/read", without="no VM pool can be read"),
    Permission(action=f"{_POOLS}/write", without="no VM pool's size can be changed"),
    Permission(action=f"{_POOLS}/deleteMachines/action", without="no machine of a VM pool can be deleted"),
)
_WRITE = Permission(action=f"{_SETS}/write", without="no size can be changed")
_DELETE = Permission(action=f"{_SETS}/delete/action", without="no machine can be deleted")


def in_group(options: Options, loose: Iterable[bool]) -> list[Permission]:
    """Return the permissions needed in the resource group. ``loose``: for each set, whether its machines stand alone."""
    kinds = set(loose)
    needed = [_READ_SETS]
    if False in kinds or not kinds:
        needed.append(_READ_MACHINES)
    if options.watches_failures:
        needed.append(_READ_VIEW)
    if True in kinds or not kinds:
        needed.append(_READ_FLEXIBLE)
        needed += [_READ_MACHINE_VIEW] if options.watches_failures else []
    return [*needed, _WRITE, _DELETE]


def on_subscription(options: Options, *, serves_pools: bool) -> list[Permission]:
    """Return the permissions needed on the subscription."""
    needed = [] if options.use_static_instance_list else [READ_SKUS]
    if options.watches_failures:
        needed += [READ_OPERATIONS, READ_POOL_OPERATIONS] if serves_pools else [READ_OPERATIONS]
    return needed


def minimal_policy(options: Options, account: Account, loose: Iterable[bool]) -> str:
    """Return custom roles.

    One is for the resource group. If sizes or the results of operations are read from Azure, one is for the
    subscription. If VM pools are served, one is for the cluster's resource group.
    """
    subscription = f"/subscriptions/{account.subscription_id}"
    name = f"nodewright {options.cluster}".strip()
    group = f"{subscription}/resourceGroups/{account.resource_group}"
    roles = [_role(name, "Scale sets of a resource group", [one.action for one in in_group(options, loose)], group)]
    of_all = on_subscription(options, serves_pools=account.cluster is not None)
    if of_all:
        said = "Sizes of machines, and why operations failed"
        roles.append(_role(f"{name} subscription", said, [one.action for one in of_all], subscription))
    if account.cluster is not None:
        group = f"{subscription}/resourceGroups/{account.cluster.resource_group}"
        roles.append(_role(f"{name} pools", "VM pools of AKS", [one.action for one in ON_CLUSTER], group))
    return json.dumps(roles, indent=2)


def allows(grants: Sequence[RolePermissions], action: str) -> bool:
    """Return whether a role grants the action and does not itself exclude it."""
    return any(_matches(one.actions, action) and not _matches(one.not_actions, action) for one in grants)


def _role(name: str, description: str, actions: Sequence[str], scope: str) -> dict[str, object]:
    return {
        "Name": name,
        "IsCustom": True,
        "Description": description,
        "Actions": list(actions),
        "AssignableScopes": [scope],
    }


def _matches(patterns: Iterable[str], action: str) -> bool:
    """Return whether a pattern matches. Azure's wildcard stands for any characters, also slashes; case is ignored."""
    return any(
        re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), action, re.IGNORECASE) is not None for pattern in patterns
    )
