"""``nodewright plan``: one dry loop on a dump."""

from typing import Any

import click

from nodewright.cli.dry_run.dumped_trial import Dumped, dump_options, try_dump
from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.plan.json import as_json
from nodewright.cli.plan.tables import print_trial
from nodewright.cli.plan.verdicts import Fate, find_verdicts
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.settings.flags import SettingsCommand, settings_options
from nodewright.model.settings import Settings

NOTHING_TO_DO, GROWTH, UNHELPED = 0, 3, 4


@click.command("plan", cls=SettingsCommand)
@click.argument("dump", metavar="DUMP")
@dump_options
@click.option("--all-pods", is_flag=True, help="One row per pod: fold none together.")
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 3 if anything would be done, 4 if a pod is unhelped."
)
@output_option
@settings_options
def command(settings: Settings, output: str, all_pods: bool, detailed_exitcode: bool, **given: Any) -> int:
    """Show what would be done to the cluster in DUMP, and why for every pod. Nothing is written anywhere.

    DUMP is the output of kubectl get
    nodes,pods,daemonsets,rs,rc,statefulsets,jobs,pdb,pvc,pv,storageclasses,csinodes,namespaces -A -o json
    (or -o yaml), or - to read it from stdin. The node groups come from --groups, from --group-by or from a
    provider (--cloud-provider, or providers: in --config).

    Exit codes: 0 a plan was made, also when there is nothing to do; 2 bad input. With --detailed-exitcode:
    0 nothing to do, 3 something would be done, 4 a pod is not helped, whatever else is done.
    """
    dumped = Dumped(**given)
    trial, cluster = try_dump(settings, dumped)
    if output == "json":
        write_json(as_json(trial, dumped.source, cluster.strays))
    else:
        print_trial(make_console(), trial, dumped.source, cluster.strays, folded=not all_pods)
    return _exit_code(trial) if detailed_exitcode else NOTHING_TO_DO


def _exit_code(trial: Trial) -> int:
    if any(verdict.fate in (Fate.UNHELPED, Fate.HALTED) for verdict in find_verdicts(trial)):
        return UNHELPED
    return GROWTH if trial.plan.actions or trial.plan.scale_down.removals else NOTHING_TO_DO
