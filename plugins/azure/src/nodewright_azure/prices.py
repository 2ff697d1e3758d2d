"""What the groups' machines cost: the operator's table, Azure's public price list, and a bundled table.

The list is read at ``refresh``, some sizes in each. If it does not respond, what is known stays, the bundled table serves
for the rest, and the next attempt is later each time: prices may not slow the loop down.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nodewright.spec import Clock, Finding, FindingLevel, Price, ProviderError, ProviderUnavailable
from nodewright.spec.cache import RestingCall, attempt
from nodewright_azure import list_prices
from nodewright_azure.api import Api
from nodewright_azure.options import Options
from nodewright_azure.shapes import RetailPrice, ScaleSet

_SIZES_A_CALL = 10
_OWN = "prices_per_hour"


class _Offer(NamedTuple):
    """What is sold; ``location`` and ``size`` in lower case."""

    location: str
    size: str
    spot: bool
    windows: bool


class Prices:
    """Prices by location, size, kind of purchase and operating system."""

    def __init__(self, api: Api, options: Options, clock: Clock) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self._own = {name.lower(): price for name, price in options.prices_per_hour.items()}
        self._list = RestingCall(clock)
        self._listed: dict[_Offer, Price] = {}
        self._read_at: dict[tuple[str, str], float] = {}

    def load_missing(self, sets: Iterable[ScaleSet]) -> None:
        """Read prices that are missing or old, of sizes in one location. Raise nothing."""
        if not self._options.refresh_prices or self._list.rests:
            return
        now, stale = self._clock.now(), dict[tuple[str, str], str]()
        for one in sets:
            place = (one.region, one.size.lower())
            due = self._read_at.get(place, -math.inf) + self._options.price_list_interval
            if all(place) and place[1] not in self._own and due <= now:
                stale[place] = one.size
        if not stale:
            return
        location = min(stale)[0]
        asked = {place: size for place, size in sorted(stale.items()) if place[0] == location}
        sizes = list(asked.values())[:_SIZES_A_CALL]
        found = self._list.take(attempt(lambda: self._read(location, sizes)))
        if found is not None:
            self._listed |= found
            self._read_at |= dict.fromkeys(((location, size.lower()) for size in sizes), now)

    def of_set(self, scale_set: ScaleSet) -> Price:
        """Return the price of the set's next machine; raise ProviderError if it is not known."""
        size, spot = scale_set.size.lower(), scale_set.is_spot
        if scale_set.is_mixed:
            raise ProviderError(
                "Azure chooses among the sizes of an instance mix, which differ in price", code="noPrice"
            )
        if size in self._own:
            return Price(per_hour=self._own[size], source=_OWN, spot=spot)
        listed = self._listed.get(_Offer(scale_set.region, size, spot, scale_set.is_windows))
        if listed is not None:
            return listed
        bundled = None if spot or scale_set.is_windows else list_prices.list_price(scale_set.region, size)
        if bundled is None:
            what = "spot price" if spot else "price"
            why = f": {self._list.problem}" if self._list.problem else ""
            raise ProviderError(f"the {what} of {scale_set.size or 'its size'} is not known{why}", code="noPrice")
        per_hour, location = bundled
        source = f"Azure price list of {location}, bundled"
        return Price(per_hour=per_hour, source=source, as_of=list_prices.AS_OF)

    def problems(self) -> Iterator[Finding]:
        """Yield why prices could not be read."""
        if self._list.problem:
            yield Finding(
                level=FindingLevel.WARNING,
                subject="price list",
                message=f"not read: {self._list.problem}",
                remedy=f"let the pod reach {self._options.retail_prices_endpoint}, or set refresh_prices: false",
            )

    def _read(self, location: str, sizes: Sequence[str]) -> dict[_Offer, Price]:
        """Return the prices in the location. Of several meters for one offer the dearest counts."""
        now, found = self._clock.now(), dict[_Offer, Price]()
        for meter in self._api.retail_prices(location, sizes):
            if not meter.is_hourly:
                continue
            _demand_amount(meter)
            offer = _Offer(location, meter.arm_sku_name.lower(), meter.is_spot, meter.is_windows)
            known = found.get(offer)
            if meter.retail_price > 0 and (known is None or meter.retail_price > known.per_hour):
                found[offer] = Price(
                    per_hour=meter.retail_price,
                    currency=meter.currency_code,
                    source="Azure retail prices",
                    as_of=now,
                    spot=meter.is_spot,
                )
        return found


def _demand_amount(meter: RetailPrice) -> None:
    if not 0 <= meter.retail_price < math.inf:
        amount = f"{meter.retail_price} for {meter.arm_sku_name}"
        raise ProviderUnavailable(f"unexpected response from Azure: a retail price of {amount}")
