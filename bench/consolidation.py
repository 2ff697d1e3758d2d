"""What nodewright gives up of clusters that cost too much, beside Karpenter and a bound that no autoscaler can beat.

``consolidation.py [FILE…] [--policy NAME] [--output json]`` plays cases of the schema of tests/data/karpenter/README.md (without FILE:
the 60 there) through the engine's own planning, move by move until no move is left, and checks each move independently. A row of
the JSON holds ``price_before`` and ``price_at_rest`` per hour, ``commands``, ``evictions``, Karpenter's answers by policy, the ``bound``,
``seconds_slowest`` (of the processor) of a decision, and the ``trace`` of moves. The table has the sums of each family.

Exit code 1: a move is wrong. 2: a file or a policy cannot be used.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from case_report import demand, lines_by_family, make_table, report
from consolidation_cases import SHARED, Cluster, read_clusters
from consolidation_check import violations
from consolidation_market import Market
from nodewright.cli.settings.load import load_settings
from nodewright.model.settings import Settings

Row = dict[str, Any]
_COLUMNS = ("family", "cases", "before", "ours", "Balanced", "WEOU", "bound", "÷ bound", "Bal. ÷", "WEOU ÷")
_COUNTS = ("moves", "evicted", "Bal. evicted", "WEOU evicted", "slowest s")


def measure(case: Cluster, settings: Settings) -> Row:
    """Play a case until no move is left. Raise WrongAnswer."""
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
    """Return the row if its moves are right. Raise WrongAnswer."""
    demand(case.name, violations(case, row))
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

    def play() -> list[Row]:
        settings = load_settings(
            {"consolidation-policy": given.policy, "consolidation-budget": given.budget, "expander": "least-cost"}, {}
        )
        cases = [one for one in read_clusters(given.files or [SHARED]) if given.only in f"{one.name} {one.family}"]
        return [measure(case, settings) for case in cases]

    title = f"USD an hour, policy {given.policy}"
    return report(
        play, lambda rows: make_table(title, (*_COLUMNS, *_COUNTS), sums(rows)), given.output, Console(width=170)
    )


def sums(rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of one line for each family, in the order of the cases, and of one for all."""
    return lines_by_family(rows, _line)


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
