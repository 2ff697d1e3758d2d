"""How every call of the SDK is made: counted, within the budget, page by page, with its error translated once.

The SDK does not retry: the core repeats reads and settles writes, and retries at two levels would multiply.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from nodewright.spec import AccessDenied, NodeGroupNotFound, ProviderError, ProviderUnavailable
from nodewright.spec.meter import Meter
from nodewright_azure.errors import NO_CREDENTIALS, Refusal, refusal

T = TypeVar("T")


class Calls:
    """Calls about one resource group; ``place`` names it in messages. Thread-safe."""

    def __init__(self, meter: Meter, place: str) -> None:
        self._meter = meter
        self.place = place

    def call(self, operation: str, call: Callable[[], T], *, urgent: bool = False) -> T:
        """Make one call. ``urgent``: the budget does not delay it; for writes and the reads that belong to them."""
        return self._meter.call(operation, lambda: self._send(operation, call), urgent=urgent)

    def listed(self, operation: str, pages: Any, kind: type[T]) -> list[T]:
        """Return all items of a paged list of the SDK."""
        raw = [one.as_dict() for page in self._pages(operation, pages.by_page()) for one in page]
        return convert(raw, list[kind])  # type: ignore[valid-type]  # the type is only known when it is asked for

    def _pages(self, operation: str, pages: Any) -> Iterator[list[Any]]:
        """Yield the pages, one call each."""
        while True:
            yield self.call(operation, lambda: list(next(pages)))
            if not pages.continuation_token:
                return

    def _send(self, operation: str, call: Callable[[], T]) -> T:
        from azure.core import exceptions  # noqa: PLC0415 - the SDK is heavy, and this module is imported at once

        try:
            return call()
        except exceptions.HttpResponseError as error:
            raise self._translate(operation, error) from error
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
            retry_after=_seconds(error.response.headers.get("Retry-After")),
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


def _seconds(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
