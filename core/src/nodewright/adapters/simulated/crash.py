"""Crashes of the engine: one of the faults of a simulated world."""

from collections.abc import Callable
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

    def write(self, call: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        """Make one call, unless the engine dies first; it may die right after, too."""
        self._countdown -= 1
        if self._countdown != 0:
            return call(*arguments)
        if self._after_effect:
            call(*arguments)
        raise EngineCrashed


class _Guarded:
    """Passes every attribute on; writes touch the wire."""

    def __init__(self, provider: ProviderPort, wire: Tripwire) -> None:
        self._provider = provider
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._provider, name)
        if name not in _WRITES:
            return found
        return lambda *arguments: self._wire.write(found, arguments)
