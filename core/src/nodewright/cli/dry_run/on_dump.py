"""One dry loop on a dump, and the options of the commands that take one."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.provider import installed_providers
from nodewright.cli.connect import Connector
from nodewright.cli.dry_run.dry_run import DryRun, plan_once
from nodewright.cli.dry_run.dump import DumpedCluster, newest_moment, parse_moment, read_dump
from nodewright.cli.dry_run.dump_groups import DumpedGroups, group_by_label, read_groups_file
from nodewright.model.errors import ConfigError
from nodewright.model.objects import ClusterObjects
from nodewright.model.settings import Settings

if TYPE_CHECKING:
    from nodewright.observe import ProviderReads

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--groups", metavar="FILE", help="YAML file of node groups, for a dump without its cloud."),
    click.option("--group-by", metavar="LABEL", help="One node group per value of this label of the dump's nodes."),
    click.option(
        "--group-max", default=1000, show_default=True, type=click.IntRange(0), help="Max size with --group-by."
    ),
    click.option("--now", metavar="TIME", help="When the dump was made (RFC 3339). Default: the newest time in it."),
    click.option("--seed", default=0, show_default=True, help="Chance of the random expander and of a fake cloud."),
)


@dataclass(frozen=True, kw_only=True)
class DumpSource:
    """A dump (a path, ``-`` for stdin), and how its groups and its time are found."""

    dump: str
    groups: str | None
    group_by: str | None
    group_max: int
    now: str | None
    seed: int

    @property
    def source(self) -> str:
        return "stdin" if self.dump == "-" else self.dump


def dump_options(command: F) -> F:
    """Give a function the options that ``Dumped`` holds beside the dump itself."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_dump(settings: Settings, dumped: DumpSource) -> tuple[DryRun, DumpedCluster]:
    """Plan one loop on a dumped cluster; raise ConfigError."""
    objects = read_dump(*_read(dumped.dump))
    now = parse_moment(dumped.now) if dumped.now is not None else newest_moment(objects)
    providers: list[ProviderReads] = [*_dumped_groups(objects, dumped)]
    providers += Connector(clock=SystemClock(), seed=dumped.seed).connect_all(settings.providers)
    if not providers:
        raise ConfigError(f"no node groups: give --groups, --group-by or --cloud-provider{_on_offer()}")
    cluster = DumpedCluster(objects)
    random = Random(dumped.seed)
    return plan_once(cluster, providers, settings, random, now), cluster


def _read(path: str) -> tuple[bytes, str]:
    """Return the content and the name of a file; ``-`` is stdin."""
    if path == "-":
        return sys.stdin.buffer.read(), "stdin"
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _dumped_groups(objects: ClusterObjects, dumped: DumpSource) -> list[DumpedGroups]:
    """Return the provider of the dump's groups, or none."""
    if dumped.groups is not None and dumped.group_by is not None:
        raise ConfigError("--groups and --group-by: give one of them, not both")
    if dumped.groups is not None:
        entries = read_groups_file(*_read(dumped.groups))
    elif dumped.group_by is not None:
        entries = group_by_label(objects.nodes, dumped.group_by, dumped.group_max)
    else:
        return []
    return [DumpedGroups(entries, objects.nodes)]


def _on_offer() -> str:
    names = sorted({plugin.name for plugin in installed_providers()})
    return f" (installed: {', '.join(names)})" if names else ""
