"""Remove times of the future from memory, which remain after the clock was set back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import deferral_no_later
from nodewright.clusterstate.memory import (
    LONGEST_REST,
    Backoff,
    Memory,
    MoveMemory,
    ProvisioningMemory,
    Reservation,
    ScaleUpRequest,
)
from nodewright.clusterstate.purchases import purchase_no_later as purchased
from nodewright.model.group import Machine
from nodewright.model.move import LONGEST_PAUSE, Move, MovePause

T = TypeVar("T", ScaleUpRequest, Reservation, Move)


def without_future_times(memory: Memory, now: float) -> Memory:
    """Move everything that began after ``now`` to ``now``, with the same duration.

    Otherwise groups and removals would wait forever after the clock was set back.
    """
    return replace(
        memory,
        requests={ref: tuple(_under_way(request, now) for request in held) for ref, held in memory.requests.items()},
        backoffs={ref: _backoff(held, now) for ref, held in memory.backoffs.items()},
        deferrals={ref: deferral_no_later(held, now) for ref, held in memory.deferrals.items()},
        withdrawn_at={ref: min(at, now) for ref, at in memory.withdrawn_at.items()},
        size_gaps={ref: changed(gap, since=min(gap.since, now)) for ref, gap in memory.size_gaps.items()},
        unregistered_since=_no_later(memory.unregistered_since, now),
        deletions=_no_later(memory.deletions, now),
        empty_deletions=_no_later(memory.empty_deletions, now),
        deletion_tried=_no_later(memory.deletion_tried, now),
        provisioning=_provisioning(memory.provisioning, now),
        purchases={
            ref: {kind: purchased(held, now) for kind, held in kinds.items()} for ref, kinds in memory.purchases.items()
        },
        planned_pods={
            ref: tuple(changed(one, asked=min(one.asked, now)) for one in held)
            for ref, held in memory.planned_pods.items()
        },
        notices={
            ref: tuple(changed(one, since=min(one.since, now)) for one in held) for ref, held in memory.notices.items()
        },
        moves=_moves(memory.moves, now),
        templates={
            ref: changed(held, changed={trait: min(at, now) for trait, at in held.changed.items()})
            for ref, held in memory.templates.items()
        },
        learned={
            # Machines under way were asked for with the former template: ``since`` may be their deadline.
            ref: changed(
                held,
                since=min(held.since, max((now, *(one.deadline for one in memory.requests.get(ref, ()))))),
                shown_at=min(held.shown_at, now),
            )
            for ref, held in memory.learned.items()
        },
        writes_in_flight={
            ref: changed(write, until=min(write.until, now + write.seconds))
            for ref, write in memory.writes_in_flight.items()
        },
    )


def _moves(held: MoveMemory, now: float) -> MoveMemory:
    return replace(
        held,
        under_way={name: _under_way(move, now) for name, move in held.under_way.items()},
        pauses=_shortened(held.pauses, now),
        returns=_shortened(held.returns, now),
        searched_at=min(held.searched_at, now),
        renewed_at=min(held.renewed_at, now),
        again_at=min(held.again_at, now + LONGEST_REST),
    )


def _shortened(pauses: Mapping[str, MovePause], now: float) -> Mapping[str, MovePause]:
    return {name: changed(pause, until=min(pause.until, now + LONGEST_PAUSE)) for name, pause in pauses.items()}


def _provisioning(held: ProvisioningMemory, now: float) -> ProvisioningMemory:
    return replace(
        held,
        retries={name: changed(retry, at=min(retry.at, now)) for name, retry in held.retries.items()},
        homeless_since={name: min(at, now) for name, at in held.homeless_since.items()},
        reservations={name: _reservation(reservation, now) for name, reservation in held.reservations.items()},
    )


def _reservation(held: Reservation, now: float) -> Reservation:
    late = max(0.0, held.started - now)
    parts = tuple(
        changed(part, deadline=max(0.0, part.deadline - late), withdrawn_at=min(part.withdrawn_at, now))
        for part in held.parts
    )
    return changed(_under_way(held, now), parts=parts)


def _under_way(held: T, now: float) -> T:
    late = max(0.0, held.started - now)
    return changed(held, started=held.started - late, deadline=held.deadline - late) if late else held


def _backoff(held: Backoff, now: float) -> Backoff:
    if held.last_failure <= now and held.until <= now + held.duration:
        return held
    until = min(held.until, now + held.duration)
    return changed(held, last_failure=min(held.last_failure, now), until=until, asked=min(held.asked, now))


def _no_later(moments: Mapping[Machine, float], now: float) -> dict[Machine, float]:
    return {machine: min(at, now) for machine, at in moments.items()}
