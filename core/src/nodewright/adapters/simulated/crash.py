"""Crashes of the engine: one of the faults of a simulated world."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from nodewright.engine.ports import ProviderPort

_WRITES = frozenset(
    {"increase_size", "atomic_increase_size", "decrease_target_size", "delete_instances", "force_delete_instances"}
)


class EngineCrashed(Exception):
    """The process died here. Not of nodewright's tree of errors: nothing in the engine handles it."""


class Tripwire:
    """Kills the engine at its ``countdown``-th write from now, before the call or right after its effect."""

    def __init__(self) -> None:
        self._countdown = 0
        self._after_effect = False

    def arm(self, countdown: int = 1, *, after_effect: bool = False) -> None:
        self._countdown, self._after_effect = countdown, after_effect

    def guard(self, provider: ProviderPort) -> ProviderPort:
        """The provider, with the wire across its writes."""
        return cast("ProviderPort", _Guarded(provider, self))

    def write(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Make one call, unless the engine dies first; it may die right after, too."""
        self._countdown -= 1
        if self._countdown != 0:
            return call(*arguments)
        if self._after_effect:
            call(*arguments)
        raise EngineCrashed


class _Guarded:
    """Every method of the provider; writes touch the wire, reads are the provider's own and cost nothing more."""

    def __init__(self, provider: ProviderPort, wire: Tripwire) -> None:
        for name in dir(provider):
            if not name.startswith("_"):
                setattr(self, name, getattr(provider, name))
        for name in _WRITES:
            if hasattr(provider, name):
                setattr(self, name, partial(wire.write, getattr(provider, name)))
