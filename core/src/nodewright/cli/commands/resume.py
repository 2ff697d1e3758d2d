"""``nodewright resume``: the end of a pause, before its time."""

import click

from nodewright.cli.status.state_path import Place, state_options


@click.command("resume")
@state_options
def command(place: Place) -> None:
    """End a pause before its time. Without a pause nothing changes.

    Exit codes: 0 not paused; 2 the file cannot be removed.
    """
    place.state.save_pause(None)
    click.echo(f"Writes to clouds are not paused ({place.name}).")
