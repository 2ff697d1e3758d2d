"""Prices for planning: the operator's before the provider's, in USD, and assumed ones only where that is wanted."""

from dataclasses import replace
from typing import Any

import pytest

from nodewright.model.group import GroupRef, MachineType, Price, make_template_node
from nodewright.model.price_book import Discount, PriceBook, ReservedInstances, ReservedRow
from nodewright.observe.pricing import Pricing, price_types
from nodewright.snapshot.observation import GroupSeen, ProviderSeen, paid_machines
from nodewright.testkit import build_group, build_template


def listed(per_hour: float, **more: Any) -> Price:
    return Price(per_hour=per_hour, source="a list", **more)


def seen(name: str, price: Price | None, *, kind: str = "", target: int = 0, **template: Any) -> GroupSeen:
    ref = GroupRef("cloud", name)
    labels = {"topology.kubernetes.io/zone": "z1", **({"node.kubernetes.io/instance-type": kind} if kind else {})}
    node = make_template_node(ref, build_template(labels=labels, **template))
    return GroupSeen(ref=ref, group=build_group(name), template=node, listed_price=price, target=target, instances=())


def price(*groups: GroupSeen, **book: Any) -> dict[str, GroupSeen]:
    found = Pricing().price({one.ref: one for one in groups}, PriceBook(**book))
    return {ref.group_id: one for ref, one in found.items()}


def test_without_a_file_the_provider_s_price_counts() -> None:
    found = price(seen("a", listed(0.5, as_of=7.0)), seen("b", None))
    assert found["a"].price == listed(0.5, as_of=7.0)
    assert found["a"].hourly_price == 0.5
    assert (found["b"].price, found["b"].price_problem, found["b"].hourly_price) == (None, "", None)


def test_the_operator_s_price_goes_before_the_provider_s_and_takes_no_discount() -> None:
    own = Price(per_hour=0.2, source="the file")
    rows = {("m5.large", "z1", False): own}
    discounts = (Discount(family="m5", share=0.5),)
    found = price(
        seen("own", listed(1.0), kind="m5.large"),
        seen("spot", listed(0.4, spot=True), kind="m5.large"),
        seen("listed", listed(1.0), kind="m5.xlarge"),
        seen("unlisted", None, kind="m5.large"),
        by_type=rows,
        discounts=discounts,
    )
    assert {name: one.hourly_price for name, one in found.items()} == {
        "own": 0.2,
        "spot": 0.4,
        "listed": 0.5,
        "unlisted": 0.2,
    }


def test_a_price_in_another_currency_counts_at_its_rate_or_not_at_all() -> None:
    euros = seen("a", listed(1.0, currency="EUR"), kind="m5.large")
    known = price(euros, name="p.yaml", rates={"EUR": 1.25})["a"]
    assert known.hourly_price == 1.25
    assert known.price is not None
    assert (known.price.currency, known.price.source) == ("USD", "a list, at 1.25 USD for 1 EUR")
    unknown = price(euros, seen("b", listed(2.0)), name="p.yaml")
    assert unknown["a"].price is None
    words = "the price of group cloud/a, type m5.large is in EUR, for which currencies has no rate"
    assert unknown["a"].price_problem == f"p.yaml: {words}"
    assert price(euros)["a"].price_problem == f"{words} (--prices)"
    assert unknown["b"].hourly_price == 2.0


def test_prices_are_assumed_only_if_that_is_wanted() -> None:
    groups = (
        seen("large", listed(1.6), kind="m.16", cpu="16", memory="64Gi"),
        seen("small", listed(0.2), kind="m.2", cpu="2", memory="8Gi"),
        seen("unknown", None, kind="m.4", cpu="4", memory="8Gi"),
    )
    assert price(*groups)["unknown"].price is None
    found = price(*groups, assumes=True)["unknown"]
    # Twice the cores and as much memory as m.2: half of the price counts for either.
    assert found.hourly_price == pytest.approx(0.3)
    assert found.price is not None
    assert found.price.source == "assumed from m.2 (a list)"
    assert price(*groups, assumes=True)["large"].price == listed(1.6)


def test_no_price_is_assumed_from_machines_with_other_devices_or_of_spot() -> None:
    gpu: dict[str, Any] = {"extended": {"nvidia.com/gpu": "1"}, "cpu": "4", "memory": "16Gi"}
    unknown = seen("unknown", None, cpu="4", memory="16Gi")
    assert price(seen("gpu", listed(3.0), **gpu), unknown, assumes=True)["unknown"].price is None
    assert price(seen("spot", listed(0.1, spot=True)), unknown, assumes=True)["unknown"].price is None
    twice = seen("two", None, **{**gpu, "extended": {"nvidia.com/gpu": "2"}})
    found = price(seen("gpu", listed(3.0), **gpu), twice, assumes=True)["two"]
    assert found.hourly_price == pytest.approx(3.0 * (1 + 1 + 2) / 3)
    assert found.price is not None
    assert found.price.source == "assumed from group cloud/gpu (a list)"


def test_reserved_machines_are_shared_by_groups_of_on_demand_machines_of_the_type() -> None:
    rows = (ReservedRow(type="m5.large", count=5),)
    found = price(
        seen("a", listed(1.0), kind="m5.large", target=2),
        seen("b", listed(1.0), kind="m5.large", target=1),
        seen("spot", listed(0.3, spot=True), kind="m5.large", target=9),
        seen("other", listed(1.0), kind="c5.large", target=9),
        reserved=rows,
    )
    shared = ReservedInstances("m5.large", 5)
    assert {name: one.reserved for name, one in found.items()} == {
        "a": shared,
        "b": shared,
        "spot": None,
        "other": None,
    }
    assert paid_machines(shared, found.values()) == 2
    assert paid_machines(ReservedInstances("m5.large", 2), found.values()) == 2
    assert paid_machines(None, found.values()) == 0
    crowded = [replace(one, target=9) for one in found.values()]
    assert paid_machines(shared, crowded) == 0


def test_a_group_of_which_nothing_changed_stays_the_same_object() -> None:
    pricing, book = Pricing(), PriceBook(assumes=True)
    one, other = seen("a", listed(0.5)), seen("b", None)
    groups = {one.ref: one, other.ref: other}
    first = pricing.price(groups, book)
    again = pricing.price(groups, book)
    assert all(first[ref] is again[ref] for ref in groups)
    dearer = replace(one, listed_price=listed(0.6))
    changed = pricing.price({**groups, one.ref: dearer}, book)
    assert [changed[ref].hourly_price for ref in groups] == [0.6, 0.6]


def test_a_group_that_is_priced_again_takes_its_discount_once() -> None:
    """A group that its provider does not list is kept as it was, and is priced anew in each loop."""
    book = PriceBook(discounts=(Discount(family="m5", share=0.5),))
    one = seen("a", listed(1.0), kind="m5.large")
    once = Pricing().price({one.ref: one}, book)
    assert Pricing().price(once, book)[one.ref].hourly_price == 0.5


def test_machine_types_are_priced_as_groups_of_them_would_be() -> None:
    kinds = tuple(
        MachineType(name=name, template=build_template(), price=price)
        for name, price in (("m5.large", listed(1.0)), ("c5.large", None), ("r5.large", listed(1.0, currency="EUR")))
    )
    provider = ProviderSeen(name="cloud", machine_types=kinds)
    book = PriceBook(
        by_type={("c5.large", "", False): Price(per_hour=0.7, source="the file")},
        discounts=(Discount(family="m5", share=0.5),),
    )
    priced = price_types(provider, book)
    assert [kind.price and kind.price.per_hour for kind in priced.machine_types] == [0.5, 0.7, None]
    assert price_types(replace(provider, machine_types=kinds[:1]), PriceBook()).machine_types == kinds[:1]
