"""``nodewright status``: what the engine has under way, what it leaves alone and for how long."""

import click

from nodewright.cli.clock import SystemClock
from nodewright.cli.screen import make_console, output_option, safe, write_json
from nodewright.cli.state_path import Place, state_options
from nodewright.cli.status_view import as_json, print_status
from nodewright.engine.status import make_status
from nodewright.model.errors import ConfigError
from nodewright.model.settings import SafetySettings


@click.command("status")
@state_options
@output_option
def command(place: Place, output: str) -> None:
    """Node groups, scale-ups under way and when each is given up, backoffs, deletions and pauses.

    From the state file that the engine keeps or, with --kubeconfig, from what the daemon of that cluster keeps
    there. It stays as it is.

    Exit codes: 0 shown; 2 there is no such file, or it cannot be used.
    """
    pause = place.state.load_pause()
    if place.path is not None and not place.path.exists() and pause is None:
        raise ConfigError(f"--state: {place.path}: there is no saved state")
    window = SafetySettings().deletion_window
    report = make_status(place.state.peek(), SystemClock().now(), pause=pause, window=window)
    if output == "json":
        write_json(as_json(report))
        return
    console = make_console()
    print_status(console, report)
    if not report.groups:
        console.print(safe(f"{place.name}: the engine has not saved anything yet."), soft_wrap=True)
