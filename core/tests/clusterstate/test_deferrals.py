"""How long a group waits for a busy cloud."""

import pytest

from nodewright.clusterstate.deferrals import deferrals_after, is_deferred
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.recall import recalled
from nodewright.clusterstate.state import Deferral, Memory
from nodewright.model.action import Done, Failed, IncreaseSize
from nodewright.model.settings import Settings
from nodewright.testkit.world import World, ref

G = ref("g")
ACTION = IncreaseSize(group=G, expected_target=0, target=1)


def busy(retry_after: float = 1.0) -> Failed:
    return Failed(action=ACTION, started=0.0, code="throttled", message="slow down", retry_after=retry_after)


def test_pauses_grow_and_stay_short() -> None:
    held: dict[object, Deferral] = {}
    now, pauses = 1000.0, []
    for _ in range(7):
        held = dict(deferrals_after(held, [busy()], now))  # type: ignore[arg-type]
        pauses.append(held[G].pause)
        now = held[G].until
        assert not is_deferred(held[G], now)
    assert pauses == [10, 20, 40, 80, 120, 120, 120]
    assert held[G].times == 7


@pytest.mark.parametrize(("told", "pause"), [(0.0, 10.0), (30.0, 30.0), (86_400.0, 600.0)])
def test_the_cloud_may_ask_for_more_within_bounds(told: float, pause: float) -> None:
    assert deferrals_after({}, [busy(told)], 1000.0)[G].pause == pause


def test_any_other_answer_ends_it_and_so_does_time() -> None:
    held = deferrals_after({}, [busy()], 1000.0)
    assert deferrals_after(held, [Done(action=ACTION, started=1010.0, accepted=1)], 1010.0) == {}
    assert deferrals_after(held, [Failed(action=ACTION, started=1010.0, code="no", message="no")], 1010.0) == {}
    assert deferrals_after(held, [], 1600.0) == held
    assert deferrals_after(held, [], 1611.0) == {}


def test_a_busy_cloud_is_no_failure_of_the_group() -> None:
    world = World()
    world.add_group("g")
    state = fold(Memory(), world.state().observation, [busy()], Settings())
    group = state.groups[G]
    assert (group.failures, group.backoff, state.memory.backoffs) == ((), None, {})
    assert group.deferral is not None
    assert group.deferral.until == world.now + 10


def test_a_clock_that_was_set_back_makes_nothing_wait_for_ever() -> None:
    held = deferrals_after({}, [busy()], 1000.0)
    assert recalled(Memory(deferrals=held), 10.0).deferrals[G].until == 20.0
