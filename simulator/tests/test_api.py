"""Simulations from Python, and the code of docs/python.md."""

import builtins
import re
from pathlib import Path
from typing import Any

import pytest

import nodewright
from nodewright.model.errors import ConfigError
from nodewright_simulator.api import Result, simulate

ROOT = Path(__file__).parents[2]
SCENARIO = {
    "name": "jobs",
    "duration": "20m",
    "providers": {"fake": {"groups": [{"name": "g", "cpu": 4, "memory": "16Gi", "max_size": 4, "price_per_hour": 1}]}},
    "jobs": [{"name": "j", "count": 3, "at": "2m", "every": "2m", "duration": "3m", "pod": {"cpu": "3"}}],
}


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(SCENARIO)


def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102 - our own page
    assert len(names["slow"]) > 0
    assert isinstance(names["difference"], float)
    assert (tmp_path / "stock-out.html").stat().st_size > 10_000


def test_frames_have_a_row_for_each_thing(result: Result) -> None:
    pytest.importorskip("pandas")
    pods, nodes, decisions = result.pods, result.nodes, result.decisions
    assert list(pods["arrived"]) == [120.0, 240.0, 360.0]
    assert list(pods["wait"]) == list(pods["started"] - pods["arrived"])
    assert set(pods["end"]) == {"ended"}
    assert set(pods["node"]) <= set(nodes["name"])
    assert nodes["pods"].sum() == 3
    assert all(nodes["why_added"].str.startswith("for default/j-"))
    assert set(decisions["what"]) == {"increase", "delete"}
    assert list(pods.columns) == ["name", "owner", "arrived", "started", "wait", "node", "ended", "end"]


def test_a_run_in_which_nothing_happens_has_empty_frames() -> None:
    pytest.importorskip("pandas")
    idle = simulate({**SCENARIO, "jobs": [], "duration": "1m"})
    assert [len(frame) for frame in (idle.pods, idle.nodes, idle.decisions)] == [0, 0, 0]
    assert idle.figures["pods_started"] == 0


def test_settings_and_seed_replace_those_of_the_scenario() -> None:
    changed = simulate({**SCENARIO, "duration": "1m"}, settings={"expander": "random"}, seed=9)
    assert (changed.scenario.settings, changed.scenario.seed) == ({"expander": "random"}, 9)
    with pytest.raises(ConfigError, match="did you mean expander"):
        simulate(SCENARIO, settings={"expandr": "x"})
    with pytest.raises(ConfigError, match="did you mean jobs"):
        simulate({**SCENARIO, "job": []})
    with pytest.raises(ConfigError, match="cannot be read"):
        simulate("none.yaml")


def test_without_pandas_there_is_a_sentence(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r'pip install "nodewright\[pandas\]"'):
        _ = result.pods


def test_the_package_offers_simulate_and_nothing_else() -> None:
    assert nodewright.simulate is simulate
    with pytest.raises(AttributeError, match="no attribute 'simulation'"):
        getattr(nodewright, "simulation")  # noqa: B009 - the name is wrong on purpose
