"""What groups cost: the operator's table, Azure's public price list, the bundled table, and what happens without the list."""

from collections.abc import Callable
from typing import Any

import pytest

from azurecloud import AzureCloud
from nodewright.spec import Capability, ConfigError, Price
from nodewright_azure.list_prices import AS_OF, list_price

Attach = Callable[..., Any]
_SIZE = "Standard_D2s_v3"
_BUNDLED = Price(per_hour=0.096, source="Azure price list of eastus, bundled", as_of=AS_OF)


def profile(**told: Any) -> dict[str, Any]:
    return {"properties": {"virtualMachineProfile": told}}


def off(client: Any, group: str) -> str | None:
    [listed] = [one for one in client.node_groups() if one.id == group]
    reason: str | None = listed.switched_off.get(Capability.PRICING)
    return reason


@pytest.mark.parametrize(
    ("location", "size", "price"),
    [
        ("eastus2", "Standard_D2s_v3", (0.096, "eastus2")),
        ("westeurope", "Standard_D2s_v3", (0.12, "westeurope")),
        ("brazilsouth", "standard_e16-4as_v5", (1.448, "brazilsouth")),
        ("eastus2", "Standard_D8as_v5", (0.344, "eastus2")),
        ("chinanorth3", "Standard_D2s_v3", (0.096, "eastus2")),
        ("austriaeast", "Standard_NC4as_T4_v3", None),
        ("eastus2", "Basic_A1", None),
        ("eastus2", "", None),
    ],
)
def test_the_bundled_table(location: str, size: str, price: tuple[float, str] | None) -> None:
    assert list_price(location, size) == price


def test_the_list_goes_before_the_bundled_table_and_is_read_once_a_day(cloud: AzureCloud, attach: Attach) -> None:
    cloud.add_price(_SIZE, 0.111)
    cloud.add_price(_SIZE, 0.222, system="Windows")
    cloud.add_price(_SIZE, 0.012, kind="Spot")
    cloud.add_price(_SIZE, 0.333, kind="Low Priority")
    cloud.add_price(_SIZE, 0.444, productName="Virtual Machines Series CloudServices")
    cloud.add_price(_SIZE, 0.555, type="Reservation")
    cloud.add_price(_SIZE, 0.666, armRegionName="westeurope")
    name = cloud.add_set()
    stage = attach(f"0:10:{name}")
    told = Price(per_hour=0.111, source="Azure retail prices", as_of=stage.clock.now())
    assert stage.client.node_price(name) == told
    assert cloud.calls["prices"] == 3, "six meters of the size here, two on a page"
    for _ in range(10):
        stage.later(8000)
    assert cloud.calls["prices"] == 3
    stage.later(8000)
    assert cloud.calls["prices"] == 6


def test_spot_and_windows_have_prices_of_their_own(cloud: AzureCloud, attach: Attach) -> None:
    cloud.add_price(_SIZE, 0.111)
    cloud.add_price(_SIZE, 0.222, system="Windows")
    cloud.add_price(_SIZE, 0.012, kind="Spot")
    spot = cloud.add_set(**profile(priority="Spot"))
    windows = cloud.add_set(**profile(osProfile={"windowsConfiguration": {}}))
    both = cloud.add_set(**profile(priority="Spot", osProfile={"windowsConfiguration": {}}))
    client = attach(*(f"0:10:{name}" for name in (spot, windows, both))).client
    assert [(client.node_price(name).per_hour, client.node_price(name).spot) for name in (spot, windows)] == [
        (0.012, True),
        (0.222, False),
    ]
    assert client.node_price(both) is None
    assert off(client, both) == "the spot price of Standard_D2s_v3 is not known"


def test_the_operator_s_table_goes_first_and_asks_nobody(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set()
    client = attach(f"0:10:{name}", prices_per_hour={_SIZE.lower(): 0.05}).client
    assert client.node_price(name) == Price(per_hour=0.05, source="prices_per_hour")
    assert cloud.calls["prices"] == 0


def test_without_the_list_the_bundled_table_serves_and_doctor_says_why(cloud: AzureCloud, attach: Attach) -> None:
    cloud.tells_prices = False
    name, spot = cloud.add_set(), cloud.add_set(**profile(priority="Spot"))
    stage = attach(f"0:10:{name}", f"0:10:{spot}")
    assert stage.client.node_price(name) == _BUNDLED
    assert "the spot price of Standard_D2s_v3 is not known: retailPrices.list" in (off(stage.client, spot) or "")
    for _ in range(20):
        stage.later(61)
    assert cloud.calls["prices"] == 2, "once at the start, once after ten minutes, then after twenty more"
    assert "price list" in {one.subject for one in stage.client.diagnose()}
    cloud.tells_prices = True
    cloud.add_price(_SIZE, 0.1)
    stage.later(6 * 3600)
    assert stage.client.node_price(name).per_hour == 0.1
    assert "price list" not in {one.subject for one in stage.client.diagnose()}


def test_the_list_is_not_read_if_that_is_switched_off(cloud: AzureCloud, attach: Attach) -> None:
    name, unknown = cloud.add_set(), cloud.add_set(size="Standard_D2s_v99")
    client = attach(f"0:10:{name}", f"0:10:{unknown}", refresh_prices=False).client
    assert client.node_price(name) == _BUNDLED
    assert off(client, unknown) == "the price of Standard_D2s_v99 is not known"
    assert cloud.calls["prices"] == 0


@pytest.mark.parametrize("amount", [-0.1, "dear", None])
def test_a_price_that_makes_no_sense_is_not_taken(cloud: AzureCloud, attach: Attach, amount: Any) -> None:
    cloud.add_price(_SIZE, amount)
    name = cloud.add_set()
    client = attach(f"0:10:{name}").client
    assert client.node_price(name) == _BUNDLED
    assert "unexpected response from Azure" in {one.subject: one for one in client.diagnose()}["price list"].message


def test_many_sizes_are_read_over_several_refreshes(cloud: AzureCloud, attach: Attach) -> None:
    names = [cloud.add_set(size=f"Standard_D{count}s_v5") for count in range(2, 14)]
    stage = attach(*(f"0:10:{name}" for name in names))
    assert cloud.calls["prices"] == 1
    stage.later(61)
    assert cloud.calls["prices"] == 2
    stage.later(61)
    assert cloud.calls["prices"] == 2


def test_the_list_is_read_over_https_only(attach: Attach) -> None:
    with pytest.raises(ConfigError, match="retail_prices_endpoint: must be an https:// URL"):
        attach(retail_prices_endpoint="http://prices.azure.com")
