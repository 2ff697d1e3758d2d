"""A busy cloud: the call is repeated for a moment, then the group waits for as long as the cloud asks."""

from collections.abc import Callable
from typing import Any

import pytest

from nodewright.adapters.provider import CallSettings, InlineRunner, ProviderClient, connect_provider
from nodewright.adapters.provider.runner import NotStarted
from nodewright.model.errors import CloudBusy, OperationInProgress, QuotaExceeded, TargetChanged, Throttled
from nodewright.model.group import FailureScope


def failing(error: Exception) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


@pytest.mark.parametrize("kind", [Throttled, OperationInProgress])
def test_a_write_is_repeated_after_the_time_the_cloud_asks_for(
    client: ProviderClient, scripted: Any, clock: Any, kind: type[CloudBusy]
) -> None:
    scripted.script["increase_size"] = [failing(kind(retry_after=3)), failing(kind(retry_after=1))]
    assert client.increase_size("g", 2, 5) == 3
    assert (clock.now(), scripted.target) == (5, 5)
    assert scripted.calls == ["increase_size"] * 3


def test_deletions_are_repeated_too(client: ProviderClient, scripted: Any, clock: Any) -> None:
    victim = scripted.ids[0]
    scripted.script["delete_instances"] = [failing(OperationInProgress())]
    assert client.delete_instances("g", [victim], 2) == (victim,)
    assert clock.now() == 1


def test_a_repeat_is_refused_when_another_writer_was_quicker(client: ProviderClient, scripted: Any) -> None:
    def meanwhile() -> None:
        scripted.target = 4
        raise Throttled

    scripted.script["increase_size"] = [meanwhile]
    with pytest.raises(TargetChanged):
        client.increase_size("g", 2, 5)
    assert scripted.target == 4


def test_a_loop_waits_only_a_moment_and_not_again_soon(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["increase_size"] = [failing(Throttled(retry_after=0.5))] * 99
    with pytest.raises(Throttled):
        client.increase_size("g", 2, 5)
    assert (clock.now(), len(scripted.calls)) == (7, 4)
    clock.sleep(10)
    with pytest.raises(Throttled):
        client.increase_size("g", 2, 5)
    assert (clock.now(), len(scripted.calls)) == (17, 5)
    clock.sleep(300)
    with pytest.raises(Throttled):
        client.increase_size("g", 2, 5)
    assert len(scripted.calls) == 9


def test_a_long_wait_is_left_to_the_caller_and_held_to(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["increase_size"] = [failing(Throttled("slow down", retry_after=90))]
    for passed in (0, 30):
        clock.sleep(passed)
        with pytest.raises(Throttled, match="slow down") as caught:
            client.increase_size("g", 2, 5)
        assert caught.value.retry_after == 90 - passed
    assert scripted.calls == ["increase_size"], "the second was not sent"
    clock.sleep(60)
    assert client.increase_size("g", 2, 5) == 3


def test_a_read_is_held_across_loops(client: ProviderClient, scripted: Any, clock: Any) -> None:
    scripted.script["refresh"] = [failing(Throttled(retry_after=120))]
    for passed in (0, 50):
        clock.sleep(passed)
        with pytest.raises(Throttled):
            client.refresh()
    assert scripted.calls == ["refresh"]
    clock.sleep(65)
    client.refresh()
    assert clock.now() == 120, "what little is left is waited for"


def test_a_hold_ends_whatever_the_cloud_says_and_the_clock_does(
    client: ProviderClient, scripted: Any, clock: Any
) -> None:
    scripted.script["refresh"] = [failing(Throttled(retry_after=86_400))]
    with pytest.raises(Throttled):
        client.refresh()
    clock.sleep(600)
    client.refresh()
    scripted.script["refresh"] = [failing(Throttled(retry_after=float("nan")))]
    client.refresh()
    assert clock.now() == 601


def test_reads_of_all_groups_wait_for_a_moment_together(client: ProviderClient, scripted: Any, clock: Any) -> None:
    """Each of ten throttled groups cost every loop 45 s, and all pods waited for it."""
    for loop in range(3):
        scripted.script["target_size"] = [failing(Throttled(retry_after=15))] * 99
        started = clock.now()
        for number in range(10):
            with pytest.raises(Throttled):
                client.target_size(f"g{number}")
        assert clock.now() - started <= 20, loop
        clock.sleep(10)


def test_removals_of_one_busy_group_do_not_wait_one_after_the_other(
    client: ProviderClient, scripted: Any, clock: Any
) -> None:
    """Each of sixty nodes cost a second and a call in every loop."""
    scripted.script["delete_instances"] = [failing(Throttled(retry_after=1))] * 99
    for _ in range(60):
        with pytest.raises(Throttled):
            client.delete_instances("g", [scripted.ids[0]], 2)
    assert clock.now() <= 10
    assert len(scripted.calls) <= 5


@pytest.mark.parametrize("told", [None, "soon", float("nan"), -1, float("inf")])
def test_what_a_plugin_writes_into_its_error_breaks_nothing(
    client: ProviderClient, scripted: Any, clock: Any, told: Any
) -> None:
    error = Throttled()
    error.retry_after = told
    scripted.script["target_size"] = [failing(error)]
    assert client.target_size("g") == 2
    assert clock.now() == 1
    error.retry_after = told
    scripted.script["increase_size"] = [failing(error)]
    assert client.increase_size("g", 2, 3) == 1


def test_a_cloud_that_does_not_say_when_is_asked_again_after_a_second(
    client: ProviderClient, scripted: Any, clock: Any
) -> None:
    scripted.script["increase_size"] = [failing(Throttled(retry_after=None))]
    assert client.increase_size("g", 2, 3) == 1
    assert clock.now() == 1


@pytest.mark.parametrize("told", [None, "galaxy", ["zone"]])
def test_a_scope_that_is_none_is_the_group(client: ProviderClient, scripted: Any, told: Any) -> None:
    error = QuotaExceeded("no")
    error.scope = told
    error.code = None  # type: ignore[assignment]
    scripted.script["increase_size"] = [failing(error)]
    with pytest.raises(QuotaExceeded) as caught:
        client.increase_size("g", 2, 5)
    assert caught.value.scope is FailureScope.GROUP


def test_a_lease_that_runs_out_meanwhile_leaves_the_busy_answer(scripted: Any, clock: Any) -> None:
    class OneCall(InlineRunner):
        calls = 0

        def run(self, call: Callable[[], Any], deadline_seconds: float) -> Any:
            self.calls += 1
            if self.calls > 2:  # provider_info is the first
                raise NotStarted("the lease may run out")
            return super().run(call, deadline_seconds)

    client = connect_provider("scripted", scripted, clock=clock, runner=OneCall(clock))
    scripted.script["increase_size"] = [failing(Throttled())] * 9
    with pytest.raises(Throttled):
        client.increase_size("g", 2, 5)
    assert scripted.calls.count("increase_size") == 1


def test_as_in_ca_nothing_is_held_and_no_write_repeated(scripted: Any, clock: Any) -> None:
    settings = CallSettings(honours_retry_after=False)
    client = connect_provider("scripted", scripted, clock=clock, runner=InlineRunner(clock), settings=settings)
    scripted.script["increase_size"] = [failing(Throttled(retry_after=3))]
    scripted.script["refresh"] = [failing(Throttled(retry_after=90))]
    for call in (lambda: client.increase_size("g", 2, 5), client.refresh):
        with pytest.raises(Throttled):
            call()
    client.refresh()
    assert client.increase_size("g", 2, 5) == 3
    assert clock.now() == 0
