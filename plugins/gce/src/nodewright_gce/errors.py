"""Translates every error of the SDK to nodewright's tree, once.

Only this module and ``states`` know Compute Engine's error codes.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from nodewright.spec import (
    AccessDenied,
    ErrorClass,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    Throttled,
)
from nodewright_gce.shapes import ErrorItem
from nodewright_gce.states import classify

NOT_FOUND = "notFound"
BAD_REQUEST = "badRequest"
TOO_SLOW = "operationTimeout"
_THROTTLED = frozenset(("rateLimitExceeded", "userRateLimitExceeded", "quotaExceededForRequests", "dailyLimitExceeded"))
# Another operation holds the resource. Refused calls have the first two codes, failed operations the others.
_IN_PROGRESS = frozenset(("resourceNotReady", "operationInProgress", "RESOURCE_NOT_READY", "OPERATION_IN_PROGRESS"))
_TOO_MANY = frozenset(("RESOURCE_OPERATION_RATE_EXCEEDED", "RATE_LIMIT_EXCEEDED"))
# The reasons of refused calls differ from the codes of failed operations and instances.
_CODES = {"quotaExceeded": "QUOTA_EXCEEDED", "resourcePoolExhausted": "RESOURCE_POOL_EXHAUSTED"}
_SHORTAGES: Mapping[ErrorClass, type[Shortage]] = {
    ErrorClass.QUOTA: QuotaExceeded,
    ErrorClass.OUT_OF_RESOURCES: OutOfCapacity,
}
_MAX_MESSAGE = 500


def refusal(operation: str, status: int, reason: str, message: str, retry_after: float = 0.0) -> ProviderError:
    """Return the error for a refused request; its text keeps the API's reason and message."""
    said = f"{operation}: {status} {reason}: {message}"[:_MAX_MESSAGE]
    if status == HTTPStatus.TOO_MANY_REQUESTS or reason in _THROTTLED:
        return Throttled(said, retry_after=max(1.0, retry_after))
    if reason in _IN_PROGRESS:
        return OperationInProgress(said, retry_after=max(1.0, retry_after))
    if status == HTTPStatus.NOT_FOUND:
        return ProviderError(said, code=NOT_FOUND)
    short = _shortage(ErrorItem(code=_CODES.get(reason, reason), message=message), said)
    if short is not None:
        return short
    kind: type[ProviderError] | None = None
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        kind = AccessDenied
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = ProviderUnavailable
    return kind(said) if kind is not None else ProviderError(said, code=reason or BAD_REQUEST)


def failed_operation(operation: str, items: Sequence[ErrorItem]) -> ProviderError:
    """Return the error for an operation that ended with errors; the first shortage among them decides."""
    said = (f"{operation}: " + "; ".join(f"{item.code}: {item.message}" for item in items))[:_MAX_MESSAGE]
    short = next(filter(None, (_shortage(item, said) for item in items)), None)
    if short is not None:
        return short
    codes = [item.code for item in items]
    if any(code.startswith("PERMISSION") for code in codes):
        return AccessDenied(said)
    if not _TOO_MANY.isdisjoint(codes):
        return Throttled(said)
    if not _IN_PROGRESS.isdisjoint(codes):
        return OperationInProgress(said)
    return ProviderError(said, code=codes[0] if codes else "operationFailed")


def _shortage(item: ErrorItem, said: str) -> Shortage | None:
    """Return the error with class and scope of an instance that was not created for the same reason; None: no shortage."""
    found = classify(item)
    kind = _SHORTAGES.get(found.error_class)
    return kind(said, scope=found.scope, bucket=found.bucket) if kind is not None else None
