"""Which groups are found, when Azure is called, and how many calls that takes."""

from collections.abc import Callable
from typing import Any

import pytest

from azurecloud import AzureCloud
from nodewright.spec import ConfigError, NodeGroupNotFound, ProviderContext, ProviderError
from nodewright.testkit import FakeClock
from nodewright_azure.provider import AzureProvider

Attach = Callable[..., Any]


def test_sets_are_discovered_that_carry_all_tags(cloud: AzureCloud, attach: Attach) -> None:
    cloud.add_set("both", tags={"team": "a", "tier": "gold", "min": "1", "max": "7"}, capacity=2)
    cloud.add_set("flagged", tags={"team": "a", "tier": "gold", "max": "5"})
    cloud.add_set("iron", tags={"team": "a", "tier": "iron", "min": "1", "max": "7"})
    cloud.add_set("bare")
    client = attach(discover=("label:team=a,max=9", "label:tier=gold,min=2")).client
    found = {group.id: (group.min_size, group.max_size) for group in client.node_groups()}
    assert found == {"both": (1, 7), "flagged": (2, 5)}
    assert client.target_size("both") == 2


def test_an_explicit_group_keeps_the_limits_of_its_flag_and_stays(cloud: AzureCloud, attach: Attach) -> None:
    sizes = {"team": "a", "min": "0", "max": "7"}
    cloud.add_set("Named", tags=sizes, capacity=1)
    cloud.add_set("other", tags=sizes)
    client = attach("1:4:named", "0:3:gone", discover=("label:team=a",)).client
    limits = {group.id: (group.min_size, group.max_size) for group in client.node_groups()}
    assert limits == {"named": (1, 4), "gone": (0, 3), "other": (0, 7)}
    assert client.target_size("named") == 1
    place = "resource group Nodes of subscription sub"
    with pytest.raises(NodeGroupNotFound, match=f"--nodes names gone: there is no such scale set in {place}"):
        client.target_size("gone")
    assert client.target_size("other") == 0


def test_sets_that_lose_their_tag_or_vanish_are_forgotten(cloud: AzureCloud, attach: Attach) -> None:
    sizes = {"team": "a", "min": "0", "max": "7"}
    cloud.add_set("one", tags=sizes, capacity=1)
    cloud.add_set("two", tags=sizes, capacity=1)
    stage = attach(discover=("label:team=a",))
    del cloud.arm.sets["one"]
    stage.later(1, "one", "two")
    assert [group.id for group in stage.client.node_groups()] == ["two"]
    del cloud.arm.sets["two"]
    stage.later(61)
    assert stage.client.node_groups() == ()


def test_many_sets_cost_a_call_each_at_first_and_none_for_instances(cloud: AzureCloud, attach: Attach) -> None:
    for number in range(120):
        cloud.add_set(tags={"team": "a", "min": "0", "max": "9"}, capacity=5 if number < 40 else 0)
    stage = attach(discover=("label:team=a",))
    assert len(stage.client.node_groups()) == 120
    made = {operation: calls for operation, calls in cloud.calls.items() if operation != "token"}
    assert made == {"list": 2, "machines": 40, "skus": 1, "prices": 1}
    stage.later(61)
    assert cloud.calls["machines"] == 40
    stage.later(300)
    assert cloud.calls["machines"] == 80


def test_nothing_is_asked_within_the_interval_but_for_wanted_groups(cloud: AzureCloud, attach: Attach) -> None:
    names = [cloud.add_set(capacity=1) for _ in range(3)]
    stage = attach(*(f"0:10:{name}" for name in names))
    before = cloud.calls.copy()
    stage.later(30)
    assert cloud.calls == before
    for name in names[:2]:
        cloud.set_target(name, 3)
    stage.later(1, names[1])
    assert [stage.client.target_size(name) for name in names] == [1, 3, 1]
    assert cloud.calls - before == {"get": 1, "machines": 1}
    stage.later(30)
    assert [stage.client.target_size(name) for name in names] == [3, 3, 1]
    assert [len(stage.client.instances(name)) for name in names] == [3, 3, 1]


def test_calls_are_counted_and_kept_within_the_budget(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set()
    stage = attach(f"0:10:{name}", api_calls_per_minute=6, refresh_interval=0, refresh_prices=False)
    made = {one.operation: one.calls for one in stage.client.api_calls()}
    assert made == {"resourceSkus.list": 1, "virtualMachineScaleSets.list": 1}
    started = stage.clock.now()
    for _ in range(6):
        stage.later(0)
    # The core waits as long as the budget says, and goes on: no call was refused in the end.
    assert stage.clock.now() - started >= 20
    assert cloud.calls["list"] == 7
    stage.client.increase_size(name, 0, 1)


@pytest.mark.parametrize(
    ("nodes", "discoveries", "complaint"),
    [
        (("1:2",), (), "--nodes: '1:2' is not of the form min:max:name"),
        (("5:3:a",), (), "--nodes: .* greater than the maximum"),
        (("0:3:Deallocate:a",), (), "always deleted, never deallocated; leave Deallocate out"),
        (("0:3:Delete:a",), (), "always deleted, never deallocated; leave Delete out"),
        ((), ("mig:namePrefix=a",), "azure discovers by 'label', not by 'mig'"),
        ((), ("label:a",), "'a' is not of the form tag=value"),
        ((), ("label:a=",), "lacks a tag or a value"),
        ((), ("label:a=b,min=x",), "min is not a whole number from 0 up"),
        ((), ("label:a=b,min=5,max=2",), "the minimum is greater than the maximum"),
        ((), ("label",), "is not of the form label:tag=value"),
    ],
)
def test_malformed_flags_are_refused(nodes: tuple[str, ...], discoveries: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        _provider({}, nodes, discoveries)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"resource_gruop": "x"}, "unknown key resource_gruop, did you mean resource_group?"),
        ({"refresh_interval": "soon"}, "'soon' is not a duration"),
        ({"parallel_calls": 0}, "parallel_calls: must be at least 1, not the number 0"),
        ({"credential": "password"}, "credential: Invalid enum value 'password'; allowed: auto, chain, workload_"),
        ({"cloud": "Mars"}, "cloud: Mars is unknown"),
        ({"arm_endpoint": "http://a"}, "arm_endpoint: must be an https"),
        ({"use_static_instance_list": True}, "needs rows in instance_types"),
        ({"subscription_id": ""}, "neither subscription_id nor ARM_SUBSCRIPTION_ID is set"),
        ({"resource_group": ""}, "neither resource_group nor ARM_RESOURCE_GROUP is set"),
        ({"credential": "workload_identity"}, "neither tenant_id nor ARM_TENANT_ID is set"),
        ({"cloud_config": "/no/azure.json"}, "cloud_config: /no/azure.json cannot be read"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"options of provider azure.*{complaint}"):
        _provider(options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscription_id": "other"}, r"subscription_id \(or ARM_SUBSCRIPTION_ID\): .*'other' could not be found"),
        ({"resource_group": "other"}, r"resource_group \(or ARM_RESOURCE_GROUP\): .*'other' could not be found"),
    ],
)
def test_a_place_that_is_not_there_is_named_with_its_key(
    attach: Attach, options: dict[str, Any], complaint: str
) -> None:
    stage = attach("0:10:a", read=False, **options)
    with pytest.raises(ProviderError, match=rf"providers\.azure\.options\.{complaint}"):
        stage.client.refresh()


def _provider(options: dict[str, Any], nodes: tuple[str, ...] = (), discoveries: tuple[str, ...] = ()) -> AzureProvider:
    place = {"subscription_id": "s", "resource_group": "g", "credential": "chain"}
    context = ProviderContext(
        clock=FakeClock(), options={**place, **options}, node_group_specs=nodes, auto_discovery_specs=discoveries
    )
    return AzureProvider(context)
