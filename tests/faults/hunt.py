"""Runs random schedules until one shows a broken invariant, and tells it as a scenario file."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from tests.faults.facts import Facts
from tests.faults.invariants import invariants_for
from tests.faults.schedules import REMADE, Schedule, schedules
from tests.faults.shrink import shrink
from tests.faults.witness import Witness

from nodewright.engine.planning import Planning
from nodewright.model.errors import ConfigError
from nodewright_simulator.scenario_file import read_scenario


class WithoutConstants(HypothesisProvider):
    """Hypothesis' own choices, but none of the constants of the modules that happen to be imported.

    Hypothesis puts those in here and there. A number would then be another schedule in each process and after each commit.
    """

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


AVAILABLE_PROVIDERS["without-constants"] = WithoutConstants


class Broken(AssertionError):
    """An invariant does not hold in a schedule; as text, a scenario file that says why it is there."""

    def __init__(self, invariant: str, findings: list[str], schedule: Schedule) -> None:
        self.invariant = invariant
        self.findings = findings
        self.schedule = schedule
        told = "".join(f"# {finding}\n" for finding in findings[:5])
        text = yaml.safe_dump(json.loads(json.dumps(schedule)), sort_keys=False, default_flow_style=None, width=110)
        self.scenario = f"# Broken: {invariant}\n{told}{text}"
        super().__init__(self.scenario)


@dataclass
class Hunt:
    """How far a hunt came: schedules tried, the one that is broken included, if there is one."""

    tried: int = 0
    broken: Broken | None = None


def examine(schedule: Schedule, planning: Planning | None = None) -> None:
    """Raises Broken for the first invariant that does not hold."""
    scenario = read_scenario(json.dumps(schedule), "schedule")
    try:
        facts = Facts(Witness(scenario, planning or Planning()).watch())
    except Exception as error:  # any error: a schedule made the engine fail
        raise Broken("running", [f"{type(error).__name__}: {error}"], schedule) from error
    for name, check in invariants_for(facts).items():
        findings = list(check(facts))
        if findings:
            raise Broken(name, findings, schedule)


def drawn(numbers: range) -> Iterator[Schedule]:
    """The schedules of these numbers, the same each time.

    Each is a draw of its own: within one run hypothesis mostly varies what it drew before, and a thousand schedules are
    then few of a kind (of 600 none had an increase that was accepted for nothing; of 600 drawn apart eleven had).
    """
    yield from map(_draw, numbers)


def _draw(number: int) -> Schedule:
    found: list[Schedule] = []

    @seed(number)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        backend="without-constants",
    )
    @given(schedules())
    def keep(schedule: Schedule) -> None:
        found.append(schedule)

    keep()
    return found[-1]  # the first is always the simplest that there is


def hunt(numbers: range, *, planning: Planning | None = None) -> Hunt:
    """Tries the schedules of these numbers until one is broken."""
    found = Hunt()
    for schedule in drawn(numbers):
        found.tried += 1
        try:
            examine(schedule, planning)
        except Broken as broken:
            found.broken = broken
            break
    return found


# How many machines stay of a crowd of idle ones that is taken out of its world.
_FEW = 3
# Kinds of trouble that can be taken out of their worlds, and what of a schedule they are: events of its timeline, or what other
# writers do to groups. The others are what clouds answer, restarts that find strange state, or a provider of its own.
REMOVABLE: Mapping[str, frozenset[str]] = {
    "full_disk": frozenset({"full_disk"}),
    "hands": frozenset({"touch_nodes"}),
    "renamed_nodes": frozenset({"touch_nodes"}),
    "wrong_lists": frozenset({"misread"}),
    "empty_answers": frozenset({"misread"}),
    "few_missing": frozenset({"misread"}),
    "old_nodes": frozenset({"misread"}),
    "kills": frozenset({"kill"}),
    "stubborn_api_server": frozenset({"refuse_edits", "refuse_evictions"}),
    "recreated_groups": frozenset({"recreate"}),
    "changed_groups": frozenset({"change"}),
    "vanishing_groups": frozenset({"vanish"}),
    "interruptions": frozenset({"interrupt"}),
    "strange_state": frozenset(),
    "interlopers": frozenset(),
    "flapping_reads": frozenset(),
    "small_machines": frozenset(),
    "dead_provider": frozenset(),
    "idle_crowd": frozenset({"misread"}),
}


def without_trouble(schedule: Schedule) -> Schedule:
    """Return the schedule without what is special about its world: one of REMOVABLE. All else stays."""
    kind, bare = schedule["name"], deepcopy(dict(schedule))
    bare["timeline"] = [event for event in bare["timeline"] if event["do"] not in REMOVABLE[kind]]
    cloud = bare["providers"]["fake"]
    cloud["interference"] = [event for event in cloud.get("interference", ()) if event["do"] not in REMOVABLE[kind]]
    match kind:
        case "strange_state":
            bare["timeline"] = [event for event in bare["timeline"] if "saved" not in event]
        case "interlopers" | "small_machines":
            cloud[kind] = []
        case "flapping_reads":
            cloud["old_reads"] = []
        case _ if kind in REMADE:
            cloud["small_machines"] = []  # machines that another writer's change made smaller
        case "dead_provider":
            bare["providers"]["dead"]["faults"] = []
        case "idle_crowd":
            cloud["groups"][0]["size"] = min(_FEW, cloud["groups"][0]["size"])
    return bare


def hunt_kind(kind: str, numbers: range, *, planning: Planning | None = None) -> Hunt:
    """Try those schedules of these numbers that have this trouble, until one is broken that is sound without it."""
    found = Hunt()
    for schedule in drawn(numbers):
        if schedule["name"] != kind:
            continue
        found.tried += 1
        broken = _find_broken(schedule, planning)
        if broken is not None and _find_broken(without_trouble(schedule), planning) is None:
            found.broken = broken
            break
    return found


def _find_broken(schedule: Schedule, planning: Planning | None) -> Broken | None:
    try:
        examine(schedule, planning)
    except Broken as broken:
        return broken
    return None


def smallest(broken: Broken, planning: Planning | None = None) -> Broken:
    """The same failure in as small a schedule as can be found."""
    last = broken

    def fails(schedule: Schedule) -> bool:
        nonlocal last
        try:
            examine(schedule, planning)
        except Broken as again:
            if (again.invariant, type(again.__cause__)) == (broken.invariant, type(broken.__cause__)):
                last = again
                return True
        except ConfigError:  # a schedule that makes no sense
            return False
        return False

    shrink(broken.schedule, fails)
    return last
