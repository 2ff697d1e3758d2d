"""``nodewright plan``: one dry loop on a dump."""

from typing import Any

import click

from nodewright.cli.dry_run.dump_options import DumpSource, dump_options
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.settings.flags import SettingsCommand, settings_options
from nodewright.model.errors import ConfigError
from nodewright.model.settings import Settings


@click.command("plan", cls=SettingsCommand)
@click.argument("dump", metavar="DUMP")
@dump_options
@click.option("--all-pods", is_flag=True, help="Show one row per pod; do not merge similar pods.")
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 3 if the plan has actions, 4 if a pod is not helped."
)
@click.option(
    "--at",
    metavar="TIME",
    help="Plan as if it were this time: show which budgets and schedules hold then. UTC by default.",
)
@output_option
@settings_options
def command(
    settings: Settings, output: str, all_pods: bool, detailed_exitcode: bool, at: str | None, **given: Any
) -> int:
    """Show what nodewright would do to the cluster in DUMP, and a reason for every pod. Write nothing.

    DUMP is the output of kubectl get
    nodes,pods,daemonsets,rs,rc,statefulsets,jobs,pdb,pvc,pv,storageclasses,csinodes,csidrivers,volumeattachments,namespaces -A -o json
    (or -o yaml); - reads it from stdin. The node groups come from --groups, from --group-by or from a provider
    (--cloud-provider, or providers: in --config).

    Exit codes: 0 a plan was made, even an empty one; 2 bad input. With --detailed-exitcode: 0 the plan is empty,
    3 it has actions, 4 a pod is not helped, with or without actions.
    """
    from nodewright.cli.dry_run.dump import parse_moment, plan_dump
    from nodewright.cli.plan_view import as_json, find_exit_code, print_plan

    if at is not None:
        parse_moment(at, "--at")
        if given["now"] is not None:
            raise ConfigError("--at and --now: give one of them, not both")
        given["now"] = at
    dumped = DumpSource(**given)
    dry_run, cluster = plan_dump(settings, dumped)
    if output == "json":
        write_json(as_json(dry_run, dumped.source, cluster.strays))
    else:
        print_plan(make_console(), dry_run, dumped.source, cluster.strays, folded=not all_pods)
    return find_exit_code(dry_run) if detailed_exitcode else 0
