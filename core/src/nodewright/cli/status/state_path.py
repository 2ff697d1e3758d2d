"""Where the engine keeps its state: a file, or ConfigMaps of the cluster that a kubeconfig leads to."""

import functools
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import click

from nodewright.act import Pause
from nodewright.adapters.store import FileStore
from nodewright.model.errors import ConfigError
from nodewright.registry.state import Memory

F = TypeVar("F", bound=Callable[..., Any])


class SavedState(Protocol):
    """What is saved, for somebody who is not the engine. Each raises NodewrightError."""

    def peek(self) -> Memory:
        """What is saved; it stays as it is."""

    def load_pause(self) -> Pause | None: ...
    def save_pause(self, pause: Pause | None) -> None: ...


class Place(NamedTuple):
    """``path`` is None for a cluster; ``name`` says it to people; ``chosen`` when somebody asked for this one."""

    state: SavedState
    name: str
    path: Path | None
    chosen: bool


def state_options(command: F) -> F:
    """Give a function ``--state``, ``--kubeconfig`` and ``--namespace``; it gets them as one argument ``place``."""

    @functools.wraps(command)
    def with_place(*args: Any, state: Path | None, kubeconfig: str | None, namespace: str, **kwargs: Any) -> Any:
        return command(*args, place=find_place(state, kubeconfig, namespace), **kwargs)

    options = (
        click.option("--namespace", default="kube-system", show_default=True, help="The daemon's, with --kubeconfig."),
        click.option("--kubeconfig", metavar="FILE", help="The daemon of that cluster, instead of a state file."),
        click.option(
            "--state",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The engine's state file. Default: nodewright/state.json in $XDG_STATE_HOME or ~/.local/state.",
        ),
    )
    decorated: Any = with_place
    for option in options:
        decorated = option(decorated)
    return cast("F", decorated)


def find_place(state: Path | None, kubeconfig: str | None, namespace: str) -> Place:
    """Raises ConfigError."""
    if kubeconfig is None:
        path = find_state_path(state)
        return Place(FileStore(path), str(path), path, chosen=state is not None)
    if state is not None:
        raise ConfigError("--state and --kubeconfig: give one of them, not both")
    # The client of the API server takes its time to import: only who asks for a cluster waits for it.
    opened: SavedState = import_module("nodewright.cli.status.cluster_state").open_cluster_state(kubeconfig, namespace)
    return Place(opened, f"namespace {namespace} of {kubeconfig}", None, chosen=True)


def find_state_path(given: Path | None) -> Path:
    """The file that ``--state`` names, or the usual one; raises ConfigError for a user without a home."""
    if given is not None:
        return given
    try:
        home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    except RuntimeError:
        raise ConfigError("--state: there is no home directory to look for it in; name the file") from None
    return Path(home) / "nodewright" / "state.json"
