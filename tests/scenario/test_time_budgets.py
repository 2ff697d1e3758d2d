"""Planning that has no time for everything: what was planned so far is done, the plan says so, and loops to come go on."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.planner.explain import NodeExplanation, NodeOutcome, explain_node
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.cli.summary import find_troubles
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario_file import read_scenario

NODES = 12


def ticking() -> Callable[[], float]:
    """A clock on which a second passes whenever it is looked at."""
    seconds = count()
    return lambda: float(next(seconds))


def run(*jobs: str, **settings: str) -> tuple[SimulationResult, list[Plan]]:
    """The result, and the plan of every loop."""
    plans: list[Plan] = []

    def slow(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, after = make_plan(replace(state, elapsed=ticking()), settings, random)
        plans.append(plan)
        return plan, after

    lines = ["name: slow", "duration: 60m", "jobs:", *(f"  - {{{job}}}" for job in jobs), "settings:"]
    lines += [f"  {name.replace('_', '-')}: {value}" for name, value in settings.items()]
    lines += ["providers:", "  fake:", "    groups: [{name: pool, cpu: 4, memory: 16Gi, max_size: 30}]"]
    scenario = read_scenario("\n".join(lines), "slow.yaml")
    return build_simulation(scenario, BuildOptions(planning=Planning(make_plan=slow, strict=True))).run(), plans


def choosy(number: int, duration: str = "2h") -> str:
    """A job whose only pod fills a node, and is like no other."""
    return f"name: j{number}, at: 1m, duration: {duration}, pod: {{cpu: {3000 + number}m, memory: 1Gi}}"


def test_growth_that_is_cut_short_goes_on_in_the_next_loops() -> None:
    pods = [choosy(number) for number in range(NODES)]
    result, plans = run(*pods, max_nodegroup_binpacking_duration="4s")
    grown = [decision.after - decision.before for decision in result.decisions]
    assert len(grown) > 2
    assert sum(grown) == NODES
    assert result.final.pending == 0
    cut = [plan for plan in plans if plan.partial]
    assert cut[0].partial == "time was up: not all pods were tried on fake/pool"
    assert {str(next(iter(one.reasons.values()))) for one in cut[0].scale_up.unhelped} == {
        "time was up (--max-nodegroup-binpacking-duration) before all pods had been tried: it goes on in the next loop"
    }
    assert ("PlanIsPartial", cut[0].partial) in {(trouble.what, trouble.message) for trouble in find_troubles(result)}
    assert not plans[-1].partial


def test_with_time_enough_one_loop_does_it_all() -> None:
    result, plans = run(*(choosy(number) for number in range(NODES)), max_nodegroup_binpacking_duration="0s")
    assert len(result.decisions) == 1
    assert not any(plan.partial for plan in plans)


def test_nodes_that_there_was_no_time_for_are_looked_at_in_the_next_loops() -> None:
    pods = [choosy(number, "5m") for number in range(NODES)]
    result, plans = run(*pods, scale_down_simulation_timeout="3s", scale_down_delay_after_add="0s")
    cut = [plan.scale_down for plan in plans if plan.scale_down.partial]
    assert cut
    assert "nodes were not looked at" in cut[0].partial
    assert "--scale-down-simulation-timeout" in str(next(iter(cut[0].passed_over.values())).message)
    assert len(result.removals) == NODES
    assert result.final.pending == 0


class Hurry:
    """A planning that has all the time until it confirms removals: the last look at one of several comes too late.

    ``cut`` are the loops in which that happened: the plan with time enough, and the plan that was made.
    """

    def __init__(self) -> None:
        self.cut: list[tuple[Plan, Plan]] = []
        self.told: list[NodeExplanation] = []

    def plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        looks = count()
        whole, first = make_plan(replace(state, elapsed=lambda: 0.0 * next(looks)), settings, random)
        last = next(looks) - 1
        if not 1 < len(whole.scale_down.removals) < len(whole.scale_down.unneeded):
            return whole, first
        again = count()
        found, after = make_plan(replace(state, elapsed=lambda: 1000.0 * (next(again) == last)), settings, random)
        self.cut.append((whole, found))
        late = [name for name, why in found.scale_down.passed_over.items() if "time was up" in why.message]
        told = replace(state, memory=after.put_into(state.memory))
        self.told += filter(None, (explain_node(told, found, settings, name) for name in late))
        return found, after


def test_removals_that_there_was_no_time_to_confirm_begin_in_the_next_loop() -> None:
    hurry = Hurry()
    lines = ["name: hurry", "duration: 60m", "deployments: [{name: small, replicas: 8, pod: {cpu: 300m, grace: 5}}]"]
    lines += ["settings: {max-drain-parallelism: 3, scale-down-unneeded-time: 2m, scale-down-simulation-timeout: 30s}"]
    lines += ["providers: {fake: {groups: [{name: pool, cpu: 4, memory: 16Gi, size: 8, min_size: 1}]}}"]
    scenario = read_scenario("\n".join(lines), "hurry.yaml")
    result = build_simulation(scenario, BuildOptions(planning=Planning(make_plan=hurry.plan, strict=True))).run()
    for whole, found in hurry.cut:
        *before, _ = (removal.node for removal in whole.scale_down.removals)
        assert [removal.node for removal in found.scale_down.removals] == before
        assert found.partial == "time was up: 1 nodes were not looked at once more"
        assert found.scale_down.unneeded == whole.scale_down.unneeded
    assert len(hurry.cut[0][0].scale_down.removals) == 3
    assert {(told.outcome, str(told.reason)) for told in hurry.told} == {
        (
            NodeOutcome.UNNEEDED,
            "time was up (--scale-down-simulation-timeout) before its turn came: it is looked at in the next loop",
        )
    }
    troubles = {(trouble.what, trouble.message) for trouble in find_troubles(result)}
    assert ("PlanIsPartial", "time was up: 1 nodes were not looked at once more") in troubles
    assert result.final.nodes == {"fake/pool": 1}
    assert result.final.pending == 0
