"""Choose a scale-up option with a chain of expanders. All expanders are here."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import tanh
from random import Random

import re2

from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.yaml_text import load_yaml


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """Grow one group by ``node_count`` nodes like ``node``; ``pods`` are the pending pods that this helps.

    ``hourly_price`` is in USD for one node; None: unknown. ``paid_nodes`` of the nodes are paid already and cost nothing.
    ``requested`` is the sum of the pods' requests: ``cpu`` in millicores, ``memory`` in bytes. ``exists``: the group exists;
    if false it must be created first.
    """

    group: GroupRef
    node: Node
    node_count: int
    pods: tuple[Pod, ...]
    requested: dict[str, int]
    hourly_price: float | None = None
    paid_nodes: int = 0
    has_gpu: bool = False
    exists: bool = True

    @property
    def price(self) -> float | None:
        """Return what all its nodes cost, in USD an hour; None: unknown."""
        return self.hourly_price * (self.node_count - self.paid_nodes) if self.hourly_price is not None else None


_MIB = 2**20
# Resources of a stand-by pod. They are added to price and work, so that a price is never divided by almost zero.
_STANDBY = {"cpu": 500, "memory": 500 * _MIB}
_GPU_UNFITNESS = 1000.0
# Factor on the cost of an option whose group must be created first.
_NOT_EXISTING = 2.0
# (nodes in the cluster, cores): up to this cluster size a node with this number of cores is preferred.
_PREFERRED_CORES = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
_LARGEST_PREFERRED_CORES = 32


@dataclass(frozen=True)
class UnitPrices:
    """The price of a millicore and of a byte of memory in the cheapest group, in USD an hour.

    Half of a node's price counts for its cpu, the other half for its memory.
    """

    millicore: float
    byte: float

    def of(self, amounts: dict[str, int]) -> float:
        return amounts.get("cpu", 0) * self.millicore + amounts.get("memory", 0) * self.byte


def find_unit_prices(nodes: Iterable[tuple[float, int, int]]) -> UnitPrices:
    """Compute unit prices from (USD an hour, millicores, bytes) of each group that has a price."""
    priced = [(price, cpu, memory) for price, cpu, memory in nodes if cpu > 0 and memory > 0]
    millicore = min((price / 2 / cpu for price, cpu, _ in priced), default=0.0)
    byte = min((price / 2 / memory for price, _, memory in priced), default=0.0)
    return UnitPrices(millicore, byte)


def cheapest(options: Sequence[Option], units: UnitPrices, cluster_nodes: int) -> list[Option]:
    """Return the options with the lowest price per unit of work.

    Options without a price are left out. If no option has a price, all are returned: unknown prices stop no scale-up.
    """
    scores = [(option, _score(option, units, cluster_nodes)) for option in options]
    lowest = min((score for _, score in scores if score is not None), default=None)
    return [option for option, score in scores if score == lowest]


def _score(option: Option, units: UnitPrices, cluster_nodes: int) -> float | None:
    if option.price is None:
        return None
    standby = units.of(_STANDBY)
    work = units.of(option.requested) + standby
    price = option.price + standby
    penalty = 1.0 if option.exists else _NOT_EXISTING
    return penalty * _unfitness(option, cluster_nodes) * (price / work if work else price)


def _unfitness(option: Option, cluster_nodes: int) -> float:
    """Return how far the node is from the preferred size; this weighs less the more nodes are added at once."""
    if option.has_gpu:
        return _GPU_UNFITNESS
    capacity = option.node.status.capacity
    cores = capacity["cpu"].milli / 1000 if "cpu" in capacity else 0.0
    if not cores:
        return _GPU_UNFITNESS
    preferred = _preferred_cores(cluster_nodes)
    raw = max(preferred / cores, cores / preferred)
    return (raw - 1) * (1 - tanh((option.node_count - 1) / 15)) + 1


def _preferred_cores(cluster_nodes: int) -> int:
    return next((cores for nodes, cores in _PREFERRED_CORES if cluster_nodes <= nodes), _LARGEST_PREFERRED_CORES)


# This expander plans a mix of groups where it can (planner/scale_up/least_cost.py).
LEAST_COST = "least-cost"
PRIORITY = "priority"

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
        PRIORITY: lambda options: highest_priority(options, _priorities(context.priorities)),
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


CONFIG_MAP, CONFIG_KEY = "cluster-autoscaler-priority-expander", "priorities"
_QUIET = re2.Options()
_QUIET.log_errors = False


def parse_priorities(text: str) -> dict[int, list[str]]:
    """Parse the ConfigMap's ``priorities``: number → regular expressions (RE2, as in CA) that match group ids.

    Raise ConfigError if the text is invalid.
    """
    documents = load_yaml(text, CONFIG_MAP)
    table = documents[0] if documents else {}
    if not isinstance(table, dict):
        raise ConfigError(f"{CONFIG_MAP}: priorities must map numbers to lists of regular expressions")
    for number, patterns in table.items():
        if not isinstance(number, int) or not isinstance(patterns, list):
            raise ConfigError(f"{CONFIG_MAP}: priority {number} must be a number with a list of regular expressions")
        for pattern in patterns:
            _compiled(str(pattern))
    return {number: [str(pattern) for pattern in patterns] for number, patterns in table.items()}


def find_priorities(group_ids: Iterable[str], text: str | None) -> dict[str, int]:
    """Return the priority of each group that a list gives one; empty without a usable list."""
    table = _priorities(text)
    found = {group_id: _priority(group_id, table) for group_id in group_ids}
    return {group_id: priority for group_id, priority in found.items() if priority is not None}


def priority_problem(text: str | None) -> str:
    """Return one sentence that says why the list cannot be used; empty if it can.

    Without a usable list all groups have the same priority.
    """
    if text is None:
        return f"there is no ConfigMap {CONFIG_MAP}: the priority expander prefers no group"
    try:
        parse_priorities(text)
    except ConfigError as error:
        return f"{error}: the priority expander prefers no group"
    return ""


def highest_priority(options: Sequence[Option], priorities: dict[int, list[str]]) -> list[Option]:
    """Return the options whose groups match the highest priority; all options if no group matches any."""
    wanted: list[Option] = []
    highest = -1
    for option in options:
        priority = _priority(option.group.group_id, priorities)
        if priority is None or priority < highest:
            continue
        if priority > highest:
            highest, wanted = priority, []
        wanted.append(option)
    return wanted or list(options)


def _priority(group_id: str, priorities: dict[int, list[str]]) -> int | None:
    matching = (n for n, patterns in priorities.items() if any(_compiled(p).search(group_id) for p in patterns))
    return max(matching, default=None)


def _compiled(pattern: str) -> "re2._Regexp":
    try:
        return re2.compile(pattern, options=_QUIET)
    except re2.error as error:
        raise ConfigError(f"{CONFIG_MAP}: {pattern!r} is not a valid regular expression") from error
