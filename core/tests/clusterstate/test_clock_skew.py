"""After the clock was set back, or with a state file of another machine, nothing waits forever."""

from dataclasses import replace

from core.tests.store.memories import memories
from hypothesis import given

from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.deletions import QUARANTINE_SECONDS
from nodewright.clusterstate.memory import (
    LONGEST_REST,
    Backoff,
    LearnedTemplate,
    Memory,
    MovedPods,
    MoveMemory,
    ScaleDownMemory,
    ScaleUpRequest,
)
from nodewright.model.group import GroupRef
from nodewright.testkit.world import World, ref

REF = GroupRef("p", "g")


NOW = 1000.0


@given(memories())
def test_nothing_lies_in_the_future(memory: Memory) -> None:
    found = without_future_times(memory, NOW)
    moments = [*found.withdrawn_at.values(), *found.unregistered_since.values(), *found.deletions.values()]
    moments += [request.started for held in found.requests.values() for request in held]
    moments += [gap.since for gap in found.size_gaps.values()]
    moments += [backoff.last_failure for backoff in found.backoffs.values()]
    assert all(moment <= NOW for moment in moments)
    assert all(backoff.until <= NOW + backoff.duration for backoff in found.backoffs.values())


@given(memories())
def test_a_memory_of_the_past_is_as_it_was(memory: Memory) -> None:
    late = 5e9  # after everything that a memory here holds
    assert without_future_times(memory, late) == memory


def test_a_vain_search_rests_on_and_no_longer_than_it_would_from_now() -> None:
    held = MoveMemory(searched_at=NOW, vain=7, again_at=NOW + LONGEST_REST)
    assert without_future_times(Memory(moves=held), NOW).moves == held
    late = replace(held, searched_at=NOW + 5000, again_at=NOW + 5000 + LONGEST_REST)
    assert without_future_times(Memory(moves=late), NOW).moves == held


def test_a_request_keeps_its_length() -> None:
    request = ScaleUpRequest(increase=3, started=NOW + 500, deadline=NOW + 1400)
    found = without_future_times(Memory(requests={REF: (request,)}), NOW)
    assert found.requests == {REF: (ScaleUpRequest(increase=3, started=NOW, deadline=NOW + 900),)}


def test_a_template_may_count_from_the_deadline_of_machines_under_way_and_no_later() -> None:
    request = ScaleUpRequest(increase=3, started=NOW, deadline=NOW + 900)
    learned = {REF: LearnedTemplate(since=NOW + 900)}
    assert without_future_times(Memory(requests={REF: (request,)}, learned=learned), NOW).learned == learned
    assert without_future_times(Memory(learned=learned), NOW).learned == {REF: LearnedTemplate(since=NOW)}


def test_a_backoff_lasts_no_longer_than_it_was_long() -> None:
    backoff = Backoff(until=NOW + 9000, duration=300, last_failure=NOW + 8700)
    found = without_future_times(Memory(backoffs={REF: backoff}), NOW)
    assert found.backoffs == {REF: Backoff(until=NOW + 300, duration=300, last_failure=NOW)}


def test_what_scale_down_remembers_does_not_lie_in_the_future_either() -> None:
    world = World(now=NOW)
    world.add_group("g", 1)
    later, group = NOW + 1e8, ref("g")
    world.memory = Memory(
        scale_down=ScaleDownMemory(
            grown_at={group: later},
            shrunk_at={group: later},
            failed_at={group: later},
            removal_started_at=later,
            marking_failed_at=later,
            quarantined_until={group: later},
            moved_pods={"apps/web": (MovedPods(later, 3), MovedPods(NOW - 10, 2))},
        )
    )
    found = world.state().memory.scale_down
    assert {*found.grown_at.values(), *found.shrunk_at.values(), *found.failed_at.values()} == {NOW}
    assert (found.removal_started_at, found.marking_failed_at) == (NOW, NOW)
    assert found.quarantined_until == {group: NOW + QUARANTINE_SECONDS}
    assert found.moved_pods == {"apps/web": (MovedPods(NOW, 3), MovedPods(NOW - 10, 2))}
