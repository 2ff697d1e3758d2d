"""How long a group's machines take, learned from its own arrivals (docs/adr/0008-probation-and-learned-time.md)."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from nodewright.model.settings import FailureSettings

MIN_ARRIVALS = 30
MIN_SCALE_UPS = 3
PERCENTILE = 99
MARGIN = 2.5
DAILY_FALL = 0.2

_WINDOW = 500  # arrivals; between one and two windows are remembered
_WIDTH = 1.1  # each bin reaches a tenth further than the one before
_LAST_STEP = 200  # some six years
_MAX_AWAITED = 32
_DAY = 86_400.0


class Awaited(NamedTuple):
    """Machines of one increase that are not nodes yet; ``asked`` in epoch seconds."""

    asked: float
    machines: int


class Bin(NamedTuple):
    """How many arrivals took up to ``1.1 ** step`` seconds, and longer than in the bin before."""

    step: int
    arrivals: int


class ArrivalHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a group's arrivals; times in epoch seconds.

    ``template`` is the fingerprint of the machines that it holds for. ``awaited`` are machines under way, oldest
    first, those given up included: they may come yet. ``scale_ups`` are the last few increases of which a machine
    came. ``recent`` and ``before`` count arrivals by how long they took, ``before`` those of the last full window.
    ``held`` is what the deadline was at ``held_at`` (seconds; 0 until enough is known): from there it falls slowly.
    """

    template: str = ""
    awaited: tuple[Awaited, ...] = ()
    scale_ups: tuple[float, ...] = ()
    recent: tuple[Bin, ...] = ()
    before: tuple[Bin, ...] = ()
    held: float = 0.0
    held_at: float = 0.0


def observe_arrivals(
    history: ArrivalHistory,
    asked: Iterable[Awaited],
    arrived: int,
    outstanding: int,
    settings: FailureSettings,
    now: float,
) -> ArrivalHistory:
    """The history after one look: new increases, machines that became nodes since, machines not there now.

    An arrival belongs to the oldest increase, as in ``registry.requests``, and took from that increase until now.
    What is awaited and not outstanding will not come: it failed or was withdrawn.
    """
    line = _joined((*history.awaited, *asked))
    came = _first(line, arrived)
    changed = replace(
        history, awaited=_without_first(_without_first(line, arrived), _total(line) - arrived - outstanding)
    )
    # An increase of the future is one of before the clock was set back: nobody knows how long it took.
    came = [some for some in came if some.asked <= now]
    for some in came:
        changed = _counted(changed, some, now)
    if not came:
        return changed
    if not history.held:
        return _activated(changed, settings, now)
    fallen = replace(changed, held=_exact(history, settings, now), held_at=now)
    return replace(fallen, held=_exact(fallen, settings, now))


def learned_deadline(history: ArrivalHistory, settings: FailureSettings, now: float) -> float | None:
    """How long the group may take, in whole seconds; None until enough is known of it.

    The 99th percentile with a margin; what was held before falls towards it by a fifth a day at most.
    """
    if not history.held:
        return None
    return min(settings.max_learned_provision_time, math.ceil(_exact(history, settings, now)))


def usual_time(histories: Iterable[ArrivalHistory]) -> float | None:
    """Return the seconds within which 99 of 100 arrivals of all these groups came; None with fewer than 30 arrivals."""
    bins = tuple(counted for history in histories for counted in (*history.recent, *history.before))
    return _percentile(ArrivalHistory(recent=bins)) if _total(bins) >= MIN_ARRIVALS else None


def after_timeout(history: ArrivalHistory, settings: FailureSettings, now: float) -> ArrivalHistory:
    """The history after machines were given up: they may have been slow, so the next ones get twice the time."""
    if not history.held:
        return history
    doubled = 2 * _exact(history, settings, now)
    return replace(history, held=min(settings.max_learned_provision_time, doubled), held_at=now)


def _exact(history: ArrivalHistory, settings: FailureSettings, now: float) -> float:
    days = max(0.0, now - history.held_at) / _DAY
    return _bounded(max(MARGIN * _percentile(history), history.held * (1 - DAILY_FALL) ** days), settings)


def _bounded(seconds: float, settings: FailureSettings) -> float:
    return min(settings.max_learned_provision_time, max(settings.min_learned_provision_time, seconds))


def _activated(history: ArrivalHistory, settings: FailureSettings, now: float) -> ArrivalHistory:
    """The history with its first deadline, once enough is known."""
    enough = _total(history.recent) + _total(history.before) >= MIN_ARRIVALS
    if not enough or len(history.scale_ups) < MIN_SCALE_UPS:
        return history
    return replace(history, held=_bounded(MARGIN * _percentile(history), settings), held_at=now)


def _counted(history: ArrivalHistory, came: Awaited, now: float) -> ArrivalHistory:
    """The history with so many arrivals of one increase more; a full window makes room for the next."""
    seconds = max(1.0, now - came.asked)
    step = min(_LAST_STEP, math.ceil(math.log(seconds) / math.log(_WIDTH) - 1e-9))
    counts: Mapping[int, int] = dict(history.recent)
    recent = tuple(Bin(*pair) for pair in sorted({**counts, step: counts.get(step, 0) + came.machines}.items()))
    scale_ups = history.scale_ups
    if came.asked not in scale_ups:
        scale_ups = (*scale_ups, came.asked)[-MIN_SCALE_UPS:]
    if _total(recent) < _WINDOW:
        return replace(history, recent=recent, scale_ups=scale_ups)
    return replace(history, recent=(), before=recent, scale_ups=scale_ups)


def _percentile(history: ArrivalHistory) -> float:
    """Seconds within which 99 of 100 arrivals came, by nearest rank, rounded up to the end of a bin."""
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
    """A line of bounded length: past that, what was asked for last counts as asked for a little earlier."""
    line = tuple(awaited for awaited in line if awaited.machines > 0)
    surplus = line[_MAX_AWAITED - 1 :]
    if len(surplus) <= 1:
        return line
    return (*line[: _MAX_AWAITED - 1], Awaited(surplus[0].asked, _total(surplus)))


def _first(line: tuple[Awaited, ...], count: int) -> list[Awaited]:
    """The oldest ``count`` machines of the line."""
    taken = []
    for awaited in line:
        some = min(count, awaited.machines)
        count -= some
        if some > 0:
            taken.append(Awaited(awaited.asked, some))
    return taken


def _without_first(line: tuple[Awaited, ...], count: int) -> tuple[Awaited, ...]:
    """The line without its oldest ``count`` machines."""
    left = []
    for awaited in line:
        gone = min(max(0, count), awaited.machines)
        count -= gone
        if gone < awaited.machines:
            left.append(Awaited(awaited.asked, awaited.machines - gone))
    return tuple(left)
