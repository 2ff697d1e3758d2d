"""How long pods wait for a decision and until they run, and how long it takes until another group takes over."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from nodewright.adapters.metrics.waits import RunningWaits, WaitMetrics
from nodewright.clusterstate.memory import Backoff
from nodewright.engine.report import LoopReport
from nodewright.model.action import Done, Failed, IncreaseSize
from nodewright.model.plan import Expansion, Plan, ScaleUpReport
from nodewright.model.pod import Pod, SchedulingGate
from nodewright.model.reason import Unhelped
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World, ref


class Loops:
    """Loops ten seconds apart; groups ``a`` and ``b`` are there."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = WaitMetrics(self.registry)
        self.now = NOW
        self.backoffs: dict[str, Backoff] = {}
        self.run()

    def run(
        self, pods: Sequence[Pod] = (), plan: Plan | None = None, *outcomes: Done | Failed, waits: bool = True
    ) -> None:
        self.now += 10
        world = World()
        world.now = self.now
        for name in ("a", "b"):
            world.add_group(name)
        state = world.state()
        groups = {one: replace(group, backoff=self.backoffs.get(one.group_id)) for one, group in state.groups.items()}
        state = replace(state, groups=groups)
        report = LoopReport(
            started=self.now, finished=self.now + 1, state=state, plan=plan or Plan(), outcomes=outcomes
        )
        self.metrics.observe(report, [(pod, waits) for pod in pods])

    def read(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"nodewright_{name}")


def plan_for(pod: Pod, *groups: str) -> Plan:
    expansions = tuple(Expansion(group=ref(name), current=0, target=1, maximum=9) for name in groups)
    return Plan(scale_up=ScaleUpReport(expansions=expansions, triggered=(pod,)))


def unhelped(pod: Pod) -> Plan:
    return Plan(scale_up=ScaleUpReport(unhelped=(Unhelped(pod=pod, reasons={}),)))


def grown(name: str, at: float) -> Done:
    return Done(action=IncreaseSize(group=ref(name), expected_target=0, target=1), started=at, accepted=1)


def refused(name: str, at: float, retry_after: float | None = None) -> Failed:
    action = IncreaseSize(group=ref(name), expected_target=0, target=1)
    return Failed(action=action, started=at, code="sold-out", message="", retry_after=retry_after)


def test_a_pod_is_counted_once_when_its_machine_is_asked_for() -> None:
    loops, pod = Loops(), build_pod("p", created_at=NOW + 13)
    loops.run([pod], plan_for(pod, "a"), grown("a", NOW + 20))
    assert loops.read("pod_decision_seconds_sum") == 8
    loops.run([pod], Plan(fitting=(pod,)))
    assert loops.read("pod_decision_seconds_count") == 1
    assert loops.read("longest_undecided_seconds") == 0


def test_a_refused_increase_is_no_machine_and_neither_is_half_a_mix() -> None:
    loops, pod = Loops(), build_pod("p", created_at=NOW + 20)
    loops.run([pod], plan_for(pod, "a", "b"), grown("a", NOW + 20), refused("b", NOW + 20))
    assert loops.read("pod_decision_seconds_count") == 0
    loops.run([pod], Plan())
    assert loops.read("longest_undecided_seconds") == 10


def test_time_in_which_no_group_would_help_does_not_count_and_neither_do_gates() -> None:
    loops, pod = Loops(), build_pod("p", created_at=NOW - 3600)
    loops.run([pod], unhelped(pod))
    loops.run([pod], plan_for(pod, "a"), grown("a", NOW + 30))
    assert loops.read("pod_decision_seconds_sum") == 11
    gated = build_pod("g", created_at=NOW - 3600, unschedulable=False)
    held = msgspec.structs.replace(gated.spec, scheduling_gates=(SchedulingGate(name="quota"),))
    loops.run([msgspec.structs.replace(gated, spec=held)], waits=False)
    loops.run([gated], plan_for(gated, "a"), grown("a", NOW + 50))
    assert loops.read("pod_decision_seconds_sum") == 22


def test_pods_of_a_gang_that_no_group_helps_are_decided() -> None:
    loops, ordinary, member = Loops(), build_pod("ordinary"), build_pod("member")
    plan = Plan(scale_up=unhelped(ordinary).scale_up, salvo=(unhelped(member).scale_up,))
    for _ in range(3):
        loops.run([ordinary, member], plan)
    assert loops.read("longest_undecided_seconds") == 0
    loops.run([member], Plan(scale_up=unhelped(member).scale_up, salvo=(plan_for(member, "a").scale_up,)))
    loops.run([member], Plan(scale_up=unhelped(member).scale_up, salvo=(plan_for(member, "a").scale_up,)))
    assert loops.read("longest_undecided_seconds") == 20


def test_a_new_leader_does_not_count_pods_that_had_their_machines_before() -> None:
    pod, fresh = build_pod("p", created_at=NOW - 300), build_pod("q", created_at=NOW - 5)
    registry = CollectorRegistry()
    metrics = WaitMetrics(registry)
    plan = replace(plan_for(fresh, "a"), fitting=(pod,))
    first = LoopReport(started=NOW, finished=NOW, state=World().state(), plan=plan, outcomes=(grown("a", NOW),))
    for report in (first, replace(first, outcomes=(), plan=Plan(fitting=(pod, fresh)))):
        metrics.observe(report, [(pod, True), (fresh, True)])
    assert registry.get_sample_value("nodewright_pod_decision_seconds_sum") == 5
    assert registry.get_sample_value("nodewright_pod_decision_seconds_count") == 1


@pytest.mark.parametrize(("retry_after", "count"), [(None, 1), (30.0, 0)])
def test_the_time_from_a_refusal_to_the_next_group(retry_after: float | None, count: int) -> None:
    """A busy cloud has not failed."""
    loops, pod = Loops(), build_pod("p", created_at=NOW + 20)
    loops.run([pod], plan_for(pod, "a"), refused("a", NOW + 20, retry_after))
    loops.run([pod], plan_for(pod, "b"), grown("b", NOW + 27))
    assert loops.read("failover_seconds_count") == count
    assert loops.read("failover_seconds_sum") == 7 * count


def test_the_time_from_a_machine_that_failed_to_the_next_group() -> None:
    loops, pod = Loops(), build_pod("p", created_at=NOW + 20)
    loops.run([pod], plan_for(pod, "a"), grown("a", NOW + 20))
    loops.backoffs = {"a": Backoff(until=NOW + 300, duration=300, last_failure=NOW + 28)}
    loops.run([pod], plan_for(pod, "b"), grown("b", NOW + 30))
    assert loops.read("failover_seconds_sum") == 2
    loops.run([pod], plan_for(pod, "b"), grown("b", NOW + 40))
    assert loops.read("failover_seconds_count") == 1


def test_a_failure_is_over_when_its_group_grows_again_or_no_pod_lacks_room() -> None:
    loops, pod = Loops(), build_pod("p", created_at=NOW + 20)
    loops.run([pod], plan_for(pod, "a"), refused("a", NOW + 20))
    loops.run([pod], plan_for(pod, "a"), grown("a", NOW + 30))
    loops.run([pod], plan_for(pod, "b"), refused("b", NOW + 40))
    loops.run()
    loops.run([pod], plan_for(pod, "a"), grown("a", NOW + 60))
    assert loops.read("failover_seconds_count") == 0


def test_a_pod_that_waited_is_counted_when_it_runs() -> None:
    waits, registry = RunningWaits(), CollectorRegistry()
    registry.register(waits.histogram)
    pod = build_pod("p", created_at=NOW)
    bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n"))
    runs = msgspec.structs.replace(bound, status=msgspec.structs.replace(pod.status, phase="Running", conditions=()))
    waits.see(runs, NOW + 5, leads=True)  # it never waited
    for at, seen in enumerate((pod, bound, runs, runs)):
        waits.see(seen, NOW + 10 * at, leads=True)
    assert registry.get_sample_value("nodewright_pod_running_seconds_count") == 1
    assert registry.get_sample_value("nodewright_pod_running_seconds_sum") == 20


def test_only_the_leader_counts_pods_that_run_also_those_that_it_saw_before_it_led() -> None:
    waits, registry = RunningWaits(), CollectorRegistry()
    registry.register(waits.histogram)
    for name, leads in (("a", False), ("b", True)):
        pod = build_pod(name, created_at=NOW)
        spec = msgspec.structs.replace(pod.spec, node_name="n")
        status = msgspec.structs.replace(pod.status, phase="Running", conditions=())
        waits.see(pod, NOW, leads=False)
        waits.see(msgspec.structs.replace(pod, spec=spec, status=status), NOW + 30, leads=leads)
    assert registry.get_sample_value("nodewright_pod_running_seconds_count") == 1
    assert registry.get_sample_value("nodewright_pod_running_seconds_sum") == 30
