"""All deletions share one budget: when Kubernetes forgets its nodes, their machines are not deleted one and all."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.scenario.story import LOOP, MINUTE, PROVISION, Story

from nodewright_simulator.journal import What

FORGOTTEN = 60.0
WINDOW = 10 * MINUTE
POOL = {"name": "pool", "size": 30, "price_per_hour": 0.1}


def forget_nodes(story: Story) -> None:
    """Every node loses its providerID: its machine looks as if it had never joined."""
    cluster = story.simulation.cluster
    for _, node in list(cluster.live.nodes()):
        cluster.change_node(replace(node, spec=replace(node.spec, provider_id="")))


def forgetful(*groups: dict[str, object], minutes: float = 55) -> Story:
    story = Story(*(groups or (POOL,)), minutes=minutes)
    story.at(FORGOTTEN, lambda: forget_nodes(story))
    return story


def deletions(story: Story) -> list[float]:
    """When each machine was deleted; the engine may have died before it could tell."""
    return [fact.at for fact in story.result.journal if fact.what == What.MACHINE_GONE]


def most_in_a_window(moments: Sequence[float]) -> int:
    return max(sum(start <= moment < start + WINDOW for moment in moments) for start in moments)


def test_ten_in_ten_minutes_and_an_alert() -> None:
    story = forgetful()
    gone = deletions(story)
    assert most_in_a_window(gone) == 10
    assert FORGOTTEN + 2 * PROVISION < gone[0] < FORGOTTEN + 2 * PROVISION + 2 * LOOP
    assert len(gone) == 30  # in the end they go: this takes 20 minutes, in which an operator may look into it
    first = story.events("DeletionBudgetExhausted")[0]
    assert gone[9] < first[0] <= gone[9] + 2 * LOOP
    assert first[1] == (
        "1 machines of group fake/pool are not deleted: "
        "the deletion budget of group fake/pool is used up: 10 machines within 10m"
    )


@pytest.mark.parametrize("write", [1, 5, 10])
@pytest.mark.parametrize("after_effect", [True, False])
def test_a_restart_grants_no_more(write: int, after_effect: bool) -> None:
    story = forgetful(minutes=49)
    story.simulation.engine.crash(FORGOTTEN, write=write, after_effect=after_effect, down_seconds=25, keeps_memory=True)
    untroubled = forgetful(minutes=49)
    assert len(deletions(story)) == len(deletions(untroubled)) == 20
    assert most_in_a_window(deletions(story)) == 10


def test_several_groups_share_the_budget_of_the_cluster() -> None:
    pools = [{"name": f"pool-{n}", "size": 8, "price_per_hour": 0.1} for n in range(3)]
    story = forgetful(*pools, minutes=40)
    assert len(deletions(story)) == 10
    assert "the deletion budget of the cluster is used up" in story.events("DeletionBudgetExhausted")[0][1]


def test_machines_that_never_ran_are_free() -> None:
    story = Story({"name": "pool", "price_per_hour": 0.1, "never_registers": 1.0}, minutes=40)
    story.pods(30)
    assert len(deletions(story)) == 30
    assert story.events("DeletionBudgetExhausted") == []


def test_nothing_but_deletion_stops() -> None:
    story = forgetful(POOL, {"name": "other", "price_per_hour": 0.05}, minutes=45)
    exhausted = 35 * MINUTE
    story.pods(40, at=exhausted)
    assert story.events("DeletionBudgetExhausted")[0][0] < exhausted
    assert story.asked("other")
    assert story.result.final.pending == 0


def test_a_group_whose_deletions_wait_for_the_budget_still_grows() -> None:
    """Only one group is there: its own pods must not wait until all its lost machines may be deleted."""
    story = forgetful(minutes=45)
    exhausted = 36 * MINUTE
    story.pods(35, at=exhausted)
    assert story.events("DeletionBudgetExhausted")[0][0] < exhausted
    assert story.writes("increase")[0] == (exhausted, "increase", "pool", 20, 35), "20 nodes are left"
