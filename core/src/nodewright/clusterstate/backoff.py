"""Backoffs, probation and deferrals: how long a group does not grow after a failure, and by how little afterwards."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Backoff, Deferral, Memory
from nodewright.clusterstate.requests import find_arrived
from nodewright.clusterstate.state import Failure, GroupContext, GroupState, find_increases
from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeletionCause,
    Done,
    Failed,
    IncreaseSize,
    Outcome,
)
from nodewright.model.errors import TargetChanged
from nodewright.model.group import FailureScope, GroupRef
from nodewright.model.node import INSTANCE_TYPE_LABEL, ZONE_LABEL
from nodewright.model.settings import FailureSettings
from nodewright.snapshot.observation import GroupSeen

# Codes of failures that nodewright detects itself; others come from clouds.
TIMEOUT = "timeout"
NEVER_REGISTERED = "neverRegistered"
NEVER_READY = "neverReady"
NOTHING_ACCEPTED = "nothingAccepted"
TAKEN_BACK = "takenBack"
FEWER_ACCEPTED = "fewerAccepted"
NO_ANSWER = "noAnswer"
MACHINE_LOST = "machineLost"

NO_MACHINE = "the cloud accepted no machine"

# A shared backoff lasts for this part of a first backoff.
_SHARED_PART = 0.5


def after_failure(held: Backoff | None, settings: FailureSettings, failure: Failure) -> Backoff:
    """Return the backoff after a failure: the first one is short, each later one is twice as long.

    A failure during the backoff changes the message that is shown, and the same duration starts again. For a group that
    only shared another group's backoff this is the first failure.
    """
    asked = failure.asked
    if held is None or held.shared_from:
        duration = settings.initial_node_group_backoff_duration
    elif held.until < failure.at:
        duration = min(2 * held.duration, settings.max_node_group_backoff_duration)
    else:
        duration, asked = held.duration, max(asked, held.asked)
    return replace(_from(failure, duration), asked=asked)


def shared_backoff(settings: FailureSettings, failure: Failure) -> Backoff:
    """Return the backoff of a group that did not fail itself: it ends before the one of the group that failed."""
    part = _SHARED_PART * settings.initial_node_group_backoff_duration
    return replace(_from(failure, part), shared_from=str(failure.group))


def _from(failure: Failure, duration: float) -> Backoff:
    """Return a backoff of ``duration`` seconds that describes the failure."""
    return Backoff(
        until=failure.at + duration,
        duration=duration,
        last_failure=failure.at,
        error_class=failure.error_class,
        code=failure.code,
        message=failure.message,
    )


def is_active(backoff: Backoff | None, now: float) -> bool:
    return backoff is not None and not backoff.until < now


def without_stale(
    backoffs: Mapping[GroupRef, Backoff], settings: FailureSettings, now: float
) -> dict[GroupRef, Backoff]:
    """Return the backoffs without those whose last failure is older than the reset timeout."""
    reset = settings.node_group_backoff_reset_timeout
    return {ref: backoff for ref, backoff in backoffs.items() if not backoff.last_failure + reset < now}


def refused(context: GroupContext) -> list[Failure]:
    """Return a failure for each increase that the cloud refused, or for which it accepted no machine.

    A busy cloud is not a failure.
    """
    found = []
    for outcome in context.outcomes:
        if not isinstance(outcome.action, IncreaseSize):
            continue
        if isinstance(outcome, Failed) and _is_fault(outcome, context):
            found.append(
                Failure(
                    group=context.ref,
                    at=outcome.started,
                    error_class=outcome.error_class,
                    scope=outcome.scope,
                    bucket=outcome.bucket,
                    code=outcome.code,
                    message=outcome.message,
                )
            )
        elif isinstance(outcome, Done) and not outcome.accepted:
            found.append(Failure(group=context.ref, at=outcome.started, code=NOTHING_ACCEPTED, message=NO_MACHINE))
    return found


def _is_fault(outcome: Failed, context: GroupContext) -> bool:
    """Return whether a refused increase is a failure of the group.

    Neither a busy cloud nor a target that another writer changed is a failure. If the cloud refused the increase because
    of a changed target, but the target read now is the expected one, it counts: the reads of the group are not reliable.
    """
    if outcome.is_busy:
        return False
    return outcome.code != TargetChanged.code or context.seen.target == outcome.action.expected_target


def without_effect(context: GroupContext, taken_back: int) -> list[Failure]:
    """Return a failure for accepted increases whose machines are no longer part of the target.

    Without a backoff the group might be asked again forever.
    """
    if not taken_back:
        return []
    message = f"{taken_back} machines were accepted, and the target size is {context.target} again"
    return [Failure(group=context.ref, at=context.now, code=TAKEN_BACK, message=message)]


def not_delivered(context: GroupContext, others: Sequence[Failure]) -> list[Failure]:
    """Return a failure if the group will never deliver what it owes a reservation, unless there are ``others``."""
    short = context.shortfall
    if short is None or others:
        return []
    return [Failure(group=context.ref, at=context.now, asked=short.asked, code=short.code, message=short.message)]


def failed_to_start(context: GroupContext) -> list[Failure]:
    """Return a failure for each failed creation that the provider reports for the first time."""
    return [
        Failure(
            group=context.ref,
            at=context.now,
            error_class=failure.error_class,
            scope=failure.scope,
            bucket=failure.bucket,
            code=failure.code,
            message=failure.message,
        )
        for failure in context.new_failures
    ]


def late_machines(
    context: GroupContext,
    timed_out: int,
    newly_late: Sequence[str] = (),
    newly_unready: Sequence[str] = (),
    asked: float = 0.0,
) -> list[Failure]:
    """Return a failure for each kind of overdue machine.

    ``timed_out``: machines that never appeared, the first of which was asked for at ``asked`` (epoch seconds).
    ``newly_late``: machines that never registered. ``newly_unready``: nodes that never became ready.
    """
    found = []
    if timed_out:
        found.append((TIMEOUT, f"{timed_out} machines did not appear in time"))
    if newly_late:
        found.append((NEVER_REGISTERED, f"{len(newly_late)} machines did not become nodes in time"))
    if newly_unready:
        found.append((NEVER_READY, f"{len(newly_unready)} nodes were not ready in time"))
    return [
        Failure(group=context.ref, at=context.now, asked=asked if code == TIMEOUT else 0.0, code=code, message=message)
        for code, message in found
    ]


def backed_off(
    backoffs: Mapping[GroupRef, Backoff],
    failures: Iterable[Failure],
    groups: Mapping[GroupRef, GroupSeen],
    settings: FailureSettings,
) -> dict[GroupRef, Backoff]:
    """Return the backoffs after these failures; several failures of one loop count once for a group.

    A group that shares the bucket or scope of a failure shares a short backoff, once. While that backoff or one of its own is
    remembered, only its own failures count, so every group is asked now and then.
    """
    failures = list(failures)
    changed = dict(backoffs)
    for failure in failures:
        changed[failure.group] = after_failure(backoffs.get(failure.group), settings, failure)
    for failure in failures:
        for ref in _sharing(failure, groups):
            if ref not in changed:
                changed[ref] = shared_backoff(settings, failure)
    return changed


def _sharing(failure: Failure, groups: Mapping[GroupRef, GroupSeen]) -> list[GroupRef]:
    """Return the groups that share a failure: those that draw on its bucket, or those of its scope if it has none.

    If the failed group does not list the bucket itself, other groups that draw on it may not list it either: then those
    of the scope share the failure, too.
    """
    peers = drawing_on(failure.bucket, failure.group, groups) if failure.bucket else []
    own = groups.get(failure.group)
    if own is None or failure.bucket not in own.group.buckets:
        peers += sharing_scope(failure.group, failure.scope, groups)
    return peers


def drawing_on(bucket: str, group: GroupRef, groups: Mapping[GroupRef, GroupSeen]) -> list[GroupRef]:
    """Return the provider's other groups whose machines draw on this quota or pool of capacity."""
    peers = (ref for ref in groups if ref.provider == group.provider and ref != group)
    return [ref for ref in peers if bucket in groups[ref].group.buckets]


def sharing_scope(group: GroupRef, scope: FailureScope, groups: Mapping[GroupRef, GroupSeen]) -> list[GroupRef]:
    """Return the provider's other groups of the same zone or instance type, if a shortage has that scope.

    A failure of the account reaches no other group: an account has many quotas. The next group is asked and backs off
    by itself if it is refused.
    """
    keys = {FailureScope.ZONE: ZONE_LABEL, FailureScope.INSTANCE_TYPE: INSTANCE_TYPE_LABEL}
    if scope not in keys or group not in groups:
        return []
    key = keys[scope]
    own = _template_label(groups[group], key)
    peers = (ref for ref in groups if ref.provider == group.provider and ref != group)
    return [ref for ref in peers if own and _template_label(groups[ref], key) == own]


def _template_label(group: GroupSeen, key: str) -> str:
    return group.template.metadata.labels.get(key, "") if group.template is not None else ""


# A group on probation gets one machine, then two, then four; then probation ends.
_STEPS = 3


def allowance(backoff: Backoff | None, now: float) -> int | None:
    """Return how many machines a group on probation may be asked for; None if it is not on probation.

    Probation ends when the group has delivered, fails again, or the failure is forgotten. A group that only shared
    another group's backoff is not on probation.
    """
    if backoff is None or backoff.shared_from or is_active(backoff, now) or backoff.delivered >= _STEPS:
        return None
    return int(2**backoff.delivered)


def without_probation(backoffs: Mapping[GroupRef, Backoff]) -> dict[GroupRef, Backoff]:
    """Return the backoffs with every group counted as proven, for settings without probation."""
    return {
        ref: backoff if backoff.delivered >= _STEPS else replace(backoff, delivered=_STEPS)
        for ref, backoff in backoffs.items()
    }


def allowance_left(group: GroupState, now: float) -> int | None:
    """Return the allowance less the machines that its requests still wait for; None if the group is not on probation."""
    most = allowance(group.backoff, now)
    return None if most is None else max(0, most - sum(request.increase for request in group.requests))


def after_deliveries(
    backoffs: Mapping[GroupRef, Backoff],
    memory: Memory,
    outcomes: Sequence[Outcome],
    states: Mapping[GroupRef, GroupState],
    members: Membership,
    now: float,
) -> dict[GroupRef, Backoff]:
    """Return the backoffs after requests that were made on probation have arrived in full.

    A failure in the same loop starts the next backoff instead.
    """
    changed = dict(backoffs)
    for ref, backoff in backoffs.items():
        group = states.get(ref)
        if group is None or allowance(backoff, now) is None:
            continue
        increases = find_increases(outcome for outcome in outcomes if outcome.action.group == ref)
        asked = {request.started for request in memory.requests.get(ref, ())} | {
            increase.started for increase in increases
        }
        settled = asked - {request.started for request in group.requests}
        delivered = sum(started > backoff.until for started in settled)
        if delivered and find_arrived(group.seen, members, memory):
            changed[ref] = replace(backoff, delivered=min(_STEPS, backoff.delivered + delivered))
    return changed


# The pause after the first busy answer, in seconds. It doubles with each further one in a row, up to the longest.
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 120.0
# The longest pause that a cloud may ask for, in seconds.
LONGEST_TOLD = 600.0
# Seconds after the last pause from which a busy answer counts as a first one.
_FORGET_DEFERRAL = 600.0


def deferrals_after(
    held: Mapping[GroupRef, Deferral], outcomes: Iterable[Outcome], now: float
) -> dict[GroupRef, Deferral]:
    """Return the deferrals after these calls. Any answer but a busy one ends a group's deferral.

    The deletion at the end of a drain does not count: the removal itself waits and retries.
    """
    found = {ref: deferral for ref, deferral in held.items() if now <= deferral.until + _FORGET_DEFERRAL}
    for outcome in outcomes:
        if not _is_deferrable(outcome):
            continue
        ref = outcome.action.group
        if isinstance(outcome, Failed) and outcome.retry_after is not None:
            times = found[ref].times + 1 if ref in found else 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - 1, 10))
            pause = max(pause, min(outcome.retry_after, LONGEST_TOLD))
            found[ref] = Deferral(
                until=now + pause, pause=pause, times=times, code=outcome.code, message=outcome.message
            )
        else:
            found.pop(ref, None)
    return found


def _is_deferrable(outcome: Outcome) -> bool:
    action = outcome.action
    if isinstance(action, DeleteInstances):
        return action.cause != DeletionCause.REMOVAL
    return isinstance(action, (IncreaseSize, DecreaseTargetSize, CreateNodeGroup))


def is_deferred(deferral: Deferral | None, now: float) -> bool:
    return deferral is not None and now < deferral.until


def deferral_no_later(held: Deferral, now: float) -> Deferral:
    """Return the deferral as if it had begun no later than now."""
    return replace(held, until=min(held.until, now + held.pause))
