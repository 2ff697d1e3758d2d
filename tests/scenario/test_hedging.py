"""Hedging in whole loops: pods that wait for a silent group get a place elsewhere too (docs/adr/0022-hedging.md)."""

from itertools import pairwise
from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, SILENT, SOON, Story

from nodewright_simulator.journal import What

CHEAP = {"name": "a", "price_per_hour": 0.1, "provision_delay": "150s"}
DEAR = {"name": "b", "price_per_hour": 0.2}
AUTO = {"max-node-provision-time": "auto"}
TAUGHT = 40 * MINUTE
# A machine is a node up to 170 seconds after the increase: in the bin that ends here. The deadline is 2.5 times that.
USUAL = 1.1**55
DEADLINE = 2.5 * USUAL
DEAD = [{"group": "a", "start": TAUGHT}]


def taught(*groups: dict[str, Any], late: int = 2, settings: dict[str, object] | None = None, **cloud: Any) -> Story:
    """Group a has brought ten machines three times; then more pods come."""
    tree = {**AUTO, "scale-down-enabled": False, **(settings or {})}
    story = Story(*(groups or (CHEAP, DEAR)), settings=tree, switched_off=SILENT, minutes=100, **cloud)
    for number in range(3):
        story.pods(10, at=5 + number * 10 * MINUTE, name=f"taught-{number}")
    if late:
        story.pods(late, at=TAUGHT + 5, name="late")
    return story


def later(story: Story, *kinds: str) -> list[tuple[float, str, str, int, int]]:
    """The writes from when the last pods come."""
    return [write for write in story.writes(*kinds) if write[0] >= TAUGHT]


def test_pods_of_a_silent_group_are_planned_elsewhere_once_while_its_request_runs_on() -> None:
    story = taught(stock_outs=DEAD)
    first, hedge, withdrawal = later(story)
    assert first == (TAUGHT + LOOP, "increase", "a", 30, 32)
    assert hedge[1:] == ("increase", "b", 0, 2)
    assert hedge[0] == pytest.approx(first[0] + USUAL, abs=2 * LOOP)
    assert withdrawal[1:] == ("withdraw", "a", 32, 30), "at its own deadline, as without a hedge"
    assert withdrawal[0] == pytest.approx(first[0] + DEADLINE, abs=2 * LOOP)
    assert story.result.final.pending == 0
    ((at, message),) = story.events("HedgedScaleUp")
    assert at == hedge[0]
    silent = "group fake/a has been silent for 3m"
    assert message.startswith(f"2 of the new nodes of group fake/b are hedged because {silent}")
    assert [decision.hedged for decision in story.decisions() if decision.at == hedge[0]] == [2]


def test_without_history_of_the_group_that_of_its_providers_other_groups_counts() -> None:
    """The pods want a machine with a disk, which no group that was ever asked has."""
    disk = {"labels": {"disk": "ssd"}}
    new = {"name": "new", "price_per_hour": 0.15, "max_size": 2, **disk}
    story = taught(CHEAP, new, {**DEAR, **disk}, late=0, stock_outs=[{"group": "new"}])
    story.pods(2, at=TAUGHT + 5, name="late", node_selector={"disk": "ssd"})
    first, hedge = later(story, "increase")[:2]
    assert (first[2], hedge[2]) == ("new", "b")
    assert hedge[0] == pytest.approx(first[0] + USUAL, abs=2 * LOOP)


@pytest.mark.parametrize(("delay", "seconds"), [({}, 300), ({"hedging-delay": "3m"}, 180)])
def test_without_any_history_the_hedging_delay_counts(delay: dict[str, str], seconds: float) -> None:
    settings = {**AUTO, **delay}
    story = Story(CHEAP, DEAR, settings=settings, switched_off=SILENT, stock_outs=[{"group": "a"}], minutes=30)
    story.pods(2, at=5)
    assert story.asked("b")[0] == pytest.approx(LOOP + seconds, abs=2 * LOOP)


def test_with_all_memory_lost_the_delay_counts_from_the_restart() -> None:
    story = Story(CHEAP, DEAR, settings=AUTO, switched_off=SILENT, stock_outs=[{"group": "a"}], minutes=30)
    story.pods(2, at=5)
    story.simulation.engine.restart(30, keeps_memory=False)
    assert story.asked("b")[0] <= 6 * MINUTE


def test_a_group_that_says_how_long_it_takes_is_silent_after_the_share_that_its_deadline_leaves() -> None:
    said = {**CHEAP, "behaviour": {"max_node_provision": "10m"}}
    story = taught(said, DEAR, stock_outs=DEAD)
    assert story.asked("b")[0] == pytest.approx(TAUGHT + LOOP + 4 * MINUTE, abs=2 * LOOP)


@pytest.mark.parametrize(
    "settings",
    [
        {"max-node-provision-time": "15m"},
        {"hedging": "off"},
        {"size-correction": "ca"},
        {"size-correction": "seed"},
        {"max-hedged-nodes": "0"},
    ],
)
def test_hedging_is_off(settings: dict[str, object]) -> None:
    story = taught(stock_outs=DEAD, settings=settings)
    assert story.events("HedgedScaleUp") == []
    assert all(at > TAUGHT + DEADLINE for at in story.asked("b"))


def test_hedging_may_be_asked_for_without_learning() -> None:
    story = taught(stock_outs=DEAD, settings={"max-node-provision-time": "15m", "hedging": "on"})
    assert story.asked("b")[0] == pytest.approx(TAUGHT + LOOP + 5 * MINUTE, abs=2 * LOOP)


@pytest.mark.parametrize(("most", "hedged"), [("10%", 3), ("1%", 2), ("5", 5), ("20", 10)])
def test_no_more_machines_are_bought_twice_than_allowed(most: str, hedged: int) -> None:
    story = taught(stock_outs=DEAD, late=10, settings={"max-hedged-nodes": most})
    deadline = next(at for at, what, *_ in later(story, "withdraw") if what == "withdraw")
    grown = sum(
        after - before for at, _, group, before, after in later(story, "increase") if group == "b" and at < deadline
    )
    assert grown == hedged
    assert sum(decision.hedged for decision in story.decisions()) == hedged
    assert story.result.final.pending == 0


@pytest.mark.parametrize("at", [TAUGHT + USUAL, TAUGHT + USUAL + 20, TAUGHT + USUAL + 60])
def test_a_restart_does_not_buy_a_hedge_again(at: float) -> None:
    story = taught(stock_outs=DEAD)
    story.simulation.engine.restart(at)
    assert [write[2:] for write in later(story, "increase")] == [("a", 30, 32), ("b", 0, 2)]


def test_what_has_no_machine_is_withdrawn_when_the_first_group_wakes_up() -> None:
    """The hedge is not listed for 20 minutes; the first group delivers after six."""
    slow = {**DEAR, "request_delay": "20m"}
    story = taught(CHEAP, slow, stock_outs=[{"group": "a", "start": TAUGHT, "end": TAUGHT + 6 * MINUTE}])
    first, hedge, withdrawal = later(story)
    assert (first[2:], hedge[2:], withdrawal[1:]) == (("a", 30, 32), ("b", 0, 2), ("withdraw", "b", 2, 0))
    assert TAUGHT + 6 * MINUTE < withdrawal[0] < TAUGHT + 10 * MINUTE
    assert (story.machines("a"), story.machines("b")) == (32, 0)
    assert story.killed() == []
    assert story.state("b", 90 * MINUTE).backoff is None


def test_a_cloud_that_takes_back_nothing_is_asked_once_in_a_while() -> None:
    slow = {**DEAR, "request_delay": "20m"}
    keeps = {"kind": "partial", "hook": "decrease_target_size", "at_most": 0}
    story = taught(
        CHEAP, slow, stock_outs=[{"group": "a", "start": TAUGHT, "end": TAUGHT + 6 * MINUTE}], faults=[keeps]
    )
    tries = [at for at, _, group, _, _ in story.writes("withdraw") if group == "b"]
    assert 1 <= len(tries) <= 4
    assert all(later - earlier >= 5 * MINUTE for earlier, later in pairwise(tries))


def test_surplus_machines_are_drained_as_unneeded_and_none_with_pods_dies() -> None:
    """The hedge arrives first, then the first group wakes up after all."""
    woken = [{"group": "a", "start": TAUGHT, "end": TAUGHT + 4 * MINUTE}]
    settings = {**SOON, "scale-down-enabled": True, "consolidation-policy": "off"}
    story = taught(stock_outs=woken, settings=settings)
    assert story.result.final.pending == 0
    assert story.machines("a") + story.machines("b") == 32
    gone = [fact for fact in story.result.journal if fact.what == What.MACHINE_GONE]
    started = [fact.where for fact in story.result.journal if fact.what == What.POD_STARTED]
    assert gone
    assert not {fact.name.rpartition("/")[2] for fact in gone} & set(started)


def test_new_pods_pass_a_silent_group_by() -> None:
    story = taught(stock_outs=DEAD)
    story.pods(1, at=TAUGHT + USUAL + MINUTE, name="new")
    assert [write[2] for write in later(story, "increase")] == ["a", "b", "b"]
    assert (story.machines("a"), story.machines("b")) == (30, 3)


def test_pods_without_another_place_wait_and_get_what_they_need() -> None:
    selector = {"pool": "a"}
    story = taught({**CHEAP, "labels": {"pool": "a"}}, DEAR, late=0, stock_outs=DEAD)
    story.pods(2, at=TAUGHT + 5, name="bound", node_selector=selector)
    story.pods(1, at=TAUGHT + USUAL + MINUTE, name="more", node_selector=selector)
    assert story.asked("b") == []
    assert [write[2:] for write in later(story, "increase")][:2] == [("a", 30, 32), ("a", 32, 33)]


def test_a_group_that_grows_for_others_in_every_loop_still_takes_hedges() -> None:
    """A pod that only fits there comes with every loop, from a minute after the others on: it is not silent itself."""
    slow = {**DEAR, "labels": {"pool": "b"}, "provision_delay": "6m"}
    story = taught(CHEAP, slow, stock_outs=DEAD)
    for number in range(30):
        story.pods(1, at=TAUGHT + 65 + number * LOOP, name=f"own-{number}", node_selector={"pool": "b"})
    hedges = [decision for decision in story.decisions() if decision.hedged]
    assert (hedges[0].hedged, hedges[0].after - hedges[0].before) == (2, 3)
    assert hedges[0].at < TAUGHT + USUAL + 6 * LOOP
    assert story.machines("a") + story.machines("b") == 62


def test_limits_of_the_cluster_hold_for_hedges() -> None:
    story = taught(stock_outs=DEAD, settings={"max-nodes-total": 33})
    hedged = [(decision.group, decision.hedged) for decision in story.decisions() if decision.hedged]
    assert hedged == [("fake/b", 1)]
    story = taught(stock_outs=DEAD, settings={"cores-total": "0:32"})
    assert story.events("HedgedScaleUp") == []


def test_a_group_of_all_or_nothing_is_neither_hedged_nor_bought_as_a_hedge() -> None:
    whole = {"behaviour": {"zero_or_max": True}, "max_size": 2}
    story = taught(CHEAP, {**DEAR, **whole}, stock_outs=DEAD)
    assert story.events("HedgedScaleUp") == []
    story = taught(CHEAP, {"name": "w", "price_per_hour": 0.01, **whole}, DEAR, late=0, stock_outs=[{"group": "w"}])
    story.pods(2, at=TAUGHT + 5, name="late", priority=1)
    assert story.events("HedgedScaleUp") == []


def test_a_hedge_that_fails_backs_its_group_off_and_the_next_one_takes_the_pods() -> None:
    third = {"name": "c", "price_per_hour": 0.3}
    story = taught(CHEAP, DEAR, third, stock_outs=[*DEAD, {"group": "b"}], settings={"max-hedged-nodes": "4"})
    assert [write[2] for write in later(story, "increase")][:3] == ["a", "b", "c"]
    assert story.asked("c")[0] < TAUGHT + 3 * USUAL + MINUTE
    assert story.result.final.pending == 0


def test_a_hedge_whose_first_request_failed_is_hedged_in_turn() -> None:
    """Nothing is bought twice any more once the first group has failed: the bound is free for the second one."""
    third = {"name": "c", "price_per_hour": 0.3}
    dead = [{"group": "a"}, {"group": "b"}]
    story = Story(CHEAP, DEAR, third, settings=AUTO, switched_off=SILENT, stock_outs=dead, minutes=30)
    story.pods(2, at=5)
    (withdrawal, *_) = story.writes("withdraw")
    assert withdrawal[2] == "a"
    assert story.asked("c")[0] == pytest.approx(withdrawal[0], abs=3 * LOOP)
    assert len(story.events("HedgedScaleUp")) == 2
