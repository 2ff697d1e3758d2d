"""``nodewright doctor`` on Azure: its findings and its output, and that it changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azurecloud import AzureCloud
from azurecloud.sets import STOCK_OUT
from doctoring import bad, run_doctor, said
from nodewright.spec import Capability, FindingLevel

Attach = Callable[..., Any]
_SETS = "Microsoft.Compute/virtualMachineScaleSets"


def test_a_set_in_order_with_every_permission(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    findings = attach(f"0:10:{name}").client.diagnose()
    assert bad(findings) == {}
    assert {f"{_SETS}/write", "Microsoft.Compute/skus/read", "other writers"} <= {one.subject for one in findings}


def test_each_missing_permission_is_named_with_what_is_lost(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    stage = attach(f"0:10:{name}")
    cloud.deny(f"{_SETS}/instanceView/read", f"{_SETS}/write", "Microsoft.Compute/skus/read")
    wrong = bad(stage.client.diagnose())
    view = wrong[f"{_SETS}/instanceView/read"]
    assert (view.level, view.capability) == (FindingLevel.WARNING, Capability.FAST_FAILURE_DETECTION)
    assert "failures are reported without Azure's reason" in view.message
    assert wrong[f"{_SETS}/write"].level is FindingLevel.PROBLEM
    assert wrong[f"{_SETS}/write"].remedy == f"grant {_SETS}/write"
    assert "AuthorizationFailed" in wrong["Microsoft.Compute/skus/read"].message


def test_what_cannot_be_found_out_is_a_warning_that_says_so(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    stage = attach(f"0:10:{name}")
    cloud.refuse_once("permissions", "InternalServerError", "oops", 500)
    cloud.deny("Microsoft.Authorization/locks/read", "Microsoft.Insights/autoscaleSettings/read")
    findings = stage.client.diagnose()
    wrong = bad(findings)
    assert "cannot be read: permissions.list: InternalServerError" in wrong["permissions"].message
    assert f"{_SETS}/write" not in {one.subject for one in findings}, "no source said that it is granted"
    assert "cannot check for locks" in wrong["locks"].message
    assert "cannot check for autoscale settings" in wrong["other writers"].message


def test_what_else_moves_a_set_or_holds_it(cloud: AzureCloud, attach: Attach) -> None:
    moved = {
        "overprovision": True,
        "upgradePolicy": {"mode": "Automatic"},
        "automaticRepairsPolicy": {"enabled": True},
    }
    name = cloud.add_set(capacity=1, zones=["1", "2"], properties=moved)
    cloud.add_set("meant", tags={"team": "a"})
    one = cloud.set(name)
    one.trouble = STOCK_OUT
    one.touch()
    cloud.arm.autoscale.append(
        {"name": "cpu", "location": "eastus", "properties": {"enabled": True, "targetResourceUri": one.id.upper()}}
    )
    locks = "providers/Microsoft.Authorization/locks"
    group = one.id.partition("/providers/")[0]
    cloud.arm.locks += [
        {"id": f"{group}/{locks}/keep", "name": "keep", "properties": {"level": "CanNotDelete"}},
        {"id": f"{one.id}/{locks}/still", "name": "still", "properties": {"level": "ReadOnly"}},
        {"id": f"{one.id}-other/{locks}/others", "name": "others", "properties": {"level": "ReadOnly"}},
    ]
    findings = attach(f"0:10:{name}", "0:3:gone", discover=("label:team=a",)).client.diagnose()
    lines = said(findings)
    assert "other writers: the autoscale setting cpu also changes the size of this set" in lines
    assert "overprovision: on" in lines
    assert "upgradePolicy: Automatic: Azure restarts or replaces machines" in lines
    assert "automaticRepairsPolicy: Azure replaces machines that it considers unhealthy" in lines
    assert "zones: 2 zones" in lines
    assert "lock keep: CanNotDelete: machines possibly cannot be deleted" in lines
    assert "lock still: ReadOnly: no size can be changed" in lines
    assert "lock others" not in lines
    assert f"provisioningState: the last operation on the set failed: {STOCK_OUT.code}" in lines
    assert "--nodes: --nodes names this group, but there is no such scale set" in lines
    assert "meant matches but is not used: it has no tag min" in lines


def test_without_credentials_nothing_else_is_said(cloud: AzureCloud, attach: Attach) -> None:
    stage = attach("0:3:web", read=False)
    cloud.accepts_logins = False
    assert stage.client.diagnose() == ()


def test_what_was_never_looked_for_is_not_said_to_be_missing(attach: Attach) -> None:
    assert "--nodes" not in bad(attach("0:3:gone", read=False).client.diagnose())


def test_sizes_that_the_subscription_may_not_have(cloud: AzureCloud, attach: Attach) -> None:
    cloud.add_sku("Standard_L8s_v3", vCPUs="8", MemoryGB="64", denied="NotAvailableForSubscription")
    name = cloud.add_set(size="Standard_L8s_v3")
    wrong = bad(attach(f"0:10:{name}").client.diagnose())
    assert "may not use Standard_L8s_v3 in eastus: NotAvailableForSubscription" in wrong["size"].message


@pytest.mark.parametrize(("policy", "is_told"), [("Deallocate", True), ("Delete", False), (None, True)])
def test_spot_machines_that_stay_when_they_are_evicted(
    cloud: AzureCloud, attach: Attach, policy: str | None, *, is_told: bool
) -> None:
    profile = {"priority": "Spot", **({"evictionPolicy": policy} if policy else {})}
    name = cloud.add_set(properties={"virtualMachineProfile": profile})
    regular = cloud.add_set(properties={"virtualMachineProfile": {"priority": "Regular"}})
    findings = attach(f"0:10:{name}", f"0:10:{regular}").client.diagnose()
    told = [one.group_id for one in findings if one.subject == "evictionPolicy"]
    assert told == ([name] if is_told else [])


def test_a_flexible_set_in_order(cloud: AzureCloud, attach: Attach) -> None:
    flexible = cloud.add_set(capacity=1, properties={"orchestrationMode": "Flexible"})
    client = attach(f"0:10:{flexible}").client
    assert bad(client.diagnose()) == {}
    assert f"{_SETS}/instanceView/read" in client.minimal_policy()
    cloud.deny("Microsoft.Compute/virtualMachines/instanceView/read")
    wrong = bad(client.diagnose())
    assert (
        "only when the provision time is over" in wrong["Microsoft.Compute/virtualMachines/instanceView/read"].message
    )


def test_without_the_results_of_operations_failures_lack_a_reason(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.add_pool("pool1", {"Standard_D2s_v3": 1})
    stage = attach(f"0:10:{name}", "0:10:pool1/Standard_D2s_v3", **cloud.pool_options)
    reads = [f"Microsoft.{service}/locations/operations/read" for service in ("Compute", "ContainerService")]
    assert {one.subject for one in stage.client.diagnose()} >= set(reads)
    assert set(bad(stage.client.diagnose())).isdisjoint(reads)
    _, wide, _ = json.loads(stage.client.minimal_policy())
    assert wide["AssignableScopes"] == ["/subscriptions/sub"]
    assert set(reads) <= set(wide["Actions"])
    cloud.deny(*reads)
    wrong = bad(stage.client.diagnose())
    for read in reads:
        assert (wrong[read].level, wrong[read].capability) == (
            FindingLevel.WARNING,
            Capability.FAST_FAILURE_DETECTION,
        )
        assert "reported without" in wrong[read].message


@pytest.mark.parametrize(
    ("code", "status"),
    [("NoRegisteredProviderFound", 400), ("InvalidApiVersionParameter", 400), ("Conflict", 409), ("Internal", 500)],
)
def test_an_error_other_than_a_missing_operation_proves_no_permission(
    cloud: AzureCloud, attach: Attach, code: str, status: int
) -> None:
    client = attach(f"0:10:{cloud.add_set(capacity=1)}").client
    cloud.refuse_once("operation", code, "oops", status)
    wrong = bad(client.diagnose())["Microsoft.Compute/locations/operations/read"]
    assert wrong.level is FindingLevel.WARNING
    assert "cannot be checked now" in wrong.message
    assert code in wrong.message


@pytest.mark.parametrize("mode", ["Deallocate", "Delete"])
def test_a_pool_whose_machines_are_meant_to_be_deallocated(cloud: AzureCloud, attach: Attach, mode: str) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 1}, scaleDownMode=mode)
    found = bad(attach("0:10:pool1/Standard_D2s_v3", **cloud.pool_options).client.diagnose())
    assert ("scaleDownMode" in found) == (mode == "Deallocate")


def test_nothing_is_changed_by_looking(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    stage = attach(f"0:10:{name}")
    before = cloud.body(name)
    stage.client.diagnose()
    assert cloud.body(name) == before
    assert not cloud.calls["update"] + cloud.calls["delete"]


def test_the_policy_lists_what_is_used(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set()
    group, sizes = json.loads(attach(f"0:1:{name}", cluster="prod").client.minimal_policy())
    assert (group["Name"], sizes["Name"]) == ("nodewright prod", "nodewright prod subscription")
    assert group["AssignableScopes"] == ["/subscriptions/sub/resourceGroups/Nodes"]
    assert "Microsoft.Compute/virtualMachines/read" not in group["Actions"], "no set is flexible"
    rows = {"Standard_D2s_v3": {"cpu": 2, "memory_mib": 8192}}
    less = attach(f"0:1:{name}", instance_types=rows, use_static_instance_list=True, detect_failures=False)
    [only] = json.loads(less.client.minimal_policy())
    assert f"{_SETS}/instanceView/read" not in only["Actions"]


@pytest.mark.parametrize(("properties", "code"), [({}, 0), ({"overprovision": True}, 3)], ids=["in order", "not"])
def test_the_command_over_https(cloud: AzureCloud, tmp_path: Path, properties: dict[str, Any], code: int) -> None:
    name = cloud.add_set(capacity=1, properties=properties)
    told = run_doctor(tmp_path, "azure", cloud.options, f"0:10:{name}", code)
    assert (told.provider["provider"], told.provider["examines"]) == ("azure", True)
    assert json.loads(told.provider["policy"])[0]["IsCustom"] is True
    assert sum(made["calls"] for made in told.provider["api_calls"]) > 5
    assert f"{_SETS}/write" in told.shown
    assert ("overprovision" in told.shown) == bool(code)
