"""What fails in the failover benchmark, and the ways to learn of it and to react."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nodewright_simulator.scenario import Crash, DeploymentSpec, PodShape, Scenario, TimeSpan
from nodewright_simulator.scenario_file import check_scenario

MINUTE = 60.0
# Group a has grown to 48 machines in four steps before anything goes wrong: it has a history.
FAILURE = 60 * MINUTE
HORIZON = 8 * 60 * MINUTE
_GROUP = {"cpu": 4, "memory": "16Gi", "max_size": 200, "provision_delay": {"lognormal": ["60s", 0.3]}}
_STEPS, _STEP = 4, 12
_WARM = _STEPS * _STEP
_POD = PodShape(cpu=3, memory="4Gi")  # one to a machine


@dataclass(frozen=True)
class Mode:
    """A way to learn of failures and to react; ``settings`` are flags without their dashes."""

    title: str
    settings: Mapping[str, Any]
    tells: bool = False  # the provider declares fast failure detection


MODES: Mapping[str, Mode] = {
    "fast": Mode("fast failure detection", {}, tells=True),
    "prompt": Mode("timeouts, prompt correction (default)", {}),
    "auto": Mode("timeouts learned from the group's own arrivals, and hedging", {"max-node-provision-time": "auto"}),
    "ca": Mode("today's cluster-autoscaler's rules", {"size-correction": "ca"}),
    "ca-fast": Mode(
        "the same where its provider reports failed machines, as those of AWS and GCE",
        {"size-correction": "ca"},
        tells=True,
    ),
    "seed": Mode("the two-stage rule of seed 001", {"size-correction": "seed"}),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One failure. ``cloud`` are options of the fake provider, ``demand`` are pods that come at the failure.

    ``delivers`` are the groups that can still be had: failover is over when one of them is asked.
    """

    title: str
    cloud: Mapping[str, Any]
    demand: tuple[DeploymentSpec, ...]
    delivers: frozenset[str]
    warm: bool = True
    timeline: tuple[Crash, ...] = ()


def build(name: str, mode: Mode, seed: int = 1) -> Scenario:
    """Return the named case under a mode, as a scenario that could be in a file."""
    case = CASES[name]()
    cloud = {**case.cloud} if mode.tells else {**case.cloud, "switched_off": ["fast_failure_detection"]}
    warm = tuple(_pods(f"warm-{step}", _STEP, step * 10 * MINUTE) for step in range(_STEPS)) if case.warm else ()
    scenario = Scenario(
        name=name,
        description=case.title,
        duration=TimeSpan(FAILURE + HORIZON),
        seed=seed,
        settings={"expander": "price", "scale-down-enabled": False, **mode.settings},
        providers={"fake": cloud},
        deployments=(*warm, *case.demand),
        timeline=case.timeline,
    )
    return check_scenario(scenario, f"failover {name}")


def _pods(name: str, count: int, at: float) -> DeploymentSpec:
    """Pods that come just before a loop."""
    return DeploymentSpec(name=name, replicas=count, at=TimeSpan(max(0.0, at - 5)), pod=_POD)


def _group(name: str, price: float, **more: Any) -> dict[str, Any]:
    return {**_GROUP, "name": name, "price_per_hour": price, **more}


def _two_groups() -> list[dict[str, Any]]:
    return [_group("a", 0.1), _group("b", 0.2)]


def _window(**what: Any) -> dict[str, Any]:
    """Something that is wrong from a minute before the failure shows."""
    return {"start": FAILURE - MINUTE, **what}


def seed_1() -> Case:
    return Case(
        title="Two machines are asked of a group that is sold out for good",
        cloud={"groups": _two_groups(), "stock_outs": [_window(group="a")]},
        demand=(_pods("web", 2, FAILURE),),
        delivers=frozenset({"b"}),
    )


def seed_2() -> Case:
    return Case(
        title="The same, and one more pod every minute for half an hour",
        cloud={"groups": _two_groups(), "stock_outs": [_window(group="a")]},
        demand=tuple(_pods(f"web-{n}", 1, FAILURE + n * MINUTE) for n in range(30)),
        delivers=frozenset({"b"}),
    )


def seed_3() -> Case:
    return Case(
        title="An empty group is asked for five machines, and the autoscaler restarts without its memory",
        cloud={"groups": _two_groups(), "stock_outs": [_window(group="a")]},
        demand=(_pods("web", 5, FAILURE),),
        delivers=frozenset({"b"}),
        warm=False,
        timeline=(Crash(at=TimeSpan(FAILURE - 10), after_effect=True, down=TimeSpan(30), keeps_memory=False),),
    )


def partial_stock_out() -> Case:
    return Case(
        title="Ten machines are asked for, three are left",
        cloud={"groups": _two_groups(), "stock_outs": [_window(group="a", remaining=3)]},
        demand=(_pods("web", 10, FAILURE),),
        delivers=frozenset({"b"}),
    )


def zone_wide() -> Case:
    groups = [_group("a", 0.1, zone="z1"), _group("a2", 0.15, zone="z1"), _group("b", 0.2, zone="z2")]
    return Case(
        title="A zone is sold out, and the next cheapest group is in it too",
        cloud={"groups": groups, "stock_outs": [_window(zone="z1")]},
        demand=(_pods("web", 6, FAILURE),),
        delivers=frozenset({"b"}),
    )


def quota() -> Case:
    """As on AWS, where m5 and c5 share one limit of vCPUs: another machine type is no other quota."""
    kinds = {"a": ("m", "standard"), "a2": ("c", "standard"), "b": ("x", "extended")}
    groups = [
        _group(name, 0.1 + 0.05 * n, instance_type=kind, buckets=[bucket])
        for n, (name, (kind, bucket)) in enumerate(kinds.items())
    ]
    return Case(
        title="A quota is used up on which two groups of different machine types draw",
        cloud={"groups": groups, "quota": {"bucket": "standard", "machines": _WARM}},
        demand=(_pods("web", 6, FAILURE),),
        delivers=frozenset({"b"}),
    )


def never_registering() -> Case:
    return Case(
        title="Machines start and never become nodes, which no cloud tells",
        cloud={"groups": _two_groups(), "dead_boots": [_window(group="a")]},
        demand=(_pods("web", 4, FAILURE),),
        delivers=frozenset({"b"}),
    )


def flapping() -> Case:
    out = [
        {"group": "a", "start": FAILURE + start * MINUTE, "end": FAILURE + (start + 10) * MINUTE}
        for start in range(-1, 120, 20)
    ]
    return Case(
        title="A group is sold out for ten minutes of every twenty, for two hours; three pods every ten minutes",
        cloud={"groups": _two_groups(), "stock_outs": out},
        demand=tuple(_pods(f"web-{n}", 3, FAILURE + n * 10 * MINUTE) for n in range(12)),
        delivers=frozenset({"b"}),
    )


CASES: Mapping[str, Callable[[], Case]] = {
    "seed-1": seed_1,
    "seed-2": seed_2,
    "seed-3": seed_3,
    "partial-stock-out": partial_stock_out,
    "zone-wide": zone_wide,
    "quota": quota,
    "never-registering": never_registering,
    "flapping": flapping,
}
