"""A deadline for which pods wait starts a loop, with any scan interval (virtual time)."""

from itertools import pairwise
from typing import Any

import pytest
from tests.scenario.story import MINUTE, SILENT, Story

CHEAP, DEAR = {"name": "a", "price_per_hour": 0.1}, {"name": "b", "price_per_hour": 0.2}
LIMIT = {"max-node-provision-time": "60s", "hedging": "off"}
DEAD: dict[str, Any] = {"switched_off": SILENT, "stock_outs": [{"group": "a"}]}


def story(settings: dict[str, Any] | None = None, **options: Any) -> Story:
    """Two pods; the cheap group takes the order and never delivers."""
    told = Story(CHEAP, DEAR, settings={**LIMIT, **(settings or {})}, as_daemon=True, minutes=20, **{**DEAD, **options})
    told.pods(2, at=5)
    return told


@pytest.mark.parametrize("interval", ["7s", "10s", "45s"])
def test_the_next_group_is_asked_within_two_seconds_of_the_deadline(interval: str) -> None:
    told = story({"scan-interval": interval})
    assert 60 < told.asked("b")[0] - told.asked("a")[0] <= 62


def test_a_hedge_is_bought_within_two_seconds_of_its_time() -> None:
    settings = {"scan-interval": "45s", "hedging": "on", "hedging-delay": "100s", "max-node-provision-time": "10m"}
    told = story(settings)
    assert 100 < told.asked("b")[0] - told.asked("a")[0] <= 102


def test_a_lone_group_is_asked_again_within_two_seconds_of_its_backoff() -> None:
    told = Story(
        CHEAP,
        settings={**LIMIT, "scan-interval": "45s"},
        as_daemon=True,
        minutes=20,
        switched_off=SILENT,
        stock_outs=[{"group": "a"}],
    )
    told.pods(2, at=5)
    first, again = told.asked("a")[:2]
    assert 60 + 5 * MINUTE < again - first <= 62 + 5 * MINUTE


def test_profile_ca_waits_for_its_scan() -> None:
    told = story({"profile": "ca", "scan-interval": "45s"})
    assert (told.asked("b")[0] - told.asked("a")[0]) % 45 == 0


def test_without_frequent_loops_it_waits_for_the_scan() -> None:
    told = story({"frequent-loops-enabled": False, "scan-interval": "45s"})
    assert (told.asked("b")[0] - told.asked("a")[0]) % 45 == 0


def test_where_nothing_waits_no_deadline_starts_a_loop() -> None:
    """The pods go before the deadline of their machines."""
    told = Story(CHEAP, DEAR, settings=LIMIT, as_daemon=True, minutes=20, **DEAD)
    told.pods(2, at=5, until=30)
    assert told.result
    # 0 s; 6 s: the pods came a second before; 6.1 and 7 s: the group grew.
    starts = [state.now for state, _ in told.loops]
    assert {later - earlier for earlier, later in pairwise(starts[3:])} == {10.0}


def test_deadlines_start_few_loops() -> None:
    """Each group fails in turn, and the pods never get a node."""
    groups = [{"name": f"g{number}", "price_per_hour": 0.1 + number / 100} for number in range(12)]
    told = Story(
        *groups,
        settings=LIMIT,
        as_daemon=True,
        minutes=60,
        switched_off=SILENT,
        stock_outs=[{"group": g["name"]} for g in groups],
    )
    told.pods(30, at=5)
    assert told.result
    starts = [state.now for state, _ in told.loops]
    # One may follow a scan at once; then it takes a second at least.
    assert min(later - earlier for earlier, later in zip(starts, starts[2:], strict=False)) >= 1
    assert len(told.asked("g0")) > 1
    assert len(starts) < 2 * 60 * 6
