"""How nodes go once that is decided: marked, emptied, deleted, or used again (docs/behaviour/scale-down.md#carrying-out-removals)."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.removing import Removing
from tests.scenario.story import LOOP, MINUTE

from nodewright.actuation.taints import CORDONED_ANNOTATION
from nodewright.model.meta import LabelSelector
from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright_simulator.api_server import EDIT, BudgetRule, Refusal
from nodewright_simulator.journal import What

POOL = {"name": "pool", "size": 3, "price_per_hour": 0.1, "cpu": 4}
AT = 5 * MINUTE
DELAY = 5.0
HELD = {"delay-deletion.cluster-autoscaler.kubernetes.io/storage": "true"}


def make(*, pods: int = 3, minutes: float = 20, **rest: Any) -> Removing:
    """Three nodes with a pod on each, which ends 20 seconds after its eviction."""
    template = rest.pop("template", {})
    story = Removing(rest.pop("group", POOL), minutes=minutes, **rest)
    if pods:
        story.pods(pods, at=1, **{"grace": 20, **template})
    return story


def only(story: Removing) -> RemovalEnded:
    (over,) = story.ended()
    return over


def is_as_before(story: Removing, name: str) -> bool:
    node = story.node(name)
    return not node.spec.taints and not node.spec.unschedulable and not node.metadata.annotations


def deleted(story: Removing) -> set[str]:
    return {name.rpartition("/")[2] for _, name in story.facts(What.MACHINE_GONE)}


def change(story: Removing, name: str, at: float, annotations: dict[str, str], *, cordoned: bool = False) -> None:
    """Another writer writes to a node."""

    def write() -> None:
        node = story.node(name)
        meta = replace(node.metadata, annotations=annotations)
        spec = replace(node.spec, unschedulable=node.spec.unschedulable or cordoned)
        story.simulation.cluster.change_node(replace(node, metadata=meta, spec=spec))

    story.at(at, write)


# Going


def test_an_empty_node_is_marked_and_deleted_after_the_delay() -> None:
    story = make(pods=0)
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.result == RemovalResult.OK
    assert AT <= over.started <= AT + LOOP
    assert over.at == over.started + DELAY
    assert deleted(story) == {"pool-2"}
    assert story.writes("delete") == [(over.at, "delete", "pool", 3, 2)]
    assert story.result.final.nodes == {"fake/pool": 2}
    assert [message for _, message in story.events("ScaleDownEmpty")] == ["Scale-down: removing empty node pool-2"]
    assert [message for _, message in story.events("ScaleDown")] == [
        "marked the node as toBeDeleted/unschedulable",
        "node removed by cluster autoscaler",
    ]
    assert [(record.reason, record.outcome) for record in story.result.audit] == [("scale-down: empty", "done")]


def test_a_node_with_pods_is_emptied_first() -> None:
    story = make()
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.result == RemovalResult.OK
    ((evicted_at, pod),) = story.facts(What.POD_EVICTED)
    assert evicted_at == over.started + DELAY
    assert over.evicted == (pod,)
    assert over.at == evicted_at + 20
    assert story.result.final.running == 3
    lost = [at for at, name in story.facts(What.POD_LOST) if name == pod]
    assert lost == [over.at]
    told = f"Scale-down: removing node pool-2, utilization: 0.25, pods to reschedule: {pod}"
    assert story.events("ScaleDown")[0][1] == told
    assert (evicted_at, "deleting pod for node scale down") in story.events("ScaleDown")


def test_while_it_is_going_nothing_is_scheduled_there() -> None:
    story = make()
    story.remove("pool-2", at=AT)
    story.pods(8, at=AT + 12, name="more")
    gone = only(story).at
    starts = [fact for fact in story.result.journal if fact.what == What.POD_STARTED and AT + 12 <= fact.at <= gone]
    assert len(starts) >= 5
    assert all(fact.where != "pool-2" for fact in starts)


def test_grace_is_capped_by_the_flag() -> None:
    story = make(template={"grace": 3600}, settings={"max-graceful-termination-sec": 60})
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.at == over.started + DELAY + 60


def test_lower_priorities_leave_first() -> None:
    """Each group is gone before the next is told, and gets its own grace."""
    story = make(pods=0, settings={"drain-priority-config": "0:40,1000:10"}, group={**POOL, "size": 2})
    story.pods(1, at=1, name="low", priority=500, grace=300)
    story.pods(1, at=1, name="high", priority=2000, grace=300)
    story.pods(1, at=2, name="filler", cpu="3")
    story.remove("pool-0", "pool-1", at=AT)
    evicted = {name.rpartition("-")[0]: at for at, name in story.facts(What.POD_EVICTED)}
    on_one_node = len({fact.where for fact in story.result.journal if fact.what == What.POD_STARTED and fact.at < 9})
    assert on_one_node == 2
    assert "default/low" in evicted
    assert "default/high" in evicted


def test_row_78_pods_of_one_name_in_two_namespaces_are_two() -> None:
    """CA keeps results by name alone (down.md C 78)."""
    story = make(pods=0, group={**POOL, "size": 2})
    story.pods(1, at=1, namespace="one", grace=10)
    story.pods(1, at=1, namespace="two", grace=60)
    story.pods(1, at=0.5, name="full", cpu="4")
    story.remove("pool-0", "pool-1", at=AT)
    over = next(over for over in story.ended() if len(over.evicted) == 2)
    assert set(over.evicted) == {"one/web-0", "two/web-0"}
    assert over.at == over.started + DELAY + 60


def test_row_117_expendable_pods_go_with_their_node() -> None:
    story = make(template={"priority": -11})
    story.remove("pool-2", at=AT, empty=True)
    assert only(story).result == RemovalResult.OK
    assert story.facts(What.POD_EVICTED) == []


# Removals that fail


def test_row_74_pods_that_came_meanwhile_keep_an_empty_node() -> None:
    story = make()
    story.remove("pool-2", at=AT, empty=True)
    over = only(story)
    assert (over.result, over.at) == (RemovalResult.INTERNAL, over.started + DELAY)
    assert "new pods run on the node" in over.message
    assert is_as_before(story, "pool-2")
    assert story.writes("delete") == []


def test_a_budget_that_shrank_meanwhile_keeps_its_pods() -> None:
    story = make()
    selector = LabelSelector(match_labels={"app": "web"})
    story.simulation.api_server.budgets = (BudgetRule(name="all", selector=selector, min_available="100%"),)
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.result == RemovalResult.INTERNAL
    assert "blocks the removal" in over.message
    assert story.facts(What.POD_EVICTED) == []
    assert is_as_before(story, "pool-2")


def test_evictions_that_are_refused_are_tried_for_two_minutes() -> None:
    story = make()
    story.simulation.api_server.refusals.append(Refusal(start=AT, end=AT + 10 * MINUTE, of="default"))
    story.remove("pool-2", at=AT)
    over = only(story)
    assert (over.result, over.at) == (RemovalResult.FAILED_TO_EVICT, over.started + DELAY + 120)
    assert "too many requests" in over.message
    assert is_as_before(story, "pool-2")
    failed = [message for _, message in story.events("ScaleDownFailed")]
    assert failed == ["failed to delete pod for ScaleDown", f"failed to drain the node: {over.message}"]


def test_evictions_that_are_accepted_in_time_are_as_good() -> None:
    story = make()
    story.simulation.api_server.refusals.append(Refusal(start=AT, end=AT + 60))
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.result == RemovalResult.OK
    assert AT + 60 <= story.facts(What.POD_EVICTED)[0][0] <= AT + 60 + 10


def test_one_attempt_is_made_when_there_is_no_time() -> None:
    story = make(settings={"max-pod-eviction-time": 0})
    story.remove("pool-2", at=AT)
    assert only(story).result == RemovalResult.OK


def test_row_69_one_node_that_cannot_be_marked_keeps_the_others() -> None:
    story = make(pods=0)
    story.simulation.api_server.refusals.append(Refusal(start=AT, end=AT + 60, what=EDIT, of="pool-1"))
    story.remove("pool-0", "pool-1", "pool-2", at=AT)
    assert [over.result for over in story.ended()] == [RemovalResult.FAILED_TO_MARK] * 3
    assert deleted(story) == set()
    assert all(is_as_before(story, name) for name in ("pool-0", "pool-1", "pool-2"))


def test_a_mark_of_which_the_answer_was_lost_is_taken_off_again() -> None:
    """The API server wrote it and did not say so: no engine would ever untaint and uncordon that node."""
    story = make(pods=0)
    lost = Refusal(start=AT, end=AT + 60, what=EDIT, of="pool-1", takes_effect=True)
    story.simulation.api_server.refusals.append(lost)
    story.remove("pool-0", "pool-1", at=AT)
    assert [over.result for over in story.ended()] == [RemovalResult.FAILED_TO_MARK] * 2
    assert all(is_as_before(story, name) for name in ("pool-0", "pool-1"))


def test_row_70_empty_nodes_go_although_others_cannot_be_marked() -> None:
    story = make(pods=0, group={**POOL, "size": 3})
    story.pods(1, at=1, cpu="4")
    story.simulation.api_server.refusals.append(Refusal(start=AT, end=AT + 60, what=EDIT, of="pool-0"))
    story.remove("pool-0", "pool-2", at=AT)
    assert {over.removal.node: over.result for over in story.ended()} == {
        "pool-0": RemovalResult.FAILED_TO_MARK,
        "pool-2": RemovalResult.OK,
    }


@pytest.mark.parametrize(("profile", "cordoned"), [("nodewright", True), ("ca", False)])
def test_row_71_who_cordoned_a_node(profile: str, cordoned: bool) -> None:
    """CA uncordons a node that a human had cordoned (down.md C 71)."""
    story = make(settings={"profile": profile})
    change(story, "pool-2", AT - MINUTE, {}, cordoned=True)
    story.remove("pool-2", at=AT, empty=True)
    assert only(story).result == RemovalResult.INTERNAL
    assert story.node("pool-2").spec.unschedulable is cordoned
    assert CORDONED_ANNOTATION not in story.node("pool-2").metadata.annotations


def test_a_node_that_cannot_be_given_back_at_once_is_later() -> None:
    story = make()
    story.simulation.api_server.refusals.append(Refusal(start=AT + 11, end=AT + 2 * MINUTE, what=EDIT))
    story.remove("pool-2", at=AT, empty=True)
    assert only(story).result == RemovalResult.INTERNAL
    assert is_as_before(story, "pool-2")


# The call


def test_row_120_a_refused_call_gives_the_node_back() -> None:
    refusal = {"kind": "refuse", "hook": "delete_instances", "error": "access_denied"}
    story = make(pods=0, faults=[refusal])
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.result == RemovalResult.FAILED_TO_DELETE
    assert is_as_before(story, "pool-2")
    assert [record.outcome for record in story.result.audit] == ["refused"]


@pytest.mark.parametrize("effect", ["first", "never"])
def test_a_call_without_an_answer_is_settled_by_looking(effect: str) -> None:
    fault = {"kind": "hang", "hook": "delete_instances", "takes_effect": effect}
    unreadable = {"kind": "refuse", "hook": "target_size", "error": "unavailable", "start": AT, "end": AT + 3 * MINUTE}
    story = make(pods=0, faults=[fault, unreadable])
    story.remove("pool-2", at=AT - LOOP)
    over = only(story)
    assert over.result == (RemovalResult.OK if effect == "first" else RemovalResult.FAILED_TO_DELETE)
    assert deleted(story) == ({"pool-2"} if effect == "first" else set())
    assert effect == "first" or is_as_before(story, "pool-2")


def test_somebody_else_changed_the_size_meanwhile() -> None:
    """The next loop reads it, and the node goes after all."""
    story = make(pods=0)
    story.remove("pool-2", at=AT)
    story.at(AT + 3, lambda: story.cloud.set_target("pool", 5))
    over = only(story)
    assert over.result == RemovalResult.OK
    assert over.started + DELAY < over.at <= over.started + DELAY + 2 * LOOP
    assert deleted(story) == {"pool-2"}


def test_row_82_nodes_of_two_loops_go_in_one_call() -> None:
    story = make(pods=0, settings={"node-deletion-batcher-interval": "30s"})
    story.remove("pool-1", at=AT)
    story.remove("pool-2", at=AT + 15)
    assert len({over.at for over in story.ended()}) == 1
    assert story.writes("delete") == [(story.ended()[0].started + DELAY + 30, "delete", "pool", 3, 1)]


def test_row_82_a_refused_call_gives_all_of_its_nodes_back() -> None:
    refusal = {"kind": "refuse", "hook": "delete_instances", "error": "access_denied"}
    story = make(pods=0, faults=[refusal], settings={"node-deletion-batcher-interval": "30s"})
    story.remove("pool-1", at=AT)
    story.remove("pool-2", at=AT + 15)
    assert [over.result for over in story.ended()] == [RemovalResult.FAILED_TO_DELETE] * 2
    assert [record.outcome for record in story.result.audit] == ["refused"]
    assert all(is_as_before(story, name) for name in ("pool-1", "pool-2"))


def test_a_whole_group_goes_when_all_of_it_is_ready() -> None:
    story = Removing(POOL, {**POOL, "name": "rest", "size": 1}, minutes=20)
    story.pods(1, at=1, cpu="4", grace=60)
    story.remove("pool-0", "pool-1", "pool-2", at=AT, batch=3)
    assert [over.result for over in story.ended()] == [RemovalResult.OK] * 3
    ((at, *_, before, after),) = story.writes("delete")
    assert (before, after) == (3, 0)
    assert at == story.ended()[0].started + DELAY + 60


def test_row_81_one_node_of_a_whole_group_keeps_the_others() -> None:
    story = make(pods=0, minutes=30)
    story.pods(1, at=1, cpu="4", grace=60)
    story.simulation.api_server.refusals.append(Refusal(start=AT, end=AT + 10 * MINUTE))
    story.remove("pool-0", "pool-1", "pool-2", at=AT, batch=3)
    results = sorted(over.result for over in story.ended())
    assert results == [RemovalResult.FAILED_TO_DELETE, RemovalResult.FAILED_TO_DELETE, RemovalResult.FAILED_TO_EVICT]
    assert deleted(story) == set()
    assert all(is_as_before(story, name) for name in ("pool-0", "pool-1", "pool-2"))


@pytest.mark.parametrize("released", [30.0, None])
def test_row_80_somebody_delays_the_deletion_for_a_while(released: float | None) -> None:
    story = make(pods=0)
    change(story, "pool-2", AT - MINUTE, HELD)
    if released is not None:
        change(story, "pool-2", AT + released, {})
    story.remove("pool-2", at=AT)
    over = only(story)
    assert over.result == RemovalResult.OK
    if released is None:
        assert over.at == over.started + DELAY + 120
    else:
        assert AT + released <= over.at <= AT + released + DELAY


# Pause, budget, quarantine


def test_a_short_pause_is_waited_for() -> None:
    story = make()
    story.remove("pool-2", at=AT)
    story.simulation.pause(AT + 2, 100)
    over = only(story)
    assert over.result == RemovalResult.OK
    assert AT + 102 <= story.facts(What.POD_EVICTED)[0][0] <= AT + 102 + 2 * LOOP


def test_for_a_long_pause_the_node_is_given_back() -> None:
    story = make(minutes=60)
    story.remove("pool-2", at=AT)
    story.simulation.pause(AT + 2, 30 * MINUTE)
    over = only(story)
    assert (over.result, over.message) == (RemovalResult.INTERNAL, "writes to clouds are paused")
    assert is_as_before(story, "pool-2")


def test_during_a_pause_none_begins() -> None:
    story = make(minutes=60)
    story.simulation.pause(AT - 5, MINUTE)
    story.remove("pool-2", at=AT)
    assert story.ended() == []
    assert "1 planned writes wait" in story.events("Paused")[0][1]


def test_removals_share_the_budget_of_deletions() -> None:
    story = make(settings={"max-deletions-per-window": 2})
    story.remove("pool-0", "pool-1", "pool-2", at=AT)
    assert deleted(story) == {"pool-0", "pool-1"}
    ((_, message),) = story.events("DeletionBudgetExhausted")
    assert message.startswith("1 machines of group fake/pool are not deleted")


def test_what_was_given_back_is_not_charged() -> None:
    story = make(settings={"max-deletions-per-window": 1})
    story.remove("pool-2", at=AT, empty=True)
    story.remove("pool-1", at=AT + MINUTE)
    assert [over.result for over in story.ended()] == [RemovalResult.INTERNAL, RemovalResult.OK]


def test_a_zero_or_max_group_goes_as_a_whole_or_not_at_all() -> None:
    story = make(pods=0, settings={"max-empty-deletions-per-window": 2}, group={**POOL, "size": 4})
    story.remove("pool-0", at=AT)
    story.remove("pool-1", "pool-2", "pool-3", at=AT + 3 * LOOP, batch=3)
    assert deleted(story) == {"pool-0"}


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_a_group_that_loses_more_than_was_asked_is_left_alone(profile: str) -> None:
    story = make(pods=0, settings={"profile": profile})
    story.remove("pool-2", at=AT)
    story.at(AT + 6, lambda: story.cloud.lose(story.node("pool-0").spec.provider_id))
    assert only(story).result == RemovalResult.OK
    told = [message for _, message in story.events("GroupQuarantined")]
    assert len(told) == (profile == "nodewright")
    assert all("pool-0" in message for message in told)


def test_a_group_that_loses_what_was_asked_is_trusted() -> None:
    story = make(pods=0)
    story.remove("pool-1", "pool-2", at=AT)
    assert len(story.ended()) == 2
    assert story.events("GroupQuarantined") == []


def vanish(story: Removing, name: str) -> None:
    """The cloud takes a machine away, and asks for none in its place."""
    pool = story.cloud.group("pool")
    del pool.machines[story.node(name).spec.provider_id]
    pool.seen = None


def test_a_machine_that_goes_late_for_a_target_that_fell_too_far_counts_too() -> None:
    """The call took two off the target, and the cloud makes up for it a minute after our machine has gone."""
    story = make(pods=0)
    story.remove("pool-2", at=AT)
    story.at(AT + 7, lambda: story.cloud.group("pool").set_target(1))
    story.at(AT + 70, lambda: vanish(story, "pool-0"))
    ((at, message),) = story.events("GroupQuarantined")
    assert AT + 70 <= at <= AT + 70 + LOOP
    assert "pool-0" in message


@pytest.mark.parametrize("after", [70, 301])
def test_whoever_deletes_a_machine_by_hand_does_not_look_like_that(after: float) -> None:
    """With its place in the group, or with a new one in its place; and it is not checked any more after five minutes."""
    story = make(pods=0, group={**POOL, "size": 4})
    story.remove("pool-2", at=AT)

    def delete() -> None:
        vanish(story, "pool-0")
        pool = story.cloud.group("pool")
        pool.set_target(pool.target - 1)

    story.at(AT + after, delete)
    story.at(AT + after + 30, lambda: story.cloud.lose(story.node("pool-1").spec.provider_id))
    assert story.events("GroupQuarantined") == []
    assert {"pool-0", "pool-1", "pool-2"} <= deleted(story)


def test_others_of_a_quarantined_group_are_called_off() -> None:
    story = make(pods=0, group={**POOL, "size": 4})
    story.pods(1, at=1, cpu="4", grace=300)
    story.remove("pool-0", "pool-3", at=AT)
    story.at(AT + 6, lambda: story.cloud.lose(story.node("pool-1").spec.provider_id))
    results = {over.removal.node: (over.result, over.message) for over in story.ended()}
    assert results["pool-3"] == (RemovalResult.OK, "")
    assert results["pool-0"] == (RemovalResult.INTERNAL, "its group is quarantined")
    assert is_as_before(story, "pool-0")


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_in_an_unhealthy_cluster_removals_stand_still(profile: str) -> None:
    """CA goes on with what it has begun."""
    unhealthy = {"ok-total-unready-count": 0, "max-total-unready-percentage": 10, "max-node-startup-time": "1m"}
    story = make(settings={"profile": profile, "node-delete-delay-after-taint": "20s", **unhealthy})
    story.remove("pool-2", at=AT)
    story.turn("pool-0", at=AT + 1, ready=False)
    story.turn("pool-0", at=AT + MINUTE, ready=True)
    assert only(story).result == RemovalResult.OK
    evicted = story.facts(What.POD_EVICTED)[0][0]
    assert evicted > AT + MINUTE if profile == "nodewright" else evicted < AT + MINUTE


def test_a_pause_that_cannot_be_read_is_one() -> None:
    story = make()
    story.remove("pool-2", at=AT)
    store = story.simulation.engine.store
    story.at(AT + 2, lambda: setattr(store, "unreadable", True))
    story.at(AT + MINUTE, lambda: setattr(store, "unreadable", False))
    assert only(story).result == RemovalResult.OK
    assert story.facts(What.POD_EVICTED)[0][0] >= AT + MINUTE
