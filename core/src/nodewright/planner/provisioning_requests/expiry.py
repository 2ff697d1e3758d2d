"""End requests whose time is over, and delete requests that have been over for long."""

import math
from contextlib import suppress

from nodewright.model.provisioning_request import (
    BOOKING_EXPIRED,
    FAILED,
    PROVISIONED,
    VALID_UNTIL_SECONDS,
    ProvisioningRequest,
)
from nodewright.planner.provisioning_requests.classes import read_seconds
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges, join_changes

# For how long a request is tried, in seconds from its creation.
_TRIED_SECONDS = 7 * 86_400.0
# For how long a request is kept once it is over, in seconds.
_KEPT_SECONDS = 7 * 86_400.0
# The most requests that CA ends in a loop.
_MOST_OF_CA = 20


def expire_requests(requests: ProvisioningRequestState) -> RequestChanges:
    """End reservations that last too long and requests that are tried for too long; delete what has been over for long."""
    ended = _end_requests(requests)
    return join_changes([ended, _delete_old(requests.apply(ended))])


def time_to_try(request: ProvisioningRequest, requests: ProvisioningRequestState) -> float:
    """Return for how long a request is tried, in seconds from its creation.

    CA reads no parameter. A parameter that cannot be read fails the request when it is examined.
    """
    text = requests.classes.class_of(request).parameters.get(VALID_UNTIL_SECONDS)
    if text is None or not requests.settings.policy.reads_valid_until:
        return _TRIED_SECONDS
    with suppress(ValueError):
        return min(read_seconds(text), _TRIED_SECONDS)
    return _TRIED_SECONDS


def _end_requests(requests: ProvisioningRequestState) -> RequestChanges:
    """End reservations and requests; CA ends at most 20 of both together."""
    reservations: list[ProvisioningRequest] = []
    overdue: list[ProvisioningRequest] = []
    changes: list[RequestChanges] = []
    most = math.inf if requests.settings.policy.ends_all_requests_at_once else _MOST_OF_CA
    for request in requests:
        if len(reservations) >= most:
            break
        if requests.mode(request) is None or requests.is_over(request):
            continue
        if request.has(PROVISIONED):
            since, dated = _reserved_since(request, requests)
            end = since + requests.settings.reservation
            changes += [dated, RequestChanges(next_change=requests.next_change_at(end))]
            if end < requests.now:
                reservations.append(request)
        elif len(overdue) < most - len(reservations):
            end = request.created + time_to_try(request, requests)
            changes.append(RequestChanges(next_change=requests.next_change_at(end)))
            if end < requests.now:
                overdue.append(request)
    for request in reservations:
        what, text = (BOOKING_EXPIRED, "True"), "Capacity reservation time is expired"
        changes.append(
            requests.write(request, requests.condition(request, what, "CapacityReservationTimeExpired", text))
        )
    for request in overdue:
        expired = requests.condition(request, (FAILED, "True"), "Expired", "ProvisioningRequest is expired")
        changes.append(requests.write(request, expired))
    return join_changes(changes)


def _reserved_since(request: ProvisioningRequest, requests: ProvisioningRequestState) -> tuple[float, RequestChanges]:
    """Return since when capacity is reserved. A time in the future comes from a clock that was set back: use now."""
    held = request.condition(PROVISIONED)
    assert held is not None
    if held.since <= requests.now or not requests.settings.policy.keeps_condition_times:
        return held.since, RequestChanges()
    dated = requests.condition(request, (PROVISIONED, held.status), held.reason, held.message)
    return requests.now, requests.write(request, dated)


def _delete_old(requests: ProvisioningRequestState) -> RequestChanges:
    """Delete requests of every class that ended long ago.

    CA goes by the age of either condition, true or not, since it sets the time of conditions at each write. Here a
    condition is as old as its status, and one that is not True does not end a request.
    """
    keeps_times = requests.settings.policy.keeps_condition_times
    expired: list[ProvisioningRequest] = []
    ends: list[float] = []
    for request in requests:
        held = [one for one in map(request.condition, (PROVISIONED, FAILED)) if one is not None]
        dates = [one.since for one in held if one.is_true or not keeps_times]
        if not dates:
            continue
        ends.append((max if keeps_times else min)(dates) + _KEPT_SECONDS)
        if ends[-1] < requests.now:
            expired.append(request)
    return RequestChanges(expired=tuple(expired), next_change=requests.next_change_at(*ends))
