"""Errors on the wire: gRPC status codes, and nodewright's exact error code in the metadata."""

from collections.abc import Mapping
from typing import Any

import grpc

from nodewright.spec import (
    AccessDenied,
    CloudBusy,
    FailureScope,
    NodeGroupNotFound,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    TargetChanged,
    Throttled,
)
from nodewright_externalgrpc.wire import ACTUAL, CODE, RETRY_AFTER, SCOPE

Code: Any = grpc.StatusCode

_CLASSES: Mapping[str, type[ProviderError]] = {
    kind.code: kind
    for kind in (
        AccessDenied,
        NodeGroupNotFound,
        OperationInProgress,
        OutOfCapacity,
        ProviderUnavailable,
        QuotaExceeded,
        Throttled,
    )
}
_BY_STATUS: Mapping[Any, type[ProviderError]] = {
    Code.NOT_FOUND: NodeGroupNotFound,
    Code.RESOURCE_EXHAUSTED: OutOfCapacity,
    Code.PERMISSION_DENIED: AccessDenied,
    Code.UNAUTHENTICATED: AccessDenied,
    # In gRPC this code means a conflict with another operation.
    Code.ABORTED: OperationInProgress,
    # After these codes it is unknown whether the call took effect.
    Code.UNAVAILABLE: ProviderUnavailable,
    Code.DEADLINE_EXCEEDED: ProviderUnavailable,
    Code.CANCELLED: ProviderUnavailable,
    Code.INTERNAL: ProviderUnavailable,
}
_STATUS: tuple[tuple[type[ProviderError], Any], ...] = (
    (NodeGroupNotFound, Code.NOT_FOUND),
    (OutOfCapacity, Code.RESOURCE_EXHAUSTED),
    (QuotaExceeded, Code.RESOURCE_EXHAUSTED),
    (AccessDenied, Code.PERMISSION_DENIED),
    (TargetChanged, Code.ABORTED),
    (OperationInProgress, Code.ABORTED),
    (ProviderUnavailable, Code.UNAVAILABLE),
    (Throttled, Code.UNAVAILABLE),
)
_SCOPES: Mapping[str, FailureScope] = {scope.value: scope for scope in FailureScope}


class NotOffered(ProviderError):
    """The server does not implement this call."""

    code = "notOffered"


def translate(error: grpc.RpcError, method: str) -> ProviderError:
    """Return the server's refusal as an error of nodewright's tree."""
    status, said = error.code(), f"{method}: {error.details()}"
    told = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)}
    if told.get(ACTUAL, "").isdecimal():
        return TargetChanged(said, actual=int(told[ACTUAL]))
    if status == Code.UNIMPLEMENTED:
        return NotOffered(said)
    kind = _CLASSES.get(told.get(CODE, ""), _BY_STATUS.get(status))
    found = kind(said) if kind is not None else ProviderError(said, code=told.get(CODE) or status.name.lower())
    if isinstance(found, Shortage):
        found.scope = _SCOPES.get(told.get(SCOPE, ""), found.scope)
    if isinstance(found, CloudBusy):
        found.retry_after = _seconds(told.get(RETRY_AFTER, ""), found.retry_after)
    return found


def _seconds(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def status_of(error: ProviderError) -> Any:
    """Return the gRPC status code for the error."""
    if error.code in ("notSupported", NotOffered.code):
        return Code.UNIMPLEMENTED
    return next((status for kind, status in _STATUS if isinstance(error, kind)), Code.FAILED_PRECONDITION)


def metadata_of(error: ProviderError) -> tuple[tuple[str, str], ...]:
    """Return the details of the error as metadata for a nodewright client."""
    more: tuple[tuple[str, str], ...] = ()
    if isinstance(error, TargetChanged):
        more = ((ACTUAL, str(error.actual)),)
    elif isinstance(error, Shortage):
        more = ((SCOPE, error.scope.value),)
    elif isinstance(error, CloudBusy):
        more = ((RETRY_AFTER, f"{error.retry_after:g}"),)
    return ((CODE, error.code), *more)
