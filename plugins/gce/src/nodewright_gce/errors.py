"""Every error of the SDK becomes one of nodewright's tree, once. Only this module and ``states`` know Compute Engine's
error codes.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from nodewright.spec import (
    AccessDenied,
    ErrorClass,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Throttled,
)
from nodewright_gce.shapes import ErrorItem
from nodewright_gce.states import classify

NOT_FOUND = "notFound"
BAD_REQUEST = "badRequest"
TOO_SLOW = "operationTimeout"
_THROTTLED = frozenset(("rateLimitExceeded", "userRateLimitExceeded", "quotaExceededForRequests", "dailyLimitExceeded"))
_SHORTAGES: Mapping[ErrorClass, type[ProviderError]] = {
    ErrorClass.QUOTA: QuotaExceeded,
    ErrorClass.OUT_OF_RESOURCES: OutOfCapacity,
}
_MAX_MESSAGE = 500


def refusal(operation: str, status: int, reason: str, message: str, retry_after: float = 0.0) -> ProviderError:
    """The error that a refused request stands for; the API's own reason and words stay in it."""
    said = f"{operation}: {status} {reason}: {message}"[:_MAX_MESSAGE]
    if status == HTTPStatus.TOO_MANY_REQUESTS or reason in _THROTTLED:
        return Throttled(said, retry_after=max(1.0, retry_after))
    if status == HTTPStatus.NOT_FOUND:
        return ProviderError(said, code=NOT_FOUND)
    kind: type[ProviderError] | None = None
    if reason == "quotaExceeded":
        kind = QuotaExceeded
    elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        kind = AccessDenied
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = ProviderUnavailable
    return kind(said) if kind is not None else ProviderError(said, code=reason or BAD_REQUEST)


def failed_operation(operation: str, items: Sequence[ErrorItem]) -> ProviderError:
    """What an operation that ended with errors stands for; the first that is a shortage decides."""
    said = f"{operation}: " + "; ".join(f"{item.code}: {item.message}" for item in items)
    for item in items:
        kind = _SHORTAGES.get(classify(item).error_class)
        if kind is not None:
            return kind(said[:_MAX_MESSAGE])
    if any(item.code.startswith("PERMISSION") for item in items):
        return AccessDenied(said[:_MAX_MESSAGE])
    return ProviderError(said[:_MAX_MESSAGE], code=items[0].code if items else "operationFailed")


def read_retry_after(headers: Mapping[str, str]) -> float:
    """Seconds; 0 where nothing is said or nothing can be read."""
    try:
        return float(headers.get("Retry-After", 0.0))
    except ValueError:
        return 0.0
