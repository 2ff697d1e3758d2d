"""nodewright: a Kubernetes node autoscaler whose clouds are plugins."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    # Runs a scenario: nodewright_simulator.api.simulate, which says the arguments.
    simulate: Callable[..., Any]
else:

    def __getattr__(name: str) -> Any:
        """Return ``simulate`` as the simulator offers it, of which the core imports nothing.

        Raise ImportError if the simulator is not installed.
        """
        if name != "simulate":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import

        for offered in entry_points(group="nodewright.functions", name=name):
            return offered.load()
        raise ImportError('nodewright.simulate needs the simulator: pip install "nodewright[simulator]"')
