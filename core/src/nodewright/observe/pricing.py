"""Price all groups for planning: the operator's prices before the provider's, in USD, and assumed ones if that is wanted."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import msgspec

from nodewright.model.group import GroupRef, MachineType, Price
from nodewright.model.meta import Resources
from nodewright.model.node import INSTANCE_TYPE_LABEL, ZONE_LABEL, Node
from nodewright.model.price_book import CURRENCY, PriceBook, ReservedInstances
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

OLD_SECONDS = 7 * 86400.0
_NOT_COUNTED = ("pods", "ephemeral-storage", "hugepages-", "attachable-volumes-")


class _Shape(NamedTuple):
    """The amounts that decide a machine's price: cpu in cores, memory in GiB, and other resources."""

    cores: float
    gib: float
    devices: tuple[tuple[str, float], ...]


class _Sold(NamedTuple):
    """A machine with a known price. ``name`` is its type, or its group where the type is not known."""

    name: str
    shape: _Shape
    price: Price


class Pricing:
    """Prices the groups of each loop. An unchanged group stays the same object, because callers cache by its identity."""

    def __init__(self) -> None:
        self._held: dict[GroupRef, tuple[GroupSeen, GroupSeen]] = {}

    def price(self, groups: Mapping[GroupRef, GroupSeen], book: PriceBook) -> dict[GroupRef, GroupSeen]:
        """Return the groups with ``price``, ``price_problem`` and ``reserved``, made of their ``listed_price``."""
        found = {ref: find_price(ref, seen.listed_price, seen.template, book) for ref, seen in groups.items()}
        sold = _sold(groups, found) if book.assumes else []
        assumed = cache(lambda shape, spot: _assume(shape, sold, spot=spot))
        priced: dict[GroupRef, GroupSeen] = {}
        for ref, seen in groups.items():
            price, problem = found[ref]
            if price is None and book.assumes:
                price = assumed(_shape_of(seen), _is_spot(seen.listed_price))
            priced[ref] = self._with(seen, price, problem, _reservation(seen, price, book))
        self._held = {ref: (groups[ref], seen) for ref, seen in priced.items()}
        return priced

    def _with(
        self, seen: GroupSeen, price: Price | None, problem: str, reserved: ReservedInstances | None
    ) -> GroupSeen:
        wanted = (price, problem, reserved)
        if (seen.price, seen.price_problem, seen.reserved) == wanted:
            return seen
        before, after = self._held.get(seen.ref, (None, seen))
        if before is seen and (after.price, after.price_problem, after.reserved) == wanted:
            return after
        return replace(seen, price=price, price_problem=problem, reserved=reserved)


def _sold(groups: Mapping[GroupRef, GroupSeen], found: Mapping[GroupRef, tuple[Price | None, str]]) -> list[_Sold]:
    """Return the machines with a price; of equal ones only the first by name, which ``_assume`` would choose."""
    sold: dict[tuple[_Shape, bool], _Sold] = {}
    for ref, (price, _) in found.items():
        shape = _shape_of(groups[ref])
        if price is None or shape is None:
            continue
        one = _Sold(_name(groups[ref]), shape, price)
        other = sold.setdefault((shape, price.spot), one)
        if (one.name, price.per_hour) < (other.name, other.price.per_hour):
            sold[shape, price.spot] = one
    return list(sold.values())


def price_types(provider: ProviderSeen, book: PriceBook) -> ProviderSeen:
    """Return the provider with its machine types priced as groups of them would be."""
    kinds = tuple(_price_type(provider.name, kind, book) for kind in provider.machine_types)
    return provider if kinds == provider.machine_types else replace(provider, machine_types=kinds)


def find_price(ref: GroupRef, listed: Price | None, template: Node | None, book: PriceBook) -> tuple[Price | None, str]:
    """Return the price of a group in USD, and why the provider's price is not used (empty: it is, or there is none)."""
    kind, zone = _place(template)
    return _find(ref, kind, zone, listed, book)


def _find(ref: GroupRef, kind: str, zone: str, listed: Price | None, book: PriceBook) -> tuple[Price | None, str]:
    stated = book.stated(ref, kind, zone, spot=_is_spot(listed))
    if stated is not None or listed is None:
        return stated, ""
    rate = book.rate(listed.currency)
    if rate is None:
        typed = f", type {kind}" if kind else ""
        problem = f"the price of group {ref}{typed} is in {listed.currency}, for which currencies has no rate"
        return None, f"{book.name}: {problem}" if book.name else f"{problem} (--prices)"
    if listed.currency != CURRENCY:
        source = f"{listed.source}, at {rate:g} {CURRENCY} for 1 {listed.currency}"
        listed = msgspec.structs.replace(listed, per_hour=listed.per_hour * rate, currency=CURRENCY, source=source)
    return book.discounted(listed, kind), ""


def _price_type(provider: str, kind: MachineType, book: PriceBook) -> MachineType:
    zone = kind.template.labels.get(ZONE_LABEL, "")
    price, _ = _find(GroupRef(provider, ""), kind.name, zone, kind.price, book)
    return kind if price == kind.price else msgspec.structs.replace(kind, price=price)


def _reservation(seen: GroupSeen, price: Price | None, book: PriceBook) -> ReservedInstances | None:
    """Return the paid machines that machines of the group use; spot machines use none."""
    if not book.reserved or _is_spot(price or seen.listed_price):
        return None
    return book.reservation(*_place(seen.template))


def _assume(shape: _Shape | None, sold: Iterable[_Sold], *, spot: bool) -> Price | None:
    """Return the price of the nearest machine by cores and GiB, scaled to the shape; None without one with such devices."""
    if shape is None:
        return None
    names = [name for name, _ in shape.devices]
    alike = [one for one in sold if one.price.spot == spot and [name for name, _ in one.shape.devices] == names]
    nearest = min(alike, key=lambda one: (_distance(one.shape, shape), one.name, one.price.per_hour), default=None)
    if nearest is None:
        return None
    ratios = _ratios(shape, nearest.shape)
    per_hour = nearest.price.per_hour * sum(ratios) / len(ratios)
    source = f"assumed from {nearest.name} ({nearest.price.source})"
    return msgspec.structs.replace(nearest.price, per_hour=per_hour, source=source)


def _distance(one: _Shape, other: _Shape) -> float:
    return sum(abs(math.log(ratio)) for ratio in _ratios(one, other))


def _ratios(one: _Shape, other: _Shape) -> list[float]:
    """Return the ratio of each resource; both shapes have the same devices."""
    devices = [mine / theirs for (_, mine), (_, theirs) in zip(one.devices, other.devices, strict=True)]
    return [one.cores / other.cores, one.gib / other.gib, *devices]


def _shape_of(seen: GroupSeen) -> _Shape | None:
    return _shape(seen.template.status.capacity) if seen.template is not None else None


def _shape(capacity: Resources) -> _Shape | None:
    """Return the shape; None without cpu or memory."""
    amounts = {name: amount.nano / 1e9 for name, amount in capacity.items() if amount.nano > 0}
    cores, memory = amounts.pop("cpu", 0.0), amounts.pop("memory", 0.0)
    if not cores or not memory:
        return None
    devices = sorted(item for item in amounts.items() if not item[0].startswith(_NOT_COUNTED))
    return _Shape(cores, memory / 2**30, tuple(devices))


def _place(template: Node | None) -> tuple[str, str]:
    """Return machine type and zone of a group's nodes from their labels; empty if a label is missing."""
    labels = template.metadata.labels if template is not None else {}
    return labels.get(INSTANCE_TYPE_LABEL, ""), labels.get(ZONE_LABEL, "")


def _name(seen: GroupSeen) -> str:
    return _place(seen.template)[0] or f"group {seen.ref}"


def _is_spot(price: Price | None) -> bool:
    return price is not None and price.spot
