"""The fold over a small world: upcoming machines, requests, failures, health."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from nodewright.clusterstate.backoff import allowance, backed_off, is_active
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Backoff, Memory, ScaleUpRequest
from nodewright.clusterstate.state import ClusterState, Failure
from nodewright.model.action import DecreaseTargetSize, Done, Failed, IncreaseSize, Outcome, Unknown
from nodewright.model.group import (
    ErrorClass,
    FailedInstance,
    FailureScope,
    GroupOptions,
    GroupRef,
    Instance,
    InstanceState,
)
from nodewright.model.settings import FailureSettings, Settings
from nodewright.testkit.builders import build_node
from nodewright.testkit.world import World, ref

G = ref("g")


def advance(world: World, seconds: float, *outcomes: Outcome) -> ClusterState:
    """Fold once, and let the world remember it at a later time."""
    state = world.state()
    state = fold(world.memory, state.observation, outcomes, Settings())
    world.memory = state.memory
    world.now += seconds
    return state


def increase(world: World, to: int, by: int, group: str = "g") -> Done:
    action = IncreaseSize(group=ref(group), expected_target=to - by, target=to)
    return Done(action=action, started=world.now, accepted=by)


def test_an_accepted_increase_is_a_request_and_upcoming() -> None:
    world = World()
    world.add_group("g", target=3, instances=())
    state = advance(world, 0, increase(world, 3, 3))
    assert state.groups[G].upcoming == 3
    request = ScaleUpRequest(increase=3, started=world.now, deadline=world.now + 900, accepted=True)
    assert state.memory.requests[G] == (request,)


def test_an_increase_without_an_answer_is_a_request_from_its_beginning() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    action = IncreaseSize(group=G, expected_target=0, target=2)
    state = advance(world, 0, Unknown(action=action, started=world.now - 60, message="no answer"))
    assert state.memory.requests[G][0].started == world.now - 60


def test_arrivals_settle_the_oldest_request_and_extend_it_to_twice_at_most() -> None:
    world = World()
    world.add_group("g", target=4, instances=())
    began = world.now
    advance(world, 800, increase(world, 4, 4))
    world.groups.clear()
    world.add_group("g", size=2, target=4)
    (request,) = advance(world, 800).memory.requests[G]
    assert (request.increase, request.deadline) == (2, began + 800 + 900)
    world.groups.clear()
    world.nodes.clear()
    world.add_group("g", size=3, target=4)
    (request,) = advance(world, 0).memory.requests[G]
    assert (request.increase, request.deadline) == (1, began + 1800)


def test_a_new_increase_does_not_reset_the_clock_of_the_old() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    began = world.now
    advance(world, 600, increase(world, 2, 2))
    world.groups[G] = replace(world.groups[G], target=3)
    state = advance(world, 301, increase(world, 3, 1))
    assert [request.deadline for request in state.memory.requests[G]] == [began + 900, began + 1500]
    overdue = advance(world, 0)
    assert overdue.groups[G].timed_out == 2
    assert overdue.groups[G].upcoming == 1


def test_a_request_out_of_time_backs_the_group_off_in_the_same_loop() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    advance(world, 900, increase(world, 2, 2))
    assert advance(world, 1).groups[G].timed_out == 0, "the deadline must have passed"
    state = advance(world, 0)
    assert state.groups[G].timed_out == 2
    assert state.groups[G].upcoming == 0
    backoff = state.groups[G].backoff
    assert backoff is not None
    assert (backoff.code, backoff.until) == ("timeout", world.now + 300)


def test_missing_machines_nobody_asked_for_are_timed_from_first_sight() -> None:
    """A first start beside an empty group whose target is 5 (seed 001, third scenario)."""
    world = World()
    world.add_group("g", target=5, instances=())
    assert advance(world, 901).groups[G].upcoming == 5
    assert advance(world, 0).groups[G].timed_out == 5


def test_a_refused_increase_backs_off_by_class() -> None:
    world = World()
    world.add_group("g")
    action = IncreaseSize(group=G, expected_target=0, target=1)
    refusal = Failed(
        action=action, started=world.now, code="STOCKOUT", message="no more", error_class=ErrorClass.OUT_OF_RESOURCES
    )
    backoff = advance(world, 0, refusal).groups[G].backoff
    assert backoff is not None
    assert (backoff.error_class, backoff.code) == (ErrorClass.OUT_OF_RESOURCES, "STOCKOUT")


@pytest.mark.parametrize(
    ("scope", "reached"),
    [
        (FailureScope.GROUP, {"a1"}),
        (FailureScope.ZONE, {"a1", "a2"}),
        (FailureScope.INSTANCE_TYPE, {"a1", "b1"}),
        (FailureScope.ACCOUNT, {"a1"}),
    ],
)
def test_a_failure_reaches_every_group_that_shares_its_scope(scope: FailureScope, reached: set[str]) -> None:
    world = World()
    failure = FailedInstance(failure_id="f", instance_id="i", error_class=ErrorClass.QUOTA, scope=scope, code="Q")
    kind = "node.kubernetes.io/instance-type"
    world.add_group("a1", zone="a", labels={kind: "m"}, target=1, instances=(Instance(id="i"),), failed=(failure,))
    world.add_group("a2", zone="a", labels={kind: "c"})
    world.add_group("b1", zone="b", labels={kind: "m"})
    state = advance(world, 0)
    assert {r.group_id for r, g in state.groups.items() if is_active(g.backoff, world.now)} == reached


def test_a_failure_of_a_zone_reaches_no_other_provider() -> None:
    world = World()
    for name in ("a1", "a2"):
        world.add_group(name, zone="a")
    elsewhere = GroupRef("other", "a3")
    groups = {**world.groups, elsewhere: replace(world.groups[ref("a1")], ref=elsewhere)}
    failure = Failure(group=ref("a1"), at=world.now, scope=FailureScope.ZONE, code="Q", message="")
    assert backed_off({}, [failure], groups, FailureSettings()).keys() == {ref("a1"), ref("a2")}


def test_a_group_shares_the_backoff_of_its_zone_once_and_for_half_the_time() -> None:
    world = World()
    for name in ("a1", "a2"):
        world.add_group(name, zone="a")
    a1, a2 = ref("a1"), ref("a2")
    settings = FailureSettings()

    def fail(held: Mapping[GroupRef, Backoff], group: GroupRef, at: float) -> Mapping[GroupRef, Backoff]:
        failure = Failure(group=group, at=at, scope=FailureScope.ZONE, code="Q", message="")
        return backed_off(held, [failure], world.groups, settings)

    first = fail({}, a1, 1000.0)
    assert (first[a1].until, first[a2].until) == (1300.0, 1150.0)
    assert (first[a1].shared_from, first[a2].shared_from) == ("", "cloud/a1")
    again = fail(first, a1, 1301.0)
    assert (again[a1].until, again[a2].until) == (1901.0, 1150.0), "a2 must get its own try, independent of a1"
    own = fail(again, a2, 1302.0)
    assert (own[a2].until, own[a2].duration, own[a2].shared_from) == (1602.0, 300.0, "")
    assert own[a1] == again[a1]
    assert allowance(first[a2], 1200.0) is None, "it did not fail: it has nothing to prove"
    assert allowance(first[a1], 1400.0) == 1


def test_a_failure_counts_once_and_leaves_the_picture_at_once() -> None:
    world = World()
    failure = FailedInstance(failure_id="f", instance_id="i")
    creating = (Instance(id="i", state=InstanceState.CREATING),)
    world.add_group("g", target=1, instances=creating, failed=(failure,))
    state = advance(world, 10, increase(world, 1, 1))
    assert (state.groups[G].upcoming, state.memory.requests) == (0, {})
    assert state.groups[G].new_failures == (failure,)
    first = state.groups[G].backoff
    again = advance(world, 10)
    assert again.groups[G].new_failures == ()
    assert again.groups[G].backoff == first


def test_an_unknown_group_counts_as_it_was_last_known() -> None:
    world = World()
    world.add_group("g", target=3, instances=())
    advance(world, 10, increase(world, 3, 3))
    world.groups[G] = replace(world.groups[G], target=None, instances=None, problem="throttled")
    state = advance(world, 10)
    assert state.groups[G].upcoming == 3
    assert not state.observation.groups[G].is_known


def test_an_increase_of_a_group_that_cannot_be_read_since_is_upcoming() -> None:
    world = World()
    world.add_group("g")
    advance(world, 10)
    world.groups[G] = replace(world.groups[G], target=None, instances=None, problem="throttled")
    assert advance(world, 10, increase(world, 3, 3)).groups[G].upcoming == 3
    assert advance(world, 10).groups[G].upcoming == 3


@pytest.mark.parametrize(("unready", "healthy"), [(3, True), (4, False)])
def test_cluster_health_needs_both_count_and_share(unready: int, healthy: bool) -> None:
    world = World()
    world.add_group("bad", size=unready, ready=False)
    world.add_group("good", size=4)
    assert world.state().healthy is healthy


def test_many_unready_nodes_of_a_large_cluster_do_not_stop_it() -> None:
    world = World()
    world.add_group("bad", size=9, ready=False, max_size=20)
    world.add_group("good", size=11, max_size=20)
    state = world.state()
    assert state.healthy
    assert not state.groups[ref("bad")].healthy
    assert state.groups[ref("good")].healthy


def test_nodes_start_within_their_time() -> None:
    world = World()
    world.add_group("g", size=1, ready=False, created_at=world.now - 899)
    assert world.state().groups[G].readiness.not_started == ("g-0",)
    world.now += 2
    assert world.state().groups[G].readiness.unready == ("g-0",)


def test_machines_that_never_register_stop_being_upcoming() -> None:
    world = World()
    world.add_group("g", target=1, instances=(Instance(id="cloud:///g/x"),), options=GroupOptions())
    assert advance(world, 901).groups[G].readiness.unregistered == ("cloud:///g/x",)
    state = advance(world, 0)
    assert state.groups[G].readiness.long_unregistered == ("cloud:///g/x",)
    assert state.groups[G].upcoming == 0


def test_ids_compare_without_case_where_the_provider_says_so() -> None:
    world = World()
    world.add_group("g", target=1, instances=(Instance(id="/SUBS/Vm/1"),))
    world.nodes = [build_node("n", provider_id="/subs/vm/1")]
    assert world.state().group_of_node == {}
    world.provider = replace(world.provider, ignores_id_case=True)
    assert world.state().group_of_node == {"n": G}
    assert world.state().groups[G].readiness.unregistered == ()


def test_backoff_doubles_up_to_its_cap_and_is_forgotten() -> None:
    world = World()
    world.add_group("g")
    action = IncreaseSize(group=G, expected_target=0, target=1)
    durations = []
    for _ in range(5):
        refusal = Failed(action=action, started=world.now, code="x", message="x")
        backoff = advance(world, 0, refusal).groups[G].backoff
        assert backoff is not None
        durations.append(backoff.duration)
        world.now = backoff.until + 1
    assert durations == [300, 600, 1200, 1800, 1800]
    world.now += 10_800
    assert advance(world, 0).groups[G].backoff is None


def test_a_failure_during_backoff_does_not_double_it() -> None:
    world = World()
    world.add_group("g")
    held = Backoff(until=world.now + 100, duration=300, last_failure=world.now - 200, asked=world.now - 900)
    world.memory = Memory(backoffs={G: held})
    action = IncreaseSize(group=G, expected_target=0, target=1)
    backoff = advance(world, 0, Failed(action=action, started=world.now, code="x", message="x")).groups[G].backoff
    assert backoff is not None
    assert (backoff.duration, backoff.until) == (300, world.now + 300)
    assert backoff.asked == held.asked, "what never came is not forgotten over it"


def test_machines_that_boot_and_never_join_back_their_group_off() -> None:
    """Trap: CA counts them as arrived, so that the group is asked again as soon as they are removed."""
    world = World()
    world.add_group("g", target=2, instances=(Instance(id="1"), Instance(id="2")))
    advance(world, 901, increase(world, 2, 2))
    state = advance(world, 10)
    assert state.groups[G].newly_late == ("1", "2")
    assert state.groups[G].requests == ()
    backoff = state.groups[G].backoff
    assert backoff is not None
    assert backoff.code == "neverRegistered"
    assert advance(world, 0).groups[G].newly_late == ()


def test_an_instance_is_timed_by_its_own_clock() -> None:
    world = World()
    world.add_group("g", target=1, instances=())
    advance(world, 800, increase(world, 1, 1))
    world.groups[G] = replace(world.groups[G], instances=(Instance(id="1"),))
    advance(world, 200)
    waiting = advance(world, 701)
    assert (waiting.groups[G].timed_out, waiting.groups[G].upcoming) == (0, 1)
    assert advance(world, 0).groups[G].newly_late == ("1",)


def test_a_machine_that_is_late_settles_the_request_that_it_came_from_and_not_a_later_one() -> None:
    world = World()
    began = world.now
    world.add_group("g", target=1, instances=())
    advance(world, 10, increase(world, 1, 1))
    world.groups[G] = replace(world.groups[G], instances=(Instance(id="i"),))
    advance(world, 500)
    world.groups[G] = replace(world.groups[G], target=2)
    advance(world, 401, increase(world, 2, 1))
    state = advance(world, 0)
    assert state.groups[G].newly_late == ("i",)
    assert [request.started for request in state.groups[G].requests] == [began + 510]
    assert state.groups[G].taken_back == 0


@pytest.mark.parametrize(("made_for_pods", "codes"), [("small", []), ("", ["takenBack"])])
def test_machines_of_a_group_that_was_just_made_may_all_have_joined_before_it_is_first_seen(
    made_for_pods: str, codes: list[str]
) -> None:
    """Of a group that another writer made it is unknown which machines were there before."""
    world = World()
    world.add_group("g", size=2)
    seen = world.groups[G]
    world.groups[G] = replace(seen, group=msgspec.structs.replace(seen.group, autoprovisioned=made_for_pods))
    state = advance(world, 0, increase(world, 2, 2))
    assert state.groups[G].requests == ()
    assert [failure.code for failure in state.groups[G].failures] == codes


def test_a_partial_arrival_gives_up_only_what_is_missing() -> None:
    world = World()
    world.add_group("g", target=3, instances=())
    advance(world, 899, increase(world, 3, 3))
    world.groups.clear()
    world.add_group("g", size=2, target=3)
    advance(world, 901)
    assert advance(world, 0).groups[G].timed_out == 1


def test_what_was_given_up_is_not_upcoming_and_is_adopted_if_it_comes() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    advance(world, 901, increase(world, 2, 2))
    assert advance(world, 10).groups[G].given_up == 2
    still = advance(world, 10).groups[G]
    assert (still.given_up, still.upcoming, still.timed_out, still.requests) == (2, 0, 0, ())
    world.groups.clear()
    world.add_group("g", size=1, target=2)
    assert advance(world, 10).groups[G].given_up == 1


def test_what_was_withdrawn_is_no_longer_given_up_and_no_other_request_pays_for_it() -> None:
    """Otherwise the machines of a younger request would count as arrived, and be bought again."""
    world = World()
    world.add_group("g", target=2, instances=())
    advance(world, 800, increase(world, 2, 2))
    world.groups[G] = replace(world.groups[G], target=5)
    advance(world, 101, increase(world, 5, 3))
    assert advance(world, 10).groups[G].given_up == 2
    world.groups[G] = replace(world.groups[G], target=3)
    after = advance(world, 10).groups[G]
    assert (after.given_up, after.upcoming, [request.increase for request in after.requests]) == (0, 3, [3])


def test_a_machine_deleted_by_id_is_not_taken_for_a_withdrawal() -> None:
    world = World()
    world.add_group("g", target=3, instances=(Instance(id="x"),))
    world.memory = Memory(given_up={G: 2}, unregistered_since={(G, "x"): world.now - 901}, late=frozenset({(G, "x")}))
    advance(world, 10)
    world.groups[G] = replace(world.groups[G], target=2, instances=())
    assert advance(world, 10).groups[G].given_up == 2


def test_a_decrease_that_does_nothing_is_noticed() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    advance(world, 901, increase(world, 2, 2))
    advance(world, 10)
    asked = DecreaseTargetSize(group=G, expected_target=2, target=0, reason="")
    state = advance(world, 0, Done(action=asked, started=world.now, accepted=2))
    assert state.groups[G].withdrawal_failed
    assert state.memory.withdrawn_at == {G: world.now}
    world.groups[G] = replace(world.groups[G], target=0)
    done = advance(world, 0, Done(action=asked, started=world.now, accepted=2))
    assert not done.groups[G].withdrawal_failed
    assert done.memory.withdrawn_at == {}


def test_a_node_whose_instance_is_gone_is_deleted_not_unready() -> None:
    world = World()
    world.add_group("g", size=2)
    advance(world, 10)
    world.groups[G] = replace(world.groups[G], target=1, instances=(Instance(id="cloud:///g/0"),))
    state = advance(world, 10)
    assert state.groups[G].readiness.deleted == ("g-1",)
    assert state.groups[G].readiness.ready == ("g-0",)
    assert state.group_of_node["g-1"] == G


def test_somebody_elses_write_is_no_failure_of_the_group() -> None:
    world = World()
    world.add_group("g", target=5, instances=())
    action = IncreaseSize(group=G, expected_target=0, target=1)
    changed = Failed(action=action, started=world.now, code="targetChanged", message="5 by now")
    assert advance(world, 0, changed).groups[G].backoff is None


def test_a_size_that_is_read_as_before_although_it_changed_is_a_failure_of_the_group() -> None:
    world = World()
    world.add_group("g")
    action = IncreaseSize(group=G, expected_target=0, target=1)
    changed = Failed(action=action, started=world.now, code="targetChanged", message="5 by now")
    assert advance(world, 0, changed).groups[G].backoff is not None


def test_an_increase_accepted_for_no_machine_is_a_failure_of_the_group() -> None:
    world = World()
    world.add_group("g")
    action = IncreaseSize(group=G, expected_target=0, target=1)
    backoff = advance(world, 0, Done(action=action, started=world.now, accepted=0)).groups[G].backoff
    assert backoff is not None
    assert backoff.code == "nothingAccepted"


def test_unready_nodes_outside_all_groups_count_for_the_clusters_health() -> None:
    world = World()
    world.add_group("g", size=3)
    world.nodes += [build_node(f"other-{k}", ready=False) for k in range(4)]
    assert not world.state().healthy
