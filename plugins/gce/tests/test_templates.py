"""The template and the price of a group's next node, and that it contains no secret."""

from collections.abc import Callable
from typing import Any

import pytest

from gcecloud import GceCloud
from gcecloud.cloud import SECRET
from nodewright.spec import Capability, GroupOptions, ProviderContext, ProviderError, Quantity
from nodewright.spec.gpus import MODELS
from nodewright.testkit import FakeClock
from nodewright_gce.gpu_models import gpu_model
from nodewright_gce.prices import AS_OF, SOURCE
from nodewright_gce.provider import GceProvider

Attach = Callable[..., Any]
_GET_TEMPLATE, _GET_TYPE = "instanceTemplates.get", "machineTypes.get"


def test_a_template_at_size_zero(cloud: GceCloud, attach: Attach) -> None:
    variables = (
        "os=linux;os_distribution=cos;kube_reserved=cpu=60m,memory=960Mi,ephemeral-storage=41Gi"
        ";node_labels=team=a;node_taints=dedicated=ml:NoSchedule;extended_resources=example.com/dongle=2"
        ";evictionHard=memory.available=100Mi,nodefs.available=10%;autoscaling_options=scaledownunneededtime=20m"
    )
    template = cloud.add_template(machine_type="n1-standard-4", variables=variables)
    name = cloud.add_group(template=template)
    client = attach(f"0:10:{name}").client
    found = client.template_node(name)
    assert found.allocatable["cpu"] == Quantity.of("3940m")
    assert found.allocatable["memory"] == Quantity.of("14630906758")
    assert found.allocatable["ephemeral-storage"] == Quantity.of("46999568751")
    assert found.allocatable["example.com/dongle"] == Quantity.of(2)
    assert (found.labels["team"], found.labels["topology.kubernetes.io/region"]) == ("a", "us-east1")
    assert [(one.key, one.value, one.effect) for one in found.taints] == [("dedicated", "ml", "NoSchedule")]
    assert client.group_options(name, GroupOptions()).scale_down_unneeded_seconds == 1200


def test_a_machine_of_the_template_before_differs_from_its_group(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2, template=cloud.add_template("before"))
    stage = attach(f"0:10:{name}")
    assert [group.made_from for group in stage.client.node_groups()] == ["instance template before"]
    assert {one.made_from for one in stage.client.instances(name)} == {"instance template before"}
    group = cloud.group(name)
    old = group.living[0]
    old.template, group.template = group.template, cloud.add_template("after")
    stage.later(61)
    made = {one.id: one.made_from for one in stage.client.instances(name)}
    assert [group.made_from for group in stage.client.node_groups()] == ["instance template after"]
    assert made.pop(group.instance(old).provider_id) == "instance template before"
    assert set(made.values()) == {"instance template after"}
    group.settings["versions"] = [{"instanceTemplate": group.template}, {"instanceTemplate": old.template}]
    stage.later(61)
    assert [group.made_from for group in stage.client.node_groups()] == [""]


def test_devices_of_gpus_are_told_if_that_is_asked_for(cloud: GceCloud, attach: Attach) -> None:
    accelerators = [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}]
    template = cloud.add_template(machine_type="n1-standard-4", guestAccelerators=accelerators)
    one, none = cloud.add_group(template=template), cloud.add_group()
    client = attach(f"0:10:{one}", f"0:10:{none}", dra_gpus=True).client
    [told] = client.template_node(one).slices
    assert (told.driver, len(told.devices)) == ("gpu.nvidia.com", 2)
    assert told.devices[0].attributes["cudaComputeCapability"].version == "7.5.0"
    assert client.template_node(none).slices == ()
    plain = attach(f"0:10:{one}").client.template_node(one)
    assert plain.slices == ()
    for resources in ("allocatable", "capacity"):
        assert "nvidia.com/gpu" in (getattr(plain, resources) or plain.allocatable)
        assert "nvidia.com/gpu" not in getattr(client.template_node(one), resources)


@pytest.mark.parametrize(
    ("accelerators", "model"),
    [(["nvidia-l4"], "l4"), (["nvidia-l4", "nvidia-tesla-t4"], ""), (["ct5lp"], ""), ([], "")],
)
def test_the_gpu_follows_from_the_accelerator(accelerators: list[str], model: str) -> None:
    assert gpu_model(accelerators) == model
    assert not model or model in MODELS


def test_accelerators_and_other_architectures(cloud: GceCloud, attach: Attach) -> None:
    accelerators = [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 2}]
    gpu = cloud.add_group(template=cloud.add_template(machine_type="n1-standard-4", guestAccelerators=accelerators))
    arm = cloud.add_group(template=cloud.add_template(variables="os=linux;arch=arm64"))
    client = attach(f"0:10:{gpu}", f"0:10:{arm}").client
    assert client.template_node(gpu).allocatable["nvidia.com/gpu"] == Quantity.of(2)
    assert client.template_node(arm).labels["kubernetes.io/arch"] == "arm64"
    assert (client.gpu_label(), client.gpu_resources()) == ("cloud.google.com/gke-accelerator", ("nvidia.com/gpu",))


def test_custom_machine_types_cost_no_call_and_regional_templates_are_found(cloud: GceCloud, attach: Attach) -> None:
    url = cloud.add_template("regional", "e2-custom-4-8192")
    cloud.state.templates["us-east1/regional"] = cloud.state.templates.pop("global/regional")
    name = cloud.add_group(template=url.replace("/global/", "/regions/us-east1/"))
    client = attach(f"0:10:{name}").client
    assert client.template_node(name).capacity["cpu"] == Quantity.of(4)
    assert cloud.calls[_GET_TYPE] == 0


def test_one_group_without_a_known_machine_harms_no_other(cloud: GceCloud, attach: Attach) -> None:
    strange = cloud.add_group(template=cloud.add_template(machine_type="zz-huge"))
    odd = cloud.add_group(template=cloud.add_template(variables="os=solaris"))
    lost = cloud.add_group(template=cloud.add_template("x").replace("/x", "/deleted"))
    good = cloud.add_group()
    client = attach(*(f"0:10:{name}" for name in (strange, odd, lost, good))).client
    with pytest.raises(ProviderError, match="us-east1-b has no machine type zz-huge"):
        client.template_node(strange)
    with pytest.raises(ProviderError, match=r"instance template tmpl-.*: its kube-env names no known os"):
        client.template_node(odd)
    with pytest.raises(ProviderError, match=r"instanceTemplates.get: 404 notFound") as missing:
        client.template_node(lost)
    assert missing.value.group_id == lost
    assert client.template_node(good).capacity["cpu"] == Quantity.of(2)
    assert client.group_options(lost, GroupOptions()) == GroupOptions()


def test_a_table_of_ones_own_needs_no_call(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(template=cloud.add_template(machine_type="zz-huge"))
    client = attach(f"0:10:{name}", machine_types={"zz-huge": {"cpu": 96, "memory_mib": 1024}}).client
    assert client.template_node(name).capacity["cpu"] == Quantity.of(96)
    assert cloud.calls[_GET_TYPE] == 0


def test_groups_share_what_is_read_and_keep_it_for_a_while(cloud: GceCloud, attach: Attach) -> None:
    template = cloud.add_template()
    names = [cloud.add_group(template=template) for _ in range(5)]
    stage = attach(*(f"0:10:{name}" for name in names))
    for _ in range(5):
        stage.later(61)
    assert (cloud.calls[_GET_TEMPLATE], cloud.calls[_GET_TYPE]) == (1, 1)
    stage.later(1200)
    assert (cloud.calls[_GET_TEMPLATE], cloud.calls[_GET_TYPE]) == (2, 2)
    cloud.group(names[0]).template = cloud.add_template(machine_type="n1-standard-4")
    stage.later(61)
    assert stage.client.template_node(names[0]).capacity["cpu"] == Quantity.of(4)
    assert cloud.calls[_GET_TEMPLATE] == 3


def test_prices(cloud: GceCloud, attach: Attach) -> None:
    regular, spot, other = (
        cloud.add_group(template=cloud.add_template(machine_type=kind, variables=f"node_labels={labels}"))
        for kind, labels in (
            ("n1-standard-4", "a=b"),
            ("n1-standard-4", "cloud.google.com/gke-spot=true"),
            ("e2-medium", "a=b"),
        )
    )
    names = (regular, spot, other)
    own = {"e2-medium": {"regular": 1.0}}
    client = attach(*(f"0:10:{name}" for name in names), prices_per_hour=own).client
    disk = 100 * 0.1 / 720
    prices = [client.node_price(name) for name in names]
    assert [price and price.per_hour for price in prices] == pytest.approx([0.19 + disk, 0.04 + disk, 1.0 + disk])
    assert [price and price.spot for price in prices] == [False, True, False]
    assert [price and price.as_of for price in prices] == [AS_OF, AS_OF, None]
    assert [price and price.source for price in prices] == [SOURCE, SOURCE, "prices_per_hour"]


def test_accelerators_that_are_in_the_price_of_an_unknown_machine_leave_it_without_one(
    cloud: GceCloud, attach: Attach
) -> None:
    name = cloud.add_group(
        template=cloud.add_template(
            machine_type="n1-standard-4",
            guestAccelerators=[{"acceleratorType": "nvidia-l4", "acceleratorCount": 1}],
            variables="node_labels=cloud.google.com/gke-accelerator=nvidia-l4",
        )
    )
    assert attach(f"0:10:{name}").client.node_price(name) is not None
    dear = cloud.add_group(
        template=cloud.add_template(
            machine_type="c2-standard-4-of-its-own",
            guestAccelerators=[{"acceleratorType": "nvidia-l4", "acceleratorCount": 8}],
            variables="node_labels=cloud.google.com/gke-accelerator=nvidia-l4",
        )
    )
    machine = {"c2-standard-4-of-its-own": {"cpu": 4, "memory_mib": 16384}}
    stage = attach(f"0:10:{dear}", machine_types=machine)
    assert stage.client.node_price(dear) is None
    [group] = stage.client.node_groups()
    assert group.switched_off == {Capability.PRICING: "prices_per_hour has no c2-standard-4-of-its-own"}
    priced = attach(f"0:10:{dear}", machine_types=machine, prices_per_hour={"c2-standard-4-of-its-own": {"regular": 9}})
    found = priced.client.node_price(dear)
    assert found is not None
    assert found.per_hour > 9


def test_bootstrap_secrets_are_read_past(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=7)
    broken = cloud.add_group(template=cloud.add_template(variables=f"[{SECRET}"))
    cloud.state.honours_masks = False
    context = ProviderContext(
        clock=FakeClock(),
        options={"endpoints": cloud.endpoints, "project": "proj", "zones": ["us-east1-b"]},
        node_group_specs=(f"0:10:{name}", f"0:10:{broken}"),
    )
    provider = GceProvider(context)
    provider.refresh(frozenset())
    with pytest.raises(ProviderError) as unreadable:
        provider.template_node(broken)
    complaints = [unreadable.value, unreadable.value.__cause__, unreadable.value.__context__]
    kept = repr(_everything(provider)) + "".join(map(repr, complaints))
    assert "kube_reserved" in kept, "the search looks into what is kept"
    assert SECRET not in kept
    assert SECRET not in repr(attach(f"0:10:{name}").client)


def _everything(root: object, depth: int = 8) -> list[object]:
    """What can be reached from an object of the plugin, as far as plain attributes and collections lead."""
    found: list[object] = [root]
    if depth:
        inner: list[object] = list(getattr(root, "__dict__", {}).values())
        if isinstance(root, dict):
            inner += [*root.keys(), *root.values()]
        if isinstance(root, list | tuple | set | frozenset):
            inner += list(root)
        for one in inner:
            if type(one).__module__.partition(".")[0] not in ("google", "requests", "concurrent"):
                found += _everything(one, depth - 1)
    return found
