"""A pod that kube-scheduler leaves without room, once machines have come, gets one soon (virtual time, the daemon's pacing)."""

from itertools import pairwise
from typing import Any

import pytest
from tests.scenario.story import Story

from nodewright_simulator.journal import What

BEGIN = 123.0
GROUP = {"name": "a", "cpu": 4, "max_size": 20, "provision_delay": "45s"}


def left_over(settings: dict[str, Any] | None = None, **options: Any) -> Story:
    """Two machines of 4 cpu for a pod that needs one of them and for four small ones, which kube-scheduler spreads over both."""
    wanted = {"scale-down-enabled": False, **(settings or {})}
    told = Story(GROUP, settings=wanted, minutes=10, as_daemon=True, **options)
    told.pods(4, at=BEGIN, name="small")
    told.pods(1, at=BEGIN + 0.2, name="whole", cpu="4")
    return told


def first_bound(story: Story) -> float:
    return next(fact.at for fact in story.result.journal if fact.what == What.POD_STARTED)


def loops_of(story: Story) -> list[float]:
    assert story.result
    return [state.now for state, _ in story.loops]


@pytest.mark.parametrize("interval", ["10s", "45s"])
def test_one_more_machine_is_asked_for_after_the_idle_second(interval: str) -> None:
    told = left_over({"scan-interval": interval})
    first, more = told.writes("increase")
    assert (first[-1] - first[-2], more[-1] - more[-2]) == (2, 1)
    assert more[0] == first_bound(told) + 1
    assert told.result.final.pending == 0


def test_machines_that_all_pods_fit_on_start_one_loop_more() -> None:
    told = Story(GROUP, settings={"scale-down-enabled": False}, minutes=10, as_daemon=True)
    told.pods(8, at=BEGIN)
    assert len(told.writes()) == 1
    after = [at for at in loops_of(told) if at >= first_bound(told) - 10]
    assert after[1] == first_bound(told) + 1
    assert {later - earlier for earlier, later in pairwise(after[1:])} == {10.0}


@pytest.mark.parametrize("settings", [{"profile": "ca"}, {"frequent-loops-enabled": False}])
def test_without_looks_only_scans_follow_the_machines(settings: dict[str, Any]) -> None:
    told = Story(GROUP, settings={"scale-down-enabled": False, **settings}, minutes=10, as_daemon=True)
    told.pods(8, at=BEGIN)
    after = [at for at in loops_of(told) if at >= first_bound(told) - 10]
    assert {later - earlier for earlier, later in pairwise(after)} == {10.0}
