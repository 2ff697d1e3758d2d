"""The production trace: every pod that fits some shape runs, and no node is ever over-committed.

What pods ask and nodes offer is read from the CSV tables here, by code of its own.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.action import IncreaseSize
from nodewright.model.errors import ConfigError
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.openb import demo_scenario, is_trace, load_openb, trace_scenario
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.simulation import OnProgress

FOLDER = Path(__file__).parents[1] / "data" / "openb"
CUT = Path(str(files("nodewright_simulator"))) / "data"
Amounts = Mapping[str, int]
MakeAudit = Callable[..., Any]


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with gzip.open(folder / f"{table}.csv.gz", "rt", newline="") as text:
        return list(csv.DictReader(text))


def asked(folder: Path) -> dict[str, Amounts]:
    """Millicores, MiB and GPUs of every pod; a share of a GPU counts as a whole one."""
    return {
        f"default/{row['name']}": {
            "cpu": int(row["cpu_milli"]),
            "memory": int(row["memory_mib"]),
            "gpu": max(int(row["num_gpu"]), 1 if int(row["gpu_milli"] or 0) else 0),
        }
        for row in rows(folder, "pods")
    }


def offered(folder: Path) -> dict[str, tuple[Amounts, int]]:
    """What a node of each group offers, and how many there may be; by the name the replay gives the group."""
    shapes = Counter((row["model"], row["cpu_milli"], row["memory_mib"], row["gpu"]) for row in rows(folder, "nodes"))
    found: dict[str, tuple[Amounts, int]] = {}
    for (model, cpu, memory, gpu), count in shapes.items():
        name = f"{model.lower() or 'cpu'}-{int(cpu) // 1000}c-{int(memory) // 1024}g"
        name += f"-{gpu}gpu" if gpu != "0" else ""
        found[f"fake/{name}"] = ({"cpu": int(cpu), "memory": int(memory), "gpu": int(gpu)}, count)
    return found


@cache
def replay(*, compression: float = 1.0, all_at_once: bool = False, every_tick: bool = False) -> SimulationResult:
    """The packaged cut."""
    scenario = trace_scenario(str(CUT), compression=compression, all_at_once=all_at_once)
    return build_simulation(scenario, BuildOptions(every_tick=every_tick, planning=Planning(strict=True))).run()


class Watcher:
    """Remembers when it was told of progress."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    @property
    def callback(self) -> OnProgress:
        return lambda progress: self.moments.append(progress.now)


def check(result: SimulationResult, folder: Path, audit: MakeAudit) -> None:
    groups = offered(folder)
    pods = asked(folder)
    found = audit(result.journal, pods, {name: shape for name, (shape, _) in groups.items()})
    fitting = {
        name
        for name, pod in pods.items()
        if any(all(pod[resource] <= shape[resource] for resource in pod) for shape, _ in groups.values())
    }
    assert found.overcommitted == []
    assert found.misplaced == []
    assert found.started == fitting
    assert all(count <= groups[name][1] for name, count in found.most_nodes.items())
    assert result.violations == ()


@pytest.mark.slow
def test_the_whole_trace(audit: MakeAudit) -> None:
    """149 days, 8,152 pods: each runs once and ends. No node is removed: see test_openb_scale_down.py."""
    scenario = trace_scenario(str(FOLDER))
    scenario = replace(scenario, settings={**scenario.settings, "scale-down-enabled": False})
    watcher = Watcher()
    result = build_simulation(scenario, BuildOptions(planning=Planning(strict=True))).run(watcher.callback)
    check(result, FOLDER, audit)
    assert result.waiting.pods == 8152
    assert (result.final.pending, result.final.running) == (0, 0)
    assert result.end - result.start > 149 * 86_400
    assert result.waiting.longest <= 90.0  # two ticks and the time that a node takes to come up
    assert result.node_hours.busy <= result.node_hours.used <= result.node_hours.oracle
    assert result.loops == len(watcher.moments) < 16_304  # a loop only where something changed
    assert watcher.moments == sorted(watcher.moments)


@pytest.mark.slow
def test_the_packaged_cut_as_it_was(audit: MakeAudit) -> None:
    result = replay()
    check(result, CUT, audit)
    assert result.final.running == 0


def test_the_cut_at_every_tick_comes_to_the_same() -> None:
    quick, full = replay(compression=100.0), replay(compression=100.0, every_tick=True)
    assert quick.decisions == full.decisions
    assert quick.pod_waits == full.pod_waits
    assert quick.final == full.final


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"compression": 100.0}, {"all_at_once": True}])
def test_harder_readings_of_the_same_facts(audit: MakeAudit, options: dict[str, Any]) -> None:
    check(replay(**options), CUT, audit)


@pytest.mark.slow
def test_compression_divides_all_times() -> None:
    assert replay(compression=100.0).end < replay().end / 50


@pytest.mark.slow
def test_the_demo_shows_a_stock_out_and_its_remedy(audit: MakeAudit) -> None:
    """The loop that learns of a failed machine asks another group for its pod."""
    asked_for: list[tuple[float, IncreaseSize]] = []

    def plan(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        planned, after = make_plan(state, settings, random)
        asked_for.extend((state.now, action) for action in planned.actions if isinstance(action, IncreaseSize))
        return planned, after

    result = build_simulation(demo_scenario(), BuildOptions(planning=Planning(make_plan=plan, strict=True))).run()
    check(result, CUT, audit)
    moved = sum(len(removal.evicted) for removal in result.removals)
    assert result.waiting.pods == 400 + moved
    assert sum(max(counts) > 0 for counts in result.series.nodes.values()) >= 5
    failures = [timed.at for timed in result.events if timed.event.reason == "ScaleUpFailed"]
    elsewhere = [again for at in failures if (again := find_next_request(asked_for, at)) is not None]
    assert elsewhere  # the others' pods found room on what was there or coming
    assert all("p100-16c" not in group and waited == 0 for group, waited in elsewhere)


def find_next_request(asked_for: list[tuple[float, IncreaseSize]], failed_at: float) -> tuple[str, float] | None:
    """Return the group that was asked next for the pods of the failed machine, and how many seconds after the failure."""
    vain = [action for at, action in asked_for if at < failed_at and "p100-16c" in action.group.group_id][-1]
    later = (
        (action.group.group_id, at - failed_at)
        for at, action in asked_for
        if at >= failed_at and not set(vain.pods).isdisjoint(action.pods)
    )
    return next(later, None)


def test_a_trace_is_recognised() -> None:
    assert is_trace(FOLDER)
    assert not is_trace(FOLDER.parent)


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        (None, None, "holds neither nodes.csv"),
        ("sn,cpu_milli\n", "", "nodes.csv: lacks the column memory_mib"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,4000\n", "", "nodes.csv line 2: has 2 values for 5 columns"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,4e3,1,0,\n", "", "nodes.csv line 2: cpu_milli is '4e3'"),
        ("sn,cpu_milli,memory_mib,gpu,model\n", "name\n", "pods.csv: lacks the column cpu_milli"),
    ],
)
def test_a_broken_trace_is_refused(tmp_path: Path, nodes: str | None, pods: str | None, expected: str) -> None:
    for name, text in (("nodes.csv", nodes), ("pods.csv", pods)):
        if text is not None:
            (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_openb(tmp_path)
    assert expected in str(caught.value)


def test_a_table_that_is_no_gzip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv.gz").write_bytes(b"plain")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_openb(tmp_path)
