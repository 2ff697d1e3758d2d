"""``nodewright resume``: the end of a pause, before its time."""

from pathlib import Path

import click

from nodewright.adapters.store import FileStore
from nodewright.cli.state_path import find_state_path, state_option


@click.command("resume")
@state_option
def command(state: Path | None) -> None:
    """End a pause before its time. Without a pause nothing changes.

    Exit codes: 0 not paused; 2 the file cannot be removed.
    """
    path = find_state_path(state)
    FileStore(path).save_pause(None)
    click.echo(f"Writes to clouds are not paused ({path}).")
