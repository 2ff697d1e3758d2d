"""The operator's own prices: the file of ``--prices`` as it is written, and the values that planning reads of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.model.group import GroupRef, Price
from nodewright.model.settings_base import Help

CURRENCY = "USD"
PerHour = Annotated[float, Meta(ge=0, le=1e6)]
Code = Annotated[str, Meta(pattern="^[A-Z]{3}$")]
Name = Annotated[str, Meta(min_length=1)]


class _PriceFileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PriceRow(_PriceFileEntry, frozen=True, kw_only=True):
    """The price of a machine type, of a machine type in one zone, or of one node group."""

    type: Annotated[str, Help("The machine type, as the label node.kubernetes.io/instance-type of its nodes.")] = ""
    zone: Annotated[str, Help("Only in this zone. Without it, in every zone for which there is no other row.")] = ""
    group: Annotated[
        str, Help("Only for this node group: its id, or provider/id. It has precedence over rows of a type.")
    ] = ""
    per_hour: Annotated[PerHour, Help("What one machine costs in an hour.")]
    currency: Annotated[Code, Help("The currency of the price; its rate stands under currencies.")] = CURRENCY
    spot: Annotated[bool, Help("The price is that of spot machines. Without it, that of on-demand machines.")] = False
    as_of: Annotated[
        date | None,
        Help("The day on which this was the price, such as 2026-11-01. Without it the price never counts as old."),
    ] = None


class Discount(_PriceFileEntry, frozen=True, kw_only=True):
    """A discount on the prices that the provider states. It does not concern rows under prices."""

    family: Annotated[
        Name, Help("m5 is m5.large and so on, n2 is n2-standard-8 and so on; or a pattern such as Standard_D*s_v5.")
    ]
    share: Annotated[Annotated[float, Meta(ge=0, le=1)], Help("What is taken off, as a share: 0.3 is 30 %.")]
    spot: Annotated[bool, Help("The discount is one on spot machines. Without it, on on-demand machines.")] = False

    def covers(self, kind: str) -> bool:
        """Return whether a machine type is of the family."""
        if any(sign in self.family for sign in "*?["):
            return fnmatchcase(kind, self.family)
        return kind.startswith(self.family) and not kind[len(self.family) :][:1].isalnum()


class ReservedRow(_PriceFileEntry, frozen=True, kw_only=True):
    """On-demand machines that are paid whether or not they run: reserved instances, committed use, savings plans."""

    type: Annotated[Name, Help("The machine type.")]
    zone: Annotated[str, Help("Only in this zone; without it, in every zone.")] = ""
    count: Annotated[Annotated[int, Meta(ge=1)], Help("How many machines are paid for.")]


class PriceFile(_PriceFileEntry, frozen=True, kw_only=True):
    """The file of --prices: what the operator pays. It has precedence over providers' prices."""

    currencies: Annotated[
        dict[Code, Annotated[float, Meta(gt=0, le=1e6)]],
        Help("What one unit of each other currency is in USD. A price without a rate is not used."),
    ] = {}
    prices: Annotated[tuple[PriceRow, ...], Help("Prices by machine type, zone or node group.")] = ()
    discounts: Annotated[tuple[Discount, ...], Help("Discounts; of several for one type the first counts.")] = ()
    reserved: Annotated[
        tuple[ReservedRow, ...], Help("Capacity that is already paid for: as many machines of the type cost nothing.")
    ] = ()


# A machine type, a zone ("": every zone) and whether the price is for spot machines; or a group, "" and False.
Key = tuple[str, str, bool]


class ReservedInstances(msgspec.Struct, frozen=True):
    """Machines that are paid whether or not they run. Groups with the same ``name`` share the ``count``."""

    name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class PriceBook:
    """The content of the file. ``assumes``: a group without a price gets that of the nearest machine type.

    ``by_group`` and ``by_type`` hold prices in USD.
    """

    name: str = ""
    assumes: bool = False
    rates: Mapping[str, float] = field(default_factory=dict)
    by_group: Mapping[Key, Price] = field(default_factory=dict)
    by_type: Mapping[Key, Price] = field(default_factory=dict)
    discounts: tuple[Discount, ...] = ()
    reserved: tuple[ReservedRow, ...] = ()

    def stated(self, ref: GroupRef, kind: str, zone: str, *, spot: bool) -> Price | None:
        """Return the operator's price for a group; None: there is none."""
        named = (self.by_group.get((name, "", False)) for name in (str(ref), ref.group_id))
        typed = (self.by_type.get((kind, place, spot)) for place in (zone, "")) if kind else ()
        return next((price for price in (*named, *typed) if price is not None), None)

    def find_unknown(self, groups: Iterable[GroupRef]) -> str:
        """Return a sentence about prices for node groups that are none of these; empty: there are none."""
        if not self.by_group:
            return ""
        known = {name for ref in groups for name in (str(ref), ref.group_id)}
        unknown = sorted(name for name, _, _ in self.by_group if name not in known)
        if not unknown:
            return ""
        if len(unknown) == 1:
            return f"{self.name}: there is a price for group {unknown[0]}, and no group of that name"
        return f"{self.name}: there are prices for groups {', '.join(unknown)}, and no groups of these names"

    def rate(self, currency: str) -> float | None:
        """Return the value in USD of one unit of the currency; None: unknown."""
        return 1.0 if currency == CURRENCY else self.rates.get(currency)

    def discounted(self, price: Price, kind: str) -> Price:
        """Return a provider's price with the discount of the machine type's family."""
        fitting = (one for one in self.discounts if one.spot == price.spot and one.covers(kind))
        discount = next(fitting, None)
        if discount is None:
            return price
        source = f"{price.source}, less {discount.share:.0%}"
        return msgspec.structs.replace(price, per_hour=price.per_hour * (1 - discount.share), source=source)

    def reservation(self, kind: str, zone: str) -> ReservedInstances | None:
        """Return the paid machines for a type in a zone; a row with the zone has precedence over one without."""
        for place in (zone, "") if zone else ("",):
            counts = [row.count for row in self.reserved if (row.type, row.zone) == (kind, place)]
            if counts:
                return ReservedInstances(f"{kind}@{place}" if place else kind, sum(counts))
        return None
