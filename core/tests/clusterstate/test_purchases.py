"""How long a group rests after machines that did not take their pods, and when all groups do (docs/adr/0027-vain-purchases.md)."""

import pytest
from msgspec.structs import replace

from nodewright.clusterstate.memory import Purchase, Purchases
from nodewright.clusterstate.purchases import (
    DAY,
    after_misfit,
    asked_since,
    purchase_no_later,
    recent_misfits,
    with_asked,
    without_old,
)
from nodewright.model.group import GroupRef
from nodewright.planner.scale_up.misfits import _paused_groups
from nodewright.testkit.world import ref

NOW = 1_800_000_000.0
HOUR = 3600.0
A, B, C = ref("a"), ref("b"), ref("c")


def misfits(*at: float) -> Purchase:
    held = Purchase()
    for moment in at:
        held = after_misfit(replace(held, asked=moment), "Insufficient cpu", moment)
    return held


def paused(held: Purchases, now: float) -> dict[GroupRef, str]:
    return {ref: reason.message for ref, reason in _paused_groups(held, set(), "kind", now)}


def test_each_misfit_makes_the_pause_longer() -> None:
    pauses = [misfits(*(NOW + n for n in range(count))).until - (NOW + count - 1) for count in range(1, 6)]
    assert pauses == [HOUR, 8 * HOUR, DAY, DAY, DAY]


def test_misfits_of_the_day_before_count_no_longer() -> None:
    first = misfits(NOW)
    assert after_misfit(replace(first, asked=NOW + 2 * DAY), "", NOW + 2 * DAY + 1).misfits == (NOW + 2 * DAY,)
    assert len(after_misfit(replace(first, asked=NOW + DAY), "", NOW + DAY).misfits) == 2


@pytest.mark.parametrize(
    ("asked", "count"),
    [({A: [0, 1, 2]}, 3), ({A: [0, 1], B: [2]}, 3), ({A: [0], B: [1], C: [2]}, 3), ({A: [0, 1], B: [0], C: [0]}, 2)],
)
def test_loops_that_asked_in_vain_for_one_kind_add_up_over_the_groups_for_a_day(
    asked: dict[GroupRef, list[int]], count: int
) -> None:
    held = {ref: {"kind": misfits(*(NOW + n for n in moments))} for ref, moments in asked.items()}
    assert len(recent_misfits(held, "kind", NOW + DAY - 1)) == count
    assert recent_misfits(held, "kind", NOW + DAY + 3) == ()
    assert recent_misfits(held, "other", NOW) == ()


def test_two_misfits_pause_their_group_for_eight_hours() -> None:
    held = {A: {"kind": misfits(NOW, NOW + 1)}, B: {"kind": Purchase(asked=NOW)}}
    assert "did not take them (Insufficient cpu)" in paused(held, NOW + 2)[A]
    assert set(paused(held, NOW + 8 * HOUR)) == {A}
    assert not paused(held, NOW + 8 * HOUR + 2)


def test_an_awaited_purchase_is_not_forgotten_and_an_old_one_is() -> None:
    held = with_asked({A: {"kind": misfits(NOW)}}, [(A, "kind"), (B, "kind")], NOW + 5)
    assert held[A]["kind"].misfits == (NOW,)
    assert (asked_since(held, B), asked_since(held, C)) == (NOW + 5, float("inf"))
    assert without_old(held, NOW + DAY + 4) == held
    assert set(without_old(held, NOW + DAY + 6)) == {A}  # its pause ended less than a day ago
    assert without_old(held, NOW + DAY + HOUR + 6) == {}


def test_a_group_remembers_the_newest_hundred_kinds() -> None:
    held: Purchases = {}
    for number in range(150):
        held = with_asked(held, [(A, f"kind-{number}")], NOW + number)
    assert set(held[A]) == {f"kind-{number}" for number in range(50, 150)}


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    held = purchase_no_later(misfits(NOW + DAY, NOW + DAY + 1), NOW)
    assert held.misfits == (NOW, NOW)
    assert held.until == NOW + 8 * HOUR
