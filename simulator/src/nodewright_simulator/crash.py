"""Crashes of the engine: one of the faults of a simulated world."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar, cast

from nodewright.engine.ports import ProviderPort
from nodewright.spec.hooks import WRITE_HOOKS

T = TypeVar("T")


class EngineCrashed(Exception):
    """The process died here. Not of nodewright's tree of errors: nothing in the engine handles it."""


class Boundary(NamedTuple):
    """A point at which an engine may die: ``before`` or ``after`` something that it leaves behind.

    After a call that took effect its answer is lost, as it is when the engine dies before it does anything else.
    """

    call: str
    side: str


SAVE = "save"
BEFORE, AFTER = "before", "after"


class Tripwire:
    """Kill the engine at a chosen write.

    ``passed`` are the write boundaries that the engine has reached so far, ``answer`` is what the last call returned; None
    while it has not been made.
    """

    def __init__(self) -> None:
        self.passed: list[Boundary] = []
        self.answer: object = None
        self._countdown = 0
        self._counts: Callable[[Boundary], bool] = _any

    def arm(self, countdown: int = 1, *, after_effect: bool = False) -> None:
        """Crash at the ``countdown``-th write to a cloud from now, before the call or right after its effect."""
        side = AFTER if after_effect else BEFORE
        self._countdown, self._counts = countdown, lambda reached: reached.call in WRITE_HOOKS and reached.side == side

    def arm_boundary(self, number: int) -> None:
        """Crash at the boundary of that number from now, counted from 1."""
        self._countdown, self._counts = number, _any

    def guard(self, provider: ProviderPort) -> ProviderPort:
        """Return the provider, wrapped so that the engine can die at its writes."""
        return cast("ProviderPort", _Guarded(provider, self))

    def cross(self, name: str, call: Callable[..., T], *arguments: object) -> T:
        """Make one call, unless the engine dies first; it may die right after, too."""
        self.answer = None
        self._reach(Boundary(name, BEFORE))
        self.answer = answer = call(*arguments)
        self._reach(Boundary(name, AFTER))
        return answer

    def _reach(self, boundary: Boundary) -> None:
        self.passed.append(boundary)
        self._countdown -= self._counts(boundary)
        if self._counts(boundary) and not self._countdown:
            raise EngineCrashed


def _any(_: Boundary) -> bool:
    return True


class _Guarded:
    """Every method of the provider; writes touch the wire, reads are the provider's own and cost nothing more."""

    def __init__(self, provider: ProviderPort, wire: Tripwire) -> None:
        for name in dir(provider):
            if not name.startswith("_"):
                setattr(self, name, getattr(provider, name))
        for name in WRITE_HOOKS:
            if hasattr(provider, name):
                setattr(self, name, partial(wire.cross, name, getattr(provider, name)))
