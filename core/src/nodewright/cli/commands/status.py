"""``nodewright status``: what the engine has under way, which groups it does not grow and for how long."""

import click

from nodewright.adapters.clocks import SystemClock
from nodewright.cli.debug_client import ask_daemon, page_query
from nodewright.cli.saved_state import Choice, Place, state_options
from nodewright.cli.screen import make_console, output_option, safe, write_json
from nodewright.model.errors import ConfigError
from nodewright.model.settings import ServingSettings


@click.command("status")
@state_options
@click.option(
    "--debug-address",
    metavar="TEXT",
    help="Address of the daemon to read from. Default: 127.0.0.1:8086, if a daemon answers there.",
)
@output_option
def command(choice: Choice, debug_address: str | None, output: str) -> None:
    """Show node groups, scale-ups in progress and their deadlines, backoffs, deletions and pauses. Change nothing.

    The status comes from the daemon at --debug-address, which also reports health. If no daemon answers, it comes from
    the saved state: in the cluster that --kubeconfig names, in the cluster of this pod, or else in kubectl's default
    cluster. With --state it comes from the state file.

    Exit codes: 0 shown; 2 there is neither a daemon nor saved state, or it cannot be read.
    """
    if debug_address is not None or not choice.is_asked_for:
        answer = ask_daemon(debug_address or ServingSettings().debug_address, "/status", page_query(output))
        if answer is not None:
            click.echo(answer, nl=False)
            return
        if debug_address is not None:
            raise ConfigError(f"--debug-address: no process listens at {debug_address}")
    _show_saved(_open(choice), output)


def _open(choice: Choice) -> Place:
    try:
        return choice.open()
    except ConfigError as error:
        if choice.is_asked_for:
            raise
        raise ConfigError(f"no daemon answers at {ServingSettings().debug_address}; {error}") from None


def _show_saved(place: Place, output: str) -> None:
    from nodewright.cli.status_view import as_json, print_status
    from nodewright.engine.status import make_status

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
