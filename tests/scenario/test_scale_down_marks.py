"""Taints that outlive a removal: hints to the scheduler, and what is cleaned up at start (docs/behaviour/scale-down.md)."""

from dataclasses import replace as replace_value
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.removing import Removing
from tests.scenario.story import LOOP, MINUTE

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Taint
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright_simulator.api_server import EDIT, Refusal

POOL = {"name": "pool", "size": 4, "price_per_hour": 0.1, "cpu": 4}
AT = 5 * MINUTE


class Marking(Removing):
    """Soft taints are moved by hand from a moment on, the same ones in every loop."""

    def __init__(self, *, taint: tuple[str, ...] = (), untaint: tuple[str, ...] = (), **rest: Any) -> None:
        settings = {"max-bulk-soft-taint-count": 10, **rest.pop("settings", {})}
        super().__init__(POOL, minutes=rest.pop("minutes", 15), settings=settings, **rest)
        self._moves = (taint, untaint)
        self.at(AT, lambda: None)

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, after = super()._plan(state, settings, random)
        taint, untaint = self._moves if state.now >= AT else ((), ())
        return replace_value(
            plan, scale_down=replace_value(plan.scale_down, soft_taint=taint, soft_untaint=untaint)
        ), after

    def tainted(self, key: str) -> set[str]:
        assert self.result
        nodes = [node for _, node in self.simulation.cluster.live.nodes()]
        return {node.name for node in nodes if any(taint.key == key for taint in node.spec.taints)}


def put(story: Removing, key: str, *names: str, at: float, value: str = "17", cordoned: bool = False) -> None:
    """An operator taints nodes."""

    def write() -> None:
        for name in names:
            node = story.node(name)
            taints = (*node.spec.taints, Taint(key=key, value=value, effect="NoSchedule"))
            spec = replace(node.spec, taints=taints, unschedulable=cordoned)
            story.simulation.cluster.change_node(replace(node, spec=spec))

    story.at(at, write)


def test_soft_taints_are_moved_within_the_count() -> None:
    story = Marking(
        taint=("pool-0", "pool-1", "pool-2"), untaint=("pool-3",), settings={"max-bulk-soft-taint-count": 2}
    )
    put(story, DELETION_CANDIDATE_TAINT, "pool-3", at=AT - MINUTE)
    assert story.tainted(DELETION_CANDIDATE_TAINT) == {"pool-0"}  # the removal came first


def test_a_failed_attempt_is_an_attempt() -> None:
    story = Marking(taint=("pool-0", "pool-1"), settings={"max-bulk-soft-taint-count": 1})
    story.simulation.api_server.refusals.append(Refusal(start=0, end=15 * MINUTE, what=EDIT, of="pool-0"))
    assert story.tainted(DELETION_CANDIDATE_TAINT) == set()


def test_a_node_that_is_going_gets_none() -> None:
    story = Marking(taint=("pool-0",))
    put(story, TO_BE_DELETED_TAINT, "pool-0", at=AT - MINUTE)
    assert story.tainted(DELETION_CANDIDATE_TAINT) == set()


def restarted(**rest: Any) -> Marking:
    """Hard taints of another writer are there when an engine starts."""
    story = Marking(**rest)
    put(story, TO_BE_DELETED_TAINT, "pool-0", "pool-1", at=AT, cordoned=True)
    story.simulation.engine.restart(AT + 1, down_seconds=20)
    return story


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_row_31_hard_taints_are_gone_after_a_start(profile: str) -> None:
    """No matter who cordoned them: only CA uncordons what it does not know to have cordoned."""
    story = restarted(settings={"profile": profile})
    assert story.tainted(TO_BE_DELETED_TAINT) == set()
    assert [at for at, _ in story.events("ClusterAutoscalerCleanup")] == [AT + 21] * 2
    assert {node.spec.unschedulable for node in map(story.node, ("pool-0", "pool-1"))} == {profile == "nodewright"}


def test_what_cannot_be_cleaned_up_at_once_is_later() -> None:
    story = restarted()
    story.simulation.api_server.refusals.append(Refusal(start=0, end=AT + MINUTE, what=EDIT, of="pool-1"))
    assert story.tainted(TO_BE_DELETED_TAINT) == set()
    first, second = (at for at, _ in story.events("ClusterAutoscalerCleanup"))
    assert first == AT + 21
    assert AT + MINUTE <= second <= AT + MINUTE + 2 * LOOP


def test_a_taint_that_comes_later_is_somebody_elses() -> None:
    story = Marking()
    put(story, TO_BE_DELETED_TAINT, "pool-0", at=AT)
    assert story.tainted(TO_BE_DELETED_TAINT) == {"pool-0"}


@pytest.mark.parametrize(("count", "left"), [(0, set()), (10, {"pool-0", "pool-1"})])
def test_soft_taints_go_where_they_are_switched_off(count: int, left: set[str]) -> None:
    story = Marking(settings={"max-bulk-soft-taint-count": count})
    put(story, DELETION_CANDIDATE_TAINT, "pool-0", at=AT)
    put(story, DELETION_CANDIDATE_TAINT, "pool-1", at=AT, value="when it rains")
    story.simulation.engine.restart(AT + 1)
    assert story.tainted(DELETION_CANDIDATE_TAINT) == left


def test_a_young_soft_taint_says_since_when_and_stays() -> None:
    story = Marking(settings={"max-bulk-soft-taint-count": 0, "node-deletion-candidate-ttl": "30m"})
    put(story, DELETION_CANDIDATE_TAINT, "pool-0", at=AT, value=str(int(AT)))
    put(story, DELETION_CANDIDATE_TAINT, "pool-1", at=AT, value="-9000")
    story.simulation.engine.restart(AT + 1)
    assert story.tainted(DELETION_CANDIDATE_TAINT) == {"pool-0"}
