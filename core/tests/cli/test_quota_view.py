"""CapacityQuotas and ProvisioningClasses of a dump, in ``plan`` and ``explain``."""

from collections.abc import Callable
from typing import Any

import pytest

from nodewright.model.capacity_quota import CapacityQuota, CapacityQuotaSpec, QuotaAmounts
from nodewright.model.meta import LabelSelector, ObjectMeta
from nodewright.model.provisioning_request import ProvisioningClass
from nodewright.testkit import build_node, build_pod

Nodewright = Callable[..., Any]
WriteDump = Callable[..., str]

GROUPS = ("--group-by", "pool", "--group-max", "20")
ON = (*GROUPS, "--capacity-quotas-enabled")
POOL = {"pool": "general"}


def quota(name: str, **amounts: Any) -> CapacityQuota:
    spec = CapacityQuotaSpec(selector=LabelSelector(match_labels=POOL), limits=QuotaAmounts(resources=amounts))
    return CapacityQuota(metadata=ObjectMeta(name=name), spec=spec)


@pytest.fixture
def dump(write_dump: WriteDump) -> str:
    nodes = [build_node(f"n-{n}", cpu="4", labels=POOL, created_at=3600.0) for n in range(2)]
    pods = [build_pod(f"web-{number}", "4", created_at=number) for number in range(3)]  # two of them have room
    return write_dump(*nodes, *pods, quota("full", nodes=2), quota("wrong", nodes="-1"))


def test_the_quota_in_the_way_is_named(nodewright: Nodewright, dump: str) -> None:
    reason = 'exceeded quota: "CapacityQuota/full", resources: nodes'
    document = nodewright("plan", dump, *ON, "-o", "json").document
    assert document["groups"][0]["skipped"] == {"code": "resource_limit", "message": reason}
    assert document["actions"] == []
    assert reason in " ".join(nodewright("explain", "pod", "default/web-2", dump, *ON).out.split())


def test_one_that_is_wrong_is_told(nodewright: Nodewright, dump: str) -> None:
    wrong = (
        "CapacityQuota/wrong is not enforced: spec.limits.resources: nodes: '-1' is not a whole number of at least 0."
    )
    assert wrong in " ".join(nodewright("plan", dump, *ON).out.split())
    assert nodewright("plan", dump, *ON, "-o", "json").document["warnings"] == [wrong]


def test_where_they_are_off_the_plan_says_so(nodewright: Nodewright, dump: str) -> None:
    said = " ".join(nodewright("plan", dump, *GROUPS).out.split())
    assert "2 quotas of capacity are ignored: --capacity-quotas-enabled is off." in said
    assert "Plan: 1 more node in 1 group" in said


def test_where_classes_are_off_the_plan_says_so(nodewright: Nodewright, write_dump: WriteDump) -> None:
    held = ProvisioningClass(metadata=ObjectMeta(name="train"))
    dump = write_dump(build_node("n", labels=POOL, created_at=3600.0), held)

    def warnings(*flags: str) -> list[str]:
        found: list[str] = nodewright("plan", dump, *GROUPS, *flags, "-o", "json").document["warnings"]
        return found

    classes, requests = "--enable-provisioning-classes", "--enable-provisioning-requests"
    alone = "1 definition of request classes is ignored:"
    assert warnings() == warnings(requests) == [f"{alone} {classes} is off."]
    assert warnings(classes) == [f"{alone} {requests} is off."]
    assert warnings(classes, requests) == []
