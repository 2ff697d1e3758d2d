"""Moves: nodes are given up for cheaper ones, the new ones first (virtual time)."""

from typing import Any

import pytest
from tests.scenario.kills import kill_everywhere
from tests.scenario.story import Story

from nodewright.model.move import Move, MoveStage
from nodewright_simulator.journal import What

LARGE = {"name": "large", "cpu": 8, "memory": "32Gi", "price_per_hour": 0.8, "size": 1}
SMALL = {"name": "small", "price_per_hour": 0.05}
SETTINGS = {
    "expander": "price",
    "consolidation-policy": "balanced",
    # Without moves nothing would go.
    "scale-down-utilization-threshold": 0,
    "scale-down-unneeded-time": "2m",
}


def story(*groups: dict[str, Any], pods: int = 2, settings: dict[str, Any] | None = None, **more: Any) -> Story:
    """Pods on a large node; small nodes, of one pod each, cost less."""
    told = Story(*(groups or (LARGE, SMALL)), settings={**SETTINGS, **(settings or {})}, minutes=60, **more)
    told.pods(pods, at=5)
    return told


def stages(told: Story) -> list[tuple[str, MoveStage]]:
    """Return each stage of each move once, in order."""
    assert told.result
    found = [(move.id, move.stage) for _, plan in told.loops for move in plan.moves]
    return list(dict.fromkeys(found))


def moves(told: Story) -> list[Move]:
    """Return each move that ended, as it ended."""
    assert told.result
    return [move for _, plan in told.loops for move in plan.moves if move.stage.is_over]


def evictions(told: Story) -> list[float]:
    return [fact.at for fact in told.result.journal if fact.what == What.POD_EVICTED]


def test_new_nodes_come_first_and_then_the_source_is_drained() -> None:
    told = story()
    assert [stage for _, stage in stages(told)] == ["proposed", "launching", "ready", "draining", "done"]
    ((began, _, group, before, after),) = told.writes("increase")
    assert (group, before, after) == ("small", 0, 2)
    ready = [
        at
        for at, plan in ((state.now, plan) for state, plan in told.loops)
        for move in plan.moves
        if move.stage == "ready"
    ]
    assert min(evictions(told)) >= ready[0] > began
    assert len(evictions(told)) == 2
    assert (told.machines("large"), told.machines("small")) == (0, 2)
    assert told.result.final.pending == 0
    assert [over.removal.reason for over in told.result.removals] == ["replaced"]


def test_a_move_whose_new_nodes_fail_leaves_its_source_untouched() -> None:
    told = story(stock_outs=[{"group": "small"}])
    assert evictions(told) == []
    assert told.machines("large") == 1
    ended = moves(told)
    assert {move.stage for move in ended} == {MoveStage.ABANDONED}
    # The pause of the source lasts half an hour, and doubles.
    assert len(ended) <= 2
    assert "group fake/small failed" in ended[0].why


def test_a_move_whose_new_nodes_never_come_is_abandoned_after_the_provision_time() -> None:
    told = story(LARGE, {**SMALL, "provision_delay": "10h"}, settings={"max-node-provision-time": "5m"})
    assert evictions(told) == []
    assert told.machines("large") == 1
    first = moves(told)[0]
    assert first.stage == MoveStage.ABANDONED


def test_a_source_that_cannot_be_removed_does_not_stop_the_others() -> None:
    refusal = {"kind": "refuse", "hook": "delete_instances", "group": "large", "error": "access_denied", "times": 1}
    told = story({**LARGE, "size": 3}, SMALL, pods=3, faults=[refusal])
    first = moves(told)[0]
    assert first.stage == MoveStage.DONE
    assert len(first.sources) == 2
    # The third goes by a later move, after its pause.
    assert told.machines("large") <= 1


def test_a_source_that_vanishes_ends_its_move() -> None:
    told = story()
    told.at(380, lambda: told.cloud.lose(*told.cloud.living("large")))
    assert moves(told)[0].stage == MoveStage.DONE
    assert told.machines("small") == 2


def test_what_is_bought_for_an_abandoned_move_goes_as_unneeded() -> None:
    """A pod that may not be moved comes to the source while the new nodes are on their way."""
    told = story()
    told.pods(
        1, at=380, name="pinned", cpu="2", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    )
    assert evictions(told) == []
    (move,) = moves(told)
    assert "safe-to-evict" in move.why or "pinned" in move.why
    assert (told.machines("large"), told.machines("small")) == (1, 0)


def test_without_a_policy_nothing_moves() -> None:
    told = story(settings={"consolidation-policy": "off"})
    assert stages(told) == []
    assert told.machines("large") == 1


@pytest.mark.parametrize("down_seconds", [5.0, 25.0])
def test_killed_anywhere_nothing_is_bought_or_drained_twice(down_seconds: float) -> None:
    kills = list(kill_everywhere(lambda: story().simulation, down_seconds=down_seconds))
    assert {"edit_node", "evict", "increase_size", "delete_instances"} <= {kill.boundary.call for kill in kills}
    for kill in kills:
        journal = kill.result.journal
        made = [fact.name for fact in journal if fact.what == What.MACHINE_STARTED and "small" in fact.name]
        assert len(made) == 2, str(kill)
        assert sum(fact.what == What.POD_EVICTED for fact in journal) <= 2, str(kill)
        assert kill.result.final.pending == 0, str(kill)
        assert kill.result.final.nodes == {"fake/small": 2}, str(kill)
        assert not kill.result.problems, str(kill)


def test_an_interruption_of_a_source_ends_its_move() -> None:
    rule = {"do": "interrupt", "group": "large", "start": "380s", "machines": 1, "notice": "5m"}
    told = story(interference=[rule])
    first = moves(told)[0]
    assert (first.stage, first.why) == (
        MoveStage.ABANDONED,
        "node large-0 is interrupted: the cloud takes its machine",
    )
    assert told.result.final.pending == 0
    assert len(evictions(told)) == 2
