"""Every benchmark at a small part of its size reaches its expected result; its speed is not tested here."""

import json
from dataclasses import replace
from random import Random
from typing import cast

import pytest

import run
from clusters import Cluster
from measure import Loop
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ScaleDownReport
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import Settings
from workloads import BENCHMARKS

SHARE = 0.02
# Benchmarks of each kind that the quick tier runs, too.
QUICK = ("estimate", "run-once-scale-up", "run-once-scale-down", "many-groups")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BENCHMARKS]
)
def test_a_small_share_reaches_the_right_result(name: str) -> None:
    row = run.measure(name, BENCHMARKS[name], runs=1, share=SHARE)
    assert row["ok"], row["result"]
    assert row["seconds"]["min"] <= row["seconds"]["median"] <= row["seconds"]["max"]
    assert row["meets"] is None


@pytest.mark.parametrize(("name", "note"), [("owned", "snapshot ms"), ("replay", "loops a second")])
def test_what_else_is_measured_is_told(name: str, note: str) -> None:
    assert run.measure(name, BENCHMARKS[name], runs=1, share=SHARE)["notes"][note] > 0


def test_a_wrong_result_is_told_from_a_right_one() -> None:
    right = BENCHMARKS["estimate"]
    wrong = replace(right, prepare=lambda share: replace(right.prepare(share), expected={"nodes": 1, "pods": 1}))
    assert not run.measure("estimate", wrong, runs=1, share=SHARE)["ok"]


@pytest.mark.parametrize(("seconds", "meets"), [(1.9, True), (2.1, False)])
def test_some_may_take_so_much_more_than_another(seconds: float, meets: bool) -> None:
    base, slow = (run.measure(name, BENCHMARKS[name], runs=1, share=SHARE) for name in ("many-groups", "groups-slow"))
    base["seconds"]["median"], slow["seconds"]["median"] = 1.0, seconds
    for row in (base, slow):  # alone, as in a process of its own, and then together
        run.judge([row])
    assert (base["meets"], slow["meets"]) == (True, None)
    run.judge([slow, base])
    assert slow["meets"] is meets


@pytest.mark.parametrize(
    ("changes", "meets"),
    [({}, True), ({"times": 79.9}, False), ({"limit": 0.9}, False), ({"limit": 1.0}, True), ({"limit_mib": 9}, False)],
)
def test_every_target_counts(changes: dict[str, float], meets: bool) -> None:
    row = run.measure("estimate-pods", BENCHMARKS["estimate-pods"], runs=1, share=SHARE)
    row["seconds"]["median"], row["times"], row["peak_mib"] = 1.0, 80.0, 10.0
    row = cast("run.Row", {**row, **changes})
    run.judge([row])
    assert row["meets"] is meets


def test_what_may_take_more_than_another_names_one_that_there_is() -> None:
    named = {benchmark.beyond[0] for benchmark in BENCHMARKS.values() if benchmark.beyond is not None}
    assert named
    assert named < BENCHMARKS.keys()


def test_unknown_names_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["nonsense"]) == 2
    assert "estimate-distinct" in capsys.readouterr().err


def test_json_has_what_was_promised(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["estimate", "--here", "--runs", "1", "--share", "0.1", "--output", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert {"name", "seconds", "peak_mib", "result", "ok"} <= row.keys()


def faulty(state: ClusterState, _settings: Settings, _random: Random) -> tuple[Plan, PlanMemory]:
    """Wants a node away that is not there."""
    ghost = NodeRemoval(node="ghost", group=GroupRef("cloud", "g"), instance_id="i-1", reason=RemovalReason.EMPTY)
    return Plan(scale_down=ScaleDownReport(removals=(ghost,))), PlanMemory.of(state.memory)


def test_a_whole_loop_checks_removals_too() -> None:
    with pytest.raises(AssertionError, match="there is no node ghost"):
        Loop(Settings(), planning=Planning(make_plan=faulty)).turn(Cluster().look())
