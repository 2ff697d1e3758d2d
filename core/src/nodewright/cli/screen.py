"""Output: tables for people, JSON for programs. Names in it come from users, so they are never read as markup."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodewright.cli.broken_pipe import ReaderGone
from nodewright.model.printable import MAX_SHOWN, printable

_PIPE_WIDTH = 120


def _choose_output(context: click.Context, option: click.Parameter, output: str) -> str:
    del context, option
    if output == "json":
        keep_stdout()
    return output


def keep_stdout() -> None:
    """Let only ``sys.stdout`` write to stdout from now on: what a plugin's library writes to descriptor 1 goes to stderr."""
    stream = sys.__stdout__
    if stream is None or sys.stdout is not stream or sys.stderr is None:
        return
    stream.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(own, "w", encoding=stream.encoding, errors=stream.errors)


output_option = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    callback=_choose_output,
    help="table: for people; json: for programs.",
)


class Screen(Console):
    """A console that raises ReaderGone on a broken pipe, which ends the command without a message."""

    def on_broken_pipe(self) -> None:
        raise ReaderGone


def make_console(stream: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console that prints text literally; without a terminal it is wide, for grep."""
    stream = stream or sys.stdout
    if width is None and not stream.isatty() and "COLUMNS" not in os.environ:
        width = _PIPE_WIDTH
    return Screen(file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False)


def safe(text: object, style: str = "", limit: int = MAX_SHOWN) -> Text:
    """Return text for a cell or a line: control characters are escaped, markup is not read."""
    return Text(printable(str(text), limit), style=style)


def make_table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    """Return an empty table; ``right`` names the columns of numbers."""
    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, header_style="dim"
    )
    numbers = set(right)
    for column in columns:
        is_number = column in numbers
        table.add_column(Text(column), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    return table


def write_json(document: dict[str, Any]) -> None:
    """Write one JSON document to stdout."""
    try:
        click.echo(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False))
    except BrokenPipeError:
        raise ReaderGone from None


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pod``, ``2,000 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def name_some(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and how many more there are."""
    rest = len(names) - most
    shown = ", ".join(names[:most])
    return f"{shown} and {rest:,} more" if rest > 0 else shown
