"""``nodewright resume``: the end of a pause, before its time."""

import click

from nodewright.cli.saved_state import Choice, state_options, warn_without_engine


@click.command("resume")
@state_options
def command(choice: Choice) -> None:
    """End a pause before its time. The options name the engine as for nodewright pause. Without a pause do nothing.

    Exit codes: 0 not paused; 2 bad input, or the pause cannot be ended.
    """
    place = choice.open()
    place.state.save_pause(None)
    click.echo(f"Writes to clouds are not paused ({place.name}).")
    warn_without_engine(place)
