"""PUBLIC: test helpers for plugin authors and simulations."""

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from nodewright.adapters.clocks import VirtualClock as FakeClock
from nodewright.testkit.builders import (
    build_group,
    build_node,
    build_owner,
    build_pod,
    build_resources,
    build_taint,
    build_template,
)

__all__ = [
    "FakeClock",
    "build_group",
    "build_node",
    "build_owner",
    "build_pod",
    "build_resources",
    "build_taint",
    "build_template",
]

if TYPE_CHECKING:
    from collections.abc import Callable

    # Runs the whole engine against a provider: nodewright_simulator.testkit.play, which documents the arguments.
    play: Callable[..., Any]
else:

    def __getattr__(name: str) -> Any:
        """Return ``play`` from the simulator's entry point: the core imports nothing of the simulator.

        Raise ImportError if the simulator is not installed.
        """
        if name != "play":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for offered in entry_points(group=__name__, name=name):
            return offered.load()
        raise ImportError("nodewright.testkit.play needs the simulator: pip install 'nodewright[simulator]'")
