"""``nodewright status``: what the engine has under way, what it leaves alone and for how long."""

import click

from nodewright.cli.clock import SystemClock
from nodewright.cli.daemon.ask import ask_daemon, page_query
from nodewright.cli.screen import make_console, output_option, safe, write_json
from nodewright.cli.status.state_path import Place, state_options
from nodewright.cli.status.view import as_json, print_status
from nodewright.engine.status import make_status
from nodewright.model.errors import ConfigError
from nodewright.model.settings import ServingSettings


@click.command("status")
@state_options
@click.option("--debug-address", metavar="TEXT", help="Ask the daemon there. Default: 127.0.0.1:8086, if one answers.")
@output_option
def command(place: Place, debug_address: str | None, output: str) -> None:
    """Node groups, scale-ups under way and when each is given up, backoffs, deletions and pauses.

    From the daemon that answers at --debug-address, which also tells how healthy everything is; without one from the
    state file that an engine keeps or, with --kubeconfig, from what the daemon of that cluster keeps there. Nothing is
    changed.

    Exit codes: 0 shown; 2 there is no daemon and no such file, or it cannot be used.
    """
    if debug_address is not None or not place.chosen:
        told = ask_daemon(debug_address or ServingSettings().debug_address, "/status", page_query(output))
        if told is not None:
            click.echo(told, nl=False)
            return
        if debug_address is not None:
            raise ConfigError(f"--debug-address: nobody listens at {debug_address}")
    _show_saved(place, output)


def _show_saved(place: Place, output: str) -> None:
    pause = place.state.load_pause()
    if place.path is not None and not place.path.exists() and pause is None:
        asked = "" if place.chosen else f", and no daemon answers at {ServingSettings().debug_address}"
        raise ConfigError(f"--state: {place.path}: there is no saved state{asked}")
    report = make_status(place.state.peek(), SystemClock().now(), pause=pause)
    if output == "json":
        write_json(as_json(report))
        return
    console = make_console()
    print_status(console, report)
    if not report.groups:
        console.print(safe(f"{place.name}: the engine has not saved anything yet."), soft_wrap=True)
