"""Faults of calls: refusals, throttling, slowness, hangs, partial acceptance, wrong sizes, crashes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.spec import (
    AccessDenied,
    Clock,
    FailureScope,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    Throttled,
)
from nodewright_fake.delays import Seconds

HANG_SECONDS = 10_000_000.0
_CALM: AbstractContextManager[None] = nullcontext()

_REFUSALS: dict[str, Callable[[str], ProviderError]] = {
    "out_of_capacity": OutOfCapacity,
    "quota": QuotaExceeded,
    "access_denied": AccessDenied,
    "unavailable": ProviderUnavailable,
    "other": ProviderError,
}


class CallFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Concerns calls of ``hook`` for ``group`` (``*``: any) between ``start`` and ``end``, at most ``times`` calls.

    Seconds count from when the cloud was built.
    """

    hook: str = "*"
    group: str = "*"
    start: Seconds = Seconds(0)
    end: Seconds = Seconds("inf")
    times: Annotated[int, Meta(ge=1)] | None = None


class Refuse(CallFault, frozen=True, kw_only=True, tag="refuse"):
    """The cloud refuses the call: out_of_capacity, quota, access_denied, unavailable or other.

    ``scope`` and ``bucket`` are those that the error reports for out_of_capacity and quota.
    """

    error: Annotated[str, Meta(pattern="^(out_of_capacity|quota|access_denied|unavailable|other)$")] = "other"
    message: str = "refused by the fake cloud"
    scope: FailureScope = FailureScope.GROUP
    bucket: str = ""


class Throttle(CallFault, frozen=True, kw_only=True, tag="throttle"):
    """The cloud refuses the call and asks to repeat it after ``retry_after``."""

    retry_after: Seconds = Seconds(1)


class InProgress(CallFault, frozen=True, kw_only=True, tag="in_progress"):
    """The cloud refuses the call because another operation holds the group; the error carries ``retry_after``."""

    retry_after: Seconds = Seconds(1)


class Slow(CallFault, frozen=True, kw_only=True, tag="slow"):
    """The call takes ``seconds``. ``takes_effect`` says whether its effect comes before (first) or after (last) them."""

    seconds: Seconds
    takes_effect: Annotated[str, Meta(pattern="^(first|last)$")] = "last"


class Hang(CallFault, frozen=True, kw_only=True, tag="hang"):
    """The call never returns. ``takes_effect`` says whether its effect comes at once (first) or never."""

    takes_effect: Annotated[str, Meta(pattern="^(first|never)$")] = "never"


class Partial(CallFault, frozen=True, kw_only=True, tag="partial"):
    """The cloud accepts a write for at most ``at_most`` machines."""

    at_most: Annotated[int, Meta(ge=0)]


class WrongSize(CallFault, frozen=True, kw_only=True, tag="wrong_size"):
    """``target_size`` returns the target plus ``off_by``."""

    off_by: int


class Crash(CallFault, frozen=True, kw_only=True, tag="crash"):
    """The plugin raises an error that is no ProviderError."""

    message: str = "the fake provider crashed, as configured"


Fault = Refuse | Throttle | InProgress | Slow | Hang | Partial | WrongSize | Crash


class Faults:
    """The faults in force, and how often each was applied."""

    def __init__(self, clock: Clock, faults: tuple[Fault, ...] = ()) -> None:
        self._clock = clock
        self._built = clock.now()
        self._faults = list(faults)
        self._struck: dict[int, int] = {}

    def inject(self, fault: Fault) -> Fault:
        """Put a fault in force and return it; pass it to ``clear`` to end it."""
        self._faults.append(fault)
        return fault

    def clear(self, fault: Fault | None = None) -> None:
        """End this fault; None: end all faults."""
        self._faults = [] if fault is None else [other for other in self._faults if other is not fault]

    def around(self, hook: str, group_id: str = "") -> AbstractContextManager[None]:
        """Return a context that applies the faults in force to one call, before and after its effect."""
        return self._around(hook, group_id) if self._faults else _CALM

    @contextmanager
    def _around(self, hook: str, group_id: str) -> Iterator[None]:
        struck = self._strike(hook, group_id, (Refuse, Throttle, InProgress, Slow, Hang, Crash))
        for fault in struck:
            self._before(fault)
        yield
        for fault in struck:
            self._after(fault)

    def at_most(self, hook: str, group_id: str, asked: int) -> int:
        """Return for how many of ``asked`` machines a write is accepted."""
        limits = [fault.at_most for fault in self._strike(hook, group_id, (Partial,)) if isinstance(fault, Partial)]
        return min([asked, *limits])

    def size_error(self, group_id: str) -> int:
        """Return the number that is added to the reported target."""
        errors = self._strike("target_size", group_id, (WrongSize,))
        return sum(fault.off_by for fault in errors if isinstance(fault, WrongSize))

    def _before(self, fault: Fault) -> None:
        match fault:
            case Refuse():
                error = _REFUSALS[fault.error](fault.message)
                if isinstance(error, Shortage):
                    error.scope, error.bucket = fault.scope, fault.bucket
                raise error
            case Throttle():
                raise Throttled("too many calls to the fake cloud", retry_after=fault.retry_after)
            case InProgress():
                raise OperationInProgress("an operation of the group is in progress", retry_after=fault.retry_after)
            case Crash():
                raise RuntimeError(fault.message)
            case Slow() if fault.takes_effect == "last":
                self._clock.sleep(fault.seconds)
            case Hang() if fault.takes_effect == "never":
                self._clock.sleep(HANG_SECONDS)

    def _after(self, fault: Fault) -> None:
        match fault:
            case Slow() if fault.takes_effect == "first":
                self._clock.sleep(fault.seconds)
            case Hang():
                self._clock.sleep(HANG_SECONDS)

    def _strike(self, hook: str, group_id: str, kinds: tuple[type, ...]) -> list[Fault]:
        age = self._clock.now() - self._built
        struck = [
            fault
            for fault in self._faults
            if isinstance(fault, kinds)
            and fault.hook in ("*", hook)
            and fault.group in ("*", group_id)
            and fault.start <= age < fault.end
            and (fault.times is None or self._struck.get(id(fault), 0) < fault.times)
        ]
        for fault in struck:
            self._struck[id(fault)] = self._struck.get(id(fault), 0) + 1
        return struck
