"""The engine is killed at every point of a removal where that could matter, and comes back: nodes go as if it had not
been, one loop later than a call could last that was saved, at most; nothing stays marked, and no pod is moved twice for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.scenario.kills import kill_everywhere
from tests.scenario.removing import Removing
from tests.scenario.story import LOOP, MINUTE, SOON, Story

from nodewright.engine.intent import START_SECONDS
from nodewright.model.removal import RemovalResult
from nodewright.model.settings import ProviderSettings
from nodewright_simulator.journal import What
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import PodShape, TimeSpan
from nodewright_simulator.simulation import Simulation
from nodewright_simulator.workloads import engine_pod

DOWN = 25.0
# How long a call may be under way after it was saved that it is about to be made.
HELD = ProviderSettings().call_timeout + START_SECONDS
DELAY = 5.0
POOL = {"name": "pool", "size": 3, "price_per_hour": 0.1, "cpu": 4}


def make(*, settings: Mapping[str, Any] | None = None, **template: Any) -> Story:
    """Three nodes with a pod on each: one node is enough."""
    story = Story(POOL, settings={**SOON, **(settings or {})}, minutes=20)
    story.pods(3, at=1, **{"grace": 12, **template})
    return story


def drained() -> Simulation:
    return make().simulation


def empty() -> Simulation:
    return Story(POOL, settings=SOON, minutes=12).simulation


def batched() -> Simulation:
    return make(settings={"node-deletion-batcher-interval": "20s", "max-drain-parallelism": 2}).simulation


def softly() -> Simulation:
    return make(settings={"max-bulk-soft-taint-count": 10}).simulation


def gone(result: SimulationResult) -> list[float]:
    return [fact.at for fact in result.journal if fact.what == What.MACHINE_GONE]


def removed(result: SimulationResult) -> int:
    """As the summary counts them, those of engines that died included."""
    return sum(over.result == RemovalResult.OK for over in result.removals)


def evictions(result: SimulationResult) -> int:
    return sum(fact.what == What.POD_EVICTED for fact in result.journal)


@pytest.mark.parametrize("make", [drained, empty, batched, softly])
def test_killed_anywhere(make: Callable[[], Simulation]) -> None:
    simulation = make()
    untroubled = simulation.run()
    assert untroubled.final.pending == 0
    assert len(gone(untroubled)) >= 2
    kills = list(kill_everywhere(make, down_seconds=DOWN))
    assert {"edit_node", "delete_instances"} <= {kill.boundary.call for kill in kills}
    for kill in kills:
        result = kill.result
        assert result.final == untroubled.final, str(kill)
        assert len(gone(result)) == len(gone(untroubled)), str(kill)
        assert max(gone(result)) <= max(gone(untroubled)) + HELD + 2 * LOOP + DELAY, str(kill)
        assert evictions(result) <= evictions(untroubled) + 1, str(kill)
        assert removed(result) == len(gone(result)), str(kill)
        assert not result.problems, str(kill)


def test_what_a_former_engine_marked_is_cleaned_up() -> None:
    """Its removal is forgotten once the call that it saved is over, the reason for it is not."""
    story = make()
    story.simulation.engine.crash(2 * MINUTE, write=1, down_seconds=DOWN, keeps_memory=True)
    cleaned = story.events("ClusterAutoscalerCleanup")
    assert len(cleaned) == 1
    died = next(fact.at for fact in story.result.journal if fact.what == What.ENGINE_CRASHED)
    marked = [at for at, message in story.events("ScaleDown") if message.startswith("marked")]
    assert next(at for at in marked if at > died) == cleaned[0][0] == died + HELD


def test_a_machine_that_is_being_deleted_stays_marked() -> None:
    group = {**POOL, "delete_delay": "60s"}
    story = Removing(group, minutes=12)
    story.remove("pool-2", at=5 * MINUTE)
    story.simulation.engine.restart(5 * MINUTE + 8)
    assert [over.result for over in story.ended()] == [RemovalResult.OK] or not story.ended()
    assert story.events("ClusterAutoscalerCleanup") == []
    assert story.machines("pool") == 2


def charged(story: Removing, at: float) -> int:
    """What both deletion budgets were charged with in the last loop up to a moment."""
    memory = [state for state, _ in story.loops if state.now <= at][-1].memory
    return len(memory.deletions) + len(memory.empty_deletions)


def test_what_a_restart_called_off_is_charged_no_longer() -> None:
    """Not before it is certain that the former engine had not asked for the deletion."""
    story = Removing(POOL, minutes=25, settings={"deletion-window": "60m"})
    story.pods(3, at=1, grace=60)
    story.remove("pool-2", at=5 * MINUTE)
    story.simulation.engine.restart(5 * MINUTE + 30, down_seconds=10)
    assert story.events("ClusterAutoscalerCleanup") != []
    assert story.machines("pool") == 3
    assert (charged(story, 10 * MINUTE + 30), charged(story, 20 * MINUTE)) == (1, 0)


def test_what_the_former_engine_did_delete_stays_charged() -> None:
    """The cloud still lists the machine as running when the next engine looks, and takes it away then."""
    story = Removing(POOL, minutes=25, settings={"empty-deletion-window": "60m"})
    story.remove("pool-2", at=5 * MINUTE)
    story.simulation.engine.restart(5 * MINUTE + 3, down_seconds=10)
    story.at(6 * MINUTE, lambda: story.cloud.lose("fake:///pool/pool-2"))
    assert story.events("ClusterAutoscalerCleanup") != []
    assert len(gone(story.result)) == 1
    assert charged(story, 20 * MINUTE) == 1


def test_the_engine_moves_with_its_pod() -> None:
    """Its own pod is evicted like any other; it goes on elsewhere, and nothing is lost.

    Pods of a half emptied node that are ending need no place, so that the next engine goes on at once.
    """
    story = make()
    pod = engine_pod(PodShape(cpu="100m", namespace="nodewright", grace=TimeSpan(10)))
    story.simulation.host_engine(pod)
    result = story.result
    moves = [fact.at for fact in result.journal if fact.what == What.ENGINE_STOPPED]
    assert moves
    starts = [fact.at for fact in result.journal if fact.what == What.ENGINE_STARTED]
    assert len(starts) == len(moves) + 1
    assert result.final.nodes == make().result.final.nodes == {"fake/pool": 1}
    assert result.final.pending == 0
    assert max(gone(result)) <= max(gone(make().result)) + 4 * LOOP
    live = story.simulation.cluster.live
    assert all(not node.spec.taints and not node.spec.unschedulable for _, node in live.nodes())


def test_nodes_that_break_while_a_former_engines_write_is_awaited_keep_no_loop_from_its_end() -> None:
    """They are unneeded as the engine that died has saved it, and count as machines on their way now."""
    story = Story({"name": "pool", "size": 12}, settings={**SOON, "max-bulk-soft-taint-count": 10}, minutes=60)
    story.simulation.engine.crash(2 * MINUTE, write=2, down_seconds=60, keeps_memory=True)
    story.simulation.fail_nodes(4 * MINUTE, 2, 20 * MINUTE)
    assert len(gone(story.result)) == 12
