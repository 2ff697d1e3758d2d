"""What nodewright pays for pending pods, beside Karpenter and a bound that no autoscaler can beat.

``cost.py [FILE…] [--expander NAME] [--output json]`` plays cases of the schema of tests/data/karpenter/README.md (without
FILE: the 75 there) through the engine's own planning, and checks each placement independently. A row of the JSON holds
``price`` per hour of what was bought, ``karpenter`` and ``bound`` beside it, pods ``unplaced``, ``loops``, processor
``seconds`` of planning, and every placement: ``nodes`` that were bought with the pods of each workload on them, and what
``existing`` nodes took. The table has the sums of each family.

Exit code 1: a placement is wrong. 2: a file or an expander cannot be used.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from case_report import demand, lines_by_family, make_table, report
from cost_cases import Case, read_cases
from cost_check import Row, violations
from cost_market import Market
from nodewright.cli.settings.load import load_settings
from nodewright.model.settings import Settings

CASES = Path(__file__).parents[1] / "tests" / "data" / "karpenter" / "provisioning.jsonl.gz"
_COLUMNS = ("family", "cases", "ours", "Karpenter", "bound", "÷ bound", "÷ Karp.", "unplaced")


def measure(case: Case, settings: Settings) -> Row:
    """Play a case to its end. Raise WrongAnswer."""
    market = Market(case, settings)
    market.play()
    return checked(
        case,
        {
            "name": case.name,
            "family": case.family,
            "pods": case.pods,
            "price": market.price,
            "karpenter": case.karpenter.price,
            "bound": case.lp_bound,
            "unplaced": market.unplaced,
            "loops": market.loops,
            "seconds": round(market.seconds, 3),
            "nodes": [
                {"type": machine.type, "zone": machine.zone, "pods": market.placed.get(node, {})}
                for node, machine in market.machines.items()
            ],
            "existing": {node.name: market.placed[node.name] for node in case.nodes if node.name in market.placed},
        },
    )


def checked(case: Case, row: Row) -> Row:
    """Return the row if its placements are right. Raise WrongAnswer."""
    demand(case.name, violations(case, row))
    return row


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cost.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="JSON lines, or these compressed by gzip")
    parser.add_argument("--expander", default="least-waste", metavar="NAME", help="as nodewright's flag")
    parser.add_argument("--up-to", type=int, metavar="PODS", help="leave out cases with more pending pods")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    given = parser.parse_args(words)

    def play() -> list[Row]:
        settings = load_settings({"expander": given.expander, "scale-down-enabled": "false"}, {})
        cases = read_cases(given.files or [CASES])
        return [measure(case, settings) for case in cases if given.up_to is None or case.pods <= given.up_to]

    title = f"USD an hour, expander {given.expander}"
    return report(play, lambda rows: make_table(title, _COLUMNS, sums(rows)), given.output, Console())


def sums(rows: Iterable[Row]) -> list[list[str]]:
    """Return the cells of one line for each family, in the order of the cases, and of one for all."""
    return lines_by_family(rows, _line)


def _line(family: str, rows: Sequence[Row]) -> list[str]:
    ours, karpenter, bound = (sum(row[key] for row in rows) for key in ("price", "karpenter", "bound"))
    prices = [f"{price:,.2f}" for price in (ours, karpenter, bound)]
    ratios = [_ratio(ours, bound), _ratio(ours, karpenter)]
    return [family, str(len(rows)), *prices, *ratios, str(sum(row["unplaced"] for row in rows))]


def _ratio(ours: float, other: float) -> str:
    return f"{ours / other:.3f}" if other else ""


if __name__ == "__main__":
    sys.exit(main())
