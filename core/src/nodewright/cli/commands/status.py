"""``nodewright status``: what the engine has under way, what it leaves alone and for how long."""

import click

from nodewright.cli.clock import SystemClock
from nodewright.cli.daemon.ask import ask_daemon, page_query
from nodewright.cli.screen import make_console, output_option, safe, write_json
from nodewright.cli.status.place import Choice, Place, state_options
from nodewright.cli.status.view import as_json, print_status
from nodewright.engine.status import make_status
from nodewright.model.errors import ConfigError
from nodewright.model.process_settings import ServingSettings


@click.command("status")
@state_options
@click.option("--debug-address", metavar="TEXT", help="Ask the daemon there. Default: 127.0.0.1:8086, if one answers.")
@output_option
def command(choice: Choice, debug_address: str | None, output: str) -> None:
    """Node groups, scale-ups under way and when each is given up, backoffs, deletions and pauses.

    From the daemon that answers at --debug-address, which also tells how healthy everything is; without one from what
    the daemon keeps in the cluster around this pod, or in that which --kubeconfig names or else kubectl would choose;
    with --state from the file that an engine keeps. Nothing is changed.

    Exit codes: 0 shown; 2 there is no daemon and no saved state, or it cannot be used.
    """
    if debug_address is not None or not choice.is_asked_for:
        told = ask_daemon(debug_address or ServingSettings().debug_address, "/status", page_query(output))
        if told is not None:
            click.echo(told, nl=False)
            return
        if debug_address is not None:
            raise ConfigError(f"--debug-address: nobody listens at {debug_address}")
    _show_saved(_open(choice), output)


def _open(choice: Choice) -> Place:
    try:
        return choice.open()
    except ConfigError as error:
        if choice.is_asked_for:
            raise
        raise ConfigError(f"no daemon answers at {ServingSettings().debug_address}; {error}") from None


def _show_saved(place: Place, output: str) -> None:
    pause = place.state.load_pause()
    if place.path is not None and not place.path.exists() and pause is None:
        raise ConfigError(f"--state: {place.path}: there is no saved state")
    report = make_status(place.state.peek(), SystemClock().now(), pause=pause)
    if output == "json":
        write_json(as_json(report))
        return
    console = make_console()
    print_status(console, report)
    if not report.groups:
        console.print(safe(f"{place.name}: the engine has not saved anything yet."), soft_wrap=True)
