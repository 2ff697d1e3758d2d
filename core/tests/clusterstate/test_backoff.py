"""Deferrals and probation."""

from dataclasses import replace

import pytest

from nodewright.clusterstate.backoff import allowance, allowance_left, deferrals_after, is_deferred
from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Backoff, Deferral, Memory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import FailedInstance
from nodewright.model.settings import Settings
from nodewright.testkit.world import World, ref, settings_with

GROUP = ref("g")


ACTION = IncreaseSize(group=GROUP, expected_target=0, target=1)


def busy(retry_after: float = 1.0) -> Failed:
    return Failed(action=ACTION, started=0.0, code="throttled", message="slow down", retry_after=retry_after)


def test_pauses_grow_and_stay_short() -> None:
    held: dict[object, Deferral] = {}
    now, pauses = 1000.0, []
    for _ in range(7):
        held = dict(deferrals_after(held, [busy()], now))  # type: ignore[arg-type]
        pauses.append(held[GROUP].pause)
        now = held[GROUP].until
        assert not is_deferred(held[GROUP], now)
    assert pauses == [10, 20, 40, 80, 120, 120, 120]
    assert held[GROUP].times == 7


@pytest.mark.parametrize(("told", "pause"), [(0.0, 10.0), (30.0, 30.0), (86_400.0, 600.0)])
def test_the_cloud_may_ask_for_more_within_bounds(told: float, pause: float) -> None:
    assert deferrals_after({}, [busy(told)], 1000.0)[GROUP].pause == pause


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
    group = state.groups[GROUP]
    assert (group.failures, group.backoff, state.memory.backoffs) == ((), None, {})
    assert group.deferral is not None
    assert group.deferral.until == world.now + 10


def test_a_clock_that_was_set_back_makes_nothing_wait_for_ever() -> None:
    held = deferrals_after({}, [busy()], 1000.0)
    assert without_future_times(Memory(deferrals=held), 10.0).deferrals[GROUP].until == 20.0


G = ref("g")


def ended_backoff(world: World, delivered: int = 0) -> Memory:
    """A failure ten minutes ago, whose backoff ended five minutes ago."""
    failed = world.now - 600
    return Memory(backoffs={G: Backoff(until=failed + 300, duration=300, last_failure=failed, delivered=delivered)})


def look(world: World, size: int, target: int, *outcomes: Outcome, settings: Settings | None = None) -> ClusterState:
    """Fold a group of so many nodes, ten seconds after the last look, and remember."""
    world.now += 10
    world.nodes.clear()
    world.add_group("g", size=size, target=target, max_size=100)
    observation = world.state().observation
    state = fold(world.memory, observation, outcomes, settings or Settings())
    world.memory = state.memory
    return state


def ask(world: World, target: int, by: int) -> Done:
    action = IncreaseSize(group=G, expected_target=target - by, target=target)
    return Done(action=action, started=world.now, accepted=by)


def asked_and_delivered(world: World, size: int, by: int) -> int | None:
    """The allowance after a request of so many machines has arrived in full."""
    look(world, size, size + by, ask(world, size + by, by))
    state = look(world, size + by, size + by)
    return allowance(state.groups[G].backoff, world.now)


def test_the_allowance_doubles_with_every_request_that_arrives_until_all_may_be_asked() -> None:
    world = World()
    world.memory = ended_backoff(world)
    state = look(world, 0, 0)
    assert allowance(state.groups[G].backoff, world.now) == 1
    assert [asked_and_delivered(world, *step) for step in ((0, 1), (1, 2), (3, 4))] == [2, 4, None]


def test_there_is_no_probation_while_the_backoff_lasts_or_without_one() -> None:
    backoff = Backoff(until=1000.0, duration=300, last_failure=700.0)
    assert allowance(backoff, 1000.0) is None
    assert allowance(backoff, 1000.1) == 1
    assert allowance(None, 1000.1) is None


def test_machines_that_are_owed_use_the_allowance_up() -> None:
    world = World()
    world.memory = ended_backoff(world, delivered=1)
    state = look(world, 0, 1, ask(world, 1, 1))
    assert allowance_left(state.groups[G], world.now) == 1
    state = look(world, 0, 2, ask(world, 2, 1))
    assert allowance_left(state.groups[G], world.now) == 0


def test_a_request_that_arrives_in_part_proves_nothing_yet() -> None:
    world = World()
    world.memory = ended_backoff(world, delivered=1)
    look(world, 0, 2, ask(world, 2, 2))
    assert allowance(look(world, 1, 2).groups[G].backoff, world.now) == 2
    assert allowance(look(world, 2, 2).groups[G].backoff, world.now) == 4


def test_a_machine_that_comes_before_the_next_look_counts() -> None:
    world = World()
    world.memory = ended_backoff(world)
    look(world, 0, 0)
    state = look(world, 1, 1, ask(world, 1, 1))
    assert allowance(state.groups[G].backoff, world.now) == 2


def test_a_size_taken_back_by_somebody_proves_nothing() -> None:
    world = World()
    world.memory = ended_backoff(world)
    look(world, 0, 1, ask(world, 1, 1))
    backoff = look(world, 0, 0).groups[G].backoff
    assert backoff is not None
    assert (backoff.code, backoff.delivered) == ("takenBack", 0)


def test_a_size_that_somebody_raised_and_lowered_again_proves_nothing() -> None:
    """The cloud accepted no increase of ours, so nothing failed; and no machine came, so nothing is proved."""
    world = World()
    world.memory = ended_backoff(world, delivered=1)
    look(world, 0, 0)
    assert [request.accepted for request in look(world, 0, 1).groups[G].requests] == [False]
    group = look(world, 0, 0).groups[G]
    assert (group.requests, group.failures) == ((), ())
    assert allowance(group.backoff, world.now) == 2


def test_a_machine_of_no_request_proves_nothing() -> None:
    """It becomes a node while the request on probation still waits for its own machine."""
    world = World()
    look(world, 0, 1, ask(world, 1, 1))
    failed = world.now - 300
    world.memory = replace(world.memory, backoffs={G: Backoff(until=world.now + 5, duration=300, last_failure=failed)})
    look(world, 0, 2, ask(world, 2, 1))
    assert allowance(look(world, 1, 2).groups[G].backoff, world.now) == 1


def test_an_older_request_proves_nothing() -> None:
    world = World()
    look(world, 0, 1, ask(world, 1, 1))
    world.memory = replace(
        world.memory, backoffs={G: Backoff(until=world.now + 5, duration=300, last_failure=world.now - 295)}
    )
    assert allowance(look(world, 1, 1).groups[G].backoff, world.now) == 1


def test_a_failure_ends_probation_by_the_next_backoff_which_begins_anew() -> None:
    world = World()
    world.memory = ended_backoff(world, delivered=2)
    look(world, 0, 2, ask(world, 2, 2))
    world.now += 10
    world.nodes.clear()
    world.add_group("g", size=1, target=2, failed=(FailedInstance(failure_id="f"),))
    state = world.state()
    backoff = state.groups[G].backoff
    assert backoff is not None
    assert (backoff.duration, backoff.delivered) == (600, 0)
    assert allowance(backoff, world.now) is None
    assert allowance(backoff, backoff.until + 1) == 1


@pytest.mark.parametrize("changes", [{"probe_after_backoff": False}, {"size_correction": "seed"}])
def test_without_probing_nobody_is_on_probation(changes: dict[str, object]) -> None:
    world = World()
    world.memory = ended_backoff(world)
    settings = settings_with(**changes)
    look(world, 0, 1, ask(world, 1, 1), settings=settings)
    backoff = look(world, 1, 1, settings=settings).groups[G].backoff
    assert backoff is not None
    assert allowance(backoff, world.now) is None
