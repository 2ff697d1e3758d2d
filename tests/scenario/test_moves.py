"""Moves: nodes are given up for cheaper ones, the new ones first (virtual time)."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.scenario.kills import check_nothing_twice, kill_everywhere
from tests.scenario.story import Story

from nodewright.model.meta import LabelSelector
from nodewright.model.move import Move, MoveStage
from nodewright.model.quantity import Quantity
from nodewright.model.settings import ConsolidationSettings
from nodewright.planner.consolidation.sources import DO_NOT_DISRUPT
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED
from nodewright_simulator.api_server import BudgetRule
from nodewright_simulator.journal import What

LARGE = {"name": "large", "cpu": 8, "memory": "32Gi", "price_per_hour": 0.8, "size": 1}
SMALL = {"name": "small", "price_per_hour": 0.05}
SETTINGS = {
    "expander": "price",
    "consolidation-policy": "balanced",
    # Without moves nothing would go.
    "scale-down-utilization-threshold": 0,
    "scale-down-unneeded-time": "2m",
    "scale-down-delay-after-add": 0,
}


def story(
    *groups: dict[str, Any], pods: int = 2, settings: dict[str, Any] | None = None, minutes: float = 60, **more: Any
) -> Story:
    """Pods on a large node; small nodes, of one pod each, cost less."""
    told = Story(*(groups or (LARGE, SMALL)), settings={**SETTINGS, **(settings or {})}, minutes=minutes, **more)
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


def test_a_schedule_switches_moves_off_for_its_window(tmp_path: Path) -> None:
    path = tmp_path / "disruption.yaml"
    path.write_text("schedules: [{when: {cron: 0 0 * * *, for: 30m}, set: {consolidation: false}}]")
    told = story(settings={"disruption-config": str(path)})
    assert (told.machines("large"), told.machines("small")) == (0, 2)
    assert moves(told)[0].started >= 1800


def test_moves_are_made_by_default_where_groups_have_a_price() -> None:
    told = story(settings={"consolidation-policy": ConsolidationSettings().consolidation_policy})
    assert ConsolidationSettings().consolidation_policy == "auto"
    assert (told.machines("large"), told.machines("small")) == (0, 2)


def test_moves_are_made_with_the_profile_ca_where_a_policy_is_named() -> None:
    told = story(settings={"consolidation-policy": "balanced", "profile": "ca", "expander": "least-cost"})
    assert (told.machines("large"), told.machines("small")) == (0, 2)


@pytest.mark.parametrize(
    "settings", [{"consolidation-policy": "off"}, {"consolidation-policy": "auto", "profile": "ca"}]
)
def test_without_a_policy_nothing_moves(settings: dict[str, str]) -> None:
    told = story(settings=settings)
    assert stages(told) == []
    assert told.machines("large") == 1


@pytest.mark.parametrize("unpriced", ["large", "small"])
def test_a_group_without_a_price_neither_loses_nodes_to_a_move_nor_gets_some(unpriced: str) -> None:
    groups = [{k: v for k, v in g.items() if k != "price_per_hour" or g["name"] != unpriced} for g in (LARGE, SMALL)]
    told = story(*groups)
    assert stages(told) == []
    assert (told.machines("large"), told.machines("small")) == (1, 0)


@pytest.mark.parametrize("down_seconds", [5.0, pytest.param(25.0, marks=pytest.mark.slow)])
def test_killed_anywhere_nothing_is_bought_or_drained_twice(down_seconds: float) -> None:
    kills = list(kill_everywhere(lambda: story().simulation, down_seconds=down_seconds))
    assert {"edit_node", "evict", "increase_size", "delete_instances"} <= {kill.boundary.call for kill in kills}
    for kill in kills:
        check_nothing_twice(kill, "small", machines=2, evictions=2)
        assert kill.result.final.nodes == {"fake/small": 2}, str(kill)


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


def budget(most: int) -> tuple[BudgetRule, ...]:
    """A PodDisruptionBudget of all pods."""
    return (BudgetRule(name="all", selector=LabelSelector(match_labels={}), max_unavailable=most),)


def test_sources_whose_pods_share_a_disruption_budget_go_one_after_the_other() -> None:
    told = story({**LARGE, "size": 3}, SMALL, pods=3)
    told.simulation.api_server.budgets = budget(1)
    ended = moves(told)
    assert [(len(move.sources), move.stage) for move in ended] == [(1, MoveStage.DONE)] * len(ended)
    assert told.machines("large") == 0
    assert told.machines("small") == 3


def test_a_move_waits_for_a_disruption_budget_that_comes_meanwhile() -> None:
    told = story({**LARGE, "size": 2}, SMALL)

    def allow(most: int) -> None:
        told.simulation.api_server.budgets = budget(most)

    told.at(380, lambda: allow(0))
    told.at(1500, lambda: allow(1))
    (move,) = moves(told)
    assert move.stage == MoveStage.DONE
    assert min(evictions(told)) >= 1500
    assert (told.machines("large"), told.machines("small")) == (0, 2)


def test_a_move_that_a_disruption_budget_holds_for_an_hour_is_abandoned() -> None:
    told = story({**LARGE, "size": 2}, SMALL, minutes=90)
    told.at(380, lambda: setattr(told.simulation.api_server, "budgets", budget(0)))
    (move,) = moves(told)
    assert (move.stage, evictions(told)) == (MoveStage.ABANDONED, [])
    assert move.why.startswith("it was not carried out within 1h")


def test_no_move_begins_during_a_pause() -> None:
    told = story()
    told.simulation.pause(10, 1190)
    (move,) = moves(told)
    assert move.started >= 1200
    assert move.stage == MoveStage.DONE


@pytest.mark.parametrize("until", [1800.0, 7200.0])
def test_a_ready_move_waits_for_the_end_of_a_pause(until: float) -> None:
    told = story(minutes=150)
    told.simulation.pause(370, until - 370)
    (move,) = moves(told)
    assert move.stage == MoveStage.DONE
    assert min(evictions(told)) >= until


def test_a_ready_move_waits_for_an_operators_budget_also_past_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "disruption.yaml"
    path.write_text("disruption: [{nodes: 100%}]")
    told = story(settings={"disruption-config": str(path)}, minutes=200)
    told.at(380, lambda: path.write_text("disruption: [{nodes: 0}]"))
    told.at(9000, lambda: path.write_text("disruption: [{nodes: 100%}]"))
    (move,) = moves(told)
    assert move.stage == MoveStage.DONE
    assert min(evictions(told)) >= 9000


@pytest.mark.parametrize("key", [SCALE_DOWN_DISABLED, DO_NOT_DISRUPT])
def test_an_annotated_source_ends_its_move(key: str) -> None:
    told = story()

    def annotate() -> None:
        cluster = told.simulation.cluster
        node = cluster.live.node(cluster.live.row("large-0"))
        cluster.change_node(
            msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, annotations={key: "true"}))
        )

    told.at(380, annotate)
    (move,) = moves(told)
    assert (move.stage, move.why) == (MoveStage.ABANDONED, f"node large-0 is annotated {key}")
    assert evictions(told) == []
    assert (told.machines("large"), told.machines("small")) == (1, 0)


def test_nodes_that_come_beside_those_of_the_move_are_not_its_own() -> None:
    told = story(interference=[{"do": "resize", "group": "small", "start": "376s", "size": 5}])
    assert moves(told)[0].stage == MoveStage.DONE
    pauses = {name: pause.why for state, _ in told.loops for name, pause in state.memory.moves.pauses.items()}
    assert list(pauses.values()) == ["it replaced other nodes"] * 2
    assert told.machines("small") == 2


NARROW = {"group": "small", "offers": {"cpu": "500m"}}


@pytest.mark.parametrize("restarts", [False, True])
def test_moves_to_machines_that_are_smaller_than_told_come_to_rest(restarts: bool) -> None:
    """What real nodes showed is lost with each restart, and the pauses of the purchases are not."""
    told = story(minutes=24 * 60, settings={"scan-interval": "1m"}, small_machines=[NARROW])
    for hour in range(1, 24, 5) if restarts else ():
        told.simulation.engine.restart(hour * 3600.0, down_seconds=60)
    bought = [at for at, *_ in told.writes("increase")]
    assert 1 <= len(bought) <= 3
    assert len(told.events("AddedNodeDoesNotFit")) == len(bought)
    assert evictions(told) == []
    assert (told.machines("large"), told.machines("small")) == (1, 0)


def test_a_move_waits_for_devices_that_come_later_than_their_nodes() -> None:
    device = {"example.com/dev": 1}
    small = [{"group": "small", "offers": {"example.com/dev": 0}}]
    told = Story(
        {**LARGE, "resources": {"example.com/dev": 8}},
        {**SMALL, "resources": device},
        settings=SETTINGS,
        minutes=60,
        small_machines=small,
    )
    told.pods(2, at=5, resources=device)

    def plug_in() -> None:
        for _, node in list(told.simulation.cluster.live.nodes()):
            if node.name.startswith("small"):
                offers = {**node.status.allocatable, "example.com/dev": Quantity.of(1)}
                status = msgspec.structs.replace(node.status, allocatable=offers, capacity=offers)
                told.simulation.cluster.change_node(msgspec.structs.replace(node, status=status))

    ready = 440  # 30 s after the first new node is ready
    for moment in range(ready, ready + 100, 10):
        told.at(moment, plug_in)
    (move,) = moves(told)
    assert move.stage == MoveStage.DONE
    assert min(evictions(told)) >= ready


# Two groups of nodes for one pod each. The preferred one has no machines for the first half hour.
SPOT = {"name": "preferred", "price_per_hour": 0.0999}
OTHER = {"name": "other", "price_per_hour": 0.1}
SOLD_OUT = [{"group": "preferred", "end": "30m"}]


def return_story(preferred: dict[str, Any], **settings: Any) -> Story:
    """Two pods that had to go to the other group. By price alone no move pays."""
    more = {"expander": "price", **settings}
    told = story(preferred, OTHER, minutes=120, settings=more, stock_outs=SOLD_OUT)
    told.simulation.cluster.priorities = "10: [other]\n20: [preferred]\n"
    return told


@pytest.mark.parametrize(
    ("preferred", "settings"),
    [({**SPOT, "spot": True}, {}), ({**SPOT, "price_per_hour": 0.1}, {"expander": "priority"})],
)
def test_pods_go_back_to_a_preferred_group_that_may_grow_again(
    preferred: dict[str, Any], settings: dict[str, str]
) -> None:
    told = return_story(preferred, **settings)
    assert [removal.removal.reason for removal in told.result.removals] == ["preferred"] * 2
    done = [(move.reason, len(move.sources)) for move in moves(told) if move.stage == MoveStage.DONE]
    assert done == [("preferred", 1)] * 2
    assert min(evictions(told)) > 1800
    assert (told.machines("other"), told.machines("preferred")) == (0, 2)
    assert told.result.final.pending == 0


@pytest.mark.parametrize(
    ("preferred", "settings"),
    [
        (SPOT, {}),
        ({**SPOT, "spot": True}, {"consolidation-policy": "off"}),
        ({**SPOT, "spot": True}, {"consolidation-policy": "when-empty"}),
        ({**SPOT, "price_per_hour": 0.11}, {"expander": "priority"}),
    ],
)
def test_pods_stay_where_no_group_is_preferred_or_it_costs_more(
    preferred: dict[str, Any], settings: dict[str, str]
) -> None:
    assert evictions(return_story(preferred, **settings)) == []


@pytest.mark.parametrize(("policy", "returned"), [("auto", 0), ("balanced", 2)])
@pytest.mark.parametrize("other", [{}, {"price_per_hour": 0.1}])
def test_without_prices_pods_go_back_only_with_an_explicit_policy(
    policy: str, returned: int, other: dict[str, float]
) -> None:
    groups = ({"name": "preferred"}, {"name": "other", **other})
    settings = {**SETTINGS, "expander": "priority", "consolidation-policy": policy}
    told = Story(*groups, minutes=120, settings=settings, stock_outs=SOLD_OUT)
    told.simulation.cluster.priorities = "10: [other]\n20: [preferred]\n"
    told.pods(2, at=5)
    assert [removal.removal.reason for removal in told.result.removals] == ["preferred"] * returned
    assert (told.machines("other"), told.machines("preferred")) == (2 - returned, returned)


def test_with_prices_pods_go_back_by_default() -> None:
    told = return_story({**SPOT, "spot": True}, **{"consolidation-policy": "auto"})
    assert (told.machines("other"), told.machines("preferred")) == (0, 2)


def test_pods_go_back_one_after_the_other_where_a_budget_allows_no_more_and_not_at_all_where_it_allows_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "disruption.yaml"
    path.write_text("disruption: [{nodes: 0, reasons: [preferred]}]")
    told = return_story({**SPOT, "spot": True}, **{"disruption-config": str(path)})
    told.at(5400, lambda: path.write_text("disruption: []"))
    assert min(evictions(told)) > 5400


def test_a_budget_for_another_reason_does_not_stop_pods_from_going_back(tmp_path: Path) -> None:
    path = tmp_path / "disruption.yaml"
    path.write_text("disruption: [{nodes: 0, reasons: [replaced]}]")
    told = return_story({**SPOT, "spot": True}, **{"disruption-config": str(path)})
    assert (told.machines("other"), told.machines("preferred")) == (0, 2)


def test_pods_go_back_to_several_nodes_that_cost_together_exactly_as_much() -> None:
    """Three times 0.1 is more than 0.3 in floating point."""
    groups = (
        {"name": "big", "price_per_hour": 0.3, "cpu": 3, "memory": "12Gi"},
        {"name": "preferred", "price_per_hour": 0.1, "spot": True},
    )
    told = story(*groups, pods=3, minutes=120, settings={"expander": "price"}, stock_outs=SOLD_OUT)
    assert (told.machines("big"), told.machines("preferred")) == (0, 3)


NEVER_THERE = {"name": "preferred", "price_per_hour": 0.0999, "spot": True}
SOLD_OUT_FOR_GOOD = [{"group": "preferred"}]


def test_a_move_that_pays_is_made_although_a_preferred_group_has_no_machines() -> None:
    told = story(NEVER_THERE, LARGE, SMALL, stock_outs=SOLD_OUT_FOR_GOOD)
    assert [(move.reason, move.stage) for move in moves(told)] == [("replaced", MoveStage.DONE)]
    assert (told.machines("large"), told.machines("small")) == (0, 2)


def test_a_failed_return_does_not_pause_a_move_that_pays(tmp_path: Path) -> None:
    """The first return fails while a budget holds back what pays."""
    path = tmp_path / "disruption.yaml"
    path.write_text("disruption: [{nodes: 0, reasons: [replaced, underused]}]")
    settings = {"disruption-config": str(path)}
    told = story(NEVER_THERE, LARGE, SMALL, settings=settings, stock_outs=SOLD_OUT_FOR_GOOD)
    told.at(900, lambda: path.write_text("disruption: []"))
    first, second = moves(told)
    assert (first.reason, first.stage) == ("preferred", MoveStage.ABANDONED)
    assert (second.reason, second.stage) == ("replaced", MoveStage.DONE)
    assert second.started < first.started + 1500


def test_a_preferred_group_that_is_sold_out_for_good_is_asked_ever_less_often() -> None:
    told = story(
        NEVER_THERE,
        OTHER,
        pods=6,
        minutes=24 * 60,
        settings={"expander": "price", "scan-interval": "1m"},
        stock_outs=SOLD_OUT_FOR_GOOD,
    )
    failed = [move.started for move in moves(told)]
    assert 3 <= len(failed) <= 6
    gaps = [later - earlier for earlier, later in pairwise(failed)]
    assert gaps == sorted(gaps)
    assert len(told.asked("preferred")) <= len(failed) + 1


def test_a_machine_that_came_for_pods_ends_the_pause_of_its_preferred_group() -> None:
    told = story(
        {**NEVER_THERE, "labels": {"kind": "spot"}},
        OTHER,
        minutes=150,
        settings={"expander": "price"},
        stock_outs=[{"group": "preferred", "end": "80m"}],
    )
    told.pods(1, at=90 * 60, name="picky", node_selector={"kind": "spot"})
    # The second return failed after an hour, and the next would be two hours later.
    assert [move.stage for move in moves(told)][:2] == [MoveStage.ABANDONED] * 2
    assert (told.machines("other"), told.machines("preferred")) == (0, 3)


def pinned(kind: str) -> dict[str, Any]:
    if kind == "unsafe":
        return {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    return {"node_selector": {"kind": "other"}}


@pytest.mark.parametrize("kind", ["unsafe", "selective"])
def test_nodes_whose_pods_cannot_go_back_do_not_hide_others_that_can(kind: str) -> None:
    told = story(
        NEVER_THERE,
        {**OTHER, "labels": {"kind": "other"}},
        pods=0,
        minutes=180,
        settings={"expander": "price"},
        stock_outs=SOLD_OUT,
    )
    told.pods(20, at=5, name="pinned", **pinned(kind))
    told.pods(1, at=120, name="free")
    assert told.machines("preferred") == 1
    assert [move.stage for move in moves(told)][-1] == MoveStage.DONE
