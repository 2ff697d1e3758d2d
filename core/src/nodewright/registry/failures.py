"""From failures to backoffs: refused calls, failed instances, requests out of time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.errors import TargetChanged
from nodewright.model.group import ErrorClass, FailureScope, GroupRef
from nodewright.model.node import ZONE_LABEL
from nodewright.model.settings import FailureSettings
from nodewright.registry.backoff import after_failure
from nodewright.registry.requests import Requests, opened
from nodewright.registry.state import Backoff, GroupState
from nodewright.snapshot.observation import GroupSeen

TIMEOUT = "timeout"
NEVER_REGISTERED = "neverRegistered"
NOTHING_ACCEPTED = "nothingAccepted"
_INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One reason to leave a group, and those that share its scope, alone."""

    group: GroupRef
    error_class: ErrorClass
    scope: FailureScope
    code: str
    message: str


def refused(outcomes: Iterable[Outcome], groups: Mapping[GroupRef, GroupSeen]) -> list[Failure]:
    """Increases that the cloud did not accept, or accepted for no machine at all."""
    found = []
    for outcome in outcomes:
        if not isinstance(outcome.action, IncreaseSize):
            continue
        if isinstance(outcome, Failed) and _is_fault(outcome, groups):
            found.append(
                Failure(
                    group=outcome.action.group,
                    error_class=outcome.error_class,
                    scope=outcome.scope,
                    code=outcome.code,
                    message=outcome.message,
                )
            )
        elif isinstance(outcome, Done) and not outcome.accepted:
            found.append(_of_group(outcome.action.group, NOTHING_ACCEPTED, "the cloud accepted no machine"))
    return found


def _is_fault(outcome: Failed, groups: Mapping[GroupRef, GroupSeen]) -> bool:
    """Somebody else's write is no fault of the group, which is planned anew; unless its size, read again, is what
    it was: then what is read of the group cannot be acted upon.
    """
    group = groups.get(outcome.action.group)
    return outcome.code != TargetChanged.code or (group is not None and group.target == outcome.action.expected_target)


def failed_instances(groups: Iterable[GroupSeen], seen: frozenset[tuple[GroupRef, str]]) -> list[Failure]:
    """Failures that a provider reports for the first time."""
    return [
        Failure(
            group=group.ref,
            error_class=failure.error_class,
            scope=failure.scope,
            code=failure.code,
            message=failure.message,
        )
        for group in groups
        for failure in group.failed or ()
        if (group.ref, failure.failure_id) not in seen
    ]


def late_machines(group: GroupState) -> list[Failure]:
    """Machines that are overdue: those that never appeared, and those that run and never registered."""
    found = []
    if group.timed_out:
        found.append((TIMEOUT, f"{group.timed_out} machines did not appear in time"))
    if group.newly_late:
        found.append((NEVER_REGISTERED, f"{len(group.newly_late)} machines did not become nodes in time"))
    return [_of_group(group.ref, code, message) for code, message in found]


def backed_off(
    backoffs: Mapping[GroupRef, Backoff],
    failures: Iterable[Failure],
    groups: Mapping[GroupRef, GroupSeen],
    settings: FailureSettings,
    now: float,
) -> dict[GroupRef, Backoff]:
    """The backoffs after these failures; several at one moment count once for a group."""
    changed = dict(backoffs)
    for failure in failures:
        for ref in _in_scope(failure, groups):
            changed[ref] = after_failure(
                backoffs.get(ref), settings, now, failure.error_class, failure.code, failure.message
            )
    return changed


def after_increases(
    requests: Mapping[GroupRef, Requests], outcomes: Iterable[Outcome], groups: Mapping[GroupRef, GroupSeen]
) -> dict[GroupRef, Requests]:
    """Requests with what was asked for since; an increase without an answer is a request from its beginning."""
    changed = dict(requests)
    for outcome in outcomes:
        action = outcome.action
        if not isinstance(action, IncreaseSize) or isinstance(outcome, Failed) or action.group not in groups:
            continue
        increase = outcome.accepted if isinstance(outcome, Done) else action.target - action.expected_target
        if increase > 0:
            patience = groups[action.group].options.max_node_provision_seconds
            request = opened(increase, outcome.started, patience)
            changed[action.group] = (*changed.get(action.group, ()), request)
    return changed


def _of_group(ref: GroupRef, code: str, message: str) -> Failure:
    return Failure(group=ref, error_class=ErrorClass.OTHER, scope=FailureScope.GROUP, code=code, message=message)


def _in_scope(failure: Failure, groups: Mapping[GroupRef, GroupSeen]) -> list[GroupRef]:
    """The groups that a failure reaches: its own, and those of the provider in the same zone, type, account."""
    if failure.scope == FailureScope.GROUP or failure.group not in groups:
        return [failure.group]
    peers = [ref for ref in groups if ref.provider == failure.group.provider]
    if failure.scope == FailureScope.ACCOUNT:
        return peers
    key = ZONE_LABEL if failure.scope == FailureScope.ZONE else _INSTANCE_TYPE_LABEL
    own = _template_label(groups[failure.group], key)
    return [ref for ref in peers if ref == failure.group or (own and _template_label(groups[ref], key) == own)]


def _template_label(group: GroupSeen, key: str) -> str:
    return group.template.metadata.labels.get(key, "") if group.template is not None else ""
