"""Dealing nodes to similar groups (behaviour/up.md §4.7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.planner.balance import balance_sizes

SIZES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(1, [2, 3, 6]), (4, [4, 4, 6]), (0, [1, 3, 6]), (8, [6, 6, 6])],
)
def test_seed_002_balances_a1_b3_c6(wanted: int, expected: list[int]) -> None:
    assert balance_sizes([(1, 20), (3, 20), (6, 20)], wanted) == expected


def test_a_full_group_steps_aside() -> None:
    assert balance_sizes([(1, 2), (1, 20)], 6) == [2, 6]


def test_nothing_to_deal_to_is_an_error() -> None:
    with pytest.raises(ValueError, match="no groups"):
        balance_sizes([], 3)


@given(SIZES, st.integers(0, 200))
def test_dealing_keeps_maxima_and_is_level(sizes: list[tuple[int, int]], wanted: int) -> None:
    new = balance_sizes(sizes, wanted)
    room = sum(max(0, most - now) for now, most in sizes)
    grown = [(size, most) for size, (now, most) in zip(new, sizes, strict=True) if size != now]
    assert sum(new) - sum(now for now, _ in sizes) == min(wanted, room)
    assert all(size <= most for size, most in grown)
    # Nobody who could still grow is more than one below the highest that did.
    highest = max((size for size, _ in grown), default=0)
    could_grow = [size for size, (_, most) in zip(new, sizes, strict=True) if size < most]
    assert all(size >= highest - 1 for size in could_grow)
