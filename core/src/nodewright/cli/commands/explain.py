"""``nodewright explain``: why a node is still there, a pod waits, or a group grows or does not."""

from importlib import import_module
from typing import Any

import click

from nodewright.cli.daemon.ask import ask_daemon, page_query
from nodewright.cli.dry_run.dumped_trial import Dumped, dump_options, try_dump
from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.explain.answers import KINDS, answer
from nodewright.cli.explain.json import as_json
from nodewright.cli.explain.view import print_answer
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.settings.flags import SettingsCommand, settings_options
from nodewright.model.settings import Settings


@click.command("explain", cls=SettingsCommand)
@click.argument("kind", metavar="node|pod|group|request|buffer", type=click.Choice(list(KINDS)))
@click.argument("name", metavar="NAME")
@click.argument("dump", metavar="[DUMP]", required=False)
@dump_options
@output_option
@settings_options
def command(settings: Settings, kind: str, name: str, dump: str | None, output: str, **given: Any) -> None:
    """Say why a node is still there, what would become of a pod, why a group does not grow, or how a request or a
    buffer stands.

    NAME is that of a node, NAMESPACE/NAME of a pod, a ProvisioningRequest or a CapacityBuffer, or PROVIDER/ID of a
    group. With DUMP, the node groups and the settings are those of nodewright plan. Without, the daemon at
    --debug-address is asked; where none answers, one loop is run on the cluster that --kubeconfig names, or on the one
    around this pod, without its writes. simulate --explain does the same in a simulation.

    Exit codes: 0 explained; 2 bad input, or nothing of that name is there.
    """
    if dump is None:
        told = ask_daemon(settings.serving.debug_address, "/explain", {"kind": kind, "name": name} | page_query(output))
        if told is not None:
            click.echo(told, nl=False)
            return
        trial = _try_live(settings, given["seed"])
    else:
        trial, _ = try_dump(settings, Dumped(dump=dump, **given))
    found = answer(trial, kind, name)
    if output == "json":
        write_json(as_json(found))
    else:
        print_answer(make_console(), found)


def _try_live(settings: Settings, seed: int) -> Trial:
    address = settings.serving.debug_address
    where = f" at {address}" if address else ""
    click.echo(f"No daemon answers{where}: this is what one loop without memory would say.", err=True)
    # The client of the API server takes its time to import: only who needs a cluster waits for it.
    trial: Trial = import_module("nodewright.cli.dry_run.live_trial").try_live(settings, seed)
    return trial
