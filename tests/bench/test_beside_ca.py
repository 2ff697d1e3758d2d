"""The table of bench/beside_ca.py: what it makes of figures and of an audit log, and what it says where something is missing."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from beside_ca import SCENARIOS, main
from beside_ca_report import PROMISES, ROWS, Measured, broken_promises, busiest_minute, count_requests, write_table

BURST = {
    "last_request": 5.4,
    "last_pod": 1.5,
    "decided_after_last_pod": 2.0,
    "decided_writes_of_one_group": 2,
    "decided_nodes": 36,
    "all_run": 12.5,
    "nodes": 36,
    "dollars_per_hour": 10.724,
    "writes": 4,
    "writes_of_one_group": 2,
    "api_requests": 400,
    "last_deletion": 82.0,
    "nodes_left": 0,
    "resident_mib": 92,
}


def measured(scenario: str, system: str, figures: dict[str, Any], run: int = 0) -> Measured:
    return {"scenario": scenario, "system": system, "run": run, "load": [1.0, 3.0], "figures": figures}


def test_a_column_is_a_system_and_runs_are_separated_by_commas() -> None:
    table = write_table(
        [
            measured("burst", "nodewright", BURST),
            measured("burst", "ca", {**BURST, "last_request": None}),
            measured("burst", "nodewright", {**BURST, "last_request": 7.25}, run=1),
            measured("burst", "ca", {"error": "Ended: the process ended"}, run=1),
        ]
    ).splitlines()
    assert table[:3] == [
        "| | CA | nodewright |",
        "|---|--:|--:|",
        "| 300 pods: last resize asked, s | never, failed | 5.4, 7.2 |",
    ]
    assert "| $/h | 10.72, failed | 10.72, 10.72 |" in table
    assert table[-1] == "| load average beside it: median (least to most) | 2.0 (1.0 to 3.0) | 2.0 (1.0 to 3.0) |"
    assert len(table) == 3 + sum(row.scenario == "burst" for row in ROWS)


def test_the_restart_tells_both_numbers() -> None:
    table = write_table([measured("restart", "ca", {"asked": 100, "asked_at_kill": 50})])
    assert "| kill -9 in a scale-up of 50: asked for in the end | 100 (50 at the kill) |" in table


def test_a_system_without_the_scenario_has_an_empty_cell() -> None:
    crash = measured("crash", "ca", {"other_asks": 26.7})
    assert "| 26.7 |  |" in write_table([crash, measured("burst", "nodewright", BURST)])


def test_figures_within_their_limits_break_no_promise() -> None:
    fine = [
        measured("burst", "ca", {**BURST, "api_requests": 401, "nodes_left": 28}),
        measured("burst", "nodewright", BURST),
        measured("planned", "nodewright", {"decided_nodes": 36}),
        measured("crash", "nodewright-ca", {"other_asks": 25.0}),
        measured("crash", "nodewright", {"error": "AssertionError"}),
    ]
    assert not list(broken_promises(fine))


@pytest.mark.parametrize("promise", PROMISES)
def test_a_figure_above_its_limit_breaks_a_promise(promise: Any) -> None:
    names = {one.figure for one in PROMISES if one.scenario == promise.scenario}
    figures: dict[str, Any] = {**BURST, **dict.fromkeys(names, 0), promise.figure: promise.most + 1}
    for system, is_held in (("nodewright", True), ("nodewright-ca", promise.in_both), ("ca", False)):
        told = list(broken_promises([measured(promise.scenario, system, figures)]))
        assert len(told) == is_held
    assert list(broken_promises([measured(promise.scenario, "nodewright", {**figures, promise.figure: None})]))


def test_more_nodes_than_one_decision_buys_break_a_promise() -> None:
    planned = measured("planned", "nodewright", {"decided_nodes": 35})
    [told] = broken_promises([planned, measured("burst", "nodewright", BURST)])
    assert told == "nodewright, burst: 36 nodes, where one decision buys 35"


def test_as_many_requests_as_ca_break_a_promise_in_both_profiles() -> None:
    told = list(broken_promises([measured("burst", system, BURST) for system in ("ca", "nodewright", "nodewright-ca")]))
    assert told == [
        f"{system}, burst: 400 requests to the API server, not fewer than CA's 400"
        for system in ("nodewright", "nodewright-ca")
    ]


def entry(second: int, name: str = "1", user: str = "ca", verb: str = "list", **about: str) -> str:
    came = datetime.fromtimestamp(1000 + second, UTC).isoformat().replace("+00:00", "Z")
    said = {"requestReceivedTimestamp": came, "auditID": name, "user": {"username": user}, "verb": verb}
    return json.dumps({**said, "requestURI": "/readyz", **({"objectRef": about} if about else {})})


def test_requests_of_one_user_within_the_window_count_once() -> None:
    audit = [
        entry(9, "before", resource="pods"),
        entry(10, "a", verb="watch", resource="pods"),
        entry(10, "a", verb="watch", resource="pods"),
        entry(12, "b", verb="create", resource="events"),
        entry(15, "c", verb="create", resource="events"),
        entry(15, "d", verb="get"),
        entry(15, "e", user="nodewright", resource="pods"),
        entry(21, "after", resource="pods"),
    ]
    assert count_requests(audit, "ca", 1010, 1020) == {"watch pods": 1, "create events": 2, "get /readyz": 1}


def test_the_busiest_minute_is_any_60_seconds() -> None:
    assert busiest_minute([]) == 0
    assert busiest_minute([0.0, 50.0, 55.0, 60.0, 109.0, 111.0]) == 4


def test_every_row_and_promise_is_of_a_scenario() -> None:
    assert {row.scenario for row in ROWS} == set(SCENARIOS)
    assert {promise.scenario for promise in PROMISES} <= set(SCENARIOS)


@pytest.mark.parametrize(
    ("binary", "words", "said"),
    [
        (
            None,
            ["--scenarios=burst"],
            "CA_BINARY is not set: let it name a cluster-autoscaler 1.37, or leave ca out of --systems.\n",
        ),
        (
            None,
            ["--systems=nodewright", "--scenarios=burst,handover"],
            "CA_BINARY is not set: let it name a cluster-autoscaler 1.37, or leave handover out of --scenarios.\n",
        ),
        ("/nowhere/ca", [], "CA_BINARY names /nowhere/ca, which is not a program.\n"),
        (None, ["--systems=keda"], "There is no system of the name keda; known: ca, nodewright, nodewright-ca.\n"),
        (None, ["--scenarios=burst,x"], f"There is no scenario of the name x; known: {', '.join(SCENARIOS)}.\n"),
    ],
)
def test_what_is_missing_is_told_in_one_sentence(
    binary: str | None, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CA_BINARY", raising=False)
    if binary is not None:
        monkeypatch.setenv("CA_BINARY", binary)
    assert main(words) == 2
    assert capsys.readouterr() == ("", said)


def test_a_file_that_is_no_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca").write_text("")
    monkeypatch.setenv("CA_BINARY", str(tmp_path / "ca"))
    assert main([]) == 2
    assert "is not a program" in capsys.readouterr().err
