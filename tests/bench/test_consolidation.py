"""The comparison of consolidation: cases by hand, wrong moves that the check refuses, files that cannot be used."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from case_report import WrongAnswer
from consolidation import checked, main, measure, sums
from consolidation_cases import SHARED, Cluster, read_clusters
from consolidation_frontier import Relaxed
from nodewright.cli.settings.load import load_settings

SMALL = {"cpu": "2", "memory": "4Gi", "pods": "10"}
LARGE = {"cpu": "16", "memory": "64Gi", "pods": "100"}


def make(**changes: Any) -> Cluster:
    """A large node with two pods of one workload; small machines cost 0.2, large ones 3.0."""
    offers = [{"zone": "zone-a", "price": 0.2}]
    types = [
        {"name": "small", "allocatable": SMALL, "offers": offers},
        {"name": "large", "allocatable": LARGE, "offers": [{"zone": "zone-a", "price": 3.0}]},
    ]
    web = {"name": "web", "requests": {"cpu": "500m", "memory": "1Gi"}, "placed": {"n0": 2}}
    runs = {"Balanced": [{"price_at_rest": 0.2, "commands": 1, "evictions": 2}]}
    case = {
        "name": "hand",
        "family": "hands",
        "types": types,
        "nodes": [{"name": "n0", "type": "large", "zone": "zone-a"}],
        "workloads": [{**web, **changes.pop("web", {})}],
        "price_before": 3.0,
        "karpenter": {"policies": runs},
        "lp_bound_pinned": 0.1,
        **changes,
    }
    return msgspec.convert(case, Cluster)


def play(case: Cluster) -> dict[str, Any]:
    return measure(case, load_settings({"consolidation-policy": "balanced", "consolidation-budget": "0s"}, {}))


def test_a_row_tells_every_move() -> None:
    row = play(make())
    assert (row["price_before"], row["price_at_rest"], row["commands"], row["evictions"]) == (3.0, 0.2, 1, 2)
    (move,) = row["trace"]
    assert move["deleted"] == ["n0"]
    assert move["added"] == [{"name": "move-0-0", "type": "small", "zone": "zone-a"}]
    assert move["moves"] == {"web": {"n0": {"move-0-0": 2}}}
    assert row["karpenter"] == {"Balanced": {"price_at_rest": 0.2, "commands": 1, "evictions": 2}}


@pytest.mark.parametrize("web", [{"min_available": 2}, {"do_not_disrupt": True}])
def test_pods_that_must_stay_stay(web: dict[str, Any]) -> None:
    assert not play(make(web=web))["trace"]


def test_daemons_take_room_on_what_is_bought() -> None:
    row = play(make(daemon={"cpu": "1500m", "memory": "256Mi"}))
    assert [node["type"] for node in row["trace"][0]["added"]] == ["small", "small"]


def test_the_frontier_splits_nodes_and_pods_and_weighs_evictions() -> None:
    relaxed = Relaxed(make(), load_settings({"consolidation-policy": "balanced"}, {}))
    assert relaxed.at_dollars(0.0) == pytest.approx((0.1, 2.0))
    assert relaxed.at_dollars(10.0) == pytest.approx((3.0, 0.0))


def wrong(row: dict[str, Any], what: str) -> None:
    """Make a row wrong in one way."""
    move = row["trace"][0]
    if what == "lost":
        move["moves"]["web"]["n0"]["move-0-0"] = 1
    elif what == "price":
        row["price_at_rest"] = 0.1
    elif what == "evictions":
        row["evictions"] = 1
    elif what == "counted":
        move["evicted"] = 1


@pytest.mark.parametrize("what", ["lost", "price", "evictions", "counted"])
def test_a_wrong_row_is_refused(what: str) -> None:
    case = make()
    row = deepcopy(play(case))
    wrong(row, what)
    with pytest.raises(WrongAnswer):
        checked(case, row)


@pytest.mark.parametrize(
    "changes",
    [
        {"web": {"min_available": 2}},
        {"web": {"do_not_disrupt": True}},
        {"web": {"anti_hostname": True}},
        {"web": {"selector": {"size": "large"}}},
        {"web": {"requests": {"cpu": "1500m", "memory": "1Gi"}}},
        {"nodes": [{"name": "n0", "type": "large", "zone": "zone-a", "do_not_disrupt": True}]},
        {"budget": "0%"},
        {"daemon": {"cpu": "1500m", "memory": "1Gi"}},
    ],
)
def test_a_move_that_the_case_forbids_is_refused(changes: dict[str, Any]) -> None:
    row = play(make())
    with pytest.raises(WrongAnswer):
        checked(make(**changes), row)


def test_the_shared_cases_can_be_read() -> None:
    cases = read_clusters([SHARED])
    assert len(cases) == 60
    assert sum(case.lp_bound_pinned for case in cases) == pytest.approx(358.59, abs=0.01)
    assert sum(case.answers()["Balanced"]["evictions"] for case in cases) == 6909


def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"name": "x"}\n')
    assert main([str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_the_command_prints_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(msgspec.json.encode(make()))
    assert main([str(path), "--output", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["hand"]
    assert [line[0] for line in sums([play(make())])] == ["hands", "all"]
