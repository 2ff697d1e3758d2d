"""A write without a response is settled by reading the cloud."""

from collections.abc import Callable
from typing import Any

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import ProviderClient
from nodewright.model.errors import (
    BadAnswer,
    InvariantError,
    OutcomeUnknown,
    ProviderError,
    ProviderUnavailable,
    TargetChanged,
)


def hang(clock: VirtualClock) -> Callable[[], Any]:
    return lambda: clock.sleep(1e9)


def failing(error: Exception) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def test_a_timed_out_increase_that_took_effect_is_done(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["increase_size"] = [hang(clock)]
    scripted.late.add("increase_size")
    assert client.increase_size("g", 2, 5) == 3
    assert scripted.calls == ["increase_size", "refresh", "target_size"]
    assert clock.now() == client.deadline_seconds


def test_a_timed_out_increase_without_effect_is_repeated(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["increase_size"] = [hang(clock)]
    assert client.increase_size("g", 2, 5) == 3
    assert scripted.target == 5
    assert scripted.calls.count("increase_size") == 2


def test_a_timed_out_increase_after_somebody_elses_write_plans_anew(
    client: ProviderClient, scripted: Any, clock: Any
) -> None:
    def somebody_else() -> None:
        scripted.target = 4
        clock.sleep(1e9)

    scripted.script["increase_size"] = [somebody_else]
    with pytest.raises(TargetChanged) as caught:
        client.increase_size("g", 2, 5)
    assert caught.value.actual == 4
    assert (caught.value.provider, caught.value.group_id) == ("scripted", "g")
    assert scripted.calls.count("increase_size") == 1


def test_repeats_are_bounded(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["increase_size"] = [hang(clock)] * 9
    with pytest.raises(ProviderUnavailable) as caught:
        client.increase_size("g", 2, 5)
    assert not isinstance(caught.value, OutcomeUnknown)
    assert scripted.calls.count("increase_size") == 3


def test_an_unavailable_cloud_is_in_doubt_like_a_timeout(client: ProviderClient, scripted: Any) -> None:
    scripted.script["increase_size"] = [failing(ProviderUnavailable("connection reset"))]
    scripted.late.add("increase_size")
    assert client.increase_size("g", 2, 3) == 1
    assert scripted.target == 3


def test_when_looking_fails_too_the_outcome_is_unknown(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["increase_size"] = [hang(clock)]
    scripted.script["refresh"] = [hang(clock)]
    with pytest.raises(OutcomeUnknown, match="reading the result from the cloud failed too"):
        client.increase_size("g", 2, 3)


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(3)])
def test_a_crash_after_the_effect_counts_as_done(client: ProviderClient, scripted: Any, error: Exception) -> None:
    scripted.script["increase_size"] = [failing(error)]
    scripted.late.add("increase_size")
    assert client.increase_size("g", 2, 3) == 1


def test_a_crash_without_effect_is_not_repeated(client: ProviderClient, scripted: Any) -> None:
    scripted.script["increase_size"] = [failing(RuntimeError("boom"))]
    with pytest.raises(ProviderError, match="RuntimeError in increase_size: boom") as caught:
        client.increase_size("g", 2, 3)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert scripted.calls.count("increase_size") == 1


def test_more_accepted_than_asked_for_is_a_bad_answer(client: ProviderClient, scripted: Any) -> None:
    scripted.script["increase_size"] = [lambda: 7]
    with pytest.raises(BadAnswer, match="7 accepted of 1 asked for"):
        client.increase_size("g", 2, 3)


def test_a_timed_out_deletion_counts_what_is_gone_and_repeats_the_rest(
    client: ProviderClient, scripted: Any, clock: Any
) -> None:
    def half() -> None:
        scripted.ids.remove("i-1")
        scripted.target -= 1
        clock.sleep(1e9)

    scripted.script["delete_instances"] = [half]
    assert client.delete_instances("g", ["i-1", "i-2"], 2) == ("i-1", "i-2")
    assert (scripted.target, scripted.ids) == (0, [])


def test_a_deletion_that_never_answers_is_given_up(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["delete_instances"] = [hang(clock)] * 9
    with pytest.raises(ProviderUnavailable):
        client.delete_instances("g", ["i-1"], 2)
    assert scripted.calls.count("delete_instances") == 3
    assert scripted.ids == ["i-1", "i-2"]


def test_a_decrease_carries_both_sizes(client: ProviderClient, scripted: Any) -> None:
    assert client.decrease_target_size("g", 2, 1) == 1
    assert scripted.target == 1
    with pytest.raises(TargetChanged):
        client.decrease_target_size("g", 2, 1)


def test_a_size_below_zero_is_refused_without_a_call(client: ProviderClient, scripted: Any) -> None:
    with pytest.raises(ProviderError, match="there is no size -1"):
        client.decrease_target_size("g", 1, -1)
    assert scripted.calls == []


@pytest.mark.parametrize(("expected", "target"), [(2, 2), (3, 2), (-1, 2)])
def test_an_increase_that_raises_nothing_is_a_bug(client: ProviderClient, expected: int, target: int) -> None:
    with pytest.raises(InvariantError):
        client.increase_size("g", expected, target)


def test_a_dry_run_sends_no_write_and_says_what_it_held_back(dry_client: ProviderClient, scripted: Any) -> None:
    assert dry_client.increase_size("g", 2, 3) == 0
    assert dry_client.delete_instances("g", ["i-1"], 2) == ()
    assert scripted.calls == []
    withheld = dry_client.take_withheld()
    assert [(write.hook, write.group_id) for write in withheld] == [("increase_size", "g"), ("delete_instances", "g")]
    assert withheld[0].arguments == {"expected_target": 2, "target": 3}
    assert dry_client.take_withheld() == ()
