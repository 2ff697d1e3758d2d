"""What groups cost: the operator's table, AWS's price list, spot prices, the bundled table, and what happens without permission."""

from collections.abc import Callable
from typing import Any

import pytest

from awscloud import AwsCloud
from nodewright.spec import Capability, Price
from nodewright_aws.calls import region_of
from nodewright_aws.list_prices import AS_OF, list_price

Attach = Callable[..., Any]
_GET, _SPOT = "GetProducts", "DescribeSpotPriceHistory"
_BUNDLED = Price(per_hour=0.096, source="AWS price list of us-east-1, bundled", as_of=AS_OF)


def mixed(cloud: AwsCloud, *types: str, base: int = 0, share: int = 100, **more: Any) -> str:
    """A group with a policy: ``share`` % of the machines above ``base`` are on-demand ones."""
    template = {"LaunchTemplateName": cloud.add_template(), "Version": "1"}
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": template,
            "Overrides": [{"InstanceType": name} for name in types],
        },
        "InstancesDistribution": {"OnDemandBaseCapacity": base, "OnDemandPercentageAboveBaseCapacity": share},
    }
    return cloud.add_group(MixedInstancesPolicy=policy, **more)


def off(client: Any, group: str) -> str | None:
    [listed] = [one for one in client.node_groups() if one.id == group]
    reason: str | None = listed.switched_off.get(Capability.PRICING)
    return reason


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("m5.large", 0.096),
        ("m6i.32xlarge", 6.144),
        ("t3.nano", 0.0052),
        ("c7i-flex.8xlarge", 1.3566),
        ("i4i.metal", None),
        ("g5.12xlarge", 5.672),
        ("x1.32xlarge", 13.338),
        ("zz.large", None),
        ("m5", None),
    ],
)
def test_the_bundled_table(name: str, price: float | None) -> None:
    found = list_price(name)
    assert found == (pytest.approx(price) if price is not None else None)


def test_the_price_list_goes_before_the_bundled_table_and_is_read_once_a_day(cloud: AwsCloud, attach: Attach) -> None:
    cloud.list_prices["m5.large"] = "0.1110000000"
    name = cloud.add_group()
    stage = attach(f"0:10:{name}")
    read_at = stage.clock.now()
    assert stage.client.node_price(name) == Price(per_hour=0.111, source="AWS price list", as_of=read_at)
    cloud.list_prices["m5.large"] = "0.2"
    stage.later(86_000)
    assert stage.client.node_price(name).per_hour == 0.111
    assert cloud.calls[_GET] == 1
    stage.later(500)
    assert stage.client.node_price(name) == Price(per_hour=0.2, source="AWS price list", as_of=stage.clock.now())


def test_the_operator_s_table_goes_first_and_asks_nobody(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group()
    client = attach(f"0:10:{name}", prices_per_hour={"m5.large": 0.05}).client
    assert client.node_price(name) == Price(per_hour=0.05, source="prices_per_hour")
    assert cloud.calls[_GET] == 0


def test_without_permission_the_bundled_table_serves_and_doctor_says_why(cloud: AwsCloud, attach: Attach) -> None:
    cloud.deny(_GET)
    name = cloud.add_group()
    stage = attach(f"0:10:{name}")
    assert stage.client.node_price(name) == _BUNDLED
    for _ in range(20):
        stage.later(61)
    assert cloud.calls[_GET] == 2, "once at the start, once after ten minutes, then after twenty more"
    found = {one.subject: one for one in stage.client.diagnose()}
    assert "not authorized to perform pricing:GetProducts" in found["price list"].message
    assert "on-demand prices are those of the bundled table" in found["pricing:GetProducts"].message
    cloud.allow(_GET)
    cloud.list_prices["m5.large"] = "0.5"
    stage.later(6 * 3600)
    assert stage.client.node_price(name).per_hour == 0.5
    assert "price list" not in {one.subject for one in stage.client.diagnose()}


def test_prices_are_not_read_if_that_is_switched_off(cloud: AwsCloud, attach: Attach) -> None:
    name, spot = cloud.add_group(), mixed(cloud, "m5.large", share=0)
    client = attach(f"0:10:{name}", f"0:10:{spot}", refresh_prices=False).client
    assert client.node_price(name) == _BUNDLED
    assert off(client, spot) == "the spot price of m5.large is not known"
    assert (cloud.calls[_GET], cloud.calls[_SPOT]) == (0, 0)
    assert "pricing:GetProducts" not in client.minimal_policy()


def test_a_type_that_no_list_has_has_no_price(cloud: AwsCloud, attach: Attach) -> None:
    metal = cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template("m5.metal"), "Version": "1"})
    stage = attach(f"0:10:{metal}")
    assert stage.client.node_price(metal) is None
    assert off(stage.client, metal) == "the price of m5.metal is not known"
    cloud.list_prices["m5.metal"] = "4.608"
    stage.later(86_401)
    assert stage.client.node_price(metal).per_hour == 4.608


@pytest.mark.parametrize("amount", ["-0.1", "inf", "nan", "dear", ""])
def test_a_price_that_makes_no_sense_is_not_taken(cloud: AwsCloud, attach: Attach, amount: str) -> None:
    cloud.list_prices["m5.large"] = amount
    name = cloud.add_group()
    client = attach(f"0:10:{name}").client
    assert client.node_price(name) == _BUNDLED
    assert "a list price that is no amount" in {one.subject: one for one in client.diagnose()}["price list"].message


def test_of_several_types_the_dearest_counts(cloud: AwsCloud, attach: Attach) -> None:
    name = mixed(cloud, "m5.large", "m5.2xlarge", "m5.xlarge")
    assert attach(f"0:10:{name}").client.node_price(name).per_hour == pytest.approx(0.384)


def test_spot_prices_are_those_of_the_group_s_zones(cloud: AwsCloud, attach: Attach) -> None:
    cloud.spot_prices.update(
        {
            ("m5.large", "us-east-1a"): "0.031000",
            ("m5.large", "us-east-1b"): "0.034000",
            ("m5.large", "us-east-1c"): "0.090000",
            ("c5.large", "us-east-1a"): "0.070000",
        }
    )
    one = mixed(cloud, "m5.large", share=0)
    two = mixed(cloud, "m5.large", share=0, AvailabilityZones=["us-east-1a", "us-east-1b"])
    stage = attach(f"0:10:{one}", f"0:10:{two}")
    told = Price(per_hour=0.031, source="AWS spot price history", as_of=stage.clock.now(), spot=True)
    assert stage.client.node_price(one) == told
    assert stage.client.node_price(two).per_hour == 0.034
    cloud.spot_prices["m5.large", "us-east-1a"] = "0.032"
    stage.later(300)
    assert cloud.calls[_SPOT] == 1
    stage.later(301)
    assert stage.client.node_price(one).per_hour == 0.032


def test_a_launch_template_may_ask_for_spot_machines(cloud: AwsCloud, attach: Attach) -> None:
    cloud.spot_prices["m5.large", "us-east-1a"] = "0.03"
    template = cloud.add_template(InstanceMarketOptions={"MarketType": "spot"})
    name = cloud.add_group(LaunchTemplate={"LaunchTemplateName": template, "Version": "1"})
    price = attach(f"0:10:{name}").client.node_price(name)
    assert (price.per_hour, price.spot) == (0.03, True)


@pytest.mark.parametrize(
    ("base", "share", "size", "spot"), [(0, 0, 0, True), (2, 0, 1, False), (2, 0, 2, True), (0, 30, 5, False)]
)
def test_a_policy_decides_what_the_next_machine_is(
    cloud: AwsCloud, attach: Attach, base: int, share: int, size: int, spot: bool
) -> None:
    cloud.spot_prices["m5.large", "us-east-1a"] = "0.03"
    name = mixed(cloud, "m5.large", base=base, share=share, size=size)
    assert attach(f"0:10:{name}").client.node_price(name).spot is spot


def test_without_permission_spot_groups_have_no_price(cloud: AwsCloud, attach: Attach) -> None:
    cloud.deny(_SPOT)
    name = mixed(cloud, "m5.large", share=0)
    stage = attach(f"0:10:{name}")
    assert stage.client.node_price(name) is None
    assert "not authorized to perform ec2:DescribeSpotPriceHistory" in (off(stage.client, name) or "")
    cloud.allow(_SPOT)
    cloud.spot_prices["m5.large", "us-east-1a"] = "0.03"
    stage.later(601)
    assert stage.client.node_price(name).per_hour == 0.03
    assert off(stage.client, name) is None


@pytest.mark.parametrize(
    ("region", "home"),
    [
        ("us-west-2", "us-east-1"),
        ("eu-north-1", "eu-central-1"),
        ("ap-east-1", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
    ],
)
def test_the_price_list_is_served_in_a_few_regions(region: str, home: str) -> None:
    assert region_of("pricing", region) == home
    assert region_of("ec2", region) == region


@pytest.mark.parametrize(
    ("choice", "market"),
    [
        ({"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}, {}),
        (
            {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}},
            {"MarketType": "capacity-block"},
        ),
        ({"CapacityReservationPreference": "open"}, None),
        ({"CapacityReservationPreference": "none"}, None),
    ],
)
def test_machines_in_a_capacity_reservation_are_paid_already(
    cloud: AwsCloud, attach: Attach, choice: dict[str, Any], market: dict[str, str] | None
) -> None:
    data: dict[str, Any] = {"CapacityReservationSpecification": choice}
    if market:
        data["InstanceMarketOptions"] = market
    template = cloud.add_template(**data)
    name = cloud.add_group(LaunchTemplate={"LaunchTemplateName": template, "Version": "$Latest"})
    price = attach(f"0:10:{name}", prices_per_hour={"m5.large": 0.1}).client.node_price(name)
    assert price.per_hour == (0.1 if market is None else 0.0)
