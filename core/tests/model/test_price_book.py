"""The operator's prices: which row is for which group, discounts by family, reserved machines."""

import pytest

from nodewright.model.group import GroupRef, Price
from nodewright.model.price_book import Discount, PriceBook, ReservedInstances, ReservedRow

REF = GroupRef("aws", "workers")


def usd(per_hour: float, *, spot: bool = False) -> Price:
    return Price(per_hour=per_hour, source="the file", spot=spot)


BOOK = PriceBook(
    by_group={("aws/special", "", False): usd(9.0), ("by-id", "", False): usd(8.0)},
    by_type={
        ("m5.large", "", False): usd(0.1),
        ("m5.large", "z1", False): usd(0.2),
        ("m5.large", "", True): usd(0.03, spot=True),
    },
    discounts=(
        Discount(family="m5", share=0.5),
        Discount(family="m5", share=0.1, spot=True),
        Discount(family="Standard_D*s_v5", share=0.25),
    ),
    reserved=(
        ReservedRow(type="m5.large", count=3),
        ReservedRow(type="m5.large", zone="z1", count=2),
        ReservedRow(type="m5.large", zone="z1", count=4),
    ),
)


@pytest.mark.parametrize(
    ("ref", "zone", "spot", "per_hour"),
    [
        (REF, "z1", False, 0.2),
        (REF, "z2", False, 0.1),
        (REF, "", False, 0.1),
        (REF, "z1", True, 0.03),
        (GroupRef("aws", "special"), "z1", False, 9.0),
        (GroupRef("azure", "by-id"), "z1", True, 8.0),
    ],
)
def test_the_nearest_row_counts(ref: GroupRef, zone: str, spot: bool, per_hour: float) -> None:
    found = BOOK.stated(ref, "m5.large", zone, spot=spot)
    assert found is not None
    assert found.per_hour == per_hour


def test_no_row_is_no_price() -> None:
    assert BOOK.stated(REF, "m5.xlarge", "", spot=False) is None
    assert BOOK.stated(GroupRef("gce", "special"), "", "", spot=False) is None


@pytest.mark.parametrize(
    ("family", "kind", "covered"),
    [
        ("m5", "m5.large", True),
        ("m5", "m5d.large", False),
        ("n2", "n2-standard-8", True),
        ("n2", "n2d-standard-8", False),
        ("Standard_D*s_v5", "Standard_D16s_v5", True),
        ("Standard_D*s_v5", "Standard_E16s_v5", False),
        ("m5.large", "m5.large", True),
    ],
)
def test_a_family_is_a_prefix_or_a_pattern(family: str, kind: str, covered: bool) -> None:
    assert Discount(family=family, share=0.1).covers(kind) == covered


def test_a_discount_is_taken_off_and_told() -> None:
    listed = Price(per_hour=2.0, source="a list")
    assert BOOK.discounted(listed, "m5.large") == Price(per_hour=1.0, source="a list, less 50%")
    assert BOOK.discounted(listed, "c5.large") == listed
    spot = BOOK.discounted(Price(per_hour=2.0, source="a list", spot=True), "m5.large")
    assert spot.per_hour == 1.8


def test_a_reservation_of_the_zone_goes_first_and_rows_add_up() -> None:
    assert BOOK.reservation("m5.large", "z1") == ReservedInstances("m5.large@z1", 6)
    assert BOOK.reservation("m5.large", "z2") == ReservedInstances("m5.large", 3)
    assert BOOK.reservation("m5.large", "") == ReservedInstances("m5.large", 3)
    assert BOOK.reservation("c5.large", "z1") is None


def test_prices_for_groups_that_do_not_exist_are_told() -> None:
    book = PriceBook(name="p.yaml", by_group=BOOK.by_group, by_type=BOOK.by_type)
    special, by_id = GroupRef("aws", "special"), GroupRef("gce", "by-id")
    assert not book.find_unknown([special, by_id, REF])
    assert not PriceBook().find_unknown([])
    assert book.find_unknown([by_id]) == "p.yaml: there is a price for group aws/special, and no group of that name"
    assert book.find_unknown([GroupRef("gce", "special")]) == (
        "p.yaml: there are prices for groups aws/special, by-id, and no groups of these names"
    )
