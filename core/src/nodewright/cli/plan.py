"""``nodewright plan``: one dry loop on a dump."""

import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from nodewright.adapters.provider import installed_providers
from nodewright.cli.clock import SystemClock
from nodewright.cli.connect import Connector
from nodewright.cli.dry_run import Trial, try_once
from nodewright.cli.dump import DumpedCluster, newest_moment, parse_moment, read_dump
from nodewright.cli.dumped_groups import DumpedGroups
from nodewright.cli.flags import SettingsCommand, settings_options
from nodewright.cli.groups import group_by_label, read_groups_file
from nodewright.cli.plan_json import as_json
from nodewright.cli.plan_tables import print_trial
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.verdicts import Fate, find_verdicts
from nodewright.model.errors import ConfigError
from nodewright.model.objects import ClusterObjects
from nodewright.model.settings import Settings

if TYPE_CHECKING:
    from nodewright.observe import ProviderReads

NOTHING_TO_DO, GROWTH, UNHELPED = 0, 3, 4


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The command's own options."""

    dump: str
    groups: str | None
    group_by: str | None
    group_max: int
    now: str | None
    seed: int


@click.command("plan", cls=SettingsCommand)
@click.argument("dump", metavar="DUMP")
@click.option("--groups", metavar="FILE", help="YAML file of node groups, for a dump without its cloud.")
@click.option("--group-by", metavar="LABEL", help="One node group per value of this label of the dump's nodes.")
@click.option("--group-max", default=1000, show_default=True, type=click.IntRange(0), help="Max size with --group-by.")
@click.option("--now", metavar="TIME", help="When the dump was made (RFC 3339). Default: the newest time in it.")
@click.option("--seed", default=0, show_default=True, help="Chance of the random expander and of a fake cloud.")
@click.option("--all-pods", is_flag=True, help="One row per pod: fold none together.")
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 3 if anything would be done, 4 if a pod is unhelped."
)
@output_option
@settings_options
def command(settings: Settings, output: str, all_pods: bool, detailed_exitcode: bool, **wish: Any) -> int:
    """Show what would be done to the cluster in DUMP, and why for every pod. Nothing is written anywhere.

    DUMP is the output of kubectl get
    nodes,pods,daemonsets,rs,rc,statefulsets,jobs,pdb,pvc,pv,storageclasses,csinodes,namespaces -A -o json
    (or -o yaml), or - to read it from stdin. The node groups come from --groups, from --group-by or from a
    provider (--cloud-provider, or providers: in --config).

    Exit codes: 0 a plan was made, also when there is nothing to do; 2 bad input. With --detailed-exitcode:
    0 nothing to do, 3 something would be done, 4 a pod is not helped, whatever else is done.
    """
    dump = "stdin" if wish["dump"] == "-" else wish["dump"]
    trial, cluster = _try(settings, Wish(**wish))
    if output == "json":
        write_json(as_json(trial, dump, cluster.strays))
    else:
        print_trial(make_console(), trial, dump, cluster.strays, folded=not all_pods)
    return _exit_code(trial) if detailed_exitcode else NOTHING_TO_DO


def _try(settings: Settings, wish: Wish) -> tuple[Trial, DumpedCluster]:
    objects = read_dump(*_read(wish.dump))
    now = parse_moment(wish.now) if wish.now is not None else newest_moment(objects)
    providers: list[ProviderReads] = [*_dumped_groups(objects, wish)]
    providers += Connector(clock=SystemClock(), seed=wish.seed).connect_all(settings.providers)
    if not providers:
        raise ConfigError(f"no node groups: give --groups, --group-by or --cloud-provider{_on_offer()}")
    cluster = DumpedCluster(objects)
    random = Random(wish.seed)
    return try_once(cluster, providers, settings, random, now), cluster


def _read(path: str) -> tuple[bytes, str]:
    """The content and the name of a file; ``-`` is stdin."""
    if path == "-":
        return sys.stdin.buffer.read(), "stdin"
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _dumped_groups(objects: ClusterObjects, wish: Wish) -> list[DumpedGroups]:
    """One provider of groups without a cloud, or none."""
    if wish.groups is not None and wish.group_by is not None:
        raise ConfigError("--groups and --group-by: give one of them, not both")
    if wish.groups is not None:
        entries = read_groups_file(*_read(wish.groups))
    elif wish.group_by is not None:
        entries = group_by_label(objects.nodes, wish.group_by, wish.group_max)
    else:
        return []
    return [DumpedGroups(entries, objects.nodes)]


def _on_offer() -> str:
    names = sorted({plugin.name for plugin in installed_providers()})
    return f" (installed: {', '.join(names)})" if names else ""


def _exit_code(trial: Trial) -> int:
    if any(verdict.fate in (Fate.UNHELPED, Fate.HALTED) for verdict in find_verdicts(trial)):
        return UNHELPED
    return GROWTH if trial.plan.actions else NOTHING_TO_DO
