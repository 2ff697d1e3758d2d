"""What a production trace costs while nodes come and go, beside the bound that no autoscaler can beat.

``scale_down.py [NAME…] [--output json]`` replays the openb trace with nodes removed after 1, 5 and 10 minutes, in real
time and 100 times as fast (``real-1m`` … ``fast-10m``), and with other expanders (``fast-1m-least-cost`` …), and prints
for each: node-hours, dollars by assumed list prices, the bounds of node_bound.py, and what lies between. ``--page`` writes
docs/scale-down.md and its charts. A run in real time takes 15 minutes, so ``--rows FOLDER`` keeps the row of each run
there, and does not run again what it finds. ``--set FLAG=VALUE`` runs with another setting.
"""

import json
import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from node_bound import Amounts, Moment, NodeBound, Shape, averaged, moments
from nodewright.engine.planning import Planning
from nodewright.model.errors import ConfigError
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.journal import Fact, What
from nodewright_simulator.openb import NodeShape, Trace, load_openb, trace_scenario
from nodewright_simulator.result import SimulationResult
from scale_down_page import write_page

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "data" / "openb"
WINDOWS = 1000
_MOVED = re.compile(r"-r[0-9]+$")
_HOUR = 3600.0


class Run(NamedTuple):
    """How many times as fast as it was, how long nodes are unneeded before they go, and what chooses among groups."""

    compression: float
    wait: str
    expander: str = "least-waste"


RUNS = {
    f"{pace}-{wait}": Run(by, wait) for pace, by in (("real", 1.0), ("fast", 100.0)) for wait in ("1m", "5m", "10m")
} | {f"fast-1m-{name}": Run(100.0, "1m", name) for name in ("least-nodes", "most-pods", "price", "least-cost")}


class Place(NamedTuple):
    """A pod that runs somewhere."""

    node: str
    group: str
    asks: Amounts


class Ran(NamedTuple):
    """What ran when, in all and in each group: changes for ``node_bound.moments``.

    ``hours_with_pods``: the hours that the nodes of each group ran with a pod or more.
    """

    everywhere: list[tuple[float, Amounts, int]]
    by_group: dict[str, list[tuple[float, Amounts, int]]]
    hours_with_pods: dict[str, float]


def replay(name: str, changed: Mapping[str, Any] = {}, folder: Path = FOLDER) -> SimulationResult:
    """One run, to the end of its last pod, with changed settings."""
    run = RUNS[name]
    scenario = trace_scenario(str(folder), compression=run.compression)
    waits = dict.fromkeys(("scale-down-unneeded-time", "scale-down-delay-after-add"), run.wait)
    settings = {**scenario.settings, **waits, "expander": run.expander, **changed}
    scenario = msgspec.structs.replace(scenario, settings=settings)
    return build_simulation(scenario, BuildOptions(planning=Planning(strict=True))).run()


def measure(name: str, result: SimulationResult, trace: Trace) -> dict[str, Any]:
    """Return the row of one run; hours are node-hours, waits are in seconds, dollars are by assumed list prices."""
    ran = read(result.journal, {f"default/{p.name}": (p.cpu_milli, p.memory_mib, p.gpus) for p in trace.pods})
    shapes = {f"fake/{s.name}": Shape((s.cpu_milli, s.memory_mib, s.gpus), n) for s, n in trace.shapes.items()}
    prices = {f"fake/{s.name}": s.price_per_hour for s in trace.shapes}
    history = averaged(list(moments(ran.everywhere)), result.end, WINDOWS)
    bound = NodeBound(list(shapes.values()))
    dollars = NodeBound([shape._replace(price=prices[group]) for group, shape in shapes.items()])
    chosen = {group: _hours_in_one_group(each, shapes[group], result.end) for group, each in ran.by_group.items()}
    return {
        "name": name,
        "node_hours": result.node_hours.used,
        "with_pods": result.node_hours.busy,
        "bound_of_chosen_groups": sum(chosen.values()),
        "bound": bound.node_hours(history, result.end),
        "dollars": result.cost,
        "dollars_with_pods": sum(prices[group] * hours for group, hours in ran.hours_with_pods.items()),
        "dollar_bound_of_chosen_groups": sum(prices[group] * hours for group, hours in chosen.items()),
        "dollar_bound": dollars.node_hours(history, result.end),
        "dollars_unused": _price_unused(ran, {group: shape.offers for group, shape in shapes.items()}),
        "removed": len(result.removals),
        "evicted": sum(len(removal.evicted) for removal in result.removals),
        "cycles": count_cycles(result.journal),
        "wait_p50": result.waiting.p50,
        "wait_p99": result.waiting.p99,
        "wait_longest": result.waiting.longest,
        "loops": result.loops,
        "curves": _curves(result, history, bound),
    }


def count_cycles(journal: Iterable[Fact]) -> int:
    """How many moved pods ended up on a node that was added after they had been moved: it was added for them."""
    moved: dict[str, float] = {}
    added: dict[str, float] = {}
    cycles = 0
    for fact in journal:
        if fact.what == What.NODE_ADDED:
            added[fact.name] = fact.at
        elif fact.what == What.POD_ARRIVED and _MOVED.search(fact.name):
            moved[fact.name] = fact.at
        elif fact.what == What.POD_STARTED and fact.name in moved:
            cycles += added[fact.where] > moved.pop(fact.name)
    return cycles


def read(journal: Iterable[Fact], asks: Mapping[str, Amounts]) -> Ran:
    """Return what ran; ``asks`` is what each pod asks for."""
    ran = Ran([], {}, defaultdict(float))
    group_of: dict[str, str] = {}
    running: dict[str, Place] = {}
    pods_on, busy_since = Counter[str](), dict[str, float]()
    for fact in journal:
        if fact.what == What.NODE_ADDED:
            group_of[fact.name] = fact.where
        elif fact.what == What.POD_STARTED:
            place = running[fact.name] = Place(fact.where, group_of[fact.where], asks[_MOVED.sub("", fact.name)])
            _note(ran, place, fact.at, 1)
            busy_since.setdefault(place.node, fact.at)
            pods_on[place.node] += 1
        elif fact.what in (What.POD_ENDED, What.POD_LOST) and fact.name in running:
            place = running.pop(fact.name)
            _note(ran, place, fact.at, -1)
            pods_on[place.node] -= 1
            if not pods_on[place.node]:
                ran.hours_with_pods[place.group] += (fact.at - busy_since.pop(place.node)) / _HOUR
    return ran


def _price_unused(ran: Ran, offers: Mapping[str, Amounts]) -> dict[str, float]:
    """Return what was paid for cores, memory and GPUs that no pod asked for, on nodes while they had pods."""
    many = 10**6
    units = (NodeShape(many, 0, 0, ""), NodeShape(0, many, 0, ""), NodeShape(0, 0, many, ""))
    unused = {}
    for k, (name, unit) in enumerate(zip(("cores", "memory", "GPUs"), units, strict=True)):
        there = sum(hours * offers[group][k] for group, hours in ran.hours_with_pods.items())
        asked = -sum(at * size[k] * count for at, size, count in ran.everywhere) / _HOUR
        unused[name] = round((there - asked) * unit.price_per_hour / many, 1)
    return unused


def _note(ran: Ran, place: Place, at: float, count: int) -> None:
    ran.everywhere.append((at, place.asks, count))
    ran.by_group.setdefault(place.group, []).append((at, place.asks, count))


def _hours_in_one_group(changes: Sequence[tuple[float, Amounts, int]], shape: Shape, end: float) -> float:
    """Return the fewest node-hours with one shape: at each moment the scarcest resource decides."""
    history = list(moments(changes))
    ends = [*(moment.at for moment in history[1:]), end]
    return (
        sum((until - moment.at) * _filled(moment, shape) for moment, until in zip(history, ends, strict=True)) / _HOUR
    )


def _filled(moment: Moment, shape: Shape) -> float:
    asked = (sum(size[k] * count for size, count in moment.running.items()) for k in range(len(shape.offers)))
    return max((amount / offered for amount, offered in zip(asked, shape.offers, strict=True) if offered), default=0.0)


def _curves(result: SimulationResult, history: Sequence[Moment], bound: NodeBound) -> dict[str, list[float]]:
    """Nodes at the beginning of each window: there, with what scale-down's bound allows beside them."""
    times = result.series.times
    totals = [sum(counts) for counts in zip(*result.series.nodes.values(), strict=True)]
    at, there = 0, []
    for moment in history:
        while at + 1 < len(times) and times[at + 1] <= moment.at:
            at += 1
        there.append(float(totals[at]))
    return {
        "hours": [(moment.at - result.start) / _HOUR for moment in history],
        "nodes": there,
        "bound": [bound.nodes(moment.running) for moment in history],
    }


def _row(name: str, trace: Trace, folder: Path | None, changed: Mapping[str, Any]) -> dict[str, Any]:
    """As ``measure``, once for each file in the folder."""
    kept = folder / f"{name}.json" if folder is not None else None
    if kept is not None and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    row = measure(name, replay(name, changed), trace)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(row))
    return row


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="scale_down.py", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(RUNS)}; none: all of them")
    parser.add_argument("--page", action="store_true", help="write docs/scale-down.md and its charts")
    parser.add_argument("--rows", type=Path, metavar="FOLDER", help="where the row of each run is kept")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--set", action="append", default=[], metavar="FLAG=VALUE", help="a setting; may be repeated")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in RUNS]
    if unknown:
        parser.error(f"there is no run {unknown[0]}; there are {', '.join(RUNS)}")
    if given.set and (given.page or given.rows):
        parser.error("--set goes with neither --page nor --rows")
    changed = {flag: yaml.safe_load(value) for flag, _, value in (word.partition("=") for word in given.set)}
    trace = load_openb(FOLDER)
    try:
        rows = [_row(name, trace, given.rows, changed) for name in given.names or RUNS]
    except ConfigError as error:
        parser.error(str(error))
    if given.page:
        write_page(rows, [name for name in RUNS if name not in (given.names or RUNS)], ROOT / "docs")
    if given.output == "json":
        print(json.dumps([{key: value for key, value in row.items() if key != "curves"} for row in rows], indent=2))
        return 0
    for row in rows:
        print(
            ", ".join(
                f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
                for key, value in row.items()
                if key != "curves"
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
