"""``nodewright savings``: the moves that would pay, in dollars a month. It changes nothing."""

from typing import Any

import click

from nodewright.cli.dry_run.dump_options import DumpSource, dump_options
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options


@click.command("savings", cls=SettingsCommand)
@click.argument("dump", metavar="[DUMP]", required=False)
@dump_options
@output_option
@source_options
def command(source: SettingsSource, dump: str | None, output: str, **given: Any) -> None:
    """Show which nodes could be given up because their pods cost less elsewhere, in dollars a month. Do nothing.

    DUMP, node groups and settings are those of nodewright plan; groups need prices. Without DUMP it looks at the cluster that
    --kubeconfig names, or at the cluster of this pod. The policy is --consolidation-policy, or balanced where that is off.

    Exit codes: 0 shown, even if nothing pays; 2 bad input.
    """
    from nodewright.cli.dry_run.dry_run import plan_cluster
    from nodewright.cli.dry_run.dump import plan_dump
    from nodewright.cli.savings_view import as_json, find_savings, print_savings

    loaded = source.load()
    settings = loaded.settings
    if dump is None:
        dry_run = plan_cluster(settings, given["seed"])
    else:
        dry_run, _ = plan_dump(settings, DumpSource(dump=dump, given=loaded.given_fields, **given))
    found = find_savings(dry_run)
    if output == "json":
        write_json(as_json(dry_run, found))
    else:
        print_savings(make_console(), dry_run, found)
