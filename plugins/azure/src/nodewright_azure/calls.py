"""How every call of the SDK is made: counted, within the budget, page by page, with its error translated once.

The SDK does not retry: the core repeats reads and settles writes, and retries at two levels would multiply.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from nodewright.spec import AccessDenied, Clock, NodeGroupNotFound, ProviderError, ProviderUnavailable, Throttled
from nodewright.spec.meter import Meter, read_retry_after
from nodewright_azure.errors import NO_CREDENTIALS, OF_SUBSCRIPTION, Refusal, refusal

T = TypeVar("T")
_EVERY_CALL = ("", "")


class Calls:
    """Calls about one resource group; ``place`` names it in messages. Thread-safe."""

    def __init__(self, meter: Meter, clock: Clock, place: str) -> None:
        self._meter = meter
        self._clock = clock
        self._held_until: dict[tuple[str, str], float] = {}
        self.place = place

    def call(self, operation: str, call: Callable[[], T], *, about: str = "", urgent: bool = False) -> T:
        """Make one call. ``urgent``: the budget does not delay it; for writes and the reads that belong to them.

        ``about`` names the set: Azure throttles each set for itself, and the subscription. Raise Throttled without
        calling while Azure's Retry-After for the same call, or for the subscription, lasts.
        """
        self._respect(operation, about)
        return self._meter.call(operation, lambda: self._send(operation, call, about), urgent=urgent)

    def listed(self, operation: str, pages: Any, kind: type[T], *, about: str = "") -> list[T]:
        """Return all items of a paged list of the SDK."""
        raw = [one.as_dict() for page in self._pages(operation, pages.by_page(), about) for one in page]
        return convert(raw, list[kind])  # type: ignore[valid-type]  # the type is only known when it is asked for

    def _pages(self, operation: str, pages: Any, about: str) -> Iterator[list[Any]]:
        """Yield the pages, one call each."""
        while True:
            yield self.call(operation, lambda: list(next(pages)), about=about)
            if not pages.continuation_token:
                return

    def _respect(self, operation: str, about: str) -> None:
        """Raise Throttled if Azure refused the same call and its Retry-After is not over: a call would prolong it."""
        until = max(self._held_until.get(key, 0.0) for key in ((operation, about.lower()), _EVERY_CALL))
        left = until - self._clock.now()
        if left > 0:
            raise Throttled(f"{operation}: Azure wants no such call for another {left:.0f} s", retry_after=left)

    def _hold(self, operation: str, about: str, error: Throttled, code: str) -> None:
        key = _EVERY_CALL if code in OF_SUBSCRIPTION else (operation, about.lower())
        self._held_until[key] = self._clock.now() + error.retry_after

    def _send(self, operation: str, call: Callable[[], T], about: str) -> T:
        from azure.core import exceptions  # noqa: PLC0415 - the SDK is heavy, and this module is imported at once

        try:
            return call()
        except exceptions.HttpResponseError as error:
            found = self._translate(operation, error)
            if isinstance(found, Throttled):
                self._hold(operation, about, found, str(getattr(error.error, "code", "")))
            raise found from error
        except exceptions.AzureError as error:
            raise ProviderUnavailable(f"{operation} in {self.place}: {type(error).__name__}: {error}") from error

    def _translate(self, operation: str, error: Any) -> ProviderError:
        """Return the error. One without a response of Azure is about credentials: no call was made."""
        if error.response is None:
            why = str(error.message).strip().partition("\n")[0].strip()
            hint = "the README of nodewright-azure lists where credentials come from"
            return AccessDenied(f"{operation}: {why}; {hint}", code=NO_CREDENTIALS)
        model = getattr(error, "error", None)
        said = Refusal(
            status=int(error.status_code or 0),
            code=str(getattr(model, "code", "") or ""),
            message=str(getattr(model, "message", "") or error.reason or ""),
            retry_after=read_retry_after(error.response.headers),
        )
        found = refusal(operation, said)
        if isinstance(found, NodeGroupNotFound):
            return NodeGroupNotFound(f"{found} (in {self.place})")
        return found


def convert(answer: Any, kind: type[T]) -> T:
    """Decode a response; raise ProviderUnavailable if it does not have the expected form."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ProviderUnavailable(f"unexpected response from Azure: {error}") from error
