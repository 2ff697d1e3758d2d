"""What the groups' machines cost: the operator's table, AWS's price list, its spot prices, and a bundled table.

Prices are read at ``refresh``, some types in each. If AWS refuses or does not respond, what is known stays, the bundled
table serves for the rest, and the next attempt is later each time: prices may not slow the loop down.
"""

from collections.abc import Iterable, Iterator, Sequence

from nodewright.spec import Clock, Finding, FindingLevel, Price, ProviderError
from nodewright.spec.cache import RestingCall, attempt, attempt_each
from nodewright_aws import list_prices
from nodewright_aws.api import Api
from nodewright_aws.catalogue import Launch
from nodewright_aws.options import Options
from nodewright_aws.shapes import Group

_TYPES_AT_ONCE = 8
_OWN = "prices_per_hour"


class Prices:
    """Prices by instance type, and spot prices by instance type and zone."""

    def __init__(self, api: Api, options: Options, clock: Clock) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self._list, self._market = RestingCall(clock), RestingCall(clock)
        self._listed: dict[str, Price | None] = {}
        self._read_at: dict[str, float] = {}
        self._spot: dict[tuple[str, str], Price] = {}
        self._spot_read: tuple[frozenset[str], float] = (frozenset(), 0.0)

    def load_missing(self, groups: Iterable[tuple[Group, Launch]], others: Iterable[str] = ()) -> None:
        """Read prices that are missing or old: for groups, and on-demand prices of ``others``. Raise nothing."""
        if not self._options.refresh_prices:
            return
        wanted, spot = list(others), set[str]()
        for group, launch in groups:
            if buys_spot(group, launch):
                spot |= set(launch.type_names)
            else:
                wanted += launch.type_names
        self._load_list(wanted)
        self._load_spot(frozenset(spot))

    def of_type(self, name: str) -> Price:
        """Return the on-demand price of an instance type; raise ProviderError if it is not known."""
        if name in self._options.prices_per_hour:
            return Price(per_hour=self._options.prices_per_hour[name], source=_OWN)
        price = self._listed.get(name)
        if price is not None:
            return price
        bundled = list_prices.list_price(name)
        if bundled is None:
            why = f": {self._list.problem}" if self._list.problem else ""
            raise ProviderError(f"the price of {name} is not known{why}", code="noPrice")
        source = f"AWS price list of {list_prices.REGION}, bundled"
        return Price(per_hour=bundled, source=source, as_of=list_prices.AS_OF)

    def of_group(self, group: Group, launch: Launch) -> Price:
        """Return the highest price of those that AWS may charge for the next machine; raise ProviderError without one."""
        if launch.reserved_in:
            return Price(per_hour=0.0, source=f"paid already: {launch.reserved_in}")
        if buys_spot(group, launch):
            return self._spot_of(group, launch)
        found = [attempt(lambda name=name: self.of_type(name)) for name in launch.type_names]  # type: ignore[misc]  # mypy cannot type a lambda with a default
        return _highest(found)

    def problems(self) -> Iterator[Finding]:
        """Yield why prices could not be read."""
        level = FindingLevel.WARNING
        for subject, source, remedy in (
            ("price list", self._list, "grant pricing:GetProducts, or set refresh_prices: false"),
            ("spot prices", self._market, "grant ec2:DescribeSpotPriceHistory"),
        ):
            if source.problem:
                yield Finding(level=level, subject=subject, message=f"not read: {source.problem}", remedy=remedy)

    def _spot_of(self, group: Group, launch: Launch) -> Price:
        own = [name for name in launch.type_names if name in self._options.prices_per_hour]
        if own:
            return Price(per_hour=max(self._options.prices_per_hour[name] for name in own), source=_OWN, spot=True)
        places = ((name, zone) for name in launch.type_names for zone in group.availability_zones)
        known = [self._spot[place] for place in places if place in self._spot]
        if not known:
            why = f": {self._market.problem}" if self._market.problem else ""
            raise ProviderError(f"the spot price of {launch.type_name} is not known{why}", code="noPrice")
        return _highest(known)

    def _load_list(self, names: Iterable[str]) -> None:
        now, own = self._clock.now(), self._options.prices_per_hour
        stale = [
            name
            for name in dict.fromkeys(names)
            if name not in own and self._read_at.get(name, -1e18) + self._options.price_list_interval <= now
        ][:_TYPES_AT_ONCE]
        if not stale or self._list.rests:
            return
        first, *rest = stale  # one alone shows whether AWS responds and permits it
        answers = [attempt(lambda: self._api.list_price(first))]
        if not isinstance(answers[0], ProviderError) and rest:
            answers += attempt_each(self._api.list_price, rest, self._options.parallel_calls)
        for name, answer in zip(stale, answers, strict=False):
            self._list.take(answer)
            if isinstance(answer, ProviderError):
                continue
            self._read_at[name] = now
            if answer is not None:
                per_hour, currency = answer
                self._listed[name] = Price(per_hour=per_hour, currency=currency, source="AWS price list", as_of=now)

    def _load_spot(self, names: frozenset[str]) -> None:
        now = self._clock.now()
        held, at = self._spot_read
        if not names or self._market.rests or (names <= held and now < at + self._options.spot_price_interval):
            return
        found = self._market.take(attempt(lambda: self._api.spot_prices(sorted(names), now)))
        if found is None:
            return
        self._spot_read = (names, now)
        for one in found:
            price = Price(per_hour=one.per_hour, source="AWS spot price history", as_of=now, spot=True)
            self._spot[one.instance_type, one.availability_zone] = price


def buys_spot(group: Group, launch: Launch) -> bool:
    """Return whether the group's next machine is a spot machine. A group that buys both counts as on demand."""
    policy = group.mixed_instances_policy
    if policy is None or group.launch_template is not None or group.launch_configuration_name:
        return launch.is_spot
    share = policy.instances_distribution
    above_base = group.desired_capacity >= share.on_demand_base_capacity
    return above_base and share.on_demand_percentage_above_base_capacity == 0


def _highest(found: Sequence[Price | ProviderError]) -> Price:
    """Return the highest of the known prices; raise the first error if none is known."""
    known = [price for price in found if isinstance(price, Price)]
    if known:
        return max(known, key=lambda price: price.per_hour)
    raise next(error for error in found if isinstance(error, ProviderError))
