"""From failures to backoffs: refused calls, failed instances, requests out of time."""

from collections.abc import Iterable, Mapping, Sequence

from nodewright.clusterstate.backoff import after_failure, shared_backoff
from nodewright.clusterstate.case import GroupContext
from nodewright.clusterstate.state import Backoff, Failure
from nodewright.model.action import Done, Failed, IncreaseSize
from nodewright.model.errors import TargetChanged
from nodewright.model.group import FailureScope, GroupRef
from nodewright.model.node import ZONE_LABEL
from nodewright.model.settings import FailureSettings
from nodewright.snapshot.observation import GroupSeen

TIMEOUT = "timeout"
NEVER_REGISTERED = "neverRegistered"
NEVER_READY = "neverReady"
NOTHING_ACCEPTED = "nothingAccepted"
TAKEN_BACK = "takenBack"
FEWER_ACCEPTED = "fewerAccepted"
NO_ANSWER = "noAnswer"
MACHINE_LOST = "machineLost"
NO_MACHINE = "the cloud accepted no machine"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"


def refused(case: GroupContext) -> list[Failure]:
    """Increases that the cloud did not accept, or accepted for no machine at all. A busy cloud is no failure."""
    found = []
    for outcome in case.outcomes:
        if not isinstance(outcome.action, IncreaseSize):
            continue
        if isinstance(outcome, Failed) and _is_fault(outcome, case):
            found.append(
                Failure(
                    group=case.ref,
                    at=outcome.started,
                    error_class=outcome.error_class,
                    scope=outcome.scope,
                    code=outcome.code,
                    message=outcome.message,
                )
            )
        elif isinstance(outcome, Done) and not outcome.accepted:
            found.append(Failure(group=case.ref, at=outcome.started, code=NOTHING_ACCEPTED, message=NO_MACHINE))
    return found


def _is_fault(outcome: Failed, case: GroupContext) -> bool:
    """A busy cloud and another writer are no fault of the group. If the group's size, read again, is what it was
    expected to be, the refusal for its size is one: nothing that is read of the group can be acted upon.
    """
    if outcome.is_busy:
        return False
    return outcome.code != TargetChanged.code or case.seen.target == outcome.action.expected_target


def without_effect(case: GroupContext, taken_back: int) -> list[Failure]:
    """Increases that the cloud accepted and then is asked for no more: asking again might go on for ever."""
    if not taken_back:
        return []
    message = f"{taken_back} machines were accepted, and the target size is {case.target} again"
    return [Failure(group=case.ref, at=case.now, code=TAKEN_BACK, message=message)]


def not_delivered(case: GroupContext, others: Sequence[Failure]) -> list[Failure]:
    """What the group owes a reservation for good, unless that is among the ``others``."""
    short = case.shortfall
    if short is None or others:
        return []
    return [Failure(group=case.ref, at=case.now, asked=short.asked, code=short.code, message=short.message)]


def failed_to_start(case: GroupContext) -> list[Failure]:
    """Failures that a provider reports for the first time."""
    return [
        Failure(
            group=case.ref,
            at=case.now,
            error_class=failure.error_class,
            scope=failure.scope,
            code=failure.code,
            message=failure.message,
        )
        for failure in case.new_failures
    ]


def late_machines(
    case: GroupContext,
    timed_out: int,
    newly_late: Sequence[str] = (),
    newly_unready: Sequence[str] = (),
    asked: float = 0.0,
) -> list[Failure]:
    """Machines that are overdue: those that never appeared (the first were ``asked`` for then), never registered, or
    never became ready.
    """
    found = []
    if timed_out:
        found.append((TIMEOUT, f"{timed_out} machines did not appear in time"))
    if newly_late:
        found.append((NEVER_REGISTERED, f"{len(newly_late)} machines did not become nodes in time"))
    if newly_unready:
        found.append((NEVER_READY, f"{len(newly_unready)} nodes were not ready in time"))
    return [
        Failure(group=case.ref, at=case.now, asked=asked if code == TIMEOUT else 0.0, code=code, message=message)
        for code, message in found
    ]


def backed_off(
    backoffs: Mapping[GroupRef, Backoff],
    failures: Iterable[Failure],
    groups: Mapping[GroupRef, GroupSeen],
    settings: FailureSettings,
) -> dict[GroupRef, Backoff]:
    """The backoffs after these failures; several of one loop count once for a group.

    A group that shares the scope of a failure shares a short backoff, once: while that is remembered, or a backoff of
    its own is, only its own failures count. So every group is asked now and then, whatever befalls its peers.
    """
    failures = list(failures)
    changed = dict(backoffs)
    for failure in failures:
        changed[failure.group] = after_failure(backoffs.get(failure.group), settings, failure)
    for failure in failures:
        for ref in _peers(failure, groups):
            if ref not in changed:
                changed[ref] = shared_backoff(settings, failure)
    return changed


def _peers(failure: Failure, groups: Mapping[GroupRef, GroupSeen]) -> list[GroupRef]:
    """The other groups of the provider in the same zone, or of the same instance type, where the failure is of those.

    One account has quotas of many kinds: what it lacks for one group it may have for the next, which is asked at once
    and backs off when it is refused itself.
    """
    keys = {FailureScope.ZONE: ZONE_LABEL, FailureScope.INSTANCE_TYPE: INSTANCE_TYPE_LABEL}
    if failure.scope not in keys or failure.group not in groups:
        return []
    key = keys[failure.scope]
    own = _template_label(groups[failure.group], key)
    peers = (ref for ref in groups if ref.provider == failure.group.provider and ref != failure.group)
    return [ref for ref in peers if own and _template_label(groups[ref], key) == own]


def _template_label(group: GroupSeen, key: str) -> str:
    return group.template.metadata.labels.get(key, "") if group.template is not None else ""
