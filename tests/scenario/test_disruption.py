"""Disruption budgets and schedules in whole loops on virtual time: windows, restarts across an edge, reloads inside a window."""

from pathlib import Path
from typing import Any

from tests.scenario.story import LOOP, MINUTE, SOON, Story

from nodewright.model.reason import UnremovableCode
from nodewright_simulator.journal import What

HOUR = 60 * MINUTE


def make(
    folder: Path, text: str, settings: dict[str, Any] | None = None, *, size: int = 6, as_daemon: bool = False
) -> Story:
    path = folder / "disruption.yaml"
    path.write_text(text)
    flags = {**SOON, "disruption-config": str(path), **(settings or {})}
    return Story({"name": "pool", "size": size, "max_size": 20}, settings=flags, minutes=180, as_daemon=as_daemon)


def gone_at(story: Story) -> list[float]:
    return sorted(fact.at for fact in story.result.journal if fact.what == What.MACHINE_GONE)


def targets(story: Story) -> list[tuple[float, int]]:
    """The target size of the group in each loop."""
    assert story.result
    return [(state.now, group.seen.target or 0) for state, _ in story.loops for group in state.groups.values()]


def target_at(story: Story, moment: float) -> int:
    return next(size for at, size in targets(story) if at >= moment)


# 00:00 to 01:00 UTC, since stories begin at midnight.
SHUT = "disruption: [{nodes: 0, when: {cron: 0 0 * * *, for: 1h}}]"


def test_no_node_goes_while_a_budget_of_zero_holds_and_the_reason_says_until_when(tmp_path: Path) -> None:
    story = make(tmp_path, SHUT)
    gone = gone_at(story)
    assert len(gone) == 6
    assert HOUR <= gone[0] <= HOUR + 2 * LOOP + MINUTE
    held = [reason for _, plan in story.loops for reason in plan.scale_down.unremovable.values()]
    held = [reason for reason in held if reason.code == UnremovableCode.DISRUPTION_BUDGET]
    text = "disruption[0] lets 0 of 6 nodes go at a time, and 0 are going, until 1h after the start"
    assert {reason.message for reason in held} == {text}


def test_a_loop_starts_at_the_edge_of_a_window(tmp_path: Path) -> None:
    story = make(tmp_path, SHUT, {"scan-interval": "7m"}, as_daemon=True)
    assert story.result
    starts = [state.now for state, plan in story.loops if plan.scale_down.removals]
    assert HOUR <= starts[0] <= HOUR + 2


def test_a_budget_counts_the_nodes_that_are_going(tmp_path: Path) -> None:
    story = make(tmp_path, "disruption: [{nodes: 20%}]")
    assert len(gone_at(story)) == 6
    most = max(len(state.observation.removing) + len(plan.scale_down.removals) for state, plan in story.loops)
    assert most == 2


def test_a_budget_for_other_reasons_or_groups_does_not_hold(tmp_path: Path) -> None:
    story = make(tmp_path, "disruption: [{nodes: 0, reasons: [underused]}, {nodes: 0, match: {groups: [web-*]}}]")
    assert len(gone_at(story)) == 6
    assert gone_at(story)[-1] < HOUR


def test_the_most_restrictive_budget_holds(tmp_path: Path) -> None:
    story = make(tmp_path, "disruption: [{nodes: 5}, {nodes: 1, match: {groups: [pool]}}, {nodes: 100%}]")
    assert gone_at(story)
    assert max(len(state.observation.removing) + len(p.scale_down.removals) for state, p in story.loops) == 1


def test_a_new_process_keeps_to_the_window_in_which_it_starts(tmp_path: Path) -> None:
    story = make(tmp_path, SHUT)
    story.simulation.engine.restart(30 * MINUTE, down_seconds=20, keeps_memory=False)
    assert gone_at(story)[0] >= HOUR


def test_a_file_that_changes_inside_a_window_counts_from_the_next_loop_on(tmp_path: Path) -> None:
    story = make(tmp_path, SHUT)
    story.at(20 * MINUTE, lambda: (tmp_path / "disruption.yaml").write_text("disruption: [{nodes: zero}]"))
    story.at(40 * MINUTE, lambda: (tmp_path / "disruption.yaml").write_text("disruption: [{nodes: 100%}]"))
    assert 40 * MINUTE <= gone_at(story)[0] <= 42 * MINUTE


GROWS = "schedules: [{match: {groups: [pool]}, when: {cron: 0 1 * * *, for: 1h}, set: {min: 5}, lead: %s}]"


def test_a_scheduled_minimum_is_reached_held_and_given_back(tmp_path: Path) -> None:
    story = make(tmp_path, GROWS % "''", size=0)
    assert target_at(story, HOUR - LOOP) == 0
    assert target_at(story, HOUR + LOOP) == 5
    assert target_at(story, 2 * HOUR - LOOP) == 5
    assert gone_at(story)[0] >= 2 * HOUR
    assert targets(story)[-1][1] == 0


def test_with_a_lead_the_nodes_are_ready_when_the_window_begins(tmp_path: Path) -> None:
    story = make(tmp_path, GROWS % "10m", size=0)
    assert target_at(story, 49 * MINUTE) == 0
    assert target_at(story, 50 * MINUTE + LOOP) == 5


def test_a_lead_that_is_not_learned_yet_is_the_provision_time(tmp_path: Path) -> None:
    story = make(tmp_path, GROWS % "auto", {"max-node-provision-time": "20m"}, size=0)
    assert target_at(story, 39 * MINUTE) == 0
    assert target_at(story, 40 * MINUTE + LOOP) == 5


def test_a_restart_across_the_end_of_a_window_forgets_the_minimum(tmp_path: Path) -> None:
    story = make(tmp_path, GROWS % "''", size=0)
    story.simulation.engine.restart(2 * HOUR - 2 * LOOP, down_seconds=60, keeps_memory=True)
    assert target_at(story, 2 * HOUR - 3 * LOOP) == 5
    assert targets(story)[-1][1] == 0


def test_a_schedule_changes_options_and_the_last_one_counts(tmp_path: Path) -> None:
    text = """schedules:
    - {when: {cron: 0 0 * * *, for: 1h}, set: {scale_down_unneeded_seconds: 7200, max: 15}}
    - {when: {cron: 0 0 * * *, for: 30m}, set: {max: 3}}"""
    story = make(tmp_path, text, size=2)
    gone = gone_at(story)
    assert HOUR <= gone[0] <= HOUR + 2 * MINUTE
    group = {state.now: next(iter(state.groups.values())).seen.group for state, _ in story.loops}
    assert {one.max_size for at, one in group.items() if at < 30 * MINUTE} == {3}
    assert {one.max_size for at, one in group.items() if 30 * MINUTE <= at < HOUR} == {15}
    assert {one.max_size for at, one in group.items() if at >= HOUR} == {20}
