"""The use cases and services of seed 000 (cluster state registry), each a whole run on the fake cloud."""

import pytest
from tests.scenario.story import LOOP, MINUTE, PROVISION, SILENT, Story

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
SLOW = {"provision_delay": "5m"}
FOUR = tuple(f"a-{number}" for number in range(4))
NEVER_READY = {"ready_delay": "100h"}
# Idle nodes stay: these cases are about nodes, not about what runs on them.
STAYS = {"scale-down-enabled": False}


def test_uc1_machines_that_have_not_arrived_count_in_every_further_decision() -> None:
    """Pods for which there will be room buy nothing; of more pods only those without room do."""
    story = Story({**A, **SLOW, "cpu": 2}, minutes=30)
    story.pods(3, at=5)
    story.pods(1, at=65, name="fits-on-what-comes")
    story.pods(2, at=125, name="does-not")
    assert story.writes() == [(10, "increase", "a", 0, 2), (130, "increase", "a", 2, 3)]
    assert story.result.final.pending == 0


def test_uc2_a_node_that_is_not_ready_yet_counts_as_the_machine_that_comes() -> None:
    story = Story({**A, "ready_delay": "5m", "cpu": 2}, minutes=30)
    story.pods(1, at=5)
    story.pods(1, at=200, name="later")
    assert story.state("a", 210).readiness.not_started == ("a-0",)
    assert story.state("a", 210).upcoming == 1
    assert story.writes() == [(10, "increase", "a", 0, 1)]
    assert story.machines("a") == 1


def test_uc3_a_pool_whose_node_failed_to_start_is_not_expanded() -> None:
    """CA would ask the same pool again for the same pod, and get another node that does not start."""
    story = Story({**A, **NEVER_READY}, B, minutes=20)
    story.pods(1, at=5)
    registered = 10 + 60
    late = registered + PROVISION
    assert story.writes() == [(10, "increase", "a", 0, 1), (late, "increase", "b", 0, 1)]
    assert story.state("a", late).readiness.never_ready == ("a-0",)
    backoff = story.state("a", late).backoff
    assert backoff is not None
    assert backoff.code == "neverReady"
    assert story.events("ScaleUpTimedOut") == [(late, "1 nodes added to group fake/a were not ready within 15m")]
    assert story.result.final.pending == 0
    assert story.machines("a") == 1, "the late node itself is left to scale-down"


def test_uc3_a_node_that_was_ready_and_broke_is_no_failed_start() -> None:
    story = Story({**A, "size": 1}, settings=STAYS, minutes=40)
    story.turn("a-0", at=60, ready=False)
    assert story.state("a", 2400).readiness.unready == ("a-0",)
    assert story.state("a", 2400).readiness.never_ready == ()
    assert all(state.groups[ref].backoff is None for state in story.states() for ref in state.groups)


def test_uc4_a_group_that_cannot_deliver_is_resized_to_what_it_has() -> None:
    story = Story({**A, "size": 1}, B, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=30)
    story.pods(4, at=5)
    given_up = 10 + PROVISION + LOOP
    assert story.writes() == [
        (10, "increase", "a", 1, 4),
        (given_up, "withdraw", "a", 4, 1),
        (given_up, "increase", "b", 0, 3),
    ]
    assert story.events("ScaleUpTimedOut") == [
        (given_up, "3 nodes added to group fake/a failed to register within 15m")
    ]
    assert story.killed() == []
    assert story.result.final.pending == 0


def test_uc5_machines_that_failed_to_register_are_removed_one_by_one() -> None:
    """CA removes them in one call; one by one, each removal is seen to have done what it should before the next."""
    story = Story({**A, "never_registers": 1.0}, B, minutes=60)
    story.pods(3, at=5)
    # Instances are seen first in the loop after the call.
    late = 20 + PROVISION + LOOP
    gone = late + PROVISION
    assert story.writes("delete") == [
        (gone, "delete", "a", 3, 2),
        (gone + LOOP, "delete", "a", 2, 1),
        (gone + 2 * LOOP, "delete", "a", 1, 0),
    ]
    removed = story.events("DeleteUnregistered")
    assert [at for at, _ in removed] == [gone, gone + LOOP, gone + 2 * LOOP]
    assert [message.split()[3] for _, message in removed] == [f"fake:///a/a-{n}:" for n in range(3)]
    assert story.asked("b") == [late], "the pods do not wait for the removals"
    assert story.result.final.pending == 0


def test_uc5_machines_that_never_ran_go_below_the_minimum_too() -> None:
    """The minimum would keep a dead machine forever; min-size enforcement and pods fill the group up again (ADR 7)."""
    story = Story({**A, "never_registers": 1.0, "min_size": 1}, B, minutes=60)
    story.pods(3, at=5)
    assert [write[2:] for write in story.writes("delete")] == [("a", 3, 2), ("a", 2, 1), ("a", 1, 0)]
    assert story.events("DeleteUnregisteredFailed") == []
    assert story.result.final.pending == 0


def test_uc6_an_unready_node_stays_as_long_as_nobody_may_remove_it_and_operations_go_on() -> None:
    """Removal is scale-down's. Until then: its room counts for nothing, its pods stay, and nothing deletes it."""
    story = Story({**A, "size": 4, "cpu": 2}, minutes=60)
    story.pods(8, at=5)
    story.turn("a-0", at=600, ready=False)
    story.pods(1, at=1800, name="later")
    assert story.writes() == [(1800, "increase", "a", 4, 5)]
    assert all(state.healthy for state in story.states())
    assert story.machines("a") == 5
    assert story.killed() == []


def test_uc6_an_unready_node_goes_when_it_has_no_pods_and_later_than_others() -> None:
    """For fifteen minutes it may be starting, and twenty more it is left for being unready."""
    story = Story({**A, "size": 3}, minutes=60)
    story.pods(2, at=5)
    story.turn("a-2", at=60, ready=False)
    (gone,) = (write[0] for write in story.writes("delete"))
    assert 35 * MINUTE <= gone <= 36 * MINUTE
    assert story.result.final.running == 2


def test_uc6_an_unready_node_goes_when_its_pods_can_be_moved() -> None:
    story = Story({**A, "size": 2, "cpu": 2}, minutes=60)
    story.pods(2, at=5)
    story.turn("a-0", at=600, ready=False)
    (gone,) = (write[0] for write in story.writes("delete"))
    assert gone >= 600 + 20 * MINUTE
    assert story.result.final.running == 2
    assert story.machines("a") == 1


def test_uc7_nodes_that_are_being_removed_are_no_sign_of_ill_health() -> None:
    """Four of six nodes unready would halt everything (UC8), were they not on their way out."""
    story = Story({**A, "size": 6}, settings=STAYS, minutes=60)
    story.turn(*FOUR, at=1000, ready=False, taint="ToBeDeletedByClusterAutoscaler")
    story.pods(3, at=1200)
    assert story.events("ClusterUnhealthy") == []
    assert len(story.state("a", 1200).readiness.leaving) == 4
    assert story.state("a", 1200).upcoming == 0, "what leaves is not awaited"
    assert story.writes() == [(1200, "increase", "a", 6, 7)]


def test_nodes_whose_machines_sleep_are_neither_ill_nor_awaited() -> None:
    """CA's class Suspended: four of six nodes without a sign of life would halt everything (UC8) otherwise."""
    story = Story({**A, "size": 6}, settings=STAYS, minutes=60)
    story.turn(*FOUR, at=1000, ready=False, condition="Suspended")
    story.pods(3, at=1200)
    assert story.events("ClusterUnhealthy") == []
    asleep = story.state("a", 1200)
    assert (asleep.readiness.suspended, asleep.readiness.unready, asleep.upcoming) == (FOUR, (), 0)
    assert story.writes() == [(1200, "increase", "a", 6, 7)], "two are awake"


def test_uc8_operations_halt_while_too_many_nodes_are_unready_and_go_on_afterwards() -> None:
    story = Story({**A, "size": 8}, settings=STAYS, minutes=90)
    story.turn(*FOUR, at=1000, ready=False)
    story.pods(9, at=1200)
    story.turn(*FOUR, at=2400, ready=True)
    why = "cluster is unhealthy: 4 of 8 nodes are not ready, and 3 may be; nothing is planned until fewer are not ready"
    assert story.events("ClusterUnhealthy")[:1] == [(1000, why)]
    assert story.writes() == [(2400, "increase", "a", 8, 9)]
    assert story.result.final.pending == 0


def test_uc8_machines_that_never_registered_are_removed_even_then() -> None:
    story = Story({**A, "size": 8}, {**B, "never_registers": 1.0}, settings=STAYS, minutes=90)
    story.at(500, lambda: story.cloud.set_target("b", 2))
    story.turn(*FOUR, at=1000, ready=False)
    assert [write[2:] for write in story.writes()] == [("b", 2, 1), ("b", 1, 0)]
    assert len(story.events("DeleteUnregistered")) == 2


@pytest.mark.parametrize(("unready", "halted"), [(3, False), (4, True)])
def test_s1_the_cluster_is_in_good_shape_while_few_nodes_are_unready_without_reason(unready: int, halted: bool) -> None:
    """Three may be unready however small the cluster; more only below 45 %. Nodes that start do not count."""
    story = Story({**A, "size": 4}, {**B, **NEVER_READY}, settings=STAYS, minutes=30)
    story.turn(*FOUR[:unready], at=1000, ready=False)
    story.at(1010, lambda: story.cloud.set_target("b", 4))
    story.pods(6, at=1500)
    assert bool(story.events("ClusterUnhealthy")) is halted
    assert bool(story.asked("a")) is not halted


def test_s2_a_group_with_many_unready_nodes_is_not_scaled_up_until_it_is_better() -> None:
    story = Story({**A, "size": 6}, {**B, "size": 10}, settings=STAYS, minutes=90)
    story.turn(*FOUR, at=1000, ready=False)
    story.turn(*FOUR, at=3000, ready=True)
    story.pods(14, at=1200)
    story.pods(8, at=3100, name="later")
    assert all(state.healthy for state in story.states())
    assert not story.state("a", 1200).healthy
    assert story.asked("b") == [1200], "although a is cheaper"
    assert story.state("a", 3100).healthy
    assert story.asked("a") == [3100]


def test_s3_what_is_to_arrive_is_known_per_group() -> None:
    """A machine counts once on its way from request to ready node, and then no more."""
    story = Story({**A, "request_delay": "1m", "provision_delay": "1m", "register_delay": "1m", "ready_delay": "1m"})
    story.pods(2, at=5)
    stages = {at: story.state("a", at) for at in (20, 80, 140, 200, 260)}
    assert [state.upcoming for state in stages.values()] == [2, 2, 2, 2, 0]
    assert [len(state.readiness.unregistered) for state in stages.values()] == [0, 2, 2, 0, 0]
    assert [len(state.readiness.not_started) for state in stages.values()] == [0, 0, 0, 2, 0]
    assert [len(state.readiness.ready) for state in stages.values()] == [0, 0, 0, 0, 2]
    assert len(story.asked("a")) == 1


def test_s4_how_long_a_group_has_been_missing_nodes_is_known_and_ends_in_its_actual_size() -> None:
    """Also when no engine remembers a request: another writer resized the group."""
    story = Story({**A, "size": 1}, stock_outs=[{"group": "a"}], switched_off=SILENT, settings=STAYS, minutes=40)
    story.at(300, lambda: story.cloud.set_target("a", 4))
    (request,) = story.state("a", 600).requests
    assert (request.increase, request.started, request.deadline) == (3, 300, 300 + PROVISION)
    assert story.writes() == [(300 + PROVISION + LOOP, "withdraw", "a", 4, 1)]
    assert story.machines("a") == 1
    assert story.state("a", 40 * MINUTE).upcoming == 0
