"""When loops and steps of removals fall, on virtual time."""

import math
from collections.abc import Callable

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.engine.daemon import BatchWindow, Daemon, Scope
from nodewright.engine.report import LoopReport
from nodewright.model.action import Done, IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.testkit import build_pod

GROWN = Done(action=IncreaseSize(group=GroupRef("p", "a"), expected_target=0, target=2), started=0.0, accepted=2)

WORDS = {Scope.ALL: "loop", Scope.KNOWN: "again", Scope.LOOK: "look"}


class Script:
    """Implements Engine and Alarm: each loop takes so long, and what happens is written down with its time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.told: list[tuple[str, float]] = []
        self.refused = False
        self.takes = 2.0
        self.growth: list[float] = []
        self.leaves_pods: list[float] = []
        self.window = BatchWindow(1.0, 5.0)
        self.steps: list[float] = []
        self.rings: list[float] = []
        self.urgent: list[float] = []
        self.deadlines: list[float] = []
        self._clock = clock

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport:
        started = self._clock.now()
        self.told.append((WORDS[scope], started))
        self._clock.sleep(self.takes)
        leaves_pods = round(started, 6) in self.leaves_pods
        grown = (GROWN,) * (self.growth.count(round(started, 6)) or leaves_pods)
        plan = Plan(scale_up=ScaleUpReport(awaiting=(build_pod("left"),) if leaves_pods else ()))
        wake_at = min((at for at in self.deadlines if at > started), default=math.inf)
        return LoopReport(started=started, finished=self._clock.now(), plan=plan, outcomes=grown, wake_at=wake_at)

    def next_loop_at(self, report: LoopReport) -> float:
        return report.finished if self.refused or report.plans_anew else report.started + 10

    def batch_window(self) -> BatchWindow:
        return self.window

    def next_step_at(self) -> float:
        return self.steps[0] if self.steps else math.inf

    def step_removals(self) -> None:
        self.told.append(("step", self._clock.now()))
        self.steps.pop(0)

    def take_urgent(self) -> bool:
        is_urgent = any(at <= self._clock.now() for at in self.urgent)
        self.urgent = [at for at in self.urgent if at > self._clock.now()]
        return is_urgent

    def wait(self, seconds: float) -> bool:
        ring = self.rings[0] if self.rings else math.inf
        if ring <= self._clock.now() + seconds:
            self._clock.advance_to(max(ring, self._clock.now()))
            self.rings = [later for later in self.rings if later > self._clock.now()]
            return True
        self._clock.sleep(seconds)
        return False


def run(
    prepare: Callable[[Script], None], until: float = 31.0, way: Callable[[Daemon], None] = Daemon.run
) -> list[tuple[str, float]]:
    clock = VirtualClock()
    script = Script(clock)
    prepare(script)
    reports: list[LoopReport] = []
    way(Daemon(script, clock, script, may_go_on=lambda: clock.now() < until, on_report=reports.append))
    assert len(reports) == sum(what != "step" for what, _ in script.told)
    return [(what, round(at, 6)) for what, at in script.told]


def test_a_loop_each_interval() -> None:
    assert run(lambda _: None) == [("loop", 0), ("loop", 10), ("loop", 20), ("loop", 30)]


def loops(told: list[tuple[str, float]]) -> list[float]:
    return [at for what, at in told if what == "loop"]


def test_a_pod_in_a_quiet_cluster_waits_no_longer_than_the_idle_second() -> None:
    assert loops(run(lambda script: script.rings.append(13.0), 20)) == [0, 10, 14]


def test_a_notice_of_an_interruption_waits_for_no_batch() -> None:
    def prepare(script: Script) -> None:
        script.rings, script.urgent = [12.5, 13.0], [13.0]

    assert loops(run(prepare, 20)) == [0, 10, 13]


def test_a_loop_waits_until_arrivals_pause() -> None:
    told = run(lambda script: script.rings.extend([3.0, 3.5, 4.4, 5.2]), 16)
    assert loops(told) == [0, 6.2]


def test_arrivals_without_a_pause_wait_no_longer_than_the_longest_batch() -> None:
    told = run(lambda script: script.rings.extend(3.0 + 0.5 * number for number in range(60)), 20)
    # 3 s: the first arrival. A loop takes 2 s; those that came meanwhile open the next batch when it ends.
    assert loops(told) == [0, 8, 15]


@pytest.mark.parametrize(("writes", "ends"), [(1, 5.2), (2, 8.0), (3, 10.2), (30, 10.2)])
def test_a_batch_without_a_pause_lasts_longer_after_many_requests_but_at_most_twice_as_long(
    writes: int, ends: float
) -> None:
    """Four seconds for each request since that loop began, which gathers pods from 0.2 s on."""

    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.growth.extend([0] * writes)
        script.rings.extend(0.1 + 0.1 * number for number in range(300))

    told = run(prepare, 12)
    assert next(at for what, at in told if what == "loop" and at) == ends


def test_many_requests_at_once_make_no_batch_longer_that_comes_long_after_them() -> None:
    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.growth.extend([0] * 100)
        script.rings.extend(61.0 + 0.5 * number for number in range(60))

    assert loops(run(prepare, 73))[-3:] == [51.2, 66, 71.5]


def test_many_requests_do_not_hold_up_pods_whose_arrival_pauses() -> None:
    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.growth.extend([0] * 30)
        script.rings.append(2.0)

    assert loops(run(prepare, 4)) == [0, 1.2, 3]


def test_a_batch_that_is_open_when_the_scan_interval_ends_is_gathered_whole() -> None:
    told = run(lambda script: script.rings.extend([9.5, 10.2, 10.9]), 20)
    assert loops(told) == [0, 11.9]


def test_pods_that_arrive_during_a_loop_start_the_next_one() -> None:
    assert loops(run(lambda script: script.rings.append(1.0), 11))[:2] == [0, 3]


def test_a_loop_that_follows_a_refusal_waits_for_no_batch() -> None:
    def refuse(script: Script) -> None:
        script.refused = True
        script.rings.append(1.0)

    assert loops(run(refuse, 5)) == [0, 2, 4]


def test_without_a_window_a_ring_starts_a_loop_at_once() -> None:
    def prepare(script: Script) -> None:
        script.window = BatchWindow(0.0, 0.0)
        script.rings.append(13.0)

    assert loops(run(prepare, 20)) == [0, 10, 13]


def test_removals_go_on_while_a_batch_is_gathered() -> None:
    def prepare(script: Script) -> None:
        script.rings.extend([3.0, 3.8, 4.6])
        script.steps.extend([3.5, 4.5])

    assert run(prepare, 6) == [("loop", 0), ("step", 3.5), ("step", 4.5), ("loop", 5.6)]


def test_after_a_refusal_the_next_loop_is_at_once() -> None:
    def refuse(script: Script) -> None:
        script.refused = True

    assert run(refuse, 5) == [("loop", 0), ("loop", 2), ("loop", 4)]


def test_a_group_that_grew_is_looked_at_at_once_and_after_the_idle_second() -> None:
    """Its cloud may have told meanwhile that it has no machines. Pods that are left over are the later look's."""

    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.growth.append(10)

    assert run(prepare, 12) == [("loop", 0), ("loop", 10), ("look", 10.3), ("loop", 11.2)]


def test_pods_that_follow_growth_do_not_put_these_looks_off_and_are_gathered_as_others() -> None:
    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.growth.append(0)
        script.rings.extend(0.25 + 0.5 * number for number in range(60))

    assert run(prepare, 5.3) == [("loop", 0), ("look", 0.3), ("look", 1.2), ("loop", 5.25)]


def test_pods_that_come_during_a_long_look_are_left_to_their_batch_by_the_next() -> None:
    def prepare(script: Script) -> None:
        script.growth.append(0)
        script.rings.append(2.5)

    assert run(prepare, 8) == [("loop", 0), ("look", 2.1), ("look", 4.1), ("loop", 6.1)]


def test_a_batch_that_ends_during_a_look_is_planned_right_after_it() -> None:
    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.growth.append(0)
        script.rings.append(0.25)

    assert run(prepare, 1.5) == [("loop", 0), ("look", 0.3), ("look", 1.2), ("loop", 1.4)]


def test_growth_in_a_look_is_looked_at_too() -> None:
    def prepare(script: Script) -> None:
        script.takes = 0.2
        script.window = BatchWindow(1.0, 4.0)
        script.growth.extend([0, 0.3])
        script.rings.extend(0.25 + 0.5 * number for number in range(60))

    assert run(prepare, 4.3) == [("loop", 0), ("look", 0.3), ("look", 0.6), ("look", 1.5), ("loop", 4.25)]


def test_pods_that_come_while_others_are_planned_anew_form_a_batch_of_their_own() -> None:
    def prepare(script: Script) -> None:
        script.leaves_pods.extend([0, 2])
        script.rings.extend([1.0, 3.5])

    # Those that rang within the second loop end the batch that the first has opened a second later.
    assert run(prepare, 9) == [("loop", 0), ("again", 2), ("again", 4), ("loop", 6)]


def test_a_batch_that_is_over_is_planned_with_the_pods_that_are_left() -> None:
    def prepare(script: Script) -> None:
        script.leaves_pods.extend([0, 2, 4])
        script.rings.append(1.0)

    assert run(prepare, 6) == [("loop", 0), ("again", 2), ("loop", 4)]


def test_without_a_window_all_pods_are_planned_anew() -> None:
    def prepare(script: Script) -> None:
        script.window = BatchWindow(0.0, 0.0)
        script.leaves_pods.append(0)
        script.rings.append(1.0)

    assert run(prepare, 4) == [("loop", 0), ("loop", 2)]


def test_without_a_window_growth_alone_starts_no_loop() -> None:
    def prepare(script: Script) -> None:
        script.window = BatchWindow(0.0, 0.0)
        script.growth.append(0)

    assert loops(run(prepare, 12)) == [0, 10]


def test_steps_of_removals_are_taken_when_they_are_due() -> None:
    told = run(lambda script: script.steps.extend([4.0, 4.0, 12.0, 25.0]))
    steps = [at for what, at in told if what == "step"]
    assert steps == [4.0, 4.0, 12.0, 25.0]
    assert [at for what, at in told if what == "loop"] == [0, 10, 20, 30]


def test_one_loop_finishes_what_it_began() -> None:
    def remove(script: Script) -> None:
        script.steps.extend([4.0, 12.0, 25.0])
        script.rings.append(13.0)

    assert run(remove, way=Daemon.run_one) == [("loop", 0), ("step", 4.0), ("step", 12.0), ("step", 25.0)]
    assert run(remove, 5, way=Daemon.run_one) == [("loop", 0), ("step", 4.0)]
    assert run(lambda _: None, 0, way=Daemon.run_one) == []


def test_nothing_begins_once_it_may_not() -> None:
    told = run(lambda script: script.steps.extend([3.0, 4.0]), 3.5)
    assert told == [("loop", 0), ("step", 3.0)]


def test_a_deadline_starts_a_loop() -> None:
    assert loops(run(lambda script: script.deadlines.append(13.5), 24)) == [0, 10, 13.5, 23.5]


def test_a_deadline_that_passes_during_a_loop_starts_the_next_at_once() -> None:
    assert loops(run(lambda script: script.deadlines.append(11.0), 13)) == [0, 10, 12]


def test_a_deadline_does_not_wait_for_a_batch() -> None:
    def prepare(script: Script) -> None:
        script.deadlines.append(4.0)
        script.rings.extend(2.5 + 0.5 * number for number in range(60))

    assert loops(run(prepare, 5)) == [0, 4]


def test_a_deadline_leaves_a_shorter_batch_alone() -> None:
    def prepare(script: Script) -> None:
        script.deadlines.append(9.0)
        script.rings.append(3.0)

    assert loops(run(prepare, 5)) == [0, 4]


def test_growth_does_not_put_a_deadline_off() -> None:
    def prepare(script: Script) -> None:
        script.growth.append(0)
        script.deadlines.append(2.05)

    assert loops(run(prepare, 3)) == [0, 2.05]
