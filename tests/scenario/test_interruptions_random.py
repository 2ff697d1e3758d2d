"""Random notices, some of them late, twice, in vain or missing, and engines that are killed (virtual time).

Nothing is bought twice: after the first notice no more machines are asked for than machines were interrupted. Nothing is
drained twice: no pod is evicted twice, and no node's removal succeeds twice. In the end every pod runs.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.story import Story

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.action import IncreaseSize
from nodewright.model.plan import Plan, PlannedAction
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.validate import PlanViolation
from nodewright_simulator.journal import What

_FIRST, _LAST, _END = 250, 450, 16
_KINDS = ("reclaim", "reclaim", "reclaim", "maintenance", "rebalance", "unhealthy")
# make interruptions runs ten thousand.
_MANY = int(os.environ.get("INTERRUPTION_SCHEDULES", "500"))


def unchecked(seen: Observation, actions: Sequence[PlannedAction], settings: Settings) -> tuple[PlanViolation, ...]:
    """Find every plan sound."""
    assert seen is not None, (actions, settings)
    return ()


class Greedy(Story):
    """A planted bug: while notices are known, the engine asks for one machine more than it needs."""

    def _planning(self, settings: Settings) -> Planning:
        assert settings.policy.rule == "prompt"
        return Planning(make_plan=self._plan, check_actions=unchecked)

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, after = super()._plan(state, settings, random)
        if not plan.leaving:
            return plan, after
        more = (
            replace(action, target=action.target + 1) if isinstance(action, IncreaseSize) else action
            for action in plan.actions
        )
        return dataclasses.replace(plan, actions=tuple(more)), after


def schedule(seed: int, story: type[Story] = Story) -> tuple[Story, int]:
    """Return a story, and how many machines its clouds interrupt at the most."""
    random = Random(seed)
    groups = [
        {"name": f"g{number}", "price_per_hour": random.choice([0.1, 0.15, 0.2]), "provision_delay": f"{delay}s"}
        for number, delay in enumerate(random.choices([5, 30, 60, 120], k=random.randint(1, 3)))
    ]
    rules: list[dict[str, Any]] = [
        {
            "do": "interrupt",
            "group": random.choice(groups)["name"],
            "start": f"{random.uniform(_FIRST, _LAST):.1f}s",
            "kind": random.choice(_KINDS),
            "machines": random.randint(1, 4),
            "notice": f"{random.choice([0, 5, 30, 59, 60, 120, 120, 300])}s",
            "undelivered": random.random() < 0.1,
            "duplicated": random.random() < 0.2,
            "false_alarm": random.random() < 0.1,
            "scope": random.choice(["", "group", "zone"]),
        }
        for _ in range(random.randint(1, 3))
    ]
    settings = {
        "scale-down-enabled": False,
        "hedging": "off",
        "replace-on-rebalance": random.random() < 0.5,
        "expander": random.choice(["price", "least-cost,least-waste", "least-waste"]),
    }
    # An engine that runs as the daemon cannot be killed; one that is skips idle scans, which is faster.
    is_daemon, is_killed = random.random() < 0.2, random.random() < 0.6
    told = story(*groups, settings=settings, as_daemon=is_daemon, minutes=_END, interference=rules)
    told.pods(random.randint(1, 6), at=5, grace=random.choice([0, 10, 30]))
    for _ in range(random.randint(1, 2) if is_killed and not is_daemon else 0):
        at = random.uniform(_FIRST, _LAST + 100)
        told.simulation.engine.kill_after(
            at, random.randint(1, 8), down_seconds=random.uniform(1, 20), keeps_memory=True
        )
    return told, sum(rule["machines"] for rule in rules)


def check(seed: int, story: type[Story] = Story) -> None:
    told, interrupted = schedule(seed, story)
    journal = told.result.journal
    bought = sum(after - before for at, _, _, before, after in told.writes("increase") if at >= _FIRST)
    assert bought <= interrupted, f"seed {seed}: {bought} machines were bought for {interrupted}"
    evicted = Counter(fact.name for fact in journal if fact.what == What.POD_EVICTED)
    assert not [pod for pod, times in evicted.items() if times > 1], f"seed {seed}: {evicted}"
    gone = Counter(over.removal.node for over in told.result.removals if over.result == "Ok")
    assert not [node for node, times in gone.items() if times > 1], f"seed {seed}: {gone}"
    assert told.result.final.pending == 0, f"seed {seed}: pods wait"
    assert not told.result.problems, f"seed {seed}: {told.result.problems}"


def check_all(seeds: range, story: type[Story] = Story) -> None:
    for seed in seeds:
        check(seed, story)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_bought_or_drained_twice(seed: int) -> None:
    check(seed)


def test_an_engine_that_buys_twice_is_caught() -> None:
    with pytest.raises(AssertionError, match="machines were bought for"):
        check_all(range(20), Greedy)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_nothing_is_bought_or_drained_twice_in_many_schedules(part: int) -> None:
    check_all(range(part, _MANY, 10))
