"""The parts of removals: which pods, in which order, in which call, and the marks on nodes."""

from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.actuation.actuator import find_batches
from nodewright.actuation.drain import ActiveRemoval, make_waves, running_pods, sort_into
from nodewright.actuation.taints import (
    CORDONED_ANNOTATION,
    with_candidate_taint,
    with_deletion_taint,
    without_candidate_taint,
    without_deletion_taint,
)
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef
from nodewright.model.limits import parse_drain_priorities
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalStage
from nodewright.model.settings import DrainSettings, PodSettings
from nodewright.testkit import build_node, build_pod, build_taint

WISH = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
DAEMON: dict[str, Any] = {"owner": ("DaemonSet", "ds")}


def test_row_76_pods_belong_to_the_highest_rank_that_they_reach() -> None:
    """down.md C 76."""
    ranks = parse_drain_priorities("1000:30,0:60")
    pods = [build_pod(str(n), priority=n) for n in (500, -5, 1000, 2_000_000_000)] + [build_pod("none")]
    sorted_names = [(rank.grace_seconds, [pod.name for pod in members]) for rank, members in sort_into(ranks, pods)]
    assert sorted_names == [(60, ["500", "-5", "none"]), (30, ["1000", "2000000000"])]


@pytest.mark.parametrize("text", ["1000", "a:b", "0:30;1:30", "0:-1", "0:30,"])
def test_what_is_no_rank_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form priority:seconds"):
        parse_drain_priorities(text)


def evicted(*pods: Any, is_empty: bool = False, **drain: Any) -> tuple[set[str], set[str]]:
    """Pods that are awaited, and those that only get the call."""
    waves = make_waves(pods, DrainSettings(**drain), is_empty=is_empty)
    full = {pod.rpartition("/")[2] for wave in waves for pod in wave.full}
    return full, {pod.rpartition("/")[2] for wave in waves for pod in wave.best_effort}


def test_daemons_follow_the_flag_unless_they_say_otherwise() -> None:
    plain = build_pod("plain", **DAEMON)
    yes, no = (build_pod(wish, annotations={WISH: wish}, **DAEMON) for wish in ("true", "no"))
    assert evicted(plain, yes, no) == (set(), {"plain", "true"})
    assert evicted(plain, yes, no, daemonset_eviction_for_occupied_nodes=False) == (set(), {"true"})
    assert evicted(plain, yes, no, is_empty=True) == (set(), {"true"})
    assert evicted(plain, yes, no, is_empty=True, daemonset_eviction_for_empty_nodes=True) == (set(), {"plain", "true"})


def test_mirror_and_fake_pods_are_let_be() -> None:
    mirror = build_pod("mirror", annotations={"kubernetes.io/config.mirror": ""})
    fake = build_pod("fake", annotations={"podtype": "fakepod"})
    assert evicted(mirror, fake, build_pod("real")) == ({"real"}, set())


def test_expendable_and_ended_pods_are_missed_by_nobody() -> None:
    ended = build_pod("ended")
    ended = replace(ended, status=replace(ended.status, phase="Succeeded"))
    pods = [build_pod("cheap", priority=-11), build_pod("edge", priority=-10), ended]
    assert [pod.name for pod in running_pods(pods, PodSettings())] == ["edge"]


# Marks


def test_a_node_is_marked_and_given_back_as_it_was() -> None:
    node = build_node("n")
    marked = with_deletion_taint(node, 1234.9, cordon=True)
    assert [(t.key, t.value, t.effect) for t in marked.spec.taints] == [(TO_BE_DELETED_TAINT, "1234", "NoSchedule")]
    assert marked.spec.unschedulable
    assert without_deletion_taint(marked, uncordon=True, force_uncordon=False) == node


def test_without_the_flag_nothing_is_cordoned() -> None:
    marked = with_deletion_taint(build_node("n"), 1.0, cordon=False)
    assert not marked.spec.unschedulable
    assert CORDONED_ANNOTATION not in marked.metadata.annotations


def test_row_71_what_a_human_cordoned_stays_so_unless_as_in_ca() -> None:
    """down.md C 71."""
    node = build_node("n")
    node = replace(node, spec=replace(node.spec, unschedulable=True))
    marked = with_deletion_taint(node, 1.0, cordon=True)
    assert without_deletion_taint(marked, uncordon=True, force_uncordon=False) == node
    assert not without_deletion_taint(marked, uncordon=True, force_uncordon=True).spec.unschedulable


def test_row_72_a_mark_from_elsewhere_stays_as_it_is() -> None:
    """down.md C 72: it counts as success, nothing is cordoned, the old time is kept."""
    node = build_node("n", taints=[build_taint(TO_BE_DELETED_TAINT, "NoSchedule", "17")])
    assert with_deletion_taint(node, 1000.0, cordon=True) is node


def test_what_is_not_marked_is_not_touched() -> None:
    node = build_node("n")
    cordoned = replace(node, spec=replace(node.spec, unschedulable=True))
    assert without_deletion_taint(cordoned, uncordon=True, force_uncordon=True) is cordoned
    assert without_candidate_taint(node) is node


def test_a_soft_taint_keeps_its_time() -> None:
    once = with_candidate_taint(build_node("n"), 100.0)
    assert [(t.key, t.value, t.effect) for t in once.spec.taints] == [
        (DELETION_CANDIDATE_TAINT, "100", "PreferNoSchedule")
    ]
    assert with_candidate_taint(once, 200.0) is once
    assert without_candidate_taint(once) == build_node("n")


# Batches


def ready(name: str, at: float, *, group: str = "g", batch: int = 1) -> ActiveRemoval:
    removal = NodeRemoval(
        node=name, group=GroupRef("p", group), instance_id=name, reason=RemovalReason.EMPTY, batch=batch
    )
    return ActiveRemoval(removal=removal, stage=RemovalStage.READY, started=0.0, next_at=float("inf"), ready_at=at)


def batches(*going: ActiveRemoval, interval: float = 0.0) -> list[tuple[list[str], float]]:
    return [([held.name for held in batch.members], batch.due_at) for batch in find_batches(going, interval)]


def test_each_goes_by_itself_at_once() -> None:
    assert batches(ready("a", 5), ready("b", 7)) == [(["a"], 5), (["b"], 7)]


def test_the_first_waits_for_others_of_its_group() -> None:
    held = (ready("a", 5), ready("b", 20), ready("c", 8, group="other"))
    assert batches(*held, interval=30) == [(["a", "b"], 35), (["c"], 38)]


def test_a_whole_group_waits_until_it_is_complete() -> None:
    one, two = ready("a", 5, batch=2), ready("b", 9, batch=2)
    assert batches(one) == [(["a"], float("inf"))]
    assert batches(one, two) == [(["a", "b"], 9)]
    assert batches(one, two, interval=30) == [(["a", "b"], 39)]


def test_what_is_not_ready_is_in_no_batch() -> None:
    assert batches(replace(ready("a", 5), stage=RemovalStage.DELETING)) == []
