"""Choose an option with a chain of expanders. The expanders most-pods, least-nodes and least-waste are here too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from nodewright.expander.option import Option
from nodewright.expander.price import UnitPrices, cheapest
from nodewright.expander.priority import highest_priority, parse_priorities
from nodewright.model.errors import ConfigError

# This expander plans a mix of groups where it can (planner/scale_up/least_cost.py).
LEAST_COST = "least-cost"

Filter = Callable[[Sequence[Option]], list[Option]]


@dataclass(frozen=True, kw_only=True)
class ExpanderContext:
    """The values that expanders read besides the options.

    ``priorities`` is the text of the priority expander's ConfigMap; None: the ConfigMap does not exist.
    """

    unit_prices: UnitPrices
    cluster_nodes: int
    priorities: str | None = None


def choose(
    options: Sequence[Option], expanders: Sequence[str], context: ExpanderContext, random: Random
) -> Option | None:
    """Return the option that the chain of expanders prefers; None without options.

    If the chain leaves several options, one of them is chosen at random. Raise ConfigError for an unknown expander.
    """
    left = keep_best(options, expanders, context)
    return random.choice(left) if left else None


def keep_best(options: Sequence[Option], expanders: Sequence[str], context: ExpanderContext) -> list[Option]:
    """Return the options that a chain of expanders leaves. Raise ConfigError for an unknown expander."""
    left = list(options)
    for name in expanders:
        if name == "random" or len(left) <= 1:
            break
        left = _filter(name, context)(left)
    return left


def _filter(name: str, context: ExpanderContext) -> Filter:
    filters: dict[str, Filter] = {
        "most-pods": most_pods,
        "least-nodes": least_nodes,
        "least-waste": least_waste,
        LEAST_COST: lambda options: least_cost(options, context.unit_prices),
        "price": lambda options: cheapest(options, context.unit_prices, context.cluster_nodes),
        "priority": lambda options: highest_priority(options, _priorities(context.priorities)),
    }
    if name not in filters:
        raise ConfigError(f"--expander: there is no expander '{name}'")
    return filters[name]


def _priorities(text: str | None) -> dict[int, list[str]]:
    """Parse the priorities. If they are missing or invalid all groups have the same priority, as in CA."""
    try:
        return parse_priorities(text) if text is not None else {}
    except ConfigError:
        return {}


def most_pods(options: Sequence[Option]) -> list[Option]:
    """Return the options that help the most pods."""
    return _best(options, lambda option: -len(option.pods))


def least_nodes(options: Sequence[Option]) -> list[Option]:
    """Return the options that need the fewest nodes."""
    return _best([option for option in options if option.node_count > 0], lambda option: option.node_count)


def least_waste(options: Sequence[Option]) -> list[Option]:
    """Return the options that leave the smallest share of cpu plus memory idle on the new nodes."""
    return _best(options, _waste)


def least_cost(options: Sequence[Option], units: UnitPrices) -> list[Option]:
    """Return the options whose nodes cost least for what the helped pods request; all of them if a price is unknown."""
    if any(option.hourly_price is None for option in options):
        return list(options)
    return _best(options, lambda option: _price_of_work(option, units))


def _price_of_work(option: Option, units: UnitPrices) -> float:
    price, work = option.price or 0.0, units.of(option.requested)
    return price / work if work else price


def _waste(option: Option) -> float:
    offered = {name: option.node.status.capacity.get(name) for name in ("cpu", "memory")}
    waste = 0.0
    for name, quantity in offered.items():
        amount = 0 if quantity is None else quantity.milli if name == "cpu" else quantity.value
        total = amount * option.node_count
        waste += (total - option.requested.get(name, 0)) / total if total else 0.0
    return waste


def _best(options: Sequence[Option], cost: Callable[[Option], float]) -> list[Option]:
    lowest = min((cost(option) for option in options), default=0.0)
    return [option for option in options if cost(option) == lowest]
