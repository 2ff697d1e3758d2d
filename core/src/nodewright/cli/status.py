"""``nodewright status``: what the engine has under way, what it leaves alone and for how long."""

from pathlib import Path

import click

from nodewright.adapters.store import FileStore
from nodewright.cli.clock import SystemClock
from nodewright.cli.screen import make_console, output_option, safe, write_json
from nodewright.cli.state_path import find_state_path, state_option
from nodewright.cli.status_view import as_json, print_status
from nodewright.engine.status import make_status
from nodewright.model.errors import ConfigError
from nodewright.model.settings import SafetySettings


@click.command("status")
@state_option
@output_option
def command(state: Path | None, output: str) -> None:
    """Node groups, scale-ups under way and when each is given up, backoffs, deletions and pauses.

    From the state file that the engine keeps. The file stays as it is.

    Exit codes: 0 shown; 2 there is no such file, or it cannot be used.
    """
    path = find_state_path(state)
    store = FileStore(path)
    pause = store.load_pause()
    if not path.exists() and pause is None:
        raise ConfigError(f"--state: {path}: there is no saved state")
    window = SafetySettings().deletion_window
    report = make_status(store.peek(), SystemClock().now(), pause=pause, window=window)
    if output == "json":
        write_json(as_json(report))
        return
    console = make_console()
    print_status(console, report)
    if not report.groups:
        console.print(safe(f"{path}: the engine has not saved anything yet."), soft_wrap=True)
