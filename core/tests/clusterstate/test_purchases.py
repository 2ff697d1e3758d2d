"""How long a group rests after machines that did not take their pods, and when all groups do (docs/adr/0027-vain-purchases.md)."""

import pytest

from nodewright.clusterstate.memory import Purchase, Purchases
from nodewright.clusterstate.purchases import (
    DAY,
    MOST_MISFITS,
    after_misfit,
    asked_since,
    has_too_many_misfits,
    purchase_no_later,
    with_asked,
    without_old,
)
from nodewright.model.group import GroupRef
from nodewright.planner.scale_up.misfits import _barred_groups
from nodewright.testkit.world import ref

NOW = 1_800_000_000.0
HOUR = 3600.0
A, B, C = ref("a"), ref("b"), ref("c")


def misfits(*at: float) -> Purchase:
    held = Purchase()
    for moment in at:
        held = after_misfit(held, "Insufficient cpu", moment)
    return held


def barred(held: Purchases, now: float) -> dict[GroupRef, str]:
    return {ref: reason.message for ref, reason in _barred_groups(held, set(), "kind", now)}


def test_each_misfit_makes_the_pause_longer() -> None:
    pauses = [misfits(*(NOW + n for n in range(count))).until - (NOW + count - 1) for count in range(1, 6)]
    assert pauses == [HOUR, 8 * HOUR, DAY, DAY, DAY]


def test_misfits_of_the_day_before_count_no_longer() -> None:
    first = misfits(NOW)
    assert after_misfit(first, "", NOW + 2 * DAY + 1).misfits == (NOW + 2 * DAY + 1,)
    assert len(after_misfit(first, "", NOW + DAY).misfits) == 2


@pytest.mark.parametrize("groups", [{A: 3}, {A: 2, B: 1}, {A: 1, B: 1, C: 1}])
def test_three_misfits_of_one_kind_in_a_day_bar_every_group_that_had_one(groups: dict[GroupRef, int]) -> None:
    held = {ref: {"kind": misfits(*(NOW + n for n in range(count)))} for ref, count in groups.items()}
    assert sum(groups.values()) == MOST_MISFITS
    assert has_too_many_misfits(held, "kind", NOW + DAY - 1)
    assert not has_too_many_misfits(held, "kind", NOW + DAY + 3)
    assert not has_too_many_misfits(held, "other", NOW)
    assert set(barred(held, NOW + DAY - 1)) == set(groups)


def test_two_misfits_bar_their_group_until_its_pause_ends() -> None:
    held = {A: {"kind": misfits(NOW, NOW + 1)}, B: {"kind": Purchase(asked=NOW)}}
    assert not has_too_many_misfits(held, "kind", NOW + 2)
    assert "did not take them (Insufficient cpu)" in barred(held, NOW + 2)[A]
    assert set(barred(held, NOW + 8 * HOUR)) == {A}
    assert not barred(held, NOW + 8 * HOUR + 2)


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
