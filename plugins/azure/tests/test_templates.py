"""The template of a set's next node, from Azure's list of sizes."""

from collections.abc import Callable
from typing import Any

import pytest

from azurecloud import AzureCloud
from nodewright.spec import AccessDenied, Capability, GroupOptions, ProviderError, Quantity
from nodewright.spec.gpus import MODELS
from nodewright_azure.gpu_models import gpu_model

Attach = Callable[..., Any]
_PREFIX = "k8s.io_cluster-autoscaler_node-template"


def test_a_set_of_size_zero(cloud: AzureCloud, attach: Attach) -> None:
    tags = {f"{_PREFIX}_label_example.com_team": "a", f"{_PREFIX}_taint_dedicated": "ml:NoSchedule"}
    name = cloud.add_set(tags={**tags, f"{_PREFIX}_resources_example.com_dongle": "2", "poolName": "web"})
    template = attach(f"0:10:{name}").client.template_node(name)
    assert template.allocatable["cpu"] == Quantity.of(2)
    assert template.allocatable["memory"] == Quantity.of("8Gi")
    assert template.allocatable["ephemeral-storage"] == Quantity.of("128Gi")
    assert template.allocatable["example.com/dongle"] == Quantity.of(2)
    assert template.labels["topology.kubernetes.io/zone"] == "eastus-1"
    assert (template.labels["example.com/team"], template.labels["kubernetes.azure.com/agentpool"]) == ("a", "web")
    assert [(one.key, one.value, one.effect) for one in template.taints] == [("dedicated", "ml", "NoSchedule")]
    assert not [key for key in template.labels if key.startswith(_PREFIX)], "no node has them"


def test_gpus_and_other_architectures(cloud: AzureCloud, attach: Attach) -> None:
    gpu, arm = cloud.add_set(size="Standard_NC6s_v3"), cloud.add_set(size="Standard_D4ps_v5")
    client = attach(f"0:10:{gpu}", f"0:10:{arm}").client
    assert client.template_node(gpu).allocatable["nvidia.com/gpu"] == Quantity.of(1)
    assert client.template_node(gpu).labels[client.gpu_label()] in client.gpu_types()
    assert client.template_node(arm).labels["kubernetes.io/arch"] == "arm64"


def test_devices_of_gpus_are_told_if_that_is_asked_for(cloud: AzureCloud, attach: Attach) -> None:
    one, none = cloud.add_set(size="Standard_NC6s_v3"), cloud.add_set(size="Standard_D4ps_v5")
    client = attach(f"0:10:{one}", f"0:10:{none}", dra_gpus=True).client
    [told] = client.template_node(one).slices
    [device] = told.devices
    assert (told.driver, device.attributes["architecture"].string) == ("gpu.nvidia.com", "Volta")
    assert device.capacity["memory"].value == Quantity.of("16Gi")
    assert client.template_node(none).slices == ()
    plain = attach(f"0:10:{one}").client.template_node(one)
    assert plain.slices == ()
    for resources in ("allocatable", "capacity"):
        assert "nvidia.com/gpu" in (getattr(plain, resources) or plain.allocatable)
        assert "nvidia.com/gpu" not in getattr(client.template_node(one), resources)


@pytest.mark.parametrize(
    ("size", "model"),
    [
        ("Standard_NC64as_T4_v3", "t4"),
        ("Standard_NC24rs_v3", "v100-pcie"),
        ("Standard_ND96asr_v4", "a100-40gb"),
        ("Standard_ND96amsr_A100_v4", "a100-80gb"),
        ("Standard_NC80adis_H100_v5", "h100-nvl"),
        ("Standard_NV6ads_A10_v5", ""),
        ("Standard_D2s_v3", ""),
    ],
)
def test_the_gpu_follows_from_the_size(size: str, model: str) -> None:
    assert gpu_model(size) == model
    assert not model or model in MODELS


def test_options_of_a_set(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(tags={f"{_PREFIX}_autoscaling-options_scaledownunneededtime": "7M"})
    options = attach(f"0:10:{name}").client.group_options(name, GroupOptions())
    assert options.scale_down_unneeded_seconds == 420


def test_one_set_of_an_unknown_size_harms_no_other(cloud: AzureCloud, attach: Attach) -> None:
    strange, good = cloud.add_set(size="Standard_Zz9"), cloud.add_set()
    nowhere = cloud.add_set(location="mars")
    client = attach(*(f"0:10:{name}" for name in (strange, good, nowhere))).client
    said = f"{strange}: eastus has no known size Standard_Zz9; describe it in providers.azure.options.instance_t"
    with pytest.raises(ProviderError, match=said) as unknown:
        client.template_node(strange)
    assert (unknown.value.group_id, unknown.value.code) == (strange, "unknownSku")
    with pytest.raises(ProviderError, match="mars has no known size Standard_D2s_v3"):
        client.template_node(nowhere)
    assert client.template_node(good).allocatable["cpu"] == Quantity.of(2)


def test_a_table_of_ones_own_needs_no_permission(cloud: AzureCloud, attach: Attach) -> None:
    cloud.deny("Microsoft.Compute/skus/read")
    name = cloud.add_set(size="Standard_Zz9_Promo")
    rows = {"standard_zz9": {"cpu": 96, "memory_mib": 1024, "gpu": 8}}
    stage = attach(f"0:10:{name}", instance_types=rows, use_static_instance_list=True)
    for _ in range(2):
        assert stage.client.template_node(name).allocatable["cpu"] == Quantity.of(96)
        stage.later(86_400)
    assert cloud.calls["skus"] == 0


def test_sizes_are_kept_for_a_while(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set()
    stage = attach(f"0:10:{name}", sku_interval="20m")
    for _ in range(5):
        stage.later(61)
    assert cloud.calls["skus"] == 1
    stage.later(1200)
    assert cloud.calls["skus"] == 2


def test_a_missing_permission_costs_templates_and_nothing_else(cloud: AzureCloud, attach: Attach) -> None:
    cloud.deny("Microsoft.Compute/skus/read")
    name = cloud.add_set(capacity=1)
    client = attach(f"0:10:{name}").client
    with pytest.raises(AccessDenied, match=r"resourceSkus\.list: AuthorizationFailed") as denied:
        client.template_node(name)
    assert denied.value.group_id == name
    assert client.increase_size(name, 1, 2) == 1


def test_throttled_sizes_come_later_and_stay_once_they_are_known(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    cloud.refuse_once("skus", "TooManyRequests", "slow down", 429)
    stage = attach(f"0:10:{name}")
    started = stage.clock.now()
    with pytest.raises(ProviderError, match=r"not known yet: resourceSkus\.list: TooManyRequests"):
        stage.client.template_node(name)
    assert stage.clock.now() == started, "the core waited for what only the next refresh can bring"
    stage.later(21)
    known = stage.client.template_node(name)
    cloud.refuse_once("skus", "InternalServerError", "oops", 500)
    stage.later(21_601)
    assert stage.client.template_node(name) == known


@pytest.mark.parametrize("mode", ["Uniform", "Flexible"])
def test_machines_and_their_set_tell_their_image(cloud: AzureCloud, attach: Attach, mode: str) -> None:
    name = cloud.add_set(properties={"orchestrationMode": mode})
    one, image = cloud.arm.sets[name.lower()], "/subscriptions/s/galleries/AKSUbuntu/images/2204/versions/202611."
    one.use_image(id=f"{image}01")
    one.resize(1)
    stage = attach(f"0:10:{name}")
    stage.client.refresh()
    made = f"image {image}01".lower()
    assert [group.made_from for group in stage.client.node_groups()] == [made]
    assert [machine.made_from for machine in stage.client.instances(name)] == [made]


@pytest.mark.parametrize(
    ("reference", "made_from"),
    [
        (
            {"publisher": "Canonical", "offer": "jammy", "sku": "22_04", "version": "22.04.1"},
            "canonical/jammy/22_04/22.04.1",
        ),
        ({"publisher": "Canonical", "offer": "jammy", "sku": "22_04", "version": "latest"}, ""),
        ({"id": "/galleries/g/images/i/versions/latest"}, ""),
        ({}, ""),
    ],
)
def test_the_latest_image_is_not_told(
    cloud: AzureCloud, attach: Attach, reference: dict[str, str], made_from: str
) -> None:
    name = cloud.add_set()
    cloud.arm.sets[name.lower()].use_image(**reference)
    told = [group.made_from for group in attach(f"0:10:{name}").client.node_groups()]
    assert told == [f"image {made_from}" if made_from else ""]


def test_sizes_are_found_by_the_display_name_of_a_location(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(location="East US")
    template = attach(f"0:10:{name}").client.template_node(name)
    assert template.allocatable["cpu"] == Quantity.of(2)
    assert template.labels["topology.kubernetes.io/region"] == "east us"  # as cluster-autoscaler has it


def test_a_promotional_size_that_azure_does_not_list_is_like_the_regular_one(cloud: AzureCloud, attach: Attach) -> None:
    name, regular = cloud.add_set(size="Standard_D4s_v3_Promo"), cloud.add_set(size="Standard_D4s_v3")
    client = attach(f"0:10:{name}", f"0:10:{regular}").client
    assert client.template_node(name).allocatable == client.template_node(regular).allocatable


def test_an_instance_mix_is_like_its_first_size_and_has_no_price(cloud: AzureCloud, attach: Attach) -> None:
    sizes = [{"name": "Standard_D4s_v3", "rank": 1}, {"name": "Standard_D2s_v3", "rank": 0}]
    mixed = {"orchestrationMode": "Flexible", "skuProfile": {"vmSizes": sizes, "allocationStrategy": "Prioritized"}}
    name, first = cloud.add_set(size="Mix", properties=mixed), cloud.add_set(size="Standard_D2s_v3")
    stage = attach(f"0:10:{name}", f"0:10:{first}")
    client = stage.client
    listed = {group.id: group for group in client.node_groups()}
    assert client.template_node(name).allocatable == client.template_node(first).allocatable
    assert "which differ in price" in listed[name].switched_off[Capability.PRICING]
    assert listed[name].buckets == frozenset()
    assert client.increase_size(name, 0, 2) == 2
    assert cloud.arm.sets[name.lower()].body(stage.clock.now())["sku"]["name"] == "Mix"


def test_each_zone_of_a_set_takes_part_in_its_turn(cloud: AzureCloud, attach: Attach) -> None:
    """Azure adds machines to the zone with the fewest: each other minute is theirs. With none at all, all take turns."""
    name = cloud.add_set(capacity=0, zones=["1", "2", "3"])
    stage = attach(f"0:10:{name}")
    zone = "topology.kubernetes.io/zone"
    empty = set()
    for _ in range(3):
        empty.add(stage.client.template_node(name).labels[zone])
        stage.later(60)
    assert empty == {"eastus-1", "eastus-2", "eastus-3"}
    for size in range(4):
        stage.client.increase_size(name, size, size + 1)
        stage.later(5, name)
        living = [vm.zone for vm in cloud.set(name).vms]
        fewest = min(living.count(one) for one in "123")
        told = []
        for _ in range(2):
            told.append(stage.client.template_node(name).labels[zone].removeprefix("eastus-"))
            stage.later(60, name)
        assert fewest in {living.count(one) for one in told}
