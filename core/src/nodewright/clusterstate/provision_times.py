"""Provision times that are learned from a group's own arrivals (docs/adr/0008-probation-and-learned-time.md)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import msgspec

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import ArrivalHistory, Awaited, Bin, Memory
from nodewright.clusterstate.requests import find_arrived, joined_machines
from nodewright.clusterstate.state import GroupState, find_increases
from nodewright.model.action import Outcome
from nodewright.model.group import GroupRef
from nodewright.model.meta import Resources
from nodewright.model.node import Node
from nodewright.model.settings import FailureSettings
from nodewright.snapshot.observation import GroupSeen

# A time is learned from at least so many arrivals of at least so many increases.
MIN_ARRIVALS = 30
MIN_SCALE_UPS = 3
PERCENTILE = 99
# The learned time is the percentile times this.
MARGIN = 2.5
# The largest share by which a held time falls in a day.
DAILY_FALL = 0.2
_WINDOW = 500  # arrivals; between one and two windows are remembered
_WIDTH = 1.1  # each bin reaches a tenth further than the one before
_LAST_STEP = 200  # some six years
_MAX_AWAITED = 32
_DAY = 86_400.0


def observe_arrivals(
    history: ArrivalHistory,
    asked: Iterable[Awaited],
    arrived: int,
    outstanding: int,
    settings: FailureSettings,
    now: float,
) -> ArrivalHistory:
    """Return the history after one loop: new increases, machines that became nodes, machines still outstanding.

    An arrival belongs to the oldest increase, and took from that increase until now. A machine that is awaited and not
    outstanding failed or was withdrawn.
    """
    line = _joined((*history.awaited, *asked))
    came = _first(line, arrived)
    changed = msgspec.structs.replace(
        history, awaited=_without_first(_without_first(line, arrived), _total(line) - arrived - outstanding)
    )
    # After the clock was set back an increase may lie in the future: how long its machines took is unknown.
    came = [some for some in came if some.asked <= now]
    for some in came:
        changed = _counted(changed, some, now)
    if not came:
        return changed
    if not history.held:
        return _activated(changed, settings, now)
    fallen = msgspec.structs.replace(changed, held=_exact(history, settings, now), held_at=now)
    return msgspec.structs.replace(fallen, held=_exact(fallen, settings, now))


def learned_deadline(history: ArrivalHistory, settings: FailureSettings, now: float) -> float | None:
    """Return the group's provision time in whole seconds; None until enough is known.

    It is the 99th percentile with a margin. A longer time that was held before falls towards it by at most a fifth a
    day.
    """
    if not history.held:
        return None
    return min(settings.max_learned_provision_time, math.ceil(_exact(history, settings, now)))


def usual_time(histories: Iterable[ArrivalHistory]) -> float | None:
    """Return the seconds within which 99 of 100 arrivals of all these groups came; None with fewer than 30 arrivals."""
    bins = tuple(counted for history in histories for counted in (*history.recent, *history.before))
    return _percentile(ArrivalHistory(recent=bins)) if _total(bins) >= MIN_ARRIVALS else None


def after_timeout(history: ArrivalHistory, settings: FailureSettings, now: float) -> ArrivalHistory:
    """Return the history after machines were given up: the next ones get twice the time."""
    if not history.held:
        return history
    doubled = 2 * _exact(history, settings, now)
    return msgspec.structs.replace(history, held=min(settings.max_learned_provision_time, doubled), held_at=now)


def _exact(history: ArrivalHistory, settings: FailureSettings, now: float) -> float:
    days = max(0.0, now - history.held_at) / _DAY
    return _bounded(max(MARGIN * _percentile(history), history.held * (1 - DAILY_FALL) ** days), settings)


def _bounded(seconds: float, settings: FailureSettings) -> float:
    return min(settings.max_learned_provision_time, max(settings.min_learned_provision_time, seconds))


def _activated(history: ArrivalHistory, settings: FailureSettings, now: float) -> ArrivalHistory:
    """Return the history with its first deadline, once enough is known."""
    enough = _total(history.recent) + _total(history.before) >= MIN_ARRIVALS
    if not enough or len(history.scale_ups) < MIN_SCALE_UPS:
        return history
    return msgspec.structs.replace(history, held=_bounded(MARGIN * _percentile(history), settings), held_at=now)


def _counted(history: ArrivalHistory, came: Awaited, now: float) -> ArrivalHistory:
    """Return the history with the arrivals of one increase. A full window becomes ``before``."""
    seconds = max(1.0, now - came.asked)
    step = min(_LAST_STEP, math.ceil(math.log(seconds) / math.log(_WIDTH) - 1e-9))
    counts: Mapping[int, int] = dict(history.recent)
    recent = tuple(Bin(*pair) for pair in sorted({**counts, step: counts.get(step, 0) + came.machines}.items()))
    scale_ups = history.scale_ups
    if came.asked not in scale_ups:
        scale_ups = (*scale_ups, came.asked)[-MIN_SCALE_UPS:]
    if _total(recent) < _WINDOW:
        return msgspec.structs.replace(history, recent=recent, scale_ups=scale_ups)
    return msgspec.structs.replace(history, recent=(), before=recent, scale_ups=scale_ups)


def _percentile(history: ArrivalHistory) -> float:
    """Return the seconds within which 99 of 100 arrivals came: nearest rank, rounded up to the end of a bin."""
    bins = sorted((*history.recent, *history.before))
    rank = -(-_total(bins) * PERCENTILE // 100)
    for step, arrivals in bins:
        rank -= arrivals
        if rank <= 0:
            return float(_WIDTH**step)
    return 0.0


def _total(counted: Iterable[Awaited | Bin]) -> int:
    return sum(number for _, number in counted)


def _joined(line: tuple[Awaited, ...]) -> tuple[Awaited, ...]:
    """Return the queue, bounded in length: the last increases are merged and count from the earliest of them."""
    line = tuple(awaited for awaited in line if awaited.machines > 0)
    surplus = line[_MAX_AWAITED - 1 :]
    if len(surplus) <= 1:
        return line
    return (*line[: _MAX_AWAITED - 1], Awaited(surplus[0].asked, _total(surplus)))


def _first(line: tuple[Awaited, ...], count: int) -> list[Awaited]:
    """Return the oldest ``count`` machines of the queue."""
    taken = []
    for awaited in line:
        some = min(count, awaited.machines)
        count -= some
        if some > 0:
            taken.append(Awaited(awaited.asked, some))
    return taken


def _without_first(line: tuple[Awaited, ...], count: int) -> tuple[Awaited, ...]:
    """Return the queue without its oldest ``count`` machines."""
    left = []
    for awaited in line:
        gone = min(max(0, count), awaited.machines)
        count -= gone
        if gone < awaited.machines:
            left.append(Awaited(awaited.asked, awaited.machines - gone))
    return tuple(left)


Histories = Mapping[GroupRef, ArrivalHistory]


def learn_provision_times(
    memory: Memory,
    groups: Iterable[GroupSeen],
    members: Membership,
    outcomes: Sequence[Outcome],
    settings: FailureSettings,
    now: float,
) -> dict[GroupRef, ArrivalHistory]:
    """Return the arrival history of every group that has one; empty unless provision times are learned.

    A group whose provider sets its provision time is left out.
    """
    histories: dict[GroupRef, ArrivalHistory] = {}
    if not settings.learns_provision_time:
        return histories
    for group in groups:
        increases = find_increases(outcome for outcome in outcomes if outcome.action.group == group.ref)
        asked = [Awaited(increase.started, increase.machines) for increase in increases]
        if _is_explicit(group, settings) or (not asked and group.ref not in memory.arrivals):
            continue
        history = _current(group, memory)
        if asked or history.awaited:
            arrived, outstanding = len(find_arrived(group, members, memory)), _outstanding(group, members)
            history = observe_arrivals(history, asked, arrived, outstanding, settings, now)
        histories[group.ref] = history
    return histories


def with_patience(
    groups: Mapping[GroupRef, GroupSeen], histories: Histories, settings: FailureSettings, now: float
) -> dict[GroupRef, GroupSeen]:
    """Return the groups with their learned provision times.

    This is the only place where a learned time takes effect.
    """
    changed = dict(groups)
    for ref, history in histories.items():
        deadline = learned_deadline(history, settings, now)
        if deadline is not None:
            options = msgspec.structs.replace(groups[ref].options, max_node_provision_seconds=deadline)
            changed[ref] = replace(groups[ref], options=options)
    return changed


def after_timeouts(
    histories: Histories, states: Iterable[GroupState], memory: Memory, settings: FailureSettings, now: float
) -> dict[GroupRef, ArrivalHistory]:
    """Return the histories after machines were given up in this loop.

    Timeouts during a backoff belong to the failure that started it.
    """
    changed = dict(histories)
    for state in states:
        timed_out = state.timed_out or state.newly_late
        if timed_out and state.ref in changed and not is_active(memory.backoffs.get(state.ref), now):
            changed[state.ref] = after_timeout(changed[state.ref], settings, now)
    return changed


def _is_explicit(group: GroupSeen, settings: FailureSettings) -> bool:
    return group.options.max_node_provision_seconds != settings.ordinary_provision_seconds


def _current(group: GroupSeen, memory: Memory) -> ArrivalHistory:
    """Return the group's history; an empty one if its template changed: other machines take another time."""
    history, before = memory.arrivals.get(group.ref), memory.last_known.get(group.ref)
    if history is not None and before is not None and before.template is group.template:
        return history
    template = _fingerprint(group.template)
    if history is None or (template and history.template != template):
        return ArrivalHistory(template=template)
    return history


def _fingerprint(template: Node | None) -> str:
    """Return a hash of the template that is stable over restarts; empty without a template."""
    if template is None:
        return ""
    taints = sorted((taint.key, taint.value, taint.effect) for taint in template.spec.taints)
    offered = (_amounts(template.status.capacity), _amounts(template.status.allocatable))
    said = repr((sorted(template.metadata.labels.items()), taints, offered))
    return sha256(said.encode()).hexdigest()[:16]


def _amounts(resources: Resources) -> list[tuple[str, int]]:
    return sorted((name, amount.nano) for name, amount in resources.items())


def _outstanding(group: GroupSeen, members: Membership) -> int:
    """Return how many machines may still come. Those given up count while the target includes them."""
    failed = sum(failure.count for failure in group.failed or ())
    return max(0, (group.target or 0) - sum(1 for _ in joined_machines(group, members)) - failed)
