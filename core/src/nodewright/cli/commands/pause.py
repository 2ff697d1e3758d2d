"""``nodewright pause`` and ``nodewright resume``: no write to any cloud for a while, and the end of that before its time."""

from pathlib import Path

import click

from nodewright.adapters.clocks import SystemClock
from nodewright.cli.saved_state import Choice, is_of_an_engine, state_options
from nodewright.model.duration import format_moment, parse_duration
from nodewright.model.errors import ConfigError

_LONGEST = 366 * 86_400.0


@click.command("pause")
@click.option("--for", "length", metavar="DURATION", required=True, help="Length of the pause, for example 30m or 2h.")
@click.option("--force", is_flag=True, help="Pause even where no engine has saved its state yet.")
@state_options
def command(length: str, force: bool, choice: Choice) -> None:
    """Stop all writes to all clouds for the given time.

    The engine continues to observe, plan and report. When the pause ends it writes again without a further command. A
    new pause replaces an earlier one. A pause also holds for a daemon that is restarted meanwhile. It applies to the
    daemon of the cluster that --kubeconfig names, of the cluster of this pod, or else of kubectl's default cluster;
    with --state, to the engine with that state file.

    Where no engine has saved its state, as in a wrong namespace, nothing is written without --force.

    Exit codes: 0 paused; 2 bad input, no engine is there, or the pause cannot be written.
    """
    from nodewright.actuation import Pause

    seconds = _read_length(length)
    place, now = choice.open(), SystemClock().now()
    if not force and not is_of_an_engine(place):
        raise ConfigError(
            f"no engine has saved its state in {place.name}, so that no engine would obey; --force pauses all the same"
        )
    ordered = Pause(since=now, until=now + seconds)
    if place.path is not None:
        _make_folder(place.path.parent)
    place.state.save_pause(ordered)
    click.echo(f"Writes to clouds are paused until {format_moment(ordered.until)} ({place.name}).")


def _read_length(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--for: {error}") from None
    if not 0 < seconds <= _LONGEST:
        raise ConfigError(f"--for: {text}: a pause must last longer than 0 s and at most 366 days")
    return seconds


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--state: {folder}: {error.strerror}") from None


@click.command("resume")
@state_options
def resume(choice: Choice) -> None:
    """End a pause before its time. The options name the engine as for nodewright pause. Without a pause do nothing.

    Exit codes: 0 not paused; 2 bad input, or the pause cannot be ended.
    """
    place = choice.open()
    place.state.save_pause(None)
    click.echo(f"Writes to clouds are not paused ({place.name}).")
    if not is_of_an_engine(place):
        click.echo(f"No engine has saved its state in {place.name} yet: check that this is the right place.", err=True)
