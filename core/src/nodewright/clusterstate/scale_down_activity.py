"""The times at which groups last grew and shrank, and the removals that failed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from msgspec.structs import replace as changed

from nodewright.clusterstate.deletions import QUARANTINE_SECONDS
from nodewright.clusterstate.memory import Flapping, MovedPods, RemovalFailure, ScaleDownMemory
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import GroupRef
from nodewright.model.policy import Policy
from nodewright.model.removal import RemovalEnded, RemovalReason, RemovalResult
from nodewright.model.settings import ScaleDownSettings
from nodewright.snapshot.observation import Observation

# The longest pause between two attempts, and for how long a failure is remembered after it, in seconds.
_LONGEST_PAUSE = 7200.0
_FORGET_FAILURE = 10800.0
# The number of characters of an error message that are kept.
_MOST_TEXT = 300
# Results that are likely to repeat. The causes of others (a pause, new pods) pass by themselves.
_COUNTED = (RemovalResult.FAILED_TO_EVICT, RemovalResult.FAILED_TO_DELETE)


def removal_failures_after(
    held: Mapping[str, RemovalFailure],
    ended: Sequence[RemovalEnded],
    seen: Observation,
    settings: ScaleDownSettings,
    policy: Policy,
) -> Mapping[str, RemovalFailure]:
    """Return the failed removals by node, after these removals ended.

    The next attempt waits for the time that a node must be unneeded, at least for the recheck timeout, and twice as
    long after each further failure. CA does not wait.
    """
    if not held and not ended:
        return held
    found = dict(held)
    for end in ended:
        name = end.removal.node
        if end.result == RemovalResult.OK:
            found.pop(name, None)
        else:
            found[name] = _after(found.get(name), end, _patience(end, seen, settings, policy))
    there = {node.metadata.name for node in seen.snapshot.live_nodes()}
    return {name: back for name, back in found.items() if name in there and back.until + _FORGET_FAILURE > seen.now}


def removal_failure_no_later(held: RemovalFailure, now: float) -> RemovalFailure:
    """Return the failure with times as if it had occurred no later than now."""
    late = max(0.0, held.at - now)
    return changed(held, at=held.at - late, until=held.until - late) if late else held


def _patience(end: RemovalEnded, seen: Observation, settings: ScaleDownSettings, policy: Policy) -> float:
    """Return the first pause, in seconds."""
    group = seen.groups.get(end.removal.group)
    if not policy.pauses_after_removals or group is None:
        return 0.0
    return max(group.options.scale_down_unneeded_seconds, settings.unremovable_node_recheck_timeout)


def _after(held: RemovalFailure | None, end: RemovalEnded, patience: float) -> RemovalFailure:
    times, message = (held.times if held is not None else 0), f"{end.result}: {end.message}"[:_MOST_TEXT]
    if end.result not in _COUNTED:
        return RemovalFailure(times=times, at=end.at, until=held.until if held is not None else end.at, message=message)
    pause = min(_LONGEST_PAUSE, patience * 2.0 ** min(times, 30))
    return RemovalFailure(times=times + 1, at=end.at, until=end.at + pause, message=message)


T = TypeVar("T")
# Seconds for which the moves of a controller's pods count.
MOVES_WINDOW = 3600.0
_RENEWED = (RemovalReason.EXPIRED, RemovalReason.DRIFTED)
# Seconds after it shrank within which a group that grows again is flapping.
_TURN_WINDOW = 3600.0
# The longest wait of a flapping group, and after how long its turns are forgotten, in seconds.
LONGEST_WAIT = 7200.0
_FORGET_TURNS = 10800.0


def with_activity(
    memory: ScaleDownMemory,
    seen: Observation,
    outcomes: Sequence[Outcome],
    ended: Sequence[RemovalEnded],
    settings: ScaleDownSettings,
    policy: Policy,
) -> ScaleDownMemory:
    """Return ``memory`` with the increases that were made, and the removals that began and ended."""
    if not settings.scale_down_enabled:
        return memory
    if not memory.engine_started:
        memory = _taken_up(memory, seen.now, policy)
    # A group whose old nodes are renewed shrinks and grows again without flapping.
    grown, grown_for_pods = _growth(outcomes), _growth(one for one in outcomes if _is_for_pods(one.action))
    shrunk = _last((end for end in ended if end.removal.reason not in _RENEWED), RemovalResult.OK)
    begun = [removing.started for removing in seen.removing.values()]
    unmarked = [end.at for end in ended if end.result == RemovalResult.FAILED_TO_MARK]
    found = replace(
        memory,
        grown_at=_merged(memory.grown_at, grown, seen),
        shrunk_at=_merged(memory.shrunk_at, shrunk, seen),
        failed_at=_merged(memory.failed_at, _last(ended, RemovalResult.FAILED_TO_DELETE), seen),
        removal_started_at=max(memory.removal_started_at, *begun, *_starts(ended), 0.0),
        marking_failed_at=max(memory.marking_failed_at, *unmarked, 0.0),
        quarantined_until={ref: at for ref, at in memory.quarantined_until.items() if at > seen.now},
        removal_failures=removal_failures_after(memory.removal_failures, ended, seen, settings, policy),
    )
    if not policy.pauses_after_removals:
        return found
    flapping = _flapping(memory, grown_for_pods, seen)
    return replace(found, flapping=flapping, moved_pods=_moved_pods(memory.moved_pods, ended, seen.now))


def _taken_up(memory: ScaleDownMemory, now: float, policy: Policy) -> ScaleDownMemory:
    """Return what a new process takes over from memory; under profile "ca" nothing.

    Times of the future become now, so that nothing waits forever.
    """
    if not policy.keeps_timers_over_restart:
        return ScaleDownMemory(engine_started=now)
    return replace(
        memory,
        unneeded_since=_no_later(memory.unneeded_since, now),
        grown_at=_no_later(memory.grown_at, now),
        shrunk_at=_no_later(memory.shrunk_at, now),
        failed_at=_no_later(memory.failed_at, now),
        removal_started_at=min(memory.removal_started_at, now),
        marking_failed_at=min(memory.marking_failed_at, now),
        quarantined_until=_no_later(memory.quarantined_until, now + QUARANTINE_SECONDS),
        moved_pods={
            owner: tuple(_move_no_later(move, now) for move in moves) for owner, moves in memory.moved_pods.items()
        },
        flapping={ref: _flap_no_later(held, now) for ref, held in memory.flapping.items()},
        removal_failures={name: removal_failure_no_later(held, now) for name, held in memory.removal_failures.items()},
        engine_started=now,
    )


def _no_later(moments: Mapping[T, float], now: float) -> dict[T, float]:
    return {key: min(at, now) for key, at in moments.items()}


def _move_no_later(held: MovedPods, now: float) -> MovedPods:
    return held._replace(at=min(held.at, now))


def _flap_no_later(held: Flapping, now: float) -> Flapping:
    late = max(0.0, held.last - now)
    return changed(held, last=held.last - late, until=held.until - late) if late else held


def _is_for_pods(action: object) -> bool:
    """Return whether a group grew for pending pods, and not for a move or for its minimum size."""
    if not isinstance(action, IncreaseSize) or action.move:
        return False
    return bool(action.pod_count or action.request or action.hedged)


def _growth(outcomes: Iterable[Outcome]) -> dict[GroupRef, float]:
    """Return when each group was last asked to grow without a refusal."""
    found: dict[GroupRef, float] = {}
    for outcome in outcomes:
        refused = isinstance(outcome, Failed) or (isinstance(outcome, Done) and not outcome.accepted)
        if isinstance(outcome.action, IncreaseSize) and not refused:
            found[outcome.action.group] = max(found.get(outcome.action.group, 0.0), outcome.started)
    return found


def _last(ended: Iterable[RemovalEnded], result: RemovalResult) -> dict[GroupRef, float]:
    found: dict[GroupRef, float] = {}
    for end in ended:
        if end.result == result:
            found[end.removal.group] = max(found.get(end.removal.group, 0.0), end.at)
    return found


def _starts(ended: Iterable[RemovalEnded]) -> list[float]:
    """Return when ended removals began; those whose node could not be tainted never began."""
    return [end.started for end in ended if end.result != RemovalResult.FAILED_TO_MARK]


def _merged(
    held: Mapping[GroupRef, float], fresh: Mapping[GroupRef, float], seen: Observation
) -> Mapping[GroupRef, float]:
    """Return the later time of both, for existing groups."""
    if not fresh and all(ref in seen.groups for ref in held):
        return held
    refs = [ref for ref in dict.fromkeys((*held, *fresh)) if ref in seen.groups]
    return {ref: max(held.get(ref, 0.0), fresh.get(ref, 0.0)) for ref in refs}


def _flapping(
    memory: ScaleDownMemory, grown: Mapping[GroupRef, float], seen: Observation
) -> Mapping[GroupRef, Flapping]:
    """Return the groups that needed a node again within an hour after they lost one, or within their unneeded time.

    A longer unneeded time would have kept that node. Removals in such a group wait for the unneeded time once more, and
    twice as long with each further turn.
    """
    found = {
        ref: held for ref, held in memory.flapping.items() if max(held.until, held.last + _FORGET_TURNS) > seen.now
    }
    for ref, at in grown.items():
        group, shrunk = seen.groups.get(ref), memory.shrunk_at.get(ref)
        if group is None or shrunk is None or shrunk > at:
            continue
        patience = group.options.scale_down_unneeded_seconds
        held = found.get(ref)
        if at - shrunk <= max(patience, _TURN_WINDOW) and (held is None or held.last < shrunk):
            turns = held.turns + 1 if held is not None else 1
            wait = min(LONGEST_WAIT, patience * 2.0 ** min(turns - 1, 30))
            found[ref] = Flapping(turns=turns, last=at, until=at + wait)
    return found


def _moved_pods(
    held: Mapping[str, tuple[MovedPods, ...]], ended: Sequence[RemovalEnded], now: float
) -> Mapping[str, tuple[MovedPods, ...]]:
    """Return what removals moved within the window, by controller."""
    found = dict(held)
    for end in ended:
        left = set(end.evicted)
        owners = [owner for pod, owner in zip(end.removal.pods, end.removal.owners, strict=False) if pod in left]
        for owner in dict.fromkeys(owners):
            if owner:
                found[owner] = (*found.get(owner, ()), MovedPods(end.at, owners.count(owner)))
    recent = {owner: tuple(move for move in moves if move.at + MOVES_WINDOW > now) for owner, moves in found.items()}
    return {owner: moves for owner, moves in recent.items() if moves}
