"""The next step of a removal, without a cluster; times as in docs/behaviour/scale-down.md#carrying-out-removals."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.actuation.drain import (
    ActiveRemoval,
    EmitEvent,
    Evict,
    Finish,
    Step,
    after_eviction,
    after_unknown_deletion,
    begin_removal,
    make_waves,
    next_step,
    postponed,
    running_pods,
    sort_into,
)
from nodewright.actuation.ports import Eviction, EvictionAnswer, NodeView
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef
from nodewright.model.limits import parse_drain_priorities
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalResult, RemovalStage
from nodewright.model.settings import DrainSettings, PodSettings, RemovalSettings, Settings
from nodewright.snapshot.context import Workloads
from nodewright.testkit import build_node, build_pod
from nodewright.testkit.builders import build_budget

START = 1000.0
NODE = build_node("n", provider_id="cloud://n")
ACCEPTED = Eviction(answer=EvictionAnswer.ACCEPTED)
REFUSED = Eviction(answer=EvictionAnswer.REFUSED, message="budget")


def removal(*pods: Pod) -> NodeRemoval:
    return NodeRemoval(
        node="n",
        group=GroupRef("cloud", "g"),
        instance_id="cloud://n",
        reason=RemovalReason.UNDERUTILIZED if pods else RemovalReason.EMPTY,
        pods=tuple(pod.key for pod in pods),
    )


def settings(**drain: Any) -> RemovalSettings:
    return Settings(drain=DrainSettings(**drain)).removals


def pod(name: str, **rest: Any) -> Pod:
    return build_pod(name, node_name="n", **rest)


class Run:
    """One removal, stepped whenever it is due; ``answers`` is what the API server says of each pod's evictions."""

    def __init__(self, *pods: Pod, planned: Iterable[Pod] | None = None, **drain: Any) -> None:
        self.settings = settings(**drain)
        self.pods = list(pods)
        self.workloads = Workloads()
        self.node: Any = NODE
        self.now = START
        self.answers: Mapping[str, Eviction] = {}
        self.calls: list[tuple[float, str, int]] = []
        self.events: list[str] = []
        self.ended: Finish | None = None
        self.active = begin_removal(removal(*(pods if planned is None else planned)), NODE, START, self.settings)

    def leave(self, *names: str) -> None:
        self.pods = [held for held in self.pods if held.name not in names]

    def until(self, moment: float) -> "Run":
        """Everything that is due up to a moment."""
        while self.ended is None and self.active.next_at <= moment:
            self.now = max(self.now, self.active.next_at)
            view = NodeView(node=self.node, pods=tuple(self.pods), workloads=self.workloads)
            self.active, steps = next_step(self.active, view, self.now, self.settings)
            for step in steps:
                self._do(step)
        return self

    def _do(self, step: Step) -> None:
        match step:
            case EmitEvent():
                self.events.append(step.event.reason)
            case Finish():
                self.ended = step
            case Evict():
                self.calls.append((self.now - START, step.pod.name, step.grace_seconds))
                answer = self.answers.get(step.pod.name, ACCEPTED)
                self.active = after_eviction(self.active, step.pod.key, answer, self.now)


def test_nothing_before_the_delay_after_the_taint() -> None:
    run = Run(pod("a"))
    assert run.until(START + 4.9).calls == []
    assert run.until(START + 5).calls == [(5.0, "a", 30)]
    assert run.active.stage == RemovalStage.DRAINING


def test_an_empty_node_is_ready_at_once() -> None:
    run = Run().until(START + 5)
    assert run.active.is_ready
    assert run.active.ready_at == START + 5


@pytest.mark.parametrize(
    ("own", "flag", "expected"), [(3600, 600, 600), (10, 600, 10), (None, 600, 30), (None, 20, 20), (90, 0, 90)]
)
def test_grace_is_the_pods_own_within_the_flag(own: int | None, flag: int, expected: int) -> None:
    patient = pod("a")
    patient = replace(patient, spec=replace(patient.spec, termination_grace_period_seconds=own))
    assert Run(patient, max_graceful_termination_sec=flag).until(START + 5).calls == [(5.0, "a", expected)]


def test_row_75_a_pod_that_does_not_end_is_awaited_for_its_groups_grace_and_30_seconds() -> None:
    patient = pod("a", grace_seconds=3600)
    run = Run(patient, max_graceful_termination_sec=600).until(START + 5 + 629)
    assert run.calls == [(5.0, "a", 600)]
    assert run.active.stage == RemovalStage.DRAINING
    run.until(START + 1000)
    assert run.now == START + 5 + 630
    assert run.ended is not None
    assert run.ended.result == RemovalResult.FAILED_TO_EVICT


def test_it_goes_on_within_five_seconds_of_the_last_pods_end() -> None:
    run = Run(pod("a"), pod("b")).until(START + 12)
    run.leave("a")
    run.until(START + 20)
    run.leave("b")
    run.until(START + 25)
    assert run.active.is_ready
    assert run.active.ready_at == START + 25
    assert run.active.evicted == ("default/a", "default/b")


def test_row_79_a_refused_eviction_is_tried_twelve_times_in_two_minutes() -> None:
    run = Run(pod("a"), pod("b"))
    run.answers = {"b": REFUSED}
    run.until(START + 200)
    assert [call[0] for call in run.calls if call[1] == "a"] == [5.0]
    assert [call[0] for call in run.calls if call[1] == "b"] == [5.0 + 10 * n for n in range(12)]
    assert run.now == START + 125
    assert run.ended is not None
    assert run.ended.result == RemovalResult.FAILED_TO_EVICT
    assert run.active.evicted == ("default/a",)  # it stays evicted
    assert run.events.count("ScaleDownFailed") == 1


def test_row_119_without_time_for_evictions_there_is_one_attempt() -> None:
    run = Run(pod("a"), max_pod_eviction_time=0.0)
    run.answers = {"a": REFUSED}
    run.until(START + 200)
    assert [call[0] for call in run.calls] == [5.0]
    assert run.ended is not None
    assert run.ended.result == RemovalResult.FAILED_TO_EVICT


def test_a_server_that_asks_for_patience_gets_it() -> None:
    run = Run(pod("a"))
    run.answers = {"a": replace(REFUSED, retry_after=40.0)}
    run.until(START + 60)
    assert [call[0] for call in run.calls] == [5.0, 45.0]


def test_a_pod_that_is_gone_by_itself_needs_no_eviction() -> None:
    run = Run(pod("a"), pod("b"))
    run.answers = {"a": REFUSED, "b": REFUSED}
    run.until(START + 6)
    run.leave("a", "b")
    run.until(START + 15)
    assert run.active.is_ready


def test_row_77_a_daemons_pod_gets_the_call_and_is_not_awaited() -> None:
    run = Run(pod("a"), pod("d", owner=("DaemonSet", "ds"))).until(START + 6)
    assert {call[1] for call in run.calls} == {"a", "d"}
    run.leave("a")
    assert run.until(START + 10).active.is_ready


def test_a_daemons_pod_that_cannot_be_evicted_holds_the_step_up_but_does_not_stop_it() -> None:
    run = Run(pod("a"), pod("d", owner=("DaemonSet", "ds")))
    run.answers = {"d": REFUSED}
    run.until(START + 6)
    run.leave("a")
    run.until(START + 124)
    assert not run.active.is_ready
    assert run.until(START + 125).active.is_ready
    assert run.ended is None


def test_row_77_with_priorities_configured_daemons_are_awaited_too() -> None:
    run = Run(pod("a"), pod("d", owner=("DaemonSet", "ds")), drain_priority_config="0:60").until(START + 6)
    run.leave("a")
    assert not run.until(START + 60).active.is_ready
    run.leave("d")
    assert run.until(START + 65).active.is_ready


def test_each_priority_group_is_gone_before_the_next_is_told() -> None:
    low, middle, high = pod("low", priority=-5), pod("middle", priority=500), pod("high", priority=2_000_000_000)
    run = Run(high, low, middle, drain_priority_config="0:60,1000:10").until(START + 20)
    assert run.calls == [(5.0, "low", 30), (5.0, "middle", 30)]
    run.leave("low", "middle")
    run.until(START + 30)
    assert run.calls[2:] == [(25.0, "high", 10)]


def test_row_55_on_completion_pods_keep_an_empty_node_and_are_evicted_from_another() -> None:
    """down.md C 55."""
    waits = pod("w", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion"})
    empty = Run(waits, planned=()).until(START + 5)
    assert empty.ended is not None
    assert empty.ended.result == RemovalResult.INTERNAL
    drained = Run(pod("a"), waits).until(START + 5)
    assert {call[1] for call in drained.calls} == {"a", "w"}


def test_who_came_since_was_promised_no_place() -> None:
    """Where the plan says where each pod goes. CA evicts all pods that are there."""
    first, late = pod("a"), pod("late")
    along = Run(first, late, planned=[first]).until(START + 5)
    assert {call[1] for call in along.calls} == {"a", "late"}
    run = Run(first, late, planned=[first])
    run.active = replace(run.active, removal=replace(run.active.removal, places=("n-2",)))
    run.until(START + 5)
    assert run.ended == Finish(
        result=RemovalResult.INTERNAL, message=f"new pods run on the node, for example {late.key}"
    )
    assert not run.calls


def test_pods_are_evicted_in_the_order_of_the_plan() -> None:
    first, second = pod("a"), pod("b")
    run = Run(second, first, planned=[first, second])
    run.active = replace(run.active, removal=replace(run.active.removal, places=("n-2", "n-3")))
    run.until(START + 5)
    assert [call[1] for call in run.calls] == ["a", "b"]


def test_todays_budgets_decide_not_those_of_the_plan() -> None:
    run = Run(pod("a"))
    run.workloads = Workloads(budgets=(build_budget("pdb", 0),))
    run.until(START + 5)
    assert run.ended is not None
    assert run.ended.result == RemovalResult.INTERNAL
    assert run.ended.message.startswith("pod default/a blocks the removal: ")
    assert run.calls == []


def test_another_machine_under_the_same_name_is_let_be() -> None:
    run = Run()
    run.node = build_node("n", provider_id="cloud://another")
    run.until(START + 5)
    assert run.ended is not None
    assert run.ended.message == "the node is another machine now: cloud://another"


def test_a_node_that_is_gone_ends_its_removal() -> None:
    run = Run(pod("a")).until(START + 6)
    run.node = None
    run.until(START + 10)
    assert run.ended is not None
    assert (run.ended.result, run.ended.message) == (RemovalResult.INTERNAL, "the node is gone")


def test_after_a_call_without_an_answer_the_nodes_end_is_awaited() -> None:
    run = Run().until(START + 5)
    run.active = after_unknown_deletion(run.active, START + 6)
    run.until(START + 100)
    assert run.ended is None
    run.node = None
    run.until(START + 106)
    assert run.ended == Finish(result=RemovalResult.OK)


def test_a_node_that_is_still_there_after_five_minutes_is_given_back() -> None:
    run = Run().until(START + 5)
    run.active = after_unknown_deletion(run.active, START + 6)
    run.until(START + 1000)
    assert run.now == START + 306
    assert run.ended is not None
    assert run.ended.result == RemovalResult.FAILED_TO_DELETE


def test_time_may_stand_still() -> None:
    run = Run(pod("a"))
    run.answers = {"a": REFUSED}
    run.until(START + 60)
    run.active = postponed(run.active, 500)
    run.until(START + 624)
    assert run.ended is None
    assert run.until(START + 625).ended is not None


def test_a_hold_that_came_after_the_taint_does_not_count() -> None:
    """CA looks at the node as it was when the removal began."""
    run = Run()
    held = {"delay-deletion.cluster-autoscaler.kubernetes.io/x": ""}
    run.node = replace(NODE, metadata=replace(NODE.metadata, annotations=held))
    assert run.until(START + 5).active.is_ready


def test_holds_may_be_ignored() -> None:
    held = {"delay-deletion.cluster-autoscaler.kubernetes.io/x": ""}
    node = replace(NODE, metadata=replace(NODE.metadata, annotations=held))
    assert begin_removal(removal(), node, START, settings()).may_be_delayed
    assert not begin_removal(removal(), node, START, settings(node_deletion_delay_timeout=0)).may_be_delayed


def test_the_first_question_is_asked_before_anything_is_due() -> None:
    active: ActiveRemoval = begin_removal(removal(), NODE, START, settings())
    assert next_step(active, NodeView(node=NODE), START, settings()) == (active, ())


# Waves


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
