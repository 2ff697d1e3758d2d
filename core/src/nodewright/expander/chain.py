"""Expanders one after the other until one option is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from nodewright.expander.filters import least_nodes, least_waste, most_pods
from nodewright.expander.option import Option
from nodewright.expander.price import UnitPrices, cheapest
from nodewright.expander.priority import most_wanted, parse_priorities
from nodewright.model.errors import ConfigError

Filter = Callable[[Sequence[Option]], list[Option]]


@dataclass(frozen=True, kw_only=True)
class ExpanderContext:
    """What expanders may know besides the options: unit prices, cluster size, written priorities."""

    unit_prices: UnitPrices
    cluster_nodes: int
    priorities: str | None = None


def choose(
    options: Sequence[Option], expanders: Sequence[str], market: ExpanderContext, random: Random
) -> Option | None:
    """The option that the chain of expanders prefers; chance decides among those left at the end."""
    left = list(options)
    for name in expanders:
        if name == "random" or len(left) <= 1:
            break
        left = _filter(name, market)(left)
    return random.choice(left) if left else None


def _filter(name: str, market: ExpanderContext) -> Filter:
    plain: dict[str, Filter] = {"most-pods": most_pods, "least-nodes": least_nodes, "least-waste": least_waste}
    if name in plain:
        return plain[name]
    if name == "price":
        return lambda options: cheapest(options, market.unit_prices, market.cluster_nodes)
    return lambda options: most_wanted(options, _priorities(market.priorities))


def _priorities(text: str | None) -> dict[int, list[str]]:
    """Without a list, or with one that cannot be read, every group is wanted alike (as in CA)."""
    try:
        return parse_priorities(text) if text is not None else {}
    except ConfigError:
        return {}
