"""Where the state file is, unless somebody says otherwise."""

import os
from pathlib import Path

import click

state_option = click.option(
    "--state",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The engine's state file. Default: nodewright/state.json in $XDG_STATE_HOME or ~/.local/state.",
)


def find_state_path(given: Path | None) -> Path:
    """The file that ``--state`` names, or the usual one."""
    if given is not None:
        return given
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "nodewright" / "state.json"
