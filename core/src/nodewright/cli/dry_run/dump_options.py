"""The options of the commands that take a dump. Nothing slow is imported here: help and completion need only this."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from nodewright.cli.dry_run.dump_groups import GroupEntry

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--groups", metavar="FILE", help="YAML file that describes the node groups."),
    click.option("--group-by", metavar="LABEL", help="Make one node group for each value of this node label."),
    click.option(
        "--group-max",
        default=1000,
        show_default=True,
        type=click.IntRange(0),
        help="Maximum size of the groups of --group-by.",
    ),
    click.option("--now", metavar="TIME", help="Time of the dump (RFC 3339). Default: the latest time in it."),
    click.option(
        "--seed", default=0, show_default=True, help="Random seed of the random expander and of a fake cloud."
    ),
)


@dataclass(frozen=True, kw_only=True)
class DumpSource:
    """A dump (a path, ``-`` for stdin, None for the live cluster), and how its groups and its time are found; ``entries`` are those of a bundle.

    ``given`` are the settings that were given, as section and field: they replace those of a bundle.
    """

    dump: str | None
    groups: str | None
    group_by: str | None
    group_max: int
    now: str | None
    seed: int
    entries: tuple["GroupEntry", ...] = ()
    given: frozenset[tuple[str, str]] = frozenset()

    @property
    def source(self) -> str:
        return "the live cluster" if self.dump is None else "stdin" if self.dump == "-" else self.dump


def dump_options(command: F) -> F:
    """Give a function the options of DumpSource, except the dump itself."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
