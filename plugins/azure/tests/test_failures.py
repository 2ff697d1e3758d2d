"""Creations that fail: what is reported, for how long, and what happens if nothing can be reported."""

from collections.abc import Callable
from typing import Any

import pytest

from azurecloud import AzureCloud
from azurecloud.sets import BOOTSTRAP_FAILED, STOCK_OUT, Trouble
from nodewright.spec import Capability, ErrorClass, FailureScope, ProviderError, QuotaExceeded

Attach = Callable[..., Any]
_QUOTA = "Operation could not be completed as it results in exceeding approved {} quota."


@pytest.mark.parametrize(
    ("code", "message", "error_class", "scope"),
    [
        ("AllocationFailed", "none left", ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP),
        ("ZonalAllocationFailed", "none left", ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP),
        ("OverconstrainedAllocationRequest", "too much", ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP),
        ("SkuNotAvailable", "not here", ErrorClass.OUT_OF_RESOURCES, FailureScope.INSTANCE_TYPE),
        ("OperationNotAllowed", _QUOTA.format("DSv3 Family"), ErrorClass.QUOTA, FailureScope.INSTANCE_TYPE),
        ("OperationNotAllowed", _QUOTA.format("Total Regional"), ErrorClass.QUOTA, FailureScope.ACCOUNT),
        ("OperationNotAllowed", "no", ErrorClass.OTHER, FailureScope.GROUP),
        ("OSProvisioningTimedOut", "it took too long", ErrorClass.OTHER, FailureScope.GROUP),
    ],
)
def test_a_failed_machine_is_told_in_azures_words(
    cloud: AzureCloud, attach: Attach, code: str, message: str, error_class: ErrorClass, scope: FailureScope
) -> None:
    name = cloud.add_set(capacity=1)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 2)
    cloud.fail(name, Trouble(code, message))
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.code, failure.message) == (code, message)
    assert (failure.error_class, failure.scope, failure.count) == (error_class, scope, 1)
    assert failure.instance_id is not None
    assert failure.instance_id.startswith("azure:///subscriptions/sub/resourceGroups/nodes/")


def test_what_leaves_no_machine_is_one_failure_that_counts(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.limit(name, 1, "missing")
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 4)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.instance_id, failure.code) == (3, None, STOCK_OUT.code)
    assert stage.client.target_size(name) == 4
    # Not before the set has been at rest: a listing may lag.
    assert stage.client.delete_instances(name, [failure.failure_id], 4) == ()
    stage.later(61, name)
    assert stage.client.failed_instances(name) == (failure,)
    assert stage.client.delete_instances(name, [failure.failure_id], 4) == (failure.failure_id,)
    assert cloud.capacity(name) == 1
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()


def test_what_azure_takes_back_is_told_and_settled_without_a_write(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.limit(name, 1, "nothing")
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 4)
    stage.later(5, name)
    assert stage.client.target_size(name) == 1
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.code, failure.error_class) == (3, STOCK_OUT.code, ErrorClass.OUT_OF_RESOURCES)
    assert stage.client.delete_instances(name, [failure.failure_id], 1) == (failure.failure_id,)
    assert cloud.calls["update"] == 1
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()


def test_an_old_failure_is_none_of_an_increase(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.set(name).trouble = STOCK_OUT
    cloud.set(name).touch()
    stage = attach(f"0:10:{name}")
    assert stage.client.failed_instances(name) == (), "the set failed, and lacks nothing"
    cloud.hold(name)
    stage.client.increase_size(name, 1, 2)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    cloud.arrive(name)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    assert len(stage.client.instances(name)) == 2


def test_a_failure_keeps_its_words_although_the_set_forgets_them(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 3)
    cloud.fail(name)
    stage.later(5, name)
    [first] = stage.client.failed_instances(name)
    cloud.fail(name, Trouble("SkuNotAvailable", "another reason"))
    stage.later(60, name)
    again, second = stage.client.failed_instances(name)
    assert again == first
    assert second.code == "SkuNotAvailable"
    assert stage.client.delete_instances(name, [first.instance_id], 3) == (first.instance_id,)
    stage.later(60, name)
    assert [one.failure_id for one in stage.client.failed_instances(name)] == [second.failure_id]


def test_failed_machines_may_go_below_the_minimum(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.hold(name)
    stage = attach(f"2:10:{name}")
    stage.client.increase_size(name, 1, 2)
    cloud.fail(name)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert stage.client.delete_instances(name, [failure.instance_id], 2) == (failure.instance_id,)
    assert cloud.capacity(name) == 1


_FLEXIBLE = {"orchestrationMode": "Flexible"}


def test_flexible_sets_have_machines(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2, properties=_FLEXIBLE)
    stage = attach(f"0:10:{name}")
    assert [group.switched_off for group in stage.client.node_groups()] == [{}]
    assert {one.id for one in stage.client.instances(name)} == cloud.machines(name)
    assert stage.client.failed_instances(name) == ()
    [victim, _] = sorted(cloud.machines(name))
    assert stage.client.delete_instances(name, [victim], 2) == (victim,)
    stage.later(100, name)
    assert {one.id for one in stage.client.instances(name)} == cloud.machines(name)
    assert cloud.calls["machineView"] == 0


@pytest.mark.parametrize("trouble", [STOCK_OUT, Trouble("OSProvisioningTimedOut", "it took too long")])
def test_a_machine_of_a_flexible_set_that_could_not_be_created(
    cloud: AzureCloud, attach: Attach, trouble: Trouble
) -> None:
    name = cloud.add_set(capacity=1, properties=_FLEXIBLE)
    stage = attach(f"0:10:{name}")
    cloud.hold(name)
    stage.client.increase_size(name, 1, 3)
    cloud.fail(name, trouble)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.code, failure.message) == trouble
    assert failure.instance_id is not None
    assert "/virtualMachines/" in failure.instance_id
    assert {one.id for one in stage.client.instances(name)} == cloud.machines(name)
    assert stage.client.delete_instances(name, [failure.instance_id], 3) == (failure.instance_id,)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()


@pytest.mark.parametrize(
    ("code", "status"), [("TooManyRequests", 429), ("InternalServerError", 500), ("ServiceUnavailable", 503)]
)
@pytest.mark.parametrize("trouble", [STOCK_OUT, Trouble("SomethingElse", "it went wrong")])
@pytest.mark.parametrize("sees_it_come", [True, False])
def test_an_instance_view_that_cannot_be_read_once_hides_no_failure(
    cloud: AzureCloud, attach: Attach, code: str, status: int, trouble: Trouble, *, sees_it_come: bool
) -> None:
    name = cloud.add_set(capacity=1, properties=_FLEXIBLE)
    stage = attach(f"0:10:{name}")
    cloud.hold(name)
    stage.client.increase_size(name, 1, 2)
    if sees_it_come:
        stage.later(5, name)
    cloud.refuse_once("machineView", code, "later", status)
    cloud.fail(name, trouble)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    stage.later(61, name)
    assert [one.code for one in stage.client.failed_instances(name)] == [trouble.code]


def test_without_the_permission_for_instance_views_the_capability_is_off_until_it_is_granted(
    cloud: AzureCloud, attach: Attach
) -> None:
    action = "Microsoft.Compute/virtualMachines/instanceView/read"
    name, uniform = cloud.add_set(capacity=1, properties=_FLEXIBLE), cloud.add_set(capacity=1)
    stage = attach(f"0:100:{name}", f"0:10:{uniform}")
    cloud.deny(action)
    cloud.hold(name)
    stage.client.increase_size(name, 1, 31)
    for _ in range(30):
        cloud.fail(name)
    for _ in range(3):
        stage.later(5, name)
        off = {group.id: group.switched_off for group in stage.client.node_groups()}
        assert f"no permission {action}" in off[name][Capability.FAST_FAILURE_DETECTION]
        assert off[uniform] == {}
    assert cloud.calls["machineView"] == 1
    cloud.arm.denied.clear()
    stage.later(600, name)
    assert [group.switched_off for group in stage.client.node_groups()] == [{}, {}]
    assert len(stage.client.failed_instances(name)) == 30


@pytest.mark.parametrize("wraps", [False, True], ids=["one error", "a list"])
@pytest.mark.parametrize("leaves", ["missing", "nothing"])
def test_what_the_operation_on_a_flexible_set_says_of_missing_machines(
    cloud: AzureCloud, attach: Attach, leaves: str, *, wraps: bool
) -> None:
    cloud.arm.wraps_errors = wraps
    name = cloud.add_set(capacity=1, properties=_FLEXIBLE)
    cloud.limit(name, 1, leaves, Trouble("ZonalAllocationFailed", "none left in this zone"))
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 3)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.instance_id) == (2, None)
    assert (failure.code, failure.message) == ("ZonalAllocationFailed", "none left in this zone")
    assert cloud.calls["operation"] == 1
    target = stage.client.target_size(name)
    stage.later(61, name)
    assert stage.client.delete_instances(name, [failure.failure_id], target) == (failure.failure_id,)
    assert cloud.capacity(name) == 1


def test_without_the_permission_for_the_operation_a_failure_has_no_reason(cloud: AzureCloud, attach: Attach) -> None:
    cloud.deny(
        "Microsoft.Compute/locations/operations/read", "Microsoft.Compute/virtualMachineScaleSets/instanceView/read"
    )
    name = cloud.add_set(capacity=1, properties=_FLEXIBLE)
    cloud.limit(name, 1, "missing")
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 3)
    stage.later(5, name)
    assert [(one.count, one.code) for one in stage.client.failed_instances(name)] == [(2, "provisioning-state-failed")]


@pytest.mark.parametrize("power", ["stopped", "deallocated", "running"])
def test_a_machine_of_a_flexible_set_that_ran_is_no_failed_creation(
    cloud: AzureCloud, attach: Attach, power: str
) -> None:
    name = cloud.add_set(capacity=2, properties=_FLEXIBLE)
    stage = attach(f"0:10:{name}")
    cloud.spoil(name, power, Trouble("OperationPreempted", "it went wrong"))
    for _ in range(2):
        stage.later(61, name)
        assert stage.client.failed_instances(name) == ()
        assert len(stage.client.instances(name)) == 2
    assert cloud.calls["machineView"] == 0, "it was seen to run"
    other = attach(f"0:10:{name}")
    assert other.client.failed_instances(name) == ()
    assert len(other.client.instances(name)) == 2


def test_one_set_whose_machines_do_not_answer_harms_no_other(cloud: AzureCloud, attach: Attach) -> None:
    first, second = cloud.add_set("first", capacity=1), cloud.add_set("second", capacity=1)
    stage = attach(f"0:10:{first}", f"0:10:{second}", parallel_calls=1)
    cloud.refuse_once("machines", "InternalServerError", "oops", 500)
    started = stage.clock.now()
    stage.later(5, first, second)
    with pytest.raises(ProviderError, match=r"not known yet: virtualMachineScaleSetVMs\.list: InternalServerError"):
        stage.client.instances(first)
    assert stage.clock.now() - started == 5, "the core waited for what only the next refresh can bring"
    assert len(stage.client.instances(second)) == 1
    stage.later(5, first, second)
    assert len(stage.client.instances(first)) == 1


@pytest.mark.parametrize("power", ["stopped", "deallocated", "deallocating", "stopping", "unknown", "running"])
@pytest.mark.parametrize("code", ["OperationPreempted", BOOTSTRAP_FAILED])
def test_a_machine_that_ran_is_no_failed_creation(cloud: AzureCloud, attach: Attach, power: str, code: str) -> None:
    """A later operation on it failed: an update, a stop, an extension that ran again."""
    name = cloud.add_set(capacity=3)
    stage = attach(f"0:10:{name}", detect_extension_failures=True)
    listed = stage.client.instances(name)
    cloud.spoil(name, power, Trouble(code, "it went wrong"))
    cloud.hold(name)
    stage.client.increase_size(name, 3, 4)
    cloud.fail(name)
    stage.later(5, name)
    assert [failure.code for failure in stage.client.failed_instances(name)] == [STOCK_OUT.code]
    assert stage.client.instances(name) == listed
    cloud.spoil(name, "running")
    stage.later(120, name)
    assert stage.client.instances(name) == listed


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        ("AllocationFailed", 2),
        ("OSProvisioningTimedOut", 2),
        ("OperationPreempted", 0),
        ("InternalExecutionError", 0),
        ("VMStoppedByUser", 0),
    ],
)
def test_a_plugin_that_starts_asks_for_evidence(cloud: AzureCloud, attach: Attach, code: str, failed: int) -> None:
    """It did not see the machines being created: only a code that creations have says that a creation failed."""
    name = cloud.add_set(capacity=2)
    cloud.spoil(name, "stopped", Trouble(code, "it went wrong"))
    stage = attach(f"0:10:{name}")
    assert len(stage.client.failed_instances(name)) == failed
    assert len(stage.client.instances(name)) == 2 - failed


def test_machines_that_could_not_be_listed_are_not_new(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    cloud.spoil(name, "stopped", Trouble("OperationPreempted", "it went wrong"))
    cloud.refuse_once("machines", "InternalServerError", "oops", 500)
    stage = attach(f"0:10:{name}")
    stage.later(30, name)
    assert len(stage.client.instances(name)) == 2
    assert stage.client.failed_instances(name) == ()


def test_a_first_machine_that_fails_without_a_code_has_failed(cloud: AzureCloud, attach: Attach) -> None:
    """The set was empty when it was first read, so the machine is new."""
    name = cloud.add_set(capacity=0)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 1)
    cloud.fail(name, Trouble("SomethingElse", "it went wrong"))
    stage.later(5, name)
    assert [failure.code for failure in stage.client.failed_instances(name)] == ["SomethingElse"]


def test_a_bootstrap_that_fails_while_the_machine_is_created_is_a_failed_creation(
    cloud: AzureCloud, attach: Attach
) -> None:
    name = cloud.add_set(capacity=1)
    cloud.set(name).boot_seconds = 60.0
    stage = attach(f"0:10:{name}", detect_extension_failures=True)
    stage.client.increase_size(name, 1, 2)
    stage.later(5, name)
    cloud.set(name).vms[1].mishap = Trouble(BOOTSTRAP_FAILED, "no network")
    stage.later(60, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.code, failure.message) == (BOOTSTRAP_FAILED, "no network")


def test_a_quota_of_cores_concerns_the_sets_of_its_family(cloud: AzureCloud, attach: Attach) -> None:
    for size in ("Standard_D8s_v3", "Standard_D16s_v3"):
        cloud.add_sku(size, family="standardDSv3Family", vCPUs="8", MemoryGB="32")
    small, large = cloud.add_set(size="Standard_D8s_v3", capacity=1), cloud.add_set(size="Standard_D16s_v3")
    other, spot = (
        cloud.add_set(size="Standard_F2"),
        cloud.add_set(size="Standard_D8s_v3", properties={"virtualMachineProfile": {"priority": "Spot"}}),
    )
    stage = attach(*(f"0:10:{name}" for name in (small, large, other, spot)))
    buckets = {group.id: group.buckets for group in stage.client.node_groups()}
    assert buckets[small] == buckets[large] == {"standarddsv3family cores"}
    assert not buckets[small] & (buckets[other] | buckets[spot])
    cloud.hold(small)
    stage.client.increase_size(small, 1, 2)
    cloud.fail(small, Trouble("OperationNotAllowed", _QUOTA.format("standardDSv3Family Cores")))
    stage.later(5, small)
    assert [one.bucket for one in stage.client.failed_instances(small)] == ["standarddsv3family cores"]
    cloud.refuse_once("update", "OperationNotAllowed", _QUOTA.format("standardDSv3Family Cores"), 409)
    with pytest.raises(QuotaExceeded) as raised:
        stage.client.increase_size(large, 0, 1)
    assert raised.value.bucket == "standarddsv3family cores"


def test_each_zone_has_its_turn_but_one_without_capacity(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1, zones=["1", "2", "3"])
    stage = attach(f"0:10:{name}")

    def planned() -> set[str]:
        found = set()
        for _ in range(5):
            found.add(stage.client.template_node(name).labels["topology.kubernetes.io/zone"])
            stage.later(60, name)
        return found

    assert planned() == {"eastus-1", "eastus-2", "eastus-3"}, "also the zone that has most machines"
    cloud.hold(name)
    stage.client.increase_size(name, 1, 2)
    cloud.fail(name, Trouble("ZonalAllocationFailed", "none left"))
    stage.later(5, name)
    [short] = [vm.zone for vm in cloud.set(name).vms if vm.trouble is not None]
    assert planned() == {f"eastus-{zone}" for zone in "123" if zone != short}
    stage.later(300, name)
    assert planned() == {"eastus-1", "eastus-2", "eastus-3"}, "the zone is tried again"
