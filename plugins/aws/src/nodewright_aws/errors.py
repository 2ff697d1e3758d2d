"""Translates every error of the SDK to nodewright's tree, once. Only this module knows AWS's error codes."""

from collections.abc import Mapping
from typing import Any

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
    Shortage,
    Throttled,
)
from nodewright.spec.meter import read_retry_after

_THROTTLED = frozenset(
    (
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "SlowDown",
    )
)
# A resize is in progress, or another client holds the group: it ends by itself.
_IN_PROGRESS = frozenset(
    (
        "ScalingActivityInProgress",
        "ScalingActivityInProgressFault",
        "ResourceContention",
        "ResourceContentionFault",
        "ResourceInUse",
        "ResourceInUseFault",
    )
)
# A quota that refuses one of these calls limits the whole account.
_CREATES = ("CreateAutoScalingGroup", "CreateLaunchTemplate", "CreateLaunchTemplateVersion")
_DENIED = frozenset(
    (
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "UnauthorizedAccess",
        "Client.UnauthorizedOperation",
        "NotAuthorized",
        "OptInRequired",
    )
)
# AWS does not recognize the credentials: no missing permission.
NO_CREDENTIALS = "noCredentials"
NO_REGION = "noRegion"
_UNAUTHENTICATED = frozenset(
    (
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IDPCommunicationError",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "MissingAuthenticationToken",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    )
)
_UNAVAILABLE = frozenset(
    ("InternalFailure", "InternalError", "InternalServerError", "ServerInternal", "ServiceUnavailable", "Unavailable")
)
INSTANCE_NOT_FOUND = "instanceNotFound"
NOT_IN_SERVICE = "instanceNotInService"
# A refused instance has the code of any invalid request, so its words tell which it is.
_OF_INSTANCES = {"Instance Id not found": INSTANCE_NOT_FOUND, "is not in InService": NOT_IN_SERVICE}

# Words in the message of a failed launch → code, class and scope. AWS's troubleshooting pages name the codes; an activity
# contains a code or only its sentence, so both are listed. The first match counts: messages about quotas say "capacity" too.
_LAUNCH_FAILURES: tuple[tuple[tuple[str, ...], str, ErrorClass, FailureScope], ...] = (
    # Calls that AWS throttled during a launch: this is not a quota, although its name looks like one.
    (
        ("RequestLimitExceeded", "Request limit exceeded"),
        "RequestLimitExceeded",
        ErrorClass.OTHER,
        FailureScope.GROUP,
    ),
    (
        ("VcpuLimitExceeded", "more vCPU capacity than your current vCPU limit"),
        "VcpuLimitExceeded",
        ErrorClass.QUOTA,
        FailureScope.INSTANCE_TYPE,
    ),
    (
        ("InstanceLimitExceeded", "more instances", "instance(s) are already running", "more running instance(s)"),
        "InstanceLimitExceeded",
        ErrorClass.QUOTA,
        FailureScope.INSTANCE_TYPE,
    ),
    (
        ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
        "MaxSpotInstanceCountExceeded",
        ErrorClass.QUOTA,
        FailureScope.GROUP,
    ),
    (
        ("VolumeLimitExceeded", "MaxIOPSLimitExceeded"),
        "VolumeLimitExceeded",
        ErrorClass.QUOTA,
        FailureScope.GROUP,
    ),
    (
        ("AddressLimitExceeded", "SpotFleetRequestLimitExceeded", "LimitExceeded"),
        "LimitExceeded",
        ErrorClass.QUOTA,
        FailureScope.GROUP,
    ),
    (
        (
            "InsufficientInstanceCapacity",
            "do not have sufficient",
            "no Spot capacity available",
            "Insufficient capacity",
        ),
        "InsufficientInstanceCapacity",
        ErrorClass.OUT_OF_RESOURCES,
        FailureScope.GROUP,
    ),
    (
        ("InsufficientFreeAddressesInSubnet", "not enough free addresses"),
        "InsufficientFreeAddressesInSubnet",
        ErrorClass.OUT_OF_RESOURCES,
        FailureScope.GROUP,
    ),
    (
        ("SpotMaxPriceTooLow", "Your Spot request price of"),
        "SpotMaxPriceTooLow",
        ErrorClass.OUT_OF_RESOURCES,
        FailureScope.GROUP,
    ),
    (
        (
            "UnfulfillableCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientHostCapacity",
            "ReservationCapacityExceeded",
            "Could not launch Spot Instances",
            "Could not launch On-Demand Instances",
        ),
        "UnfulfillableCapacity",
        ErrorClass.OUT_OF_RESOURCES,
        FailureScope.GROUP,
    ),
    (("UnauthorizedOperation", "not authorized"), "UnauthorizedOperation", ErrorClass.OTHER, FailureScope.GROUP),
    (("InvalidAMIID", "The AMI ID", "The image id"), "InvalidAMIID", ErrorClass.OTHER, FailureScope.GROUP),
    (("InvalidSnapshot",), "InvalidSnapshot", ErrorClass.OTHER, FailureScope.GROUP),
    (("InvalidKMSKey", "KMS key"), "InvalidKMSKey", ErrorClass.OTHER, FailureScope.GROUP),
    (("aunch template",), "InvalidLaunchTemplate", ErrorClass.OTHER, FailureScope.GROUP),
    (("Unsupported", "is not supported in your requested"), "Unsupported", ErrorClass.OTHER, FailureScope.GROUP),
    (("InvalidParameter", "Value ("), "InvalidParameter", ErrorClass.OTHER, FailureScope.GROUP),
)
# Codes of failed launches that tell which limit or pool of capacity is used up.
# InstanceLimitExceeded is the older text: limits of instances count vCPUs of a bucket of types since 2019.
OF_VCPUS = frozenset(("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded"))
OF_CAPACITY = frozenset(("InsufficientInstanceCapacity",))
OF_ADDRESSES = "InsufficientFreeAddressesInSubnet"
_SHORTAGES: Mapping[ErrorClass, type[Shortage]] = {
    ErrorClass.QUOTA: QuotaExceeded,
    ErrorClass.OUT_OF_RESOURCES: OutOfCapacity,
}
_MAX_MESSAGE = 500


def classify_launch(message: str) -> tuple[ErrorClass, FailureScope, str]:
    """Return class, scope and AWS's code for the status message of a failed launch."""
    for words, code, error_class, scope in _LAUNCH_FAILURES:
        if any(word in message for word in words):
            return error_class, scope, code
    return ErrorClass.OTHER, FailureScope.GROUP, "LaunchFailed"


def refusal(operation: str, code: str, message: str, retry_after: float = 0.0) -> ProviderError:
    """Return the error for a refusal of the API; its text keeps AWS's code and message."""
    said = f"{operation}: {code}: {message}"[:_MAX_MESSAGE]
    if code in _THROTTLED | _IN_PROGRESS:
        busy = Throttled if code in _THROTTLED else OperationInProgress
        return busy(said, retry_after=max(1.0, retry_after))
    if code in _UNAUTHENTICATED:
        return AccessDenied(said, code=NO_CREDENTIALS)
    of_instance = next((ours for words, ours in _OF_INSTANCES.items() if words in message), "")
    if code == "ValidationError" and of_instance:
        return ProviderError(said, code=of_instance)
    kind = _kind_of(code, message)
    if kind is not None:
        return kind(said)
    error_class, scope, _ = classify_launch(code)
    short = _SHORTAGES.get(error_class)
    if short is not None:
        return short(said, scope=FailureScope.ACCOUNT if operation in _CREATES else scope)
    return ProviderError(said, code=code or "unknownError")


def _kind_of(code: str, message: str) -> type[ProviderError] | None:
    if code in _DENIED:
        return AccessDenied
    if code in _UNAVAILABLE:
        return ProviderUnavailable
    if code == "ValidationError" and "not found" in message:
        return NodeGroupNotFound
    return None


def from_response(operation: str, response: dict[str, Any]) -> tuple[str, ProviderError]:
    """Return AWS's code and the error for the parsed response of a refused call."""
    error, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    status = int(meta.get("HTTPStatusCode", 0))
    if status >= 500 and code not in _THROTTLED | _IN_PROGRESS:
        return code or str(status), ProviderUnavailable(f"{operation}: {status} {code}: {message}"[:_MAX_MESSAGE])
    return code, refusal(operation, code, message, read_retry_after(meta.get("HTTPHeaders", {})))
