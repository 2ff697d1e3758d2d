"""``nodewright explain``: why a node is still there, a pod waits, or a group grows or does not."""

from typing import TYPE_CHECKING, Any

import click

from nodewright.cli.debug_client import ask_daemon, page_query
from nodewright.cli.dry_run.dump_options import DumpSource, dump_options
from nodewright.cli.screen import make_console, output_option, write_json
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options
from nodewright.model.settings import Settings

if TYPE_CHECKING:
    from nodewright.cli.dry_run.dry_run import DryRun

# The keys of nodewright.cli.explanation.KINDS, which is slow to import.
KIND_NAMES = ("node", "pod", "group", "request", "buffer", "loop")
_NAMELESS = "loop"


@click.command("explain", cls=SettingsCommand)
@click.argument("kind", metavar="node|pod|group|request|buffer|loop", type=click.Choice(KIND_NAMES))
@click.argument("name", metavar="[NAME]", default="")
@click.argument("dump", metavar="[DUMP]", required=False)
@dump_options
@output_option
@source_options
def command(source: SettingsSource, kind: str, name: str, dump: str | None, output: str, **given: Any) -> None:
    """Say why a node is kept, what happens to a pod, why a group does not grow, or the state of a request or buffer.

    explain loop, without a NAME, says what the last loop did, or why it did nothing.

    NAME is the name of a node, NAMESPACE/NAME of a pod, a ProvisioningRequest or a CapacityBuffer (without NAMESPACE:
    of namespace default), or PROVIDER/ID of a group. With DUMP, node groups and settings work as for nodewright plan. Without DUMP, the answer comes from the
    daemon at --debug-address. If no daemon answers, explain runs one loop without writes, on the cluster that
    --kubeconfig names or on the cluster of this pod. simulate --explain does the same in a simulation.

    Exit codes: 0 explained; 2 bad input, or the named object does not exist.
    """
    loaded = source.load()
    settings = loaded.settings
    if kind == _NAMELESS and name and dump is None:
        name, dump = "", name
    if kind != _NAMELESS and not name:
        raise click.UsageError("Missing argument 'NAME'", click.get_current_context())
    if dump is None:
        answer = ask_daemon(
            settings.serving.debug_address, "/explain", {"kind": kind, "name": name} | page_query(output)
        )
        if answer is not None:
            click.echo(answer, nl=False)
            return
        dry_run = _try_live(settings, given["seed"])
    else:
        from nodewright.cli.dry_run.dump import plan_dump

        dry_run, _ = plan_dump(settings, DumpSource(dump=dump, given=loaded.given_fields, **given))
    from nodewright.cli.explanation import explain
    from nodewright.cli.explanation_view import as_json, print_explanation

    found = explain(dry_run, kind, name)
    if output == "json":
        write_json(as_json(found))
    else:
        print_explanation(make_console(), found)


def _try_live(settings: Settings, seed: int) -> "DryRun":
    address = settings.serving.debug_address
    where = f" at {address}" if address else ""
    click.echo(f"No daemon answers{where}: this is the result of one loop without memory of earlier loops.", err=True)
    from nodewright.cli.dry_run.dry_run import plan_cluster

    return plan_cluster(settings, seed)
