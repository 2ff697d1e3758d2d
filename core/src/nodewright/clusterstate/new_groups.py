"""Autoprovisioned node groups: failed creations, and since when each group has been empty."""

from collections.abc import Iterable, Mapping

from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.readiness import is_reported_ready
from nodewright.clusterstate.state import Failure, GroupState
from nodewright.model.action import CreateNodeGroup, DeleteNodeGroup, Done, Failed, Outcome
from nodewright.model.errors import AccessDenied
from nodewright.model.group import ErrorClass, FailureScope, GroupRef
from nodewright.snapshot.observation import GroupSeen

NOT_MADE = "groupNotMade"


def any_new_group(provider: str) -> GroupRef:
    """Return the reference that stands for all groups that the provider could create.

    A backoff of it stops all creations of that provider.
    """
    return GroupRef(provider, "*")


def refused_creations(outcomes: Iterable[Outcome], groups: Mapping[GroupRef, GroupSeen]) -> list[Failure]:
    """Return a failure for each group that was to be created and does not exist.

    Without the permission or the account's quota no other group is tried either.
    """
    found = []
    for outcome in outcomes:
        if not isinstance(outcome.action, CreateNodeGroup) or isinstance(outcome, Done):
            continue
        ref = outcome.action.group
        if ref in groups or outcome.is_busy:
            continue
        code, message, error_class, reaches_all = NOT_MADE, getattr(outcome, "message", ""), ErrorClass.OTHER, False
        if isinstance(outcome, Failed):
            code, error_class = outcome.code, outcome.error_class
            reaches_all = outcome.scope == FailureScope.ACCOUNT or code == AccessDenied.code
        group = any_new_group(ref.provider) if reaches_all else ref
        found.append(Failure(group=group, at=outcome.started, error_class=error_class, code=code, message=message))
    return found


def find_empty_since(
    memory: Memory,
    states: Mapping[GroupRef, GroupState],
    listed: Mapping[GroupRef, GroupSeen],
    members: Membership,
    outcomes: Iterable[Outcome],
    now: float,
) -> Mapping[GroupRef, float]:
    """Return since when (epoch seconds) each autoprovisioned group has had no machines and a target of 0.

    A failed deletion starts the time again. A group with a Ready node is not empty, even if its provider lists no
    machine.
    """
    tried = {outcome.action.group for outcome in outcomes if isinstance(outcome.action, DeleteNodeGroup)}
    empty = [
        ref
        for ref, group in listed.items()
        if group.group.autoprovisioned and _is_empty(group, states[ref]) and not _has_ready_node(ref, members)
    ]
    return {ref: now if ref in tried else memory.empty_since.get(ref, now) for ref in empty}


def _has_ready_node(ref: GroupRef, members: Membership) -> bool:
    return any(is_reported_ready(node) for node in members.nodes.get(ref, ()))


def _is_empty(group: GroupSeen, state: GroupState) -> bool:
    """Return whether the group as read now is empty. An unreadable group is not."""
    return group.target == 0 and group.instances == () and not group.failed and not state.requests
