"""Random schedules: a world, its pods, and what goes wrong in it, as a scenario in the format of docs/scenarios.

Everything that goes wrong is over ``TROUBLE`` seconds after the start, and no pod comes or goes after that; the run
goes on for long enough that the longest backoff ends and everything comes to rest.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from tests.faults.late_troubles import (
    LATE_TROUBLES,
    add_clock_jumps,
    add_empty_answers,
    add_few_missing,
    add_gangs,
    add_interruptions,
    add_smaller_machines,
)
from tests.faults.troubles import TROUBLES, add_more_small_machines

MINUTE = 60
TROUBLE = 60 * MINUTE
DURATION = 240 * MINUTE
GROUPS = ("a", "b", "c")
READS = ("refresh", "node_groups", "target_size", "instances", "failed_instances")
WRITES = ("increase_size", "decrease_target_size", "delete_instances")
# Worlds in which another writer changes or recreates groups, whose machines may be smaller from then on.
REMADE = ("recreated_groups", "changed_groups", "vanishing_groups")
# Worlds in which another writer changes templates.
DRIFTING = ("changed_groups", "vanishing_groups")
# Worlds with other machines that come all or not at all, or with a hundred nodes.
WITHOUT_GANGS = ("atomic_requests", "idle_crowd")

Schedule = Mapping[str, Any]
Draw = st.DrawFn


def _moments(latest: int = TROUBLE - 20 * MINUTE) -> st.SearchStrategy[int]:
    return st.integers(0, latest // 5).map(lambda number: number * 5)


@st.composite
def _windows(draw: Draw) -> dict[str, int]:
    """Often early, when the first pods come."""
    start = draw(st.one_of(_moments(5 * MINUTE), _moments()))
    return {"start": start, "end": start + draw(st.sampled_from((1200, 600, 300, 120, 30)))}


@st.composite
def _groups(draw: Draw) -> list[dict[str, Any]]:
    found = []
    for number, name in enumerate(GROUPS[: draw(st.sampled_from((2, 3, 1)))]):
        group: dict[str, Any] = {
            "name": name,
            "cpu": draw(st.sampled_from((1, 1, 2))),
            "max_size": draw(st.sampled_from((12, 8, 5))),
            "price_per_hour": round(0.1 * (number + 1), 1),
            "zone": draw(st.sampled_from(("north", "south"))),
            "instance_type": draw(st.sampled_from(("small", "other"))),
            "size": draw(st.sampled_from((0, 0, 1, 3))),
            "provision_delay": draw(st.sampled_from(("30s", "5s", "90s"))),
            "request_delay": draw(st.sampled_from(("0s", "20s"))),
            "delete_delay": draw(st.sampled_from(("0s", "30s"))),
        }
        if draw(st.integers(0, 4)) == 4:
            group["min_size"] = draw(st.integers(1, 2))
        if draw(st.booleans()):
            group["switched_off"] = {"fast_failure_detection": "the cloud does not say"}
        found.append(group)
    return found


def _names(groups: list[dict[str, Any]]) -> st.SearchStrategy[str]:
    return st.sampled_from([group["name"] for group in groups])


@st.composite
def _call_fault(draw: Draw, groups: list[dict[str, Any]]) -> dict[str, Any]:
    kind = draw(st.sampled_from(("refuse", "hang", "slow", "partial", "throttle", "wrong_size", "crash")))
    fault: dict[str, Any] = {"kind": kind, **draw(_windows())}
    hooks = WRITES if kind == "partial" else ("increase_size", *READS, *WRITES)
    if kind != "wrong_size":
        fault["hook"] = draw(st.sampled_from(hooks))
    if fault.get("hook") not in ("refresh", "node_groups"):
        fault["group"] = draw(_names(groups))
    match kind:
        case "refuse":
            fault["error"] = draw(st.sampled_from(("out_of_capacity", "quota", "access_denied", "unavailable")))
        case "hang":
            fault["takes_effect"] = draw(st.sampled_from(("first", "never")))
            fault["times"] = draw(st.integers(1, 3))
        case "slow":
            fault["takes_effect"] = draw(st.sampled_from(("first", "last")))
            fault["seconds"] = draw(st.sampled_from((5, 40)))
            fault["times"] = draw(st.integers(1, 5))
        case "partial":
            fault["at_most"] = draw(st.integers(0, 2))
        case "wrong_size":
            fault["off_by"] = draw(st.sampled_from((1, -1, 3)))
    return fault


@st.composite
def _supply_fault(draw: Draw, groups: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from(("stock_outs", "failures", "dead_boots", "slow_boots")))
    fault: dict[str, Any] = draw(_windows())
    where = draw(st.sampled_from(("group", "group", "zone", "instance_type")))
    fault[where] = draw(_names(groups)) if where == "group" else groups[0][where]
    match kind:
        case "stock_outs":
            fault["remaining"] = draw(st.sampled_from((0, 0, 1, 2)))
        case "failures":
            fault["delay"] = draw(st.sampled_from(("0s", "30s")))
            fault["error_class"] = draw(st.sampled_from(("other", "quota", "out_of_resources")))
            fault["scope"] = draw(st.sampled_from(("group", "zone", "instance_type", "account")))
            fault["share"] = draw(st.sampled_from((1.0, 0.5)))
        case "slow_boots":
            fault["registers"] = draw(st.sampled_from(("0s", "3m", "8m", "20m")))
            fault["ready"] = draw(st.sampled_from(("0s", "5m", "20m")))
    return kind, fault


@st.composite
def _interference(draw: Draw, groups: list[dict[str, Any]]) -> dict[str, Any]:
    group = draw(st.sampled_from(groups))
    change: dict[str, Any] = {"group": group["name"], "start": draw(_moments(TROUBLE))}
    if draw(st.booleans()):
        return {"do": "resize", **change, "size": draw(st.integers(group.get("min_size", 0), group["max_size"]))}
    return {"do": "take_back", **change, "machines": draw(st.integers(1, 2))}


@st.composite
def _cloud(draw: Draw) -> dict[str, Any]:
    groups = draw(_groups())
    cloud: dict[str, Any] = {"groups": groups}
    supply = draw(st.lists(_supply_fault(groups), min_size=1, max_size=3))
    for kind, fault in supply:
        cloud.setdefault(kind, []).append(fault)
    if draw(st.integers(0, 3)) == 3:
        _sell_out_silently(draw, groups[0], cloud)
    faults = draw(st.lists(_call_fault(groups), max_size=3))
    interference = draw(st.lists(_interference(groups), max_size=2))
    cloud["faults"] = [*cloud.get("faults", ()), *faults]
    cloud["interference"] = interference
    if draw(st.integers(0, 5)) == 5:
        cloud["placeholder_failures"] = True
    return cloud


def _sell_out_silently(draw: Draw, group: dict[str, Any], cloud: dict[str, Any]) -> None:
    """The cheapest group delivers almost nothing for long, and the cloud does not report it: only time shows it.

    In some worlds nothing can be taken back from it for as long, either.
    """
    group["switched_off"] = {"fast_failure_detection": "the cloud does not say"}
    sold_out = {"start": 0, "end": draw(st.sampled_from((1200, 2400))), "group": group["name"]}
    cloud.setdefault("stock_outs", []).append({**sold_out, "remaining": draw(st.integers(0, 2))})
    if draw(st.integers(0, 2)) == 2:
        deaf = {"kind": "partial", "hook": "decrease_target_size", "at_most": 0}
        cloud["faults"] = [{**sold_out, **deaf, "end": draw(st.sampled_from((600, 1200)))}]


@st.composite
def _engine_trouble(draw: Draw) -> dict[str, Any]:
    kind = draw(st.sampled_from(("crash", "restart", "pause", "unready")))
    trouble: dict[str, Any] = {"do": kind, "at": draw(st.one_of(_moments(), _moments(15 * MINUTE)))}
    match kind:
        case "pause":
            trouble["for"] = draw(st.sampled_from((60, 600)))
        case "unready":
            trouble |= {"for": draw(st.sampled_from((60, 900))), "nodes": draw(st.integers(1, 5))}
        case _:
            trouble |= {
                "down": draw(st.sampled_from((5, 60, 400))),
                "keeps_memory": draw(st.sampled_from((True, True, False))),
            }
    if kind == "crash":
        trouble |= {"write": draw(st.integers(1, 2)), "after_effect": draw(st.booleans())}
    return trouble


@st.composite
def _pods(draw: Draw) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Deployments, how they are scaled, and jobs."""
    pod = {"cpu": "1", "memory": "64Mi"}
    first = draw(st.one_of(st.just(0), _moments(10 * MINUTE)))
    deployments = [{"name": "web", "at": first, "replicas": draw(st.integers(2, 8)), "pod": pod}]
    steps = [
        {
            "do": "scale",
            "at": draw(st.one_of(_moments(), _moments(15 * MINUTE))),
            "deployment": "web",
            "replicas": draw(st.integers(0, 10)),
        }
        for _ in range(draw(st.integers(1, 5)))
    ]
    jobs = []
    if draw(st.booleans()):
        jobs = [
            {
                "name": "job",
                "at": draw(_moments()),
                "every": draw(st.sampled_from((60, 10, 300))),
                "count": draw(st.integers(1, 5)),
                "duration": draw(st.sampled_from((120, 900))),
                "pod": pod,
            }
        ]
    return deployments, steps, jobs


@st.composite
def schedules(draw: Draw) -> Schedule:
    """One world with everything that will happen to it."""
    deployments, steps, jobs = draw(_pods())
    troubles = draw(st.lists(_engine_trouble(), max_size=draw(st.sampled_from((2, 4, 0)))))
    settings: dict[str, Any] = {
        "expander": draw(st.sampled_from(("price", "least-waste"))),
        "max-node-provision-time": draw(st.sampled_from(("5m", "10m"))),
        "scale-down-enabled": False,
    }
    for flag, default in (("probe-after-backoff", True), ("balance-similar-node-groups", False)):
        if draw(st.booleans()):
            settings[flag] = not default
    cloud = draw(_cloud())
    if any("min_size" in group for group in cloud["groups"]):
        settings["enforce-node-group-min-size"] = True
    schedule: dict[str, Any] = {
        "name": "random",
        "duration": DURATION,
        "seed": draw(st.integers(0, 3)),
        "settings": settings,
        "providers": {"fake": cloud},
        "deployments": deployments,
        "timeline": [*steps, *troubles],
    }
    if jobs:
        schedule["jobs"] = jobs
    # Half of the worlds have a trouble of their own beside the ordinary ones, half of the others a late one.
    special = draw(st.sampled_from(("", *TROUBLES, *[""] * (len(TROUBLES) - 1))))
    if special:
        TROUBLES[special](draw, schedule)
    # Drawn last, so that the rest of a world is the same with and without scale-down.
    settings |= draw(_scale_down())
    # Drawn after all else, so that the worlds without one are the same with any set of kinds.
    late = draw(st.sampled_from(("", *LATE_TROUBLES, *[""] * (len(LATE_TROUBLES) - 1))))
    if late and not special:
        LATE_TROUBLES[late](draw, schedule)
    schedule["name"] = special or late or "random"
    # Drawn after even these, in those worlds alone.
    if schedule["name"] in REMADE and draw(st.booleans()):
        add_smaller_machines(draw, schedule)
    # Drawn after that: beside any other trouble.
    if draw(st.integers(0, 9)) == 9:
        add_clock_jumps(draw, schedule)
    # Drawn after that: half of the worlds with scale-down are as they were before there were moves.
    if settings["scale-down-enabled"]:
        settings["consolidation-policy"] = draw(st.sampled_from(("off", "balanced", "balanced", "off", "when-cheaper")))
    found = draw(_with_gangs(schedule))
    found = draw(_with_empty_answers(found))
    found = draw(_with_renewal(found))
    found = draw(_with_few_missing(found))
    found = draw(_with_more_small_machines(found))
    found = draw(_with_drift(found))
    return draw(_with_interruptions(found))


@st.composite
def _with_gangs(draw: Draw, schedule: dict[str, Any]) -> Schedule:
    """Add gangs to one of ten worlds. This is drawn after even all the rest."""
    is_other = schedule["name"] in WITHOUT_GANGS or "small_machines" in schedule["providers"]["fake"]
    if draw(st.integers(0, 9)) == 9 and not is_other:
        add_gangs(draw, schedule)
    return schedule


@st.composite
def _with_empty_answers(draw: Draw, schedule: Schedule) -> Schedule:
    """Add empty answers to some of the ordinary worlds. This is drawn after even gangs: worlds without it stay as they were."""
    is_ordinary = schedule["name"] == "random" and schedule["settings"]["scale-down-enabled"]
    if not is_ordinary or draw(st.integers(0, 5)) != 5:
        return schedule
    world = {**schedule, "name": "empty_answers"}
    add_empty_answers(draw, world)
    return world


@st.composite
def _with_few_missing(draw: Draw, schedule: Schedule) -> Schedule:
    """Hide a few pods in some of the ordinary worlds. This is drawn after even these."""
    is_ordinary = schedule["name"] == "random" and schedule["settings"]["scale-down-enabled"]
    if not is_ordinary or draw(st.integers(0, 4)) != 4:
        return schedule
    world = {**schedule, "name": "few_missing"}
    add_few_missing(draw, world)
    return world


@st.composite
def _with_more_small_machines(draw: Draw, schedule: Schedule) -> Schedule:
    """In half of the worlds with small machines there are more of such groups than may be tried. This is drawn after even these."""
    if schedule["name"] != "small_machines" or not draw(st.booleans()):
        return schedule
    world = {**schedule}
    add_more_small_machines(world)
    return world


@st.composite
def _with_renewal(draw: Draw, schedule: Schedule) -> Schedule:
    """In a fifth of the worlds with scale-down nodes are renewed when they are old. This is drawn after even these."""
    if schedule["settings"]["scale-down-enabled"] and draw(st.integers(0, 4)) == 4:
        schedule["settings"]["node-max-age"] = draw(st.sampled_from(("30m", "1h", "2h")))
    return schedule


@st.composite
def _with_drift(draw: Draw, schedule: Schedule) -> Schedule:
    """In half of the worlds in which templates change nodes are renewed that differ from new ones. This is drawn after even these."""
    if schedule["name"] in DRIFTING and schedule["settings"]["scale-down-enabled"] and draw(st.booleans()):
        schedule["settings"]["replace-drifted-nodes"] = True
    return schedule


@st.composite
def _with_interruptions(draw: Draw, schedule: Schedule) -> Schedule:
    """Interrupt machines in some of the ordinary worlds. This is drawn last of all."""
    if schedule["name"] != "random" or draw(st.integers(0, 2)) != 2:
        return schedule
    world = {**schedule, "name": "interruptions"}
    add_interruptions(draw, world)
    return world


@st.composite
def _scale_down(draw: Draw) -> dict[str, Any]:
    """Scale-down is on in four of five worlds, and quick."""
    if draw(st.integers(0, 4)) == 4:
        return {"scale-down-enabled": False}
    return {
        "scale-down-enabled": True,
        "scale-down-utilization-threshold": draw(st.sampled_from((0.7, 0.5))),
        "scale-down-unneeded-time": draw(st.sampled_from(("2m", "5m"))),
        "scale-down-unready-time": draw(st.sampled_from(("20m", "4m"))),
        "scale-down-delay-after-add": draw(st.sampled_from(("1m", "5m", "0s"))),
        "scale-down-delay-after-delete": draw(st.sampled_from(("0s", "1m"))),
        "scale-down-delay-after-failure": draw(st.sampled_from(("1m", "3m"))),
    }
