"""The scenarios of docs/scenarios do what their first lines say, whether every tick is run or only those that matter."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodewright.engine.planning import Planning
from nodewright.model.removal import RemovalResult
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.cli.summary import as_json, scale_down_in_words
from nodewright_simulator.journal import What
from nodewright_simulator.result import Decision, SimulationResult
from nodewright_simulator.scenario_file import load_scenario

FOLDER = Path(__file__).parents[2] / "docs" / "scenarios"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
SCAN_INTERVAL = 10.0


@cache
def run(name: str, *, every_tick: bool = False, moves: bool = True) -> SimulationResult:
    options = BuildOptions(every_tick=every_tick, planning=Planning(strict=True))
    scenario = load_scenario(FOLDER / f"{name}.yaml")
    if not moves:
        scenario = replace(scenario, settings={**scenario.settings, "consolidation-policy": "off"})
    return build_simulation(scenario, options).run()


def decisions(result: SimulationResult, matches: Callable[[Decision], bool] = lambda _: True) -> list[tuple[str, str]]:
    return [(decision.what, decision.group) for decision in result.decisions if matches(decision)]


def test_all_examples_are_listed() -> None:
    listed = (FOLDER / "README.md").read_text()
    assert all(f"[{name}.yaml]({name}.yaml)" in listed for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_skipping_empty_ticks_changes_nothing(name: str) -> None:
    """Searches for moves may fall on other ticks (Pacing), so that moves are left out."""
    quick, full = run(name, moves=False), run(name, every_tick=True, moves=False)
    assert quick.loops < full.loops / 2
    assert quick.final == full.final
    assert quick.increases == full.increases
    assert quick.pod_waits.keys() == full.pod_waits.keys()
    assert all(abs(wait - full.pod_waits[pod]) <= SCAN_INTERVAL for pod, wait in quick.pod_waits.items())
    assert quick.decisions == full.decisions


@pytest.mark.parametrize("name", NAMES)
def test_nothing_depends_on_chance_outside_the_seed(name: str) -> None:
    first = run(name)
    run.cache_clear()
    second = run(name)
    assert first.journal == second.journal
    assert first.decisions == second.decisions


@pytest.mark.parametrize("name", NAMES)
def test_every_pod_runs_in_the_end(name: str) -> None:
    result = run(name)
    assert result.final.pending == 0
    assert result.violations == ()


def test_a_reported_stock_out_sends_pods_elsewhere_in_the_next_loop() -> None:
    result = run("stock-out-detected")
    assert decisions(result)[:3] == [
        ("increase", "fake/spot"),
        ("increase", "fake/on-demand"),
        ("delete", "fake/spot"),
    ]
    first, elsewhere, cleanup = result.decisions[:3]
    assert cleanup.at == elsewhere.at == first.at + SCAN_INTERVAL
    assert result.waiting.longest <= 90.0
    assert ("increase", "fake/spot") in decisions(result)[3:]  # in stock again, and asked again


def test_a_stock_out_that_is_not_reported_costs_the_provision_time() -> None:
    result = run("stock-out-silent")
    assert decisions(result) == [
        ("increase", "fake/spot"),
        ("withdraw", "fake/spot"),
        ("increase", "fake/on-demand"),
    ]
    first, withdrawal, elsewhere = result.decisions
    assert withdrawal.at == elsewhere.at
    assert 300.0 < withdrawal.at - first.at <= 300.0 + SCAN_INTERVAL
    assert "ScaleUpTimedOut" in {timed.event.reason for timed in result.events}


def test_a_gang_of_which_a_group_delivers_a_part_starts_whole_in_the_next() -> None:
    result = run("gang")
    assert [fact.at for fact in result.journal if fact.what is What.POD_STARTED] == [result.waiting.longest + 60.0] * 8
    assert result.final.nodes == {"fake/on-demand": 8}
    assert 300.0 < result.waiting.longest < 600.0


def test_a_quota_is_never_exceeded_and_each_group_that_is_refused_backs_off() -> None:
    result = run("quota")
    cores = {"fake/small": 4, "fake/large": 16}
    for index in range(len(result.series.times)):
        assert sum(counts[index] * cores[group] for group, counts in result.series.nodes.items()) <= 48
    refused = [decision for decision in result.decisions if decision.outcome == "refused"]
    assert refused
    for group in cores:
        for before, after in pairwise(one for one in refused if str(one.group) == group):
            assert after.at - before.at >= 300.0


def test_similar_groups_grow_level() -> None:
    result = run("balanced-zones")
    for index in range(len(result.series.times)):
        sizes = [counts[index] for counts in result.series.nodes.values()]
        assert max(sizes) - min(sizes) <= 1
    assert result.final.nodes == {"fake/zone-a": 5, "fake/zone-b": 5, "fake/zone-c": 5}


def test_machines_that_never_register_are_given_up() -> None:
    result = run("never-registering")
    assert result.final.nodes == {"fake/good-image": 3}
    assert result.waiting.longest <= 600.0 + 90.0


def test_nothing_is_bought_twice_around_crashes_and_outages() -> None:
    result = run("failing-provider")
    assert result.final.nodes == {"fake/general": 10}  # 40 pods of one core, four cores a node
    assert len([fact for fact in result.journal if fact.what == "machine started"]) == 10
    assert [fact.what for fact in result.journal if fact.name == "engine"] == [
        "engine started",
        "engine crashed",
        "engine started",
    ]


def test_nodes_go_one_after_the_other_and_the_engine_goes_along() -> None:
    result = run("scale-down")
    assert result.final.nodes == {"fake/pool": 3}
    results = [over.result for over in result.removals]
    assert results.count(RemovalResult.OK) == 5
    assert set(results) == {RemovalResult.OK, RemovalResult.FAILED_TO_EVICT}  # the namespace that refuses for a while
    assert "engine stopped" in [fact.what for fact in result.journal]
    told = as_json(result, None)["scale_down"]
    assert told["removed"] == {"underutilized": 5}
    assert {over["result"] for over in told["removals"]} == {"Ok", "FailedToEvictPods", "Interrupted"}
    assert sum(len(over["evicted"]) for over in told["removals"]) == told["evicted"]
    assert scale_down_in_words(result).startswith("5 nodes removed (5 underutilized), 16 pods evicted; not removed: ")


def test_spare_capacity_is_found_at_once_and_made_again() -> None:
    result = run("spare-capacity")
    assert {pod: wait for pod, wait in result.pod_waits.items() if pod in ("default/web-10", "default/web-11")} == {
        "default/web-10": 0,
        "default/web-11": 0,
    }
    # Five for ten pods, one for a fifth of them, and at 12 pods with three spare ones two more.
    grown = [(one.at / 60, one.after) for one in result.decisions if one.what == "increase"]
    assert grown == [(0, 5), (5, 6), (15, 8)]
    assert result.final.nodes == {"fake/pool": 3}


def test_groups_are_made_on_demand_and_go_when_they_are_empty() -> None:
    result = run("on-demand")
    written = [(one.what, one.group.removeprefix("fake/")) for one in result.decisions if one.what.endswith("group")]
    made = [group for what, group in written if what == "create group"]
    assert [group.split("-")[1] for group in made] == ["small", "large", "gpu"]
    assert sorted(group for what, group in written if what == "delete group") == sorted(made)
    assert result.final.nodes == {"fake/pool": 1}
    assert len(result.pod_waits) == 10
