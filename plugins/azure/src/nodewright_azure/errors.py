"""Translates every error of the SDK to nodewright's tree, once. Only this module knows Azure's error codes."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from nodewright.spec import (
    AccessDenied,
    ErrorClass,
    FailureScope,
    NodeGroupNotFound,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Throttled,
)

INSTANCE_NOT_FOUND = "instanceNotFound"
NOT_ALLOWED = "OperationNotAllowed"
NO_CREDENTIALS = "noCredentials"
# Operations of AKS have names that begin with this: they concern a cluster, which is in another resource group.
POOLS = "agentPools"
FAILED = "provisioning-state-failed"
# Another operation is in progress and excludes this one; it ends by itself.
_BUSY = frozenset(
    (
        "ConflictingConcurrentWriteNotAllowed",
        "OperationPreempted",
        "PreemptedByAnotherOperation",
        "AnotherOperationInProgress",
        "RetryableError",
    )
)
# AKS does one operation at a time with an agent pool, and refuses another one without a code of its own, only with this
# text. A conflict (409) without a specific code is about an operation in progress, too.
_UNDER_WAY = "in progress"
_MAY_BE_BUSY = frozenset((NOT_ALLOWED, "Conflict"))
# The limit of the subscription, not of one set or one kind of call, is used up.
OF_SUBSCRIPTION = frozenset(("SubscriptionRequestsThrottled",))
_THROTTLED = OF_SUBSCRIPTION | frozenset(("TooManyRequests", "OperationThrottled", "RequestThrottled"))
_DENIED = frozenset(
    (
        "AuthorizationFailed",
        "LinkedAuthorizationFailed",
        "LinkedAccessCheckFailed",
        "AuthenticationFailed",
        "ExpiredAuthenticationToken",
        "InvalidAuthenticationToken",
        "InvalidAuthenticationTokenTenant",
        "RequestDisallowedByPolicy",
        "ScopeLocked",
        "ReadOnlyDisabledSubscription",
    )
)
_SHORT = ErrorClass.OUT_OF_RESOURCES
# Azure's code of a failed creation → class and scope. Azure documents the codes; all others are of class "other".
_FAILURES: Mapping[str, tuple[ErrorClass, FailureScope]] = {
    "AllocationFailed": (_SHORT, FailureScope.GROUP),
    "ZonalAllocationFailed": (_SHORT, FailureScope.GROUP),
    "OverconstrainedAllocationRequest": (_SHORT, FailureScope.GROUP),
    "OverconstrainedZonalAllocationRequest": (_SHORT, FailureScope.GROUP),
    "SkuNotAvailable": (_SHORT, FailureScope.INSTANCE_TYPE),
    "SpotAllocationFailed": (_SHORT, FailureScope.GROUP),
    "SpotEvictionCapacityConstrained": (_SHORT, FailureScope.GROUP),
    "LowPriorityQuotaExceeded": (ErrorClass.QUOTA, FailureScope.ACCOUNT),
    "CapacityReservationCapacityExceeded": (_SHORT, FailureScope.GROUP),
    "InsufficientCapacity": (_SHORT, FailureScope.GROUP),
    "SubnetIsFull": (_SHORT, FailureScope.GROUP),
    "NotEnoughFreeIPs": (_SHORT, FailureScope.GROUP),
    FAILED: (_SHORT, FailureScope.GROUP),
    "QuotaExceeded": (ErrorClass.QUOTA, FailureScope.INSTANCE_TYPE),
    "ResourceQuotaExceeded": (ErrorClass.QUOTA, FailureScope.INSTANCE_TYPE),
    "PublicIPCountLimitReached": (ErrorClass.QUOTA, FailureScope.GROUP),
}
# The first boot of a machine: codes like OSProvisioningTimedOut.
_OF_CREATION = "OSProvisioning"
_QUOTA_NAME = re.compile(r"\b(\w+Family) Cores quota", re.IGNORECASE)
_MAX_MESSAGE = 500


class Stale(ProviderError):
    """Another writer changed the set since it was read."""

    code = "preconditionFailed"


class Refusal(NamedTuple):
    """A refused call: HTTP status, Azure's code and message."""

    status: int
    code: str
    message: str
    retry_after: float = 0.0


def classify(code: str, message: str) -> tuple[ErrorClass, FailureScope]:
    """Return class and scope of a failed creation. A used-up quota of cores has the code OperationNotAllowed."""
    if code == NOT_ALLOWED and "quota" in message.lower():
        whole = "total regional" in message.lower()
        return ErrorClass.QUOTA, FailureScope.ACCOUNT if whole else FailureScope.INSTANCE_TYPE
    return _FAILURES.get(code, (ErrorClass.OTHER, FailureScope.GROUP))


def quota_in(message: str) -> str:
    """Return the quota of cores that a message names, as ``bucket_of_family`` does; "": it names none."""
    named = _QUOTA_NAME.search(message)
    return bucket_of_family(named[1]) if named is not None else ""


def bucket_of_family(family: str) -> str:
    """Return the name of the quota of a family of sizes ("standardDSv3Family")."""
    return f"{family.lower()} cores" if family else ""


def is_of_creation(code: str, message: str) -> bool:
    """Return whether a creation fails with this code. It decides if nodewright did not see the creation begin.

    The start of a machine that was deallocated may fail for capacity, too; Azure does not tell the two apart.
    """
    is_known = code != FAILED and classify(code, message)[0] is not ErrorClass.OTHER
    return is_known or code.startswith(_OF_CREATION)


def refusal(operation: str, said: Refusal) -> ProviderError:
    """Return the error for a refused call; its text keeps Azure's code and message."""
    text = f"{operation}: {said.code or said.status}: {said.message}"[:_MAX_MESSAGE]
    conflicts = said.status == 409 and said.code in ("", "Conflict")
    is_under_way = said.code in _MAY_BE_BUSY and _UNDER_WAY in said.message.lower()
    is_busy = said.code in _BUSY or conflicts or is_under_way
    is_throttled = said.status == 429 or said.code in _THROTTLED
    if is_throttled or is_busy:
        busy = Throttled if is_throttled else OperationInProgress
        return busy(text, retry_after=max(1.0, said.retry_after))
    if said.status == 404:
        return _not_found(operation, text, said.code)
    error_class, scope = classify(said.code, said.message)
    if said.status < 500 and error_class is ErrorClass.QUOTA:
        return QuotaExceeded(text, scope=scope, bucket=quota_in(said.message))
    kind = _kind_of(said)
    if kind is not None:
        return kind(text)
    if error_class is _SHORT:
        return OutOfCapacity(text, scope=scope)
    gone = said.code == "InvalidParameter" and "instanceId" in said.message
    return ProviderError(text, code=INSTANCE_NOT_FOUND if gone else said.code or "unknownError")


def _kind_of(said: Refusal) -> type[ProviderError] | None:
    if said.status == 412:
        return Stale
    if said.code in _DENIED or said.status in (401, 403):
        return AccessDenied
    if said.status >= 500:
        return ProviderUnavailable
    return None


def _not_found(operation: str, text: str, code: str) -> ProviderError:
    """Return the error for something missing: a set, or its resource group, which is a mistake in the configuration."""
    of_cluster = "cluster_resource_group (or ARM_CLUSTER_RESOURCE_GROUP)"
    where = {
        "ResourceGroupNotFound": of_cluster
        if operation.startswith(POOLS)
        else "resource_group (or ARM_RESOURCE_GROUP)",
        "SubscriptionNotFound": "subscription_id (or ARM_SUBSCRIPTION_ID)",
    }
    if code in where:
        return ProviderError(f"providers.azure.options.{where[code]}: {text}", code=code)
    return NodeGroupNotFound(text)


def short(text: str) -> str:
    """Return the part of Azure's message that is kept."""
    return text[:_MAX_MESSAGE]
