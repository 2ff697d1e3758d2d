"""Notices that the cloud takes machines: what is bought, what is drained, and whether a pod waits (virtual time)."""

from pathlib import Path
from typing import Any

import pytest
from tests.scenario.kills import check_nothing_twice, kill_everywhere
from tests.scenario.story import Story

from nodewright.model.meta import LabelSelector
from nodewright_simulator.api_server import BudgetRule
from nodewright_simulator.journal import What

SPOT, OTHER = {"name": "spot", "price_per_hour": 0.1, "spot": True}, {"name": "other", "price_per_hour": 0.2}
# The fake cloud's machines are ready nodes 70 s after they were asked for.
BOOT = 70


def story(*groups: dict[str, Any], settings: dict[str, Any] | None = None, **notice: Any) -> Story:
    """Three pods on three machines of spot; at ten minutes the cloud gives notice of them."""
    rule = {"do": "interrupt", "group": "spot", "start": "10m", **notice}
    told = Story(
        *(groups or (SPOT, OTHER)),
        settings={"scale-down-enabled": False, **(settings or {})},
        as_daemon=True,
        minutes=30,
        interference=[rule],
    )
    told.pods(3, at=5)
    return told


def waited(told: Story, since: float) -> float:
    """Return for how many seconds pods had no node after ``since``, summed over pods."""
    series, total = told.result.series, 0.0
    moments = list(zip(series.times, series.pending, strict=True))
    for (at, pending), (after, _) in zip(moments, [*moments[1:], (told.result.end, 0)], strict=True):
        total += pending * max(0.0, after - max(at, since))
    return total


def bought(told: Story, since: float = 600) -> dict[str, int]:
    found: dict[str, int] = {}
    for at, _, group, before, after in told.writes("increase"):
        if at >= since:
            found[group] = found.get(group, 0) + after - before
    return found


def test_with_enough_notice_no_pod_waits() -> None:
    told = story(machines=3, notice=f"{BOOT + 30 + 15}s")
    assert bought(told) == {"other": 3}
    assert waited(told, 600) == 0
    assert [over.result for over in told.result.removals] == ["Ok"] * 3
    assert told.machines("spot") == 0
    assert told.machines("other") == 3


def test_with_little_notice_nodes_are_drained_at_once() -> None:
    told = story(machines=3, notice="30s")
    drained = [fact.at for fact in told.result.journal if fact.what == What.POD_EVICTED]
    assert len(drained) == 3
    assert max(drained) <= 605
    assert bought(told) == {"other": 3}
    # Each pod waits from its eviction until its machine has booted.
    assert waited(told, 600) <= 3 * BOOT


@pytest.mark.parametrize("notice", ["30s", "2m"])
def test_a_group_that_replaces_lost_machines_does_not_replace_those_that_were_replaced(notice: str) -> None:
    told = story(machines=2, notice=notice)
    assert bought(told) == {"other": 2}
    assert (told.machines("spot"), told.machines("other")) == (1, 2)


def test_without_a_notice_the_group_replaces_its_machines_and_nothing_is_bought() -> None:
    told = story(machines=2, undelivered=True)
    assert bought(told) == {}
    assert told.machines("spot") == 3


def test_a_notice_that_comes_twice_counts_once() -> None:
    told = story(machines=3, duplicated=True, notice="2m")
    assert bought(told) == {"other": 3}
    assert len(told.result.removals) == 3


def test_after_a_false_alarm_nothing_is_bought_or_drained_again() -> None:
    told = story(machines=3, false_alarm=True, notice="2m")
    assert bought(told) == {"other": 3}
    assert [over.result for over in told.result.removals] == ["Ok"] * 3
    assert waited(told, 600) == 0


def test_where_there_is_no_other_group_the_same_one_grows() -> None:
    told = story(SPOT, machines=3, notice="2m")
    assert bought(told) == {"spot": 3}
    assert told.machines("spot") == 3
    assert waited(told, 600) == 0


def test_pods_that_fit_elsewhere_move_at_once_and_nothing_is_bought() -> None:
    told = story({**SPOT, "size": 4, "min_size": 1}, OTHER, machines=1, notice="2m")
    (evicted,) = [fact.at for fact in told.result.journal if fact.what == What.POD_EVICTED]
    assert evicted <= 610
    assert bought(told) == {}


def test_a_recommendation_is_not_followed_unless_it_is_asked_for() -> None:
    told = story(machines=3, kind="rebalance")
    assert bought(told) == {}
    assert told.result.removals == ()


def test_a_recommendation_is_followed_by_machines_of_other_groups_alone() -> None:
    told = story(machines=3, kind="rebalance", settings={"replace-on-rebalance": True})
    assert bought(told) == {"other": 3}
    assert waited(told, 600) == 0
    alone = story(SPOT, machines=3, kind="rebalance", settings={"replace-on-rebalance": True})
    assert bought(alone) == {}
    assert alone.result.removals == ()


def test_a_group_at_its_minimum_keeps_its_size() -> None:
    told = story({**SPOT, "min_size": 3, "size": 3}, OTHER, machines=3, notice="2m")
    assert waited(told, 600) == 0
    assert told.machines("spot") == 3
    assert [what for _, what, group, _, _ in told.writes("delete") if group == "spot"] == []


def test_profile_ca_hears_nothing() -> None:
    told = story(machines=3, settings={"profile": "ca", "expander": "price"})
    assert told.result.removals == ()


def test_a_taint_of_a_node_agent_counts_as_a_notice() -> None:
    told = Story(SPOT, OTHER, settings={"scale-down-enabled": False}, as_daemon=True, minutes=30)
    told.pods(2, at=5)
    told.turn("spot-0", at=600, ready=True, taint="aws-node-termination-handler/spot-itn")
    assert bought(told) == {"other": 1}
    (over,) = told.result.removals
    assert (over.removal.node, over.result) == ("spot-0", "Ok")
    assert waited(told, 600) == 0


def test_a_condition_that_aks_sets_counts_as_a_notice() -> None:
    told = Story(SPOT, OTHER, settings={"scale-down-enabled": False}, as_daemon=True, minutes=30)
    told.pods(2, at=5)
    told.turn("spot-0", at=600, ready=True, condition="PreemptionScheduled")
    assert bought(told) == {"other": 1}
    (over,) = told.result.removals
    assert (over.removal.node, over.result) == ("spot-0", "Ok")
    # Half a minute is left: its pod does not wait for the new machine.
    assert over.at <= 600 + 30
    [(at, message)] = told.events("InterruptionNotice")
    assert at <= 601
    assert "PreemptionScheduled of spot-0" in message


def test_budgets_hold_until_only_the_time_to_end_is_left() -> None:
    told = story(machines=1, notice="2m")
    selector = LabelSelector(match_labels={"app": "web"})
    told.simulation.api_server.budgets = (BudgetRule(name="all", selector=selector, min_available="100%"),)
    (evicted,) = [fact.at for fact in told.result.journal if fact.what == What.POD_EVICTED]
    assert 720 - 30 - 5 <= evicted <= 720 - 30
    (over,) = told.result.removals
    assert over.result == "Ok"


def on_the_grid() -> Story:
    """As ``story``, for an engine that can be killed. Five minutes are enough for a restart, too."""
    rule = {"do": "interrupt", "group": "spot", "start": "10m", "machines": 3, "notice": "6m"}
    told = Story(SPOT, OTHER, settings={"scale-down-enabled": False}, minutes=30, interference=[rule])
    told.pods(3, at=5)
    return told


@pytest.mark.parametrize("down_seconds", [5.0, pytest.param(25.0, marks=pytest.mark.slow)])
def test_killed_anywhere_nothing_is_bought_or_drained_twice(down_seconds: float) -> None:
    kills = list(kill_everywhere(lambda: on_the_grid().simulation, down_seconds=down_seconds))
    assert {"edit_node", "evict", "increase_size", "delete_instances"} <= {kill.boundary.call for kill in kills}
    for kill in kills:
        check_nothing_twice(kill, "other", machines=3, evictions=3)


def with_budget(folder: Path, budget: str, **notice: Any) -> Story:
    path = folder / "disruption.yaml"
    path.write_text(f"disruption: [{budget}]")
    return story(settings={"disruption-config": str(path)}, machines=3, **notice)


def test_a_budget_for_interrupted_holds_drains_until_they_must_begin(tmp_path: Path) -> None:
    told = with_budget(tmp_path, "{nodes: 1, reasons: [interrupted]}", notice="10m")
    assert waited(told, 600) == 0
    assert len(told.result.removals) == 3
    most = max(len(state.observation.removing) + len(plan.scale_down.removals) for state, plan in told.loops)
    assert most == 1


def test_a_budget_of_zero_lets_drains_begin_only_when_they_must(tmp_path: Path) -> None:
    told = with_budget(tmp_path, "{nodes: 0, reasons: [interrupted]}", notice="10m")
    assert bought(told) == {"other": 3}
    starts = [over.started for over in told.result.removals]
    assert len(starts) == 3
    # Deadline less 30 s of grace less 5 s.
    assert min(starts) >= 600 + 600 - 35


def test_without_a_deadline_nothing_is_bought_for_what_a_budget_keeps(tmp_path: Path) -> None:
    told = with_budget(tmp_path, "{nodes: 0, reasons: [interrupted]}", kind="unhealthy")
    assert bought(told) == {}
    assert told.result.removals == ()
    assert told.machines("spot") == 3


def test_without_a_deadline_nodes_that_a_budget_keeps_go_one_after_the_other(tmp_path: Path) -> None:
    told = with_budget(tmp_path, "{nodes: 1, reasons: [interrupted]}", kind="unhealthy")
    assert bought(told) == {"other": 3}
    assert [over.result for over in told.result.removals] == ["Ok"] * 3
    assert waited(told, 600) == 0
    kept = [one for _, plan in told.loops for one in plan.leaving if not one.is_draining]
    assert kept
    assert not any(one.has_room for one in kept)


@pytest.mark.parametrize("budget", ["", "{nodes: 1, reasons: [interrupted]}"])
def test_a_node_that_cannot_go_takes_no_place_of_a_budget(tmp_path: Path, budget: str) -> None:
    path = tmp_path / "disruption.yaml"
    path.write_text(f"disruption: [{budget}]")
    told = Story(
        {"name": "a", "size": 1, "min_size": 1, "price_per_hour": 0.1},
        {"name": "b", "size": 1, "price_per_hour": 0.1},
        OTHER,
        settings={"scale-down-enabled": False, "disruption-config": str(path)},
        as_daemon=True,
        minutes=30,
        interference=[{"do": "interrupt", "group": name, "start": "10m", "kind": "unhealthy"} for name in ("a", "b")],
    )
    told.pods(2, at=5)
    (over,) = told.result.removals
    assert over.removal.node == "b-0"
    assert over.started <= 600 + BOOT + 30


def test_a_budget_that_does_not_name_interrupted_does_not_hold(tmp_path: Path) -> None:
    told = with_budget(tmp_path, "{nodes: 0}", notice="10m")
    assert max(over.started for over in told.result.removals) < 600 + 5 * 60
