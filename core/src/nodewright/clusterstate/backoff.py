"""How long a group is not asked to grow after a failure, and how little after that."""

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
from nodewright.model.node import ZONE_LABEL
from nodewright.model.settings import FailureSettings
from nodewright.snapshot.observation import GroupSeen

# A group that only shares a scope with the one that failed is left alone for this part of a first backoff.
_SHARED_PART = 0.5


def after_failure(held: Backoff | None, settings: FailureSettings, failure: Failure) -> Backoff:
    """The backoff that a failure leaves: a first one starts short, one after an ended backoff doubles it.

    A failure while the backoff lasts changes what is shown, not how long it lasts from now. A group that had only shared
    another group's backoff fails for the first time.
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
    """Return a backoff of so many seconds that tells what failed."""
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
    """What is still remembered: an entry is forgotten a good while after its last failure."""
    reset = settings.node_group_backoff_reset_timeout
    return {ref: backoff for ref, backoff in backoffs.items() if not backoff.last_failure + reset < now}


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


def refused(context: GroupContext) -> list[Failure]:
    """Increases that the cloud did not accept, or accepted for no machine at all. A busy cloud is no failure."""
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
                    code=outcome.code,
                    message=outcome.message,
                )
            )
        elif isinstance(outcome, Done) and not outcome.accepted:
            found.append(Failure(group=context.ref, at=outcome.started, code=NOTHING_ACCEPTED, message=NO_MACHINE))
    return found


def _is_fault(outcome: Failed, context: GroupContext) -> bool:
    """A busy cloud and another writer are no fault of the group. If the group's size, read again, is what it was
    expected to be, the refusal for its size is one: nothing that is read of the group can be acted upon.
    """
    if outcome.is_busy:
        return False
    return outcome.code != TargetChanged.code or context.seen.target == outcome.action.expected_target


def without_effect(context: GroupContext, taken_back: int) -> list[Failure]:
    """Increases that the cloud accepted and then is asked for no more: asking again might go on for ever."""
    if not taken_back:
        return []
    message = f"{taken_back} machines were accepted, and the target size is {context.target} again"
    return [Failure(group=context.ref, at=context.now, code=TAKEN_BACK, message=message)]


def not_delivered(context: GroupContext, others: Sequence[Failure]) -> list[Failure]:
    """What the group owes a reservation for good, unless that is among the ``others``."""
    short = context.shortfall
    if short is None or others:
        return []
    return [Failure(group=context.ref, at=context.now, asked=short.asked, code=short.code, message=short.message)]


def failed_to_start(context: GroupContext) -> list[Failure]:
    """Failures that a provider reports for the first time."""
    return [
        Failure(
            group=context.ref,
            at=context.now,
            error_class=failure.error_class,
            scope=failure.scope,
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
        Failure(group=context.ref, at=context.now, asked=asked if code == TIMEOUT else 0.0, code=code, message=message)
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


# One machine, then two, then four, then as many as are needed.
_STEPS = 3


def allowance(backoff: Backoff | None, now: float) -> int | None:
    """How many machines a group on probation may be asked for; None for one that is not.

    Probation ends when the group has proved itself, fails again, or the failure is forgotten. A group that only shared
    the backoff of another did not fail: it has nothing to prove.
    """
    if backoff is None or backoff.shared_from or is_active(backoff, now) or backoff.delivered >= _STEPS:
        return None
    return int(2**backoff.delivered)


def without_probation(backoffs: Mapping[GroupRef, Backoff]) -> dict[GroupRef, Backoff]:
    """The backoffs where nothing is probed: whoever reads them later finds every group proven."""
    return {
        ref: backoff if backoff.delivered >= _STEPS else replace(backoff, delivered=_STEPS)
        for ref, backoff in backoffs.items()
    }


def left_to_ask(group: GroupState, now: float) -> int | None:
    """What is left of the allowance: machines that are still owed use it up. None without probation."""
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
    """The backoffs after requests that were made on probation have arrived in full.

    A failure in the same loop is stronger: with it the next backoff has begun.
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


# The pause after the first busy answer; it doubles with each further one in a row, up to the longest. Seconds.
FIRST_PAUSE = 10.0


LONGEST_PAUSE = 120.0


# The cloud may ask for more than that; more than this is not granted. Seconds.
LONGEST_TOLD = 600.0


# A busy answer so long after the last pause has ended is a first one again. Seconds.
_FORGET_DEFERRAL = 600.0


def deferrals_after(
    held: Mapping[GroupRef, Deferral], outcomes: Iterable[Outcome], now: float
) -> dict[GroupRef, Deferral]:
    """Return the deferrals once these calls are known. Any other answer ends a group's deferral.

    The deletion that ends a drained removal does not count: the removal itself waits and asks again.
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
    """Return the deferral as it would be had it begun no later than now."""
    return replace(held, until=min(held.until, now + held.pause))
