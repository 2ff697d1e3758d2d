"""VM pools of AKS: which groups they make, what their nodes look like, and how they grow and shrink."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azurecloud import AzureCloud
from azurecloud.cloud import CLUSTER, CLUSTER_GROUP
from azurecloud.sets import STOCK_OUT
from doctoring import bad, said
from nodewright.spec import (
    Capability,
    ConfigError,
    NodeGroupNotFound,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    Taint,
    TargetChanged,
)
from nodewright.testkit.contract import Client
from nodewright_azure.account import Cluster, load_account
from nodewright_azure.options import Options

Attach = Callable[..., Any]
_D2, _D4 = "pool1/Standard_D2s_v3", "pool1/Standard_D4s_v3"
_POOLS = "Microsoft.ContainerService/managedClusters/agentPools"


@pytest.fixture
def attach_pools(cloud: AzureCloud, attach: Attach) -> Attach:
    """``attach``, with VM pools served."""

    def make(*nodes: str, **options: Any) -> Any:
        return attach(*nodes, **{**cloud.pool_options, **options})

    return make


def _states(client: Client, name: str) -> list[str]:
    return sorted(str(one.state) for one in client.instances(name))


def test_each_size_of_a_pool_is_a_group(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2, "Standard_D4s_v3": 1})
    plain = cloud.add_set(capacity=1)
    client = attach_pools(f"0:5:{_D2}", "1:3:POOL1/standard_d4S_v3", f"0:2:{plain}").client
    assert [(one.id, one.min_size, one.max_size) for one in client.node_groups()] == [
        (_D2, 0, 5),
        ("POOL1/standard_d4S_v3", 1, 3),
        (plain, 0, 2),
    ]
    assert (client.target_size(_D2), client.target_size("POOL1/standard_d4S_v3")) == (2, 1)
    assert {one.id for one in client.instances(_D2)} == cloud.machines(_D2)
    assert all("/virtualMachines/aks-pool1-" in one.id for one in client.instances(_D2))


def test_reading_them_costs_one_call_for_pools_and_one_for_machines(cloud: AzureCloud, attach_pools: Attach) -> None:
    names = [cloud.add_pool(f"pool{number}", {"Standard_D2s_v3": 3}) for number in range(5)]
    stage = attach_pools(*(f"0:5:{name}" for name in names))
    assert (cloud.calls["pools"], cloud.calls["pool"], cloud.calls["flexible"]) == (1, 0, 1)
    calls = {made.operation: made.calls for made in stage.client.api_calls()}
    assert (calls["agentPools.list"], calls["virtualMachines.list"]) == (1, 1)


def test_what_does_not_hold_for_them_is_switched_off_with_the_reason(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 0})
    [one] = attach_pools(f"0:5:{_D2}").client.node_groups()
    assert set(one.switched_off) == {Capability.FORCE_DELETE}


@pytest.mark.parametrize("leaves", ["failed", "missing"])
def test_what_could_not_be_created_is_told(cloud: AzureCloud, attach_pools: Attach, leaves: str) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 1, "Standard_D4s_v3": 1})
    cloud.limit(_D2, 1, leaves)
    stage = attach_pools(f"0:5:{_D2}", f"0:5:{_D4}")
    stage.client.increase_size(_D2, 1, 3)
    stage.later(5, _D2, _D4)
    failures = stage.client.failed_instances(_D2)
    assert sum(one.count for one in failures) == 2
    assert {one.code for one in failures} == {STOCK_OUT.code}
    assert stage.client.failed_instances(_D4) == ()
    stage.later(61, _D2, _D4)
    ids = [one.instance_id or one.failure_id for one in failures]
    assert set(stage.client.delete_instances(_D2, ids, 3)) == set(ids)
    assert cloud.capacity(_D2) == 1


def test_the_template_is_told_by_the_pool(cloud: AzureCloud, attach_pools: Attach) -> None:
    told = {
        "nodeLabels": {"team": "a"},
        "nodeTaints": ["gpu=yes:NoSchedule", "gpu=yes:NoSchedule"],
        "availabilityZones": ["2"],
    }
    cloud.add_pool("pool1", {"Standard_D4s_v3": 0}, **told)
    template = attach_pools(f"0:5:{_D4}").client.template_node(_D4)
    assert str(template.allocatable["cpu"]) == "4"
    assert template.taints == (Taint(key="gpu", value="yes", effect="NoSchedule"),)
    expected = {
        "team": "a",
        "kubernetes.azure.com/agentpool": "pool1",
        "topology.kubernetes.io/zone": "eastus-2",
        "kubernetes.io/os": "linux",
    }
    assert expected.items() <= template.labels.items()


def test_an_increase_writes_one_count_and_leaves_the_pool_as_it_is(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2, "Standard_D4s_v3": 1}, mode="System", nodeTaints=["a=b:NoExecute"])
    stage = attach_pools(f"0:5:{_D2}", f"0:5:{_D4}")
    assert stage.client.increase_size(_D2, 2, 4) == 2
    assert (cloud.capacity(_D2), cloud.capacity(_D4), len(cloud.machines(_D2))) == (4, 1, 4)
    stage.later(1, _D2)
    assert (stage.client.target_size(_D2), stage.client.target_size(_D4)) == (4, 1)
    assert cloud.calls["put"] == 1


def test_somebody_elses_write_is_not_undone(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2, "Standard_D4s_v3": 1})
    client = attach_pools(f"0:5:{_D2}").client
    cloud.before_write(lambda: cloud.set_target(_D2, 5))
    with pytest.raises(TargetChanged) as changed:
        client.increase_size(_D2, 2, 3)
    assert (changed.value.actual, cloud.capacity(_D2)) == (5, 5)


def test_a_write_of_the_pools_other_size_does_not_stop_one(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2, "Standard_D4s_v3": 1})
    client = attach_pools(f"0:5:{_D2}").client
    cloud.before_write(lambda: cloud.set_target(_D4, 3))
    assert client.increase_size(_D2, 2, 3) == 1
    assert (cloud.capacity(_D2), cloud.capacity(_D4)) == (3, 3)


def test_a_count_below_what_is_there_is_never_written(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    client = attach_pools(f"0:5:{_D2}").client
    there = {cloud.arrive(_D2), cloud.arrive(_D2)} | cloud.machines(_D2)
    with pytest.raises(ProviderError, match="has 4 machines, more than the requested 3") as refused:
        client.increase_size(_D2, 2, 3)
    assert refused.value.code == "moreMachinesThanAsked"
    assert (set(cloud.machines(_D2)), cloud.calls["put"]) == (there, 0)


def test_one_thing_at_a_time_is_a_reason_to_wait(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2, "Standard_D4s_v3": 1})
    stage = attach_pools(f"0:5:{_D2}", f"0:5:{_D4}")
    client = stage.client
    cloud.hold(_D2)
    client.increase_size(_D2, 2, 3)
    with pytest.raises(OperationInProgress, match="is in progress"):
        client.increase_size(_D4, 1, 2)
    cloud.arrive(_D2)
    stage.clock.sleep(30)  # what Azure asked for, before it is asked again
    assert client.increase_size(_D4, 1, 2) == 1


def test_machines_end_by_name_and_the_count_falls(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 3, "Standard_D4s_v3": 1})
    stage = attach_pools(f"0:5:{_D2}")
    [victim, *others] = sorted(cloud.machines(_D2))
    assert stage.client.delete_instances(_D2, [victim], 3) == (victim,)
    assert (stage.client.target_size(_D2), _states(stage.client, _D2)) == (2, ["deleting", "running", "running"])
    stage.later(60, _D2)
    assert (cloud.machines(_D2), stage.client.target_size(_D2)) == (frozenset(others), 2)


def test_a_machine_that_vanishes_during_a_deletion_does_not_keep_the_others(
    cloud: AzureCloud, attach_pools: Attach
) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 3})
    client = attach_pools(f"0:5:{_D2}").client
    one, victims = cloud.set(_D2), sorted(cloud.machines(_D2))[:2]
    cloud.before_write(lambda: one.vanish(one.vms[0]))
    assert client.delete_instances(_D2, victims, 3) == (victims[1],)
    assert len(cloud.machines(_D2)) == 1


def test_missing_machines_are_withdrawn_once_the_pool_is_at_rest(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    cloud.limit(_D2, 2, "missing")
    stage = attach_pools(f"0:5:{_D2}")
    stage.client.increase_size(_D2, 2, 4)
    stage.later(1, _D2)
    assert stage.client.decrease_target_size(_D2, 4, 2) == 0
    stage.later(61, _D2)
    assert stage.client.decrease_target_size(_D2, 4, 1) == 2
    assert (cloud.capacity(_D2), len(cloud.machines(_D2))) == (2, 2)


def test_a_refusal_is_translated_and_sent_once(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 1})
    cloud.limit(_D2, 1, "refused")
    client = attach_pools(f"0:5:{_D2}").client
    with pytest.raises(OutOfCapacity, match=rf"agentPools\.createOrUpdate: {STOCK_OUT.code}"):
        client.increase_size(_D2, 1, 2)
    assert (cloud.calls["put"], cloud.capacity(_D2)) == (1, 1)


def test_a_lost_answer_is_settled_by_looking(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 1})
    client = attach_pools(f"0:5:{_D2}").client
    cloud.lose_answer_once("put")
    assert client.increase_size(_D2, 1, 3) == 2
    cloud.lose_answer_once("deleteMachines")
    [victim, *_] = sorted(cloud.machines(_D2))
    assert client.delete_instances(_D2, [victim], 3) == (victim,)
    assert (cloud.calls["put"], cloud.capacity(_D2), len(cloud.machines(_D2))) == (1, 2, 2)


def test_trouble_with_aks_is_no_scale_sets_trouble(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    plain = cloud.add_set(capacity=1)
    cloud.deny(f"{_POOLS}/read")
    stage = attach_pools(f"0:5:{_D2}", f"0:5:{plain}")
    assert stage.client.target_size(plain) == 1
    with pytest.raises(ProviderError, match="AuthorizationFailed"):
        stage.client.target_size(_D2)
    assert "VM pools cannot be read: agentPools.list: " in bad(stage.client.diagnose())["--nodes"].message
    cloud.arm.denied.clear()
    stage.later(61)
    assert stage.client.target_size(_D2) == 2
    cloud.deny(f"{_POOLS}/read")
    stage.later(61)
    assert stage.client.target_size(plain) == 1
    with pytest.raises(ProviderError, match="AuthorizationFailed"):
        stage.client.target_size(_D2)


@pytest.mark.parametrize("name", ["pool1/Standard_F2", "gone/Standard_D2s_v3", "pool1/"])
def test_what_is_no_size_of_a_pool_is_not_found(cloud: AzureCloud, attach_pools: Attach, name: str) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    client = attach_pools(f"0:5:{name}", f"0:5:{_D2}").client
    with pytest.raises(NodeGroupNotFound, match=name):
        client.target_size(name)
    assert client.target_size(_D2) == 2
    wrong = bad(client.diagnose())
    assert "no VM pool has a manual scale profile of that size" in wrong["--nodes"].message


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"cluster": "other"}, f"managedClusters/other.*cluster other of resource group {CLUSTER_GROUP}"),
        (
            {"cluster_resource_group": "other"},
            r"options\.cluster_resource_group \(or ARM_CLUSTER_RESOURCE_GROUP\): .*'other' could not be found",
        ),
    ],
)
def test_a_cluster_that_is_not_there_is_told_as_such(
    cloud: AzureCloud, attach_pools: Attach, wrong: dict[str, str], sentence: str
) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    client = attach_pools(f"0:5:{_D2}", **wrong).client
    with pytest.raises(ProviderError, match=sentence):
        client.target_size(_D2)
    found = bad(client.diagnose())["--nodes"]
    assert "VM pools cannot be read: " in found.message
    assert "the options cluster and cluster_resource_group" in found.remedy


def test_doctor_asks_about_the_cluster_too(cloud: AzureCloud, attach_pools: Attach) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    cloud.deny(f"{_POOLS}/deleteMachines/action")
    client = attach_pools(f"0:5:{_D2}").client
    findings = client.diagnose()
    assert f"{_POOLS}/write" in {one.subject for one in findings} - set(bad(findings))
    lines = said(findings)
    assert f"no role in resource group {CLUSTER_GROUP} of cluster {CLUSTER} grants it" in lines
    assert f'"{_POOLS}/deleteMachines/action"' in client.minimal_policy()
    assert f"/resourceGroups/{CLUSTER_GROUP}" in client.minimal_policy()


def test_without_the_option_they_are_no_groups_and_doctor_says_what_is_missing(
    cloud: AzureCloud, attach: Attach
) -> None:
    cloud.add_pool("pool1", {"Standard_D2s_v3": 2})
    client = attach(f"0:5:{_D2}").client
    with pytest.raises(NodeGroupNotFound, match="no such size of a served VM pool"):
        client.target_size(_D2)
    assert bad(client.diagnose())["--nodes"].remedy == "if this is a VM pool of AKS, set the option vm_pools"
    assert (cloud.calls["pools"], _POOLS in client.minimal_policy()) == (0, False)


def test_the_cluster_is_told_by_option_environment_or_file(tmp_path: Path) -> None:
    file = tmp_path / "azure.json"
    file.write_text(
        '{"enableVMsAgentPool": true, "clusterName": "c", "clusterResourceGroup": "g", "location": "eastus",'
        ' "subscriptionId": "s", "resourceGroup": "nodes"}'
    )
    account = load_account(Options(cloud_config=str(file), cluster_resource_group="mine"), {"LOCATION": "westus"})
    assert account.cluster == Cluster(name="c", resource_group="mine", location="westus")
    place = {"ARM_SUBSCRIPTION_ID": "s", "ARM_RESOURCE_GROUP": "nodes", "AZURE_ENABLE_VMS_AGENT_POOLS": "true"}
    with pytest.raises(ConfigError, match="vm_pools needs cluster, but neither it nor CLUSTER_NAME is set"):
        load_account(Options(), place)
    assert load_account(Options(cluster="c"), {**place, "AZURE_ENABLE_VMS_AGENT_POOLS": "false"}).cluster is None
