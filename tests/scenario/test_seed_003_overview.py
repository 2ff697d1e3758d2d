"""Promises of seed 003 (the overview) as whole runs, and how each departure from it is reached by a flag (ADR 24)."""

import itertools
from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, SILENT, Story

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
UNNEEDED = 10 * MINUTE
QUICK = {"node-delete-delay-after-taint": 0}


def deletions(story: Story) -> list[float]:
    return [at for at, *_ in story.writes("delete")]


def test_sizes_that_do_not_match_yet_postpone_nothing() -> None:
    """The seed postpones everything until each group has as many nodes as the cloud is asked for."""
    settings = {"consolidation-policy": "off"}
    story = Story({**A, "provision_delay": "14m"}, {**B, "size": 1}, settings=settings, minutes=30)
    story.pods(2, at=5)
    story.pods(1, at=125, name="later")
    assert story.state("a", 125).upcoming == 1
    assert story.asked("a") == [LOOP, 130], "the group itself grows on"
    assert story.result.final.pending == 0


def test_a_group_that_misses_machines_does_not_keep_idle_nodes_of_others() -> None:
    story = Story({**A, "max_size": 4}, {**B, "size": 2}, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=14)
    story.cloud.set_target("a", 4)
    assert story.state("a", 12 * MINUTE).upcoming == 4
    assert {write[2] for write in story.writes("delete")} == {"b"}


@pytest.mark.parametrize("moves", ["off", "balanced"])
def test_empty_nodes_go_together_and_one_at_a_time_where_that_is_asked_for(moves: str) -> None:
    def run(**settings: Any) -> list[float]:
        story = Story({**A, "size": 4}, settings={**QUICK, "consolidation-policy": moves, **settings}, minutes=30)
        story.pods(1)
        return deletions(story)

    together = run()
    assert len(together) == 3
    assert together[-1] - together[0] < LOOP
    one_by_one = run(**{"max-empty-deletions-per-window": 1})
    assert len(one_by_one) == 3
    assert all(later - earlier >= MINUTE for earlier, later in itertools.pairwise(one_by_one))


def test_nodes_with_pods_go_one_at_a_time() -> None:
    """As the seed has it: only these can make pods wait."""
    story = Story({**A, "size": 4, "cpu": 4}, settings=QUICK, minutes=40)
    story.pods(4, at=1, grace=20)
    gone = deletions(story)
    assert len(gone) == 3
    assert all(later - earlier >= 20 for earlier, later in itertools.pairwise(gone))
    assert story.result.final.running == 4


@pytest.mark.parametrize("moves", ["off", "balanced"])
def test_nothing_is_removed_for_ten_minutes_after_the_last_growth(moves: str) -> None:
    """Idle nodes of b have been unneeded for long by then."""
    only_a: dict[str, Any] = {"node_selector": {"pool": "a"}}
    story = Story(
        {**A, "labels": {"pool": "a"}}, {**B, "size": 3}, settings={**QUICK, "consolidation-policy": moves}, minutes=40
    )
    story.pods(1, at=8 * MINUTE, **only_a)
    story.pods(1, at=9 * MINUTE + 5, name="later", **only_a)
    assert story.asked("a") == [8 * MINUTE, 9 * MINUTE + LOOP]
    assert min(deletions(story)) == 9 * MINUTE + LOOP + UNNEEDED


@pytest.mark.parametrize(
    ("patience", "goes"), [({}, True), ({"blocking-system-pod-distruption-timeout": "100000h"}, False)]
)
def test_a_system_pod_keeps_its_node_for_an_hour_or_as_long_as_one_likes(patience: dict[str, Any], goes: bool) -> None:
    story = Story({**A, "size": 2, "cpu": 4}, settings=patience, minutes=180)
    story.pods(2, at=1, namespace="kube-system")
    gone = deletions(story)
    assert bool(gone) is goes
    assert all(at > 60 * MINUTE for at in gone)


def test_exactly_half_goes_unless_the_threshold_is_lower() -> None:
    def run(**settings: Any) -> list[float]:
        settings["consolidation-policy"] = "off"  # a move would look at no threshold
        story = Story({**A, "size": 2, "cpu": 2}, settings=settings, minutes=40)
        story.pods(2, at=1, memory="1Mi")
        return deletions(story)

    assert len(run()) == 1, "two nodes that are half full fill one"
    assert run(**{"scale-down-utilization-threshold": 0.49}) == []
