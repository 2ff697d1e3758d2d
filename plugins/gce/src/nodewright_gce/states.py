"""The state of a group's instances as its manager reports it, and why one could not be created.

The table of codes and words is CA's, but quota is a separate class here.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from nodewright.spec import ErrorClass, FailureScope, InstanceState
from nodewright_gce.quotas import quota_bucket, quota_scope
from nodewright_gce.refs import Ref, parse_instance_url, template_name
from nodewright_gce.shapes import ErrorItem, Managed, Vm

_RECREATING = "RECREATING"
_CREATING = ("CREATING", _RECREATING, "CREATING_WITHOUT_RETRIES")
_DELETING = ("ABANDONING", "DELETING")
_NOT_RUNNING_YET = ("", "PROVISIONING", "STAGING")
# Compute Engine repairs or stops a machine that runs: its node may still be Ready.
_RUNNING = ("RUNNING", "REPAIRING", "STOPPING")
_POOL_CODES = ("RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")
_UNMET = "CONDITION_NOT_MET"
OTHER = "OTHER"
# (part of the code, words of the message, CA's name for it); the first match counts. The words about reservations are
# Compute Engine's.
_MISMATCHES = (
    r"Incompatible AggregateReservation VMFamily"
    r"|Could not find the given reservation with the following name"
    r"|must use ReservationAffinity of"
    r"|The reservation must exist in the same project as the instance"
    r"|only compatible with Aggregate Reservations"
    r"|Please target an AggregateReservation with workload"
    r"|AggregateReservation VMFamily: should be a .* VM Family for instance with"
    r"|VM Family: .* is not supported for aggregate reservations"
    r"|Reservation .* is incorrect for the requested resources"
    r"|Zone does not currently have sufficient capacity for the requested resources"
    r"|Reservation .* does not have sufficient capacity for the requested resources"
)
_RULES: tuple[tuple[str, str, str], ...] = (
    ("IP_SPACE_EXHAUSTED", "", "IP_SPACE_EXHAUSTED"),
    ("PERMISSIONS_ERROR", "", "PERMISSIONS_ERROR"),
    (
        _UNMET,
        r"Constraint constraints/compute\.vmExternalIpAccess violated for project",
        "VM_EXTERNAL_IP_ACCESS_POLICY_CONSTRAINT",
    ),
    ("", r"it requires reservation to be in READY state", "RESERVATION_NOT_READY"),
    ("", _MISMATCHES, "INVALID_RESERVATION"),
    ("", r"Specified reservations? .* do(?:es)? not exist", "RESERVATION_NOT_FOUND"),
    ("", r"Specified reservation .* does not have available resources", "RESERVATION_CAPACITY_EXCEEDED"),
    ("", r"No available resources in specified reservations", "RESERVATION_INCOMPATIBLE"),
    (_UNMET, r"Unsupported TPU configuration", "UNSUPPORTED_TPU_CONFIGURATION"),
    ("", r"There is no automatic reservation matching", "AUTOMATIC_RESERVATIONS_NOT_AVAILABLE"),
    ("", r"All automatic reservations .* fully consumed", "AUTOMATIC_RESERVATIONS_NO_CAPACITY"),
)
_COMPILED = tuple((code, re.compile(words), name) for code, words, name in _RULES)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an instance could not be created.

    ``code`` is Compute Engine's, ``reason`` CA's name for it. ``bucket``: the quota that is used up, as in ``quotas_of``.
    """

    error_class: ErrorClass
    scope: FailureScope
    reason: str
    code: str
    message: str
    bucket: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of a group. ``is_there``: the machine exists in Compute Engine."""

    ref: Ref
    state: InstanceState
    is_there: bool
    failure: Failure | None = None
    template_name: str = ""


def read_managed(managed: Sequence[Managed]) -> tuple[Machine, ...]:
    """Return the instances whose URL can be parsed, in their order."""
    return tuple(_machines(managed))


def read_vm_state(vm: Vm) -> Machine | None:
    """Return the instance; None if its URL cannot be parsed."""
    ref = parse_instance_url(vm.self_link)
    if ref is None:
        return None
    states = {
        "PROVISIONING": InstanceState.CREATING,
        "STAGING": InstanceState.CREATING,
        "STOPPING": InstanceState.DELETING,
        "TERMINATED": InstanceState.DELETING,
    }
    return Machine(ref=ref, state=states.get(vm.status, InstanceState.RUNNING), is_there=True)


def _machines(managed: Sequence[Managed]) -> Iterator[Machine]:
    for one in managed:
        ref = parse_instance_url(one.instance)
        if ref is None:
            continue
        state = InstanceState.RUNNING
        if one.current_action in _CREATING and not _runs_on(one):
            state = InstanceState.CREATING
        elif one.current_action in _DELETING:
            state = InstanceState.DELETING
        yield Machine(
            ref=ref,
            state=state,
            is_there=bool(one.instance_status),
            failure=_failure(one) if state is InstanceState.CREATING else None,
            template_name=template_name(one.version.instance_template),
        )


def _runs_on(one: Managed) -> bool:
    """Return whether a machine that is to be created again still exists: it may be a Ready node with pods."""
    return one.current_action == _RECREATING and one.instance_status in _RUNNING


def _failure(one: Managed) -> Failure | None:
    """Return the failure: its class from the last error with a known reason, its message from all errors that count."""
    decided: Failure | None = None
    told: list[str] = []
    for item in one.last_attempt.errors.errors:
        found = classify(item)
        if found.reason == OTHER:
            if one.instance_status not in _NOT_RUNNING_YET:
                continue
            found = decided or found
        decided = found
        if item.message:
            told.append(item.message)
    return msgspec.structs.replace(decided, message="; ".join(told)) if decided is not None else None


def classify(item: ErrorItem) -> Failure:
    """Return class, scope and code of one error of Compute Engine."""
    error_class, scope, reason = ErrorClass.OTHER, FailureScope.GROUP, _reason(item)
    if item.code in _POOL_CODES:
        error_class, reason = ErrorClass.OUT_OF_RESOURCES, "RESOURCE_POOL_EXHAUSTED"
    elif item.code == "INSUFFICIENT_CAPACITY":
        error_class, reason = ErrorClass.OUT_OF_RESOURCES, item.code
    elif "QUOTA" in item.code:
        error_class, scope, reason = ErrorClass.QUOTA, quota_scope(item.message), "QUOTA_EXCEEDED"
    bucket = quota_bucket(item.message) if error_class is ErrorClass.QUOTA else ""
    code = item.code or reason
    return Failure(error_class=error_class, scope=scope, reason=reason, code=code, message=item.message, bucket=bucket)


def _reason(item: ErrorItem) -> str:
    for code, words, name in _COMPILED:
        if code in item.code and words.search(item.message):
            return name
    return OTHER
