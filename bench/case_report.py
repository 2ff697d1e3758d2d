"""What the benchmarks of cases beside Karpenter have in common: the order, the printing and the exit code."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cost_cases import WrongFile
from nodewright.model.errors import ConfigError

# A row of the JSON; it has at least a ``family``.
R = TypeVar("R", bound=Mapping[str, Any])


class WrongAnswer(Exception):
    """The independent check found fault with what a case ended with."""


def demand(name: str, faults: Sequence[str]) -> None:
    """Raise WrongAnswer if the check of a case found faults."""
    if faults:
        raise WrongAnswer(f"{name}: {faults[0]} ({len(faults)} faults in all).")


def lines_by_family(rows: Iterable[R], line: Callable[[str, Sequence[R]], list[str]]) -> list[list[str]]:
    """Return the cells of one line for each family, in the order of the cases, and of one for all."""
    everything = list(rows)
    families: dict[str, list[R]] = {}
    for row in everything:
        families.setdefault(row["family"], []).append(row)
    return [line(family, held) for family, held in (families | {"all": everything}).items()]


def make_table(title: str, headings: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """Return a table whose first column is text and whose others are numbers."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for cells in lines:
        table.add_row(*cells)
    return table


def report(play: Callable[[], list[R]], make: Callable[[list[R]], Table], output: str, console: Console) -> int:
    """Play the cases and print their rows as JSON or as a table; return the exit code."""
    try:
        rows = play()
    except (ConfigError, WrongFile) as error:
        print(error, file=sys.stderr)
        return 2
    except WrongAnswer as error:
        print(error, file=sys.stderr)
        return 1
    if output == "json":
        print(json.dumps(rows, indent=1))
    else:
        console.print(make(rows))
    return 0
