"""``nodewright top``: the daemon's page in a terminal."""

import sys
from collections.abc import Callable
from typing import NoReturn

import click

from nodewright.adapters.clocks import SystemClock
from nodewright.cli.debug_client import ask_daemon, debug_address_option, page_query
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError

_PIPE_LINES = 60
_EVERY_SECONDS = 2.0


@click.command("top")
@debug_address_option
@click.option("--once", is_flag=True, help="Print one screen and exit, as is done if the output is not a terminal.")
def command(debug_address: str, once: bool) -> None:
    """Show what the daemon does now: groups, waiting pods, nodes with their utilization and why each is still here.

    The screen is that of the page at --debug-address, and follows the loops until Ctrl-C, also if the daemon does not
    answer for a while. With kubectl port-forward deploy/nodewright 8086 it shows a daemon in a cluster.

    Exit codes: 0 shown; 2 no daemon answers, or it has nothing to show yet; 130 ended by Ctrl-C.
    """

    def ask() -> str:
        answer = ask_daemon(debug_address, "/top", page_query("table") | {"height": str(_find_lines())})
        if answer is None:
            raise ConfigError(f"--debug-address: no daemon listens at {debug_address}")
        return answer

    if sys.stdout.isatty() and not once:
        follow(ask, SystemClock())
    click.echo(ask(), nl=False)


def follow(ask: Callable[[], str], clock: Clock) -> NoReturn:
    """Show one screen after another. Raise ConfigError if the first one fails; show later errors below the last screen."""
    screen, refusal = ask(), ""
    while True:
        click.clear()
        click.echo(screen, nl=False)
        if refusal:
            click.echo(refusal)
        clock.sleep(_EVERY_SECONDS)
        try:
            screen, refusal = ask(), ""
        except ConfigError as error:
            refusal = str(error)


def _find_lines() -> int:
    """Return how many lines the terminal has."""
    from shutil import get_terminal_size

    return get_terminal_size((0, _PIPE_LINES)).lines if sys.stdout.isatty() else _PIPE_LINES
