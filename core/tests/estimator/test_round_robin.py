"""The closed form of placing identical pods in turn equals placing them one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nodewright.estimator.new_nodes import round_robin

ROOM = st.lists(st.integers(0, 6), min_size=1, max_size=12)


def one_by_one(room: list[int], pods: int, start: int) -> tuple[list[int], int]:
    left, dealt, cursor = list(room), [0] * len(room), start
    for _ in range(pods):
        turn = [(cursor + k) % len(room) for k in range(len(room))]
        chosen = next((node for node in turn if left[node] > 0), None)
        if chosen is None:
            break
        left[chosen] -= 1
        dealt[chosen] += 1
        cursor = (chosen + 1) % len(room)
    return dealt, cursor


@given(ROOM, st.integers(0, 80), st.integers(0, 11))
def test_dealing_at_once_equals_dealing_in_turn(room: list[int], pods: int, start: int) -> None:
    start %= len(room)
    dealt, cursor = round_robin(np.array(room, dtype=np.int64), pods, start)
    assert (dealt.tolist(), cursor) == one_by_one(room, pods, start)


def test_an_uneven_deal() -> None:
    dealt, cursor = round_robin(np.array([1, 5, 0, 5], dtype=np.int64), 6, 1)
    assert dealt.tolist() == [1, 3, 0, 2]
    assert cursor == 2
