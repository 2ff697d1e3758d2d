"""AWS's price list and spot prices, which moto does not have: as the SDK's service models describe them."""

import json
from collections.abc import Mapping

from awscloud.proxy import Answer

_LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


def write_price_list(body: bytes, prices: Mapping[str, str]) -> Answer:
    """GetProducts: one product, if the filters say all that they must to find one."""
    asked = json.loads(body)
    filters = {one["Field"]: one["Value"] for one in asked["Filters"]}
    assert asked["ServiceCode"] == "AmazonEC2"
    assert filters.items() >= _LINUX.items()
    price = prices.get(filters["instanceType"])
    offers = [_offer(filters["instanceType"], filters["regionCode"], price)] if price is not None else []
    content = json.dumps({"FormatVersion": "aws_v1", "PriceList": offers})
    return Answer(200, content.encode(), {"Content-Type": "application/x-amz-json-1.1"})


def _offer(instance_type: str, region: str, price: str) -> str:
    code = "JRTCKXETXF.6YS6EN2CT7"
    rate = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${price} per On Demand Linux {instance_type} Instance Hour",
        "appliesTo": [],
        "rateCode": code,
        "pricePerUnit": {"USD": price},
    }
    attributes = {**_LINUX, "instanceType": instance_type, "regionCode": region}
    return json.dumps(
        {
            "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": "SKU"},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {code: {"priceDimensions": {code: rate}, "effectiveDate": "2026-11-01T00:00:00Z"}}},
        }
    )


def refuse_json(code: str, message: str) -> Answer:
    """An error as a service that speaks JSON writes it."""
    content = json.dumps({"__type": code, "message": message})
    return Answer(400, content.encode(), {"Content-Type": "application/x-amz-json-1.1"})


def write_spot_prices(form: Mapping[str, str], prices: Mapping[tuple[str, str], str]) -> Answer:
    """DescribeSpotPriceHistory: what holds now of the types that were asked for."""
    kinds = {value for name, value in form.items() if name.startswith("InstanceType.")}
    items = "".join(
        f"<item><instanceType>{kind}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{price}</spotPrice><timestamp>2026-11-01T00:00:00.000Z</timestamp>"
        f"<availabilityZone>{zone}</availabilityZone></item>"
        for (kind, zone), price in prices.items()
        if kind in kinds
    )
    text = f"<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>"
    return Answer(200, text.encode(), {"Content-Type": "text/xml"})
