"""``nodewright explain``: why a node is still there, a pod waits, or a group grows or does not."""

from typing import Any

import click

from nodewright.cli.answers import KINDS, answer
from nodewright.cli.dumped_trial import Dumped, dump_options, try_dump
from nodewright.cli.explain_json import as_json
from nodewright.cli.explain_view import print_answer
from nodewright.cli.flags import SettingsCommand, settings_options
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.model.settings import Settings


@click.command("explain", cls=SettingsCommand)
@click.argument("kind", metavar="node|pod|group", type=click.Choice(list(KINDS)))
@click.argument("name", metavar="NAME")
@click.argument("dump", metavar="DUMP")
@dump_options
@output_option
@settings_options
def command(settings: Settings, kind: str, name: str, output: str, **given: Any) -> None:
    """Say why a node is still there, what would become of a pod, or why a group does not grow.

    NAME is that of a node, NAMESPACE/NAME of a pod, or PROVIDER/ID of a group. DUMP, the node groups and the
    settings are those of nodewright plan; simulate --explain does the same in a simulation.

    Exit codes: 0 explained; 2 bad input, or nothing of that name is there.
    """
    dumped = Dumped(**given)
    trial, _ = try_dump(settings, dumped)
    found = answer(trial, kind, name)
    if output == "json":
        write_json(as_json(found))
    else:
        print_answer(make_console(), found)
