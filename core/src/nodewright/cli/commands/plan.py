"""``nodewright plan``: one dry loop on a dump, or on the live cluster."""

from typing import Any

import click

from nodewright.cli.dry_run.dump_options import DumpSource, dump_options
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options
from nodewright.model.errors import ConfigError


@click.command("plan", cls=SettingsCommand)
@click.argument("dump", metavar="[DUMP]", required=False)
@dump_options
@click.option(
    "--add", multiple=True, metavar="FILE", help="What if: add the pods of this Deployment, StatefulSet, Job or Pod."
)
@click.option("--replicas", type=click.IntRange(0), help="How many pods --add adds. Default: as the file says.")
@click.option(
    "--remove-node", multiple=True, metavar="NODE", help="What if: this node is gone, and its pods are pending."
)
@click.option(
    "--group", multiple=True, metavar="KEY=VALUE,…", help="What if: add a node group, as name=x,cpu=8,memory=32Gi."
)
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
@source_options
def command(
    source: SettingsSource, output: str, all_pods: bool, detailed_exitcode: bool, at: str | None, **given: Any
) -> int:
    """Show what nodewright would do to a cluster, and a reason for every pod. Write nothing.

    Without DUMP it reads the cluster that --kubeconfig names, else the cluster of this pod, else kubectl's default cluster. DUMP is the output of kubectl get
    nodes,pods,daemonsets,rs,rc,statefulsets,jobs,pdb,pvc,pv,storageclasses,csinodes,csidrivers,csistoragecapacities,volumeattachments,namespaces -A -o json
    (or -o yaml); - reads it from stdin. The node groups come from --groups, from --group-by or from a provider
    (--cloud-provider, or providers: in --config). With --add, --remove-node or --group the plan is for the changed
    cluster, and a table shows the difference to the cluster as it is.

    Exit codes: 0 a plan was made, even an empty one; 2 bad input. With --detailed-exitcode: 0 the plan is empty,
    3 it has actions, 4 a pod is not helped, with or without actions.
    """
    from nodewright.cli.cost_view import difference_json, print_difference
    from nodewright.cli.dry_run.dump import parse_moment, plan_dump, plan_what_if
    from nodewright.cli.dry_run.what_if import WhatIf
    from nodewright.cli.plan_view import as_json, find_exit_code, print_plan

    loaded = source.load()
    settings = loaded.settings
    if at is not None:
        parse_moment(at, "--at")
        if given["now"] is not None:
            raise ConfigError("--at and --now: give one of them, not both")
        given["now"] = at
    flags = [given.pop(name) for name in ("add", "replicas", "remove_node", "group")]
    what = WhatIf(added=flags[0], replicas=flags[1], removed_nodes=flags[2], groups=flags[3])
    dumped, as_it_is = DumpSource(given=loaded.given_fields, **given), None
    if what:
        as_it_is, dry_run, cluster = plan_what_if(settings, dumped, what)
    else:
        what.check()
        dry_run, cluster = plan_dump(settings, dumped)
    if output == "json":
        document = as_json(dry_run, dumped.source, cluster.strays)
        write_json(document | ({"difference": difference_json(as_it_is, dry_run)} if as_it_is is not None else {}))
    else:
        print_plan(make_console(), dry_run, dumped.source, cluster.strays, folded=not all_pods)
        if as_it_is is not None:
            print_difference(make_console(), as_it_is, dry_run)
    return find_exit_code(dry_run) if detailed_exitcode else 0
