"""What nodewright gives up of clusters that cost too much, beside Karpenter and a bound that no autoscaler can beat.

``consolidation.py [FILE…] [--policy NAME] [--output json]`` plays cases of the schema of tests/data/karpenter/README.md (without FILE:
the 60 there) through the engine's own planning, move by move until no move is left, and checks each move independently. A row of
the JSON holds ``price_before`` and ``price_at_rest`` per hour, ``commands``, ``evictions``, Karpenter's answers by policy, the ``bound``,
``seconds_slowest`` (of the processor) of a decision, and the ``trace`` of moves. The table has the sums of each family.

Exit code 1: a move is wrong. 2: a file or a policy cannot be used.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from consolidation_cases import SHARED, Cluster, read_clusters
from consolidation_check import violations
from consolidation_market import Market
from cost_cases import WrongFile
from nodewright.cli.settings.load import load_settings
from nodewright.model.errors import ConfigError
from nodewright.model.settings import Settings

Row = dict[str, Any]
_COLUMNS = ("family", "cases", "before", "ours", "Balanced", "WEOU", "bound", "÷ bound", "Bal. ÷", "WEOU ÷")
_COUNTS = ("moves", "evicted", "Bal. evicted", "WEOU evicted", "slowest s")


class WrongMove(Exception):
    """The independent check found fault with a move."""


def measure(case: Cluster, settings: Settings) -> Row:
    """Play a case until no move is left. Raise WrongMove."""
    market = Market(case, settings)
    market.play()
    return checked(
        case,
        {
            "name": case.name,
            "family": case.family,
            "pods": case.pods,
            "price_before": case.price_before,
            "price_at_rest": market.price,
            "commands": len(market.trace),
            "evictions": market.evictions,
            "karpenter": case.answers(),
            "bound": case.lp_bound_pinned,
            "seconds_slowest": round(max(market.seconds), 3),
            "trace": market.trace,
        },
    )


def checked(case: Cluster, row: Row) -> Row:
    """Return the row if its moves are right. Raise WrongMove."""
    found = violations(case, row)
    if found:
        raise WrongMove(f"{case.name}: {found[0]} ({len(found)} faults in all).")
    return row


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="consolidation.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="JSON lines, or these compressed by gzip")
    parser.add_argument("--policy", default="balanced", metavar="NAME", help="as nodewright's --consolidation-policy")
    parser.add_argument("--budget", default="1s", metavar="TIME", help="as nodewright's --consolidation-budget")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name or family holds this text")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    given = parser.parse_args(words)
    try:
        settings = load_settings(
            {"consolidation-policy": given.policy, "consolidation-budget": given.budget, "expander": "least-cost"}, {}
        )
        cases = [one for one in read_clusters(given.files or [SHARED]) if given.only in f"{one.name} {one.family}"]
        rows = [measure(case, settings) for case in cases]
    except (ConfigError, WrongFile) as error:
        print(error, file=sys.stderr)
        return 2
    except WrongMove as error:
        print(error, file=sys.stderr)
        return 1
    if given.output == "json":
        print(json.dumps(rows, indent=1))
    else:
        Console(width=170).print(_table(rows, given.policy))
    return 0


def _table(rows: Sequence[Row], policy: str) -> Table:
    table = Table(title=f"USD an hour, policy {policy}", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, heading in enumerate((*_COLUMNS, *_COUNTS)):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for line in sums(rows):
        table.add_row(*line)
    return table


def sums(rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of one line for each family, in the order of the cases, and of one for all."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    return [_line(family, held) for family, held in (families | {"all": list(rows)}).items()]


def _line(family: str, rows: Sequence[Row]) -> list[str]:
    def total(key: str, policy: str = "") -> float:
        return float(sum((row["karpenter"].get(policy, {}) if policy else row).get(key, 0) for row in rows))

    before, ours, bound = total("price_before"), total("price_at_rest"), total("bound")
    balanced, other = (total("price_at_rest", name) for name in ("Balanced", "WhenEmptyOrUnderutilized"))
    counts = [total("commands"), total("evictions")]
    counts += [total("evictions", name) for name in ("Balanced", "WhenEmptyOrUnderutilized")]
    return [
        family,
        str(len(rows)),
        *(f"{price:,.2f}" for price in (before, ours, balanced, other, bound)),
        *(f"{price / bound:.3f}" if bound else "" for price in (ours, balanced, other)),
        *(f"{count:,.0f}" for count in counts),
        f"{max((row['seconds_slowest'] for row in rows), default=0):.2f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
