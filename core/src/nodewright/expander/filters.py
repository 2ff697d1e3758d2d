"""Expanders that look at nothing but the options (behaviour/up.md §4.8)."""

from collections.abc import Callable, Sequence

from nodewright.expander.option import Option


def most_pods(options: Sequence[Option]) -> list[Option]:
    """Those that help the most pods."""
    return _best(options, lambda option: -len(option.pods))


def least_nodes(options: Sequence[Option]) -> list[Option]:
    """Those that need the fewest nodes."""
    return _best([option for option in options if option.node_count > 0], lambda option: option.node_count)


def least_waste(options: Sequence[Option]) -> list[Option]:
    """Those that leave the smallest share of cpu plus memory idle on the new nodes."""
    return _best(options, _waste)


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
