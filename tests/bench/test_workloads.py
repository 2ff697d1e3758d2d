"""Every benchmark at a small share of its size reaches the result that it must; how fast is nobody's business here."""

import json
from dataclasses import replace

import pytest

import run
from workloads import BENCHMARKS

SHARE = 0.02


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_small_share_reaches_the_right_result(name: str) -> None:
    row = run.measure(name, BENCHMARKS[name], runs=1, share=SHARE)
    assert row["ok"], row["result"]
    assert row["seconds"]["min"] <= row["seconds"]["median"] <= row["seconds"]["max"]
    assert row["meets"] is None


def test_a_wrong_result_is_told_from_a_right_one() -> None:
    right = BENCHMARKS["estimate"]
    wrong = replace(right, prepare=lambda share: replace(right.prepare(share), expected={"nodes": 1, "pods": 1}))
    assert not run.measure("estimate", wrong, runs=1, share=SHARE)["ok"]


def test_unknown_names_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["nonsense"]) == 2
    assert "estimate-distinct" in capsys.readouterr().err


def test_json_has_what_was_promised(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["estimate", "--here", "--runs", "1", "--share", "0.1", "--output", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert {"name", "seconds", "peak_mib", "result", "ok"} <= row.keys()
