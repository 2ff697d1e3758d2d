"""What becomes of machines that were asked for a gang: the gang gets all of them, or they are withdrawn."""

from collections.abc import Container, Sequence

from nodewright.clusterstate.memory import Reservation
from nodewright.clusterstate.state import ClusterState
from nodewright.model.gang import is_gang_id
from nodewright.planner.gangs.find_gangs import Gang
from nodewright.planner.provisioning_requests.reservations import cancelled, has_failed, is_complete
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges, join_changes


def settle_gangs(state: ClusterState, requests: ProvisioningRequestState, gangs: Sequence[Gang]) -> RequestChanges:
    """Free the machines of gangs that have all of theirs, and give up what cannot be completed.

    If a group failed to deliver, the gang tries another one at once: the group that failed is in backoff. Otherwise the gang
    waits for its next try.
    """
    waiting = {gang.ref.id for gang in gangs}
    kept = dict[str, Reservation]()
    changes: list[RequestChanges] = []
    for name, held in requests.reservations.items():
        if not is_gang_id(name):
            kept[name] = held
            continue
        fresh, known_as = held, name
        if held.broken and name in waiting:
            known_as = held.leftover_name(name)
            if not has_failed(held, state):
                retry = requests.next_retry(name)
                due = requests.next_change_at(retry.at + retry.wait)
                changes.append(RequestChanges(retries={name: retry}, next_change=due))
        elif not held.broken and is_complete(held, state):
            changes.append(RequestChanges(retries={name: None}))
            continue
        elif name not in waiting:
            fresh = cancelled(held)
        if not fresh.broken:
            times = (*(part.deadline or held.deadline for part in held.parts), held.deadline + held.patience)
            changes.append(RequestChanges(next_change=requests.next_change_at(*times)))
        if fresh.parts:
            kept[known_as] = fresh
    changes.append(_settle_retries(requests, waiting))
    return join_changes([*changes, RequestChanges(reservations=kept if kept != requests.reservations else None)])


def _settle_retries(requests: ProvisioningRequestState, waiting: Container[str]) -> RequestChanges:
    """Forget the waits of gangs that are gone, and return when the next wait is over."""
    retries = {name: retry for name, retry in requests.memory.retries.items() if is_gang_id(name)}
    gone = {name: None for name in retries if name not in waiting}
    due = requests.next_change_at(*(retry.at + retry.wait for name, retry in retries.items() if name in waiting))
    return RequestChanges(retries=gone, next_change=due)
