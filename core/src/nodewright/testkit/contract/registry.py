"""The list of checks, and the functions with which checks are written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError, TargetChanged
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.world import ContractWorld, Touch

T = TypeVar("T")
R = TypeVar("R")


class BrokenPromise(AssertionError):
    """The provider breaks the contract; the message is one sentence that says how."""


@dataclass(frozen=True)
class Check:
    """One demand of the contract.

    ``touches`` says what the check does to the cloud. A check with a ``capability`` runs only for providers that have it.
    """

    name: str
    demand: str
    promise: Promise
    touches: Touch
    capability: Capability | None
    run: Callable[[ContractWorld], None]

    def __str__(self) -> str:
        return self.name


CHECKS: list[Check] = []


def check(
    promise: Promise, *, touches: Touch = Touch.READS, capability: Capability | None = None
) -> Callable[[Callable[[ContractWorld], None]], Callable[[ContractWorld], None]]:
    """Add the decorated function to the suite. Its name is the check's name; its docstring's first line is the demand."""

    def register(function: Callable[[ContractWorld], None]) -> Callable[[ContractWorld], None]:
        demand = (function.__doc__ or function.__name__).splitlines()[0]
        name = function.__name__
        made = Check(name=name, demand=demand, promise=promise, touches=touches, capability=capability, run=function)
        CHECKS.append(made)
        return function

    return register


def demand(holds: bool, sentence: str) -> None:
    """Raise BrokenPromise with this sentence unless ``holds`` is true."""
    if not holds:
        raise BrokenPromise(sentence)


def refusal(call: Callable[[], object], what: str) -> ProviderError:
    """Return the ProviderError with which the provider refuses ``call``.

    Raise BrokenPromise if the call succeeds, or if it raises an error outside nodewright.model.errors.
    """
    try:
        answer = call()
    except ProviderError as error:
        demand(
            error.code != "unexpectedError", f"{what} raised an error that is not in nodewright.model.errors: {error}"
        )
        return error
    raise BrokenPromise(f"{what} was not refused, it returned {answer!r}")


def demand_target_changed(call: Callable[[], object], what: str) -> None:
    """Raise BrokenPromise unless the provider refuses ``call`` with TargetChanged."""
    error = refusal(call, what)
    demand(isinstance(error, TargetChanged), f"{what} raised {type(error).__name__}, not TargetChanged")


def unless_refused(call: Callable[[], T], refused: R, what: str) -> T | R:
    """Return the result of ``call``, or ``refused`` if it raises a ProviderError.

    Raise BrokenPromise if it raises an error outside nodewright.model.errors.
    """
    try:
        return call()
    except ProviderError as error:
        demand(error.code != "unexpectedError", f"{what} crashed: {error}")
        return refused
