"""Machines that are slow but healthy: how many are given up, and whether each is adopted when it comes after all."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, TypedDict

from nodewright.adapters.simulated.build import BuildOptions, build_simulation
from nodewright.adapters.simulated.journal import What
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.adapters.simulated.scenario import DeploymentSpec, PodTemplate, Scenario, Seconds
from nodewright.engine.autoscaler import Brain
from nodewright.model.group import GroupRef
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.planner.plan import Plan
from nodewright.registry.state import ClusterState

PROVISION_SECONDS = 900.0
ARRIVALS = 10_000
# One cluster: three small scale-ups, from which the time is learned, and four large ones.
_BATCHES, _EVERY = (10, 10, 10, 90, 90, 90, 100), 40 * 60.0
# Median, sigma: half come within 90 s, one of a hundred takes ten minutes, two of a thousand more than fifteen.
_LONG_TAIL = {"lognormal": ["90s", 0.8]}
# Where the time goes: before the cloud lists the machine, or until its kubelet registers.
PLACES: Mapping[str, str] = {"unlisted": "request_delay", "booting": "provision_delay"}


class FalseFailovers(TypedDict):
    """Counts of machines. ``slow`` took longer than the ordinary provision time, ``given_up`` were backed off for
    or withdrawn, ``early`` of them before that time was over; ``adopted`` of those given up became nodes, ``killed``
    were deleted, which only happens to machines that run for twice the ordinary time and are no nodes yet.
    """

    mode: str
    place: str
    arrivals: int
    slow: int
    given_up: int
    early: int
    adopted: int
    killed: int


@dataclass
class _Watch:
    """Counts what the engine gives up in group a, without taking part."""

    given_up: int = 0
    still_given_up: int = 0

    def make_plan(self, state: ClusterState, settings: Settings, random: Random) -> Plan:
        group = state.groups.get(GroupRef("fake", "a"))
        if group is not None:
            self.given_up += group.timed_out + len(group.newly_late)
            self.still_given_up = group.given_up
        return make_plan(state, settings, random)


def count_false_failovers(mode: str, settings: Mapping[str, Any], place: str) -> FalseFailovers:
    """At least ten thousand arrivals under one mode, in clusters of up to four hundred machines each."""
    total = FalseFailovers(mode=mode, place=place, arrivals=0, slow=0, given_up=0, early=0, adopted=0, killed=0)
    for seed in count():
        if total["arrivals"] >= ARRIVALS:
            break
        _add_run(total, settings, seed)
    return total


def _add_run(total: FalseFailovers, settings: Mapping[str, Any], seed: int) -> None:
    watch = _Watch()
    scenario = _scenario(settings, total["place"], seed)
    result = build_simulation(scenario, BuildOptions(brain=Brain(make_plan=watch.make_plan))).run()
    times = _times(result)
    deletions = [d for d in result.decisions if d.what == "delete" and d.group == "fake/a"]
    gone = sum(deletion.before - deletion.after for deletion in deletions)
    slow = gone + sum(seconds > PROVISION_SECONDS for seconds in times)
    total["arrivals"] += len(times) + gone
    total["slow"] += slow
    total["given_up"] += watch.given_up
    total["early"] += max(0, watch.given_up - slow)
    total["adopted"] += watch.given_up - watch.still_given_up - gone
    total["killed"] += gone


def _scenario(settings: Mapping[str, Any], place: str, seed: int) -> Scenario:
    group = {"cpu": 4, "max_size": 1000, "provision_delay": 0, "register_delay": "30s"}
    groups = [
        {**group, "name": "a", "price_per_hour": 0.1, PLACES[place]: _LONG_TAIL},
        {**group, "name": "b", "price_per_hour": 0.2, "provision_delay": "60s"},
    ]
    # The cloud keeps its word: what was asked for comes, though it was given up.
    keeps = {"kind": "partial", "hook": "decrease_target_size", "at_most": 0}
    pod = PodTemplate(cpu=3, memory="4Gi")
    return Scenario(
        name=f"false failovers, {place}",
        duration=Seconds(len(_BATCHES) * _EVERY + 4 * 3600),
        seed=seed,
        settings={"expander": "price", "scale-down-enabled": False, **settings},
        providers={"fake": {"groups": groups, "faults": [keeps], "switched_off": ["fast_failure_detection"]}},
        deployments=tuple(
            DeploymentSpec(name=f"batch-{n}", replicas=size, at=Seconds(n * _EVERY + 5), pod=pod)
            for n, size in enumerate(_BATCHES)
        ),
    )


def _times(result: SimulationResult) -> list[float]:
    """Seconds from the call to the node for every machine of group a, which the cloud numbers as they are asked for."""
    asked = [
        decision.at
        for decision in result.decisions
        if decision.group == "fake/a" and decision.what == "increase"
        for _ in range(decision.after - decision.before)
    ]
    added = [(fact.at, fact.name) for fact in result.journal if fact.what == What.NODE_ADDED and fact.where == "fake/a"]
    return [at - asked[int(name.rpartition("-")[2])] for at, name in added]
