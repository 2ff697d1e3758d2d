"""Quotas of Compute Engine: the scope of a quota that is used up, and the quotas on which a group's machines draw.

Most families of machine types have a quota of vCPUs of their own in each region (N2_CPUS); the oldest share CPUS.
Source: "Allocation quotas" in Compute Engine's documentation.
"""

import re

from nodewright.spec import FailureScope

# Compute Engine writes that quota 'N2_CPUS' is exceeded, with its limit and region.
_NAME = re.compile(r"[Qq]uota '?([A-Za-z][A-Za-z0-9_-]*)'? (?:was |has been )?exceeded")
_REGION = re.compile(r"in region ([a-z]+-[a-z]+[0-9]+)")
_OF_ACCOUNT = frozenset(
    ("CPUS", "CPUS_ALL_REGIONS", "INSTANCES", "IN_USE_ADDRESSES", "DISKS_TOTAL_GB", "SSD_TOTAL_GB", "SSD_TOTAL_STORAGE")
)
_OLDEST = ("custom", "e2", "f1", "g1", "n1")


def quota_scope(message: str) -> FailureScope:
    """Return the scope of a quota, by its name.

    Quotas of accelerators and of preemptible machines, and unknown ones, concern the group: groups of the same machine
    type may have enough.
    """
    name = _name_in(message)
    if any(word in name for word in ("GPU", "TPU", "PREEMPTIBLE", "SPOT", "COMMITTED")):
        return FailureScope.GROUP
    if name in _OF_ACCOUNT:
        return FailureScope.ACCOUNT
    is_of_family = name.endswith("_CPUS") or name.startswith("CPUS_PER_VM_FAMILY")
    return FailureScope.INSTANCE_TYPE if is_of_family else FailureScope.GROUP


def quota_bucket(message: str) -> str:
    """Return the quota of vCPUs that a message names, in the words of ``quotas_of``; "": it names none with its region."""
    name, region = _name_in(message), _REGION.search(message)
    is_of_cpus = name == "CPUS" or name.endswith("_CPUS")
    return f"{name} in {region[1]}" if region is not None and is_of_cpus else ""


def quotas_of(machine_type: str, region: str) -> frozenset[str]:
    """Return the quotas of vCPUs on which on-demand machines of this type draw."""
    family = machine_type.partition("-")[0]
    own = f"{family.upper()}_CPUS"
    names = {"CPUS", own} if family in _OLDEST else {own}
    return frozenset(f"{name} in {region}" for name in names)


def _name_in(message: str) -> str:
    named = _NAME.search(message)
    return named.group(1).replace("-", "_").upper() if named else ""
