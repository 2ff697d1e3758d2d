"""Machines that are slow but healthy: how many are given up, and whether each is adopted when it comes after all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random
from typing import Any, TypedDict

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.journal import What
from nodewright_simulator.scenario import DeploymentSpec, PodShape, Scenario, TimeSpan

PROVISION_SECONDS = 900.0
ARRIVALS = 10_000
# One cluster: three small scale-ups, from which the time is learned, and four large ones.
_BATCHES, _EVERY = (10, 10, 10, 90, 90, 90, 100), 40 * 60.0
# Median, sigma: half come within 90 s, one of a hundred takes ten minutes, two of a thousand more than fifteen.
_LONG_TAIL = {"lognormal": ["90s", 0.8]}
_GROUP = GroupRef("fake", "a")
# Where the time goes: before the cloud lists the machine, or until its kubelet registers.
PLACES: Mapping[str, str] = {"unlisted": "request_delay", "booting": "provision_delay"}


class FalseFailovers(TypedDict):
    """Counts of machines, each identified by its id.

    ``slow`` took longer than the ordinary provision time. ``given_up`` were withdrawn, or their group backed off;
    ``early`` of them before that time was over. Of those given up, ``adopted`` became nodes and ``killed`` were deleted
    before they could. ``hedged`` are machines that were bought elsewhere in addition.
    """

    mode: str
    place: str
    arrivals: int
    slow: int
    given_up: int
    early: int
    adopted: int
    killed: int
    hedged: int


@dataclass
class _Watch:
    """When each machine of group a was asked for and given up, without taking part.

    The cloud numbers machines as they are asked for. Machines that are given up before they are listed are a number
    only: the oldest ones that were not seen.
    """

    asked: list[float] = field(default_factory=list)
    listed: set[int] = field(default_factory=set)
    given_up: dict[int, float] = field(default_factory=dict)

    def make_plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        group = state.groups.get(_GROUP)
        if group is not None:
            self.listed |= {_number(instance.id) for instance in group.seen.instances or ()}
            unseen = (n for n in range(len(self.asked)) if n not in self.listed and n not in self.given_up)
            lost = [*islice(unseen, group.timed_out), *(_number(machine) for machine in group.newly_late)]
            self.given_up |= {number: self.given_up.get(number, state.now) for number in lost}
        plan, after = make_plan(state, settings, random)
        for action in plan.actions:
            if isinstance(action, IncreaseSize) and action.group == _GROUP:
                self.asked += [state.now] * (action.target - action.expected_target)
        return plan, after


def count_false_failovers(
    mode: str, settings: Mapping[str, Any], place: str, arrivals: int = ARRIVALS
) -> FalseFailovers:
    """At least this many arrivals under one mode, in clusters of up to four hundred machines each."""
    total = FalseFailovers(
        mode=mode, place=place, arrivals=0, slow=0, given_up=0, early=0, adopted=0, killed=0, hedged=0
    )
    for seed in count():
        if total["arrivals"] >= arrivals:
            break
        _add_run(total, settings, seed)
    return total


def _add_run(total: FalseFailovers, settings: Mapping[str, Any], seed: int) -> None:
    watch = _Watch()
    scenario = _scenario(settings, total["place"], seed)
    result = build_simulation(scenario, BuildOptions(planning=Planning(make_plan=watch.make_plan))).run()
    asked, given_up = watch.asked, watch.given_up
    facts = [(fact.what, fact.at, _number(fact.name)) for fact in result.journal if fact.where == "fake/a"]
    came = {number: at for what, at, number in facts if what == What.NODE_ADDED}
    gone = {number for what, _, number in facts if what == What.MACHINE_GONE} - came.keys()
    total["arrivals"] += len(came) + len(gone)
    total["slow"] += len(gone) + sum(at - asked[number] > PROVISION_SECONDS for number, at in came.items())
    total["given_up"] += len(given_up)
    total["early"] += sum(at - asked[number] <= PROVISION_SECONDS for number, at in given_up.items())
    total["adopted"] += len(given_up.keys() & came.keys())
    total["killed"] += len(gone)
    total["hedged"] += sum(decision.hedged for decision in result.decisions)


def _scenario(settings: Mapping[str, Any], place: str, seed: int) -> Scenario:
    group = {"cpu": 4, "max_size": 1000, "provision_delay": 0, "register_delay": "30s"}
    groups = [
        {**group, "name": "a", "price_per_hour": 0.1, PLACES[place]: _LONG_TAIL},
        {**group, "name": "b", "price_per_hour": 0.2, "provision_delay": "60s"},
    ]
    # The cloud keeps its word: what was asked for comes, though it was given up.
    keeps = {"kind": "partial", "hook": "decrease_target_size", "at_most": 0}
    pod = PodShape(cpu=3, memory="4Gi")
    return Scenario(
        name=f"false failovers, {place}",
        duration=TimeSpan(len(_BATCHES) * _EVERY + 4 * 3600),
        seed=seed,
        settings={"expander": "price", "scale-down-enabled": False, **settings},
        providers={"fake": {"groups": groups, "faults": [keeps], "switched_off": ["fast_failure_detection"]}},
        deployments=tuple(
            DeploymentSpec(name=f"batch-{n}", replicas=size, at=TimeSpan(n * _EVERY + 5), pod=pod)
            for n, size in enumerate(_BATCHES)
        ),
    )


def _number(name: str) -> int:
    """Of a machine or its node: the cloud's names end in it."""
    return int(name.rpartition("-")[2])
