"""Requests whose time is over: bookings end, what was not found in time fails, what is over for long goes
(behaviour/up.md §5.5).
"""

import math
from contextlib import suppress

from nodewright.model.provisioning_request import (
    BOOKING_EXPIRED,
    FAILED,
    PROVISIONED,
    TERMINAL,
    VALID_UNTIL_SECONDS,
    ProvisioningRequest,
)
from nodewright.planner.provisioning_requests.docket import ProvisioningRequestState
from nodewright.planner.provisioning_requests.parameters import read_seconds

# How long a request is tried, and how long one that is over is kept, in seconds.
_TRIED_SECONDS = 7 * 86_400.0
_KEPT_SECONDS = 7 * 86_400.0
# CA changes no more in one loop.
_MOST_OF_CA = 20


def keep_house(docket: ProvisioningRequestState) -> None:
    """End what is over, and delete what has been for long."""
    bookings: list[ProvisioningRequest] = []
    overdue: list[ProvisioningRequest] = []
    most = math.inf if docket.settings.policy.ends_all_requests_at_once else _MOST_OF_CA
    for request in docket:
        if len(bookings) >= most:
            break
        if docket.mode(request) is None or is_over(request, docket):
            continue
        if request.has(PROVISIONED):
            if _ends(docket, _booked_since(request, docket) + docket.settings.reservation_seconds):
                bookings.append(request)
        elif len(overdue) < most - len(bookings) and _ends(docket, request.created + time_to_try(request, docket)):
            overdue.append(request)
    for request in bookings:
        text = "Capacity reservation time is expired"
        docket.mark(
            request, docket.condition(request, (BOOKING_EXPIRED, "True"), "CapacityReservationTimeExpired", text)
        )
    for request in overdue:
        expired = docket.condition(request, (FAILED, "True"), "Expired", "ProvisioningRequest is expired")
        docket.mark(request, expired)
    _collect_garbage(docket)


def is_over(request: ProvisioningRequest, docket: ProvisioningRequestState) -> bool:
    """Has it come to an end? CA does not know that capacity can be revoked."""
    ends = TERMINAL if docket.settings.policy.knows_revoked_capacity else (BOOKING_EXPIRED, FAILED)
    return any(request.has(end) for end in ends)


def time_to_try(request: ProvisioningRequest, docket: ProvisioningRequestState) -> float:
    """For how long (seconds from its creation) a request is tried. CA reads no parameter; what cannot be read there
    is an error that the request is told of when it is examined.
    """
    text = docket.terms(request).parameters.get(VALID_UNTIL_SECONDS)
    if text is None or not docket.settings.policy.reads_valid_until:
        return _TRIED_SECONDS
    with suppress(ValueError):
        return min(read_seconds(text), _TRIED_SECONDS)
    return _TRIED_SECONDS


def _booked_since(request: ProvisioningRequest, docket: ProvisioningRequestState) -> float:
    """A moment that is still to come is of a clock that was set back: from now, then."""
    held = request.condition(PROVISIONED)
    assert held is not None
    if held.since <= docket.now or not docket.settings.policy.keeps_condition_times:
        return held.since
    docket.mark(request, docket.condition(request, (PROVISIONED, held.status), held.reason, held.message))
    return docket.now


def _ends(docket: ProvisioningRequestState, at: float) -> bool:
    docket.wake(at)
    return at < docket.now


def _collect_garbage(docket: ProvisioningRequestState) -> None:
    """Of every class. CA goes by the age of either condition, whatever it says, for it dates them anew at each look; here
    they are as old as their status, and one that is not True is no end.
    """
    for request in docket:
        held = [one for one in map(request.condition, (PROVISIONED, FAILED)) if one is not None]
        dates = [one.since for one in held if one.is_true or not docket.settings.policy.keeps_condition_times]
        if dates and _ends(
            docket, (max if docket.settings.policy.keeps_condition_times else min)(dates) + _KEPT_SECONDS
        ):
            docket.delete(request)
