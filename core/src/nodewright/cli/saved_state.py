"""The saved state of the engine: in ConfigMaps of its cluster, or in a file."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import click
from click.core import ParameterSource

from nodewright.cli.settings.known_flags import PREFIX
from nodewright.model.errors import ConfigError, NodewrightError

if TYPE_CHECKING:
    from nodewright.actuation import Pause
    from nodewright.clusterstate.memory import Memory

F = TypeVar("F", bound=Callable[..., Any])


class SavedState(Protocol):
    """The state that the engine saved, for other commands. Methods raise NodewrightError."""

    def peek(self) -> "Memory":
        """Return the saved memory and change nothing."""

    def load_pause(self) -> "Pause | None": ...
    def save_pause(self, pause: "Pause | None") -> None: ...


class Place(NamedTuple):
    """A place of saved state. ``path`` is the file, None for a cluster; ``name`` is for messages."""

    state: SavedState
    name: str
    path: Path | None


class Choice(NamedTuple):
    """The place of the state: the file ``state`` or, without it, the cluster that ``run`` would manage.

    ``is_asked_for``: the command line names the file or the cluster.
    """

    state: Path | None
    kubeconfig: str
    namespace: str
    is_asked_for: bool

    def open(self) -> Place:
        """Open the place; raise ConfigError."""
        if self.state is not None:
            from nodewright.adapters.store import FileStore  # noqa: PLC0415 - slow to import

            return Place(FileStore(self.state), str(self.state), self.state)
        return _open_cluster(self.kubeconfig, self.namespace)


def state_options(command: F) -> F:
    """Give a function ``--state``, ``--kubeconfig`` and ``--namespace``; it gets them as one argument ``choice``."""

    @functools.wraps(command)
    def with_choice(*args: Any, state: Path | None, kubeconfig: str, namespace: str, **kwargs: Any) -> Any:
        source = click.get_current_context().get_parameter_source("kubeconfig")
        named = source is ParameterSource.COMMANDLINE
        if named and state is not None:
            raise ConfigError("--state and --kubeconfig: give one of them, not both")
        choice = Choice(state, kubeconfig, namespace, is_asked_for=named or state is not None)
        return command(*args, choice=choice, **kwargs)

    options = (
        click.option(
            "--namespace",
            default="kube-system",
            show_default=True,
            envvar=f"{PREFIX}NAMESPACE",
            help="The namespace of the daemon.",
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            default="",
            envvar=f"{PREFIX}KUBECONFIG",
            help="The kubeconfig of the daemon's cluster. Default: the cluster of this pod, or else kubectl's default.",
        ),
        click.option(
            "--state",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The state file of an engine that runs without a cluster.",
        ),
    )
    decorated: Any = with_choice
    for option in options:
        decorated = option(decorated)
    return cast("F", decorated)


def is_of_an_engine(place: Place) -> bool:
    """Return whether an engine has saved something there. If not, no engine will read a pause there."""
    from nodewright.clusterstate.memory import Memory  # noqa: PLC0415 - slow to import

    try:
        return place.state.peek() != Memory()
    except NodewrightError:
        return True  # it cannot be read, but it exists


def _open_cluster(kubeconfig: str, namespace: str) -> Place:
    """Open the state that a daemon keeps in a cluster, found as ``run`` finds it.

    Raises ConfigError for a kubeconfig that cannot be used.
    """
    # The client of the API server is slow to import; a command with --state does without.
    from nodewright.adapters.kube.config_maps import ConfigMaps  # noqa: PLC0415
    from nodewright.adapters.kube.connection import connect  # noqa: PLC0415
    from nodewright.adapters.kube.store import PAUSE_NAME, ConfigMapStore, read_pause_text  # noqa: PLC0415

    connection = connect(kubeconfig=kubeconfig)
    maps = ConfigMaps(connection, namespace)

    def read_pause() -> str | None:
        held = maps.read(PAUSE_NAME)
        return read_pause_text(held.data) if held is not None else None

    store = ConfigMapStore(maps, read_pause)
    return Place(store, f"namespace {namespace} of {connection.server}", path=None)
