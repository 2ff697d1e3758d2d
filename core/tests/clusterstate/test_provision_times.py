"""Provision times learned from arrivals: the rules over any history, and the one place where they enter."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import ArrivalHistory, Awaited
from nodewright.clusterstate.provision_times import MARGIN, after_timeout, learned_deadline, observe_arrivals
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import Done, IncreaseSize, Outcome
from nodewright.model.group import FailedInstance, GroupOptions, Instance
from nodewright.model.node import Taint
from nodewright.model.settings import FailureSettings, Settings
from nodewright.testkit.builders import build_node
from nodewright.testkit.world import World, ref

G = ref("g")


DAY = 86_400.0


AUTO = FailureSettings(max_node_provision_time="auto")


# Bounds out of the way, where only the statistic is of interest.
WIDE = FailureSettings(
    max_node_provision_time="auto", min_learned_provision_time=0.0, max_learned_provision_time=10 * DAY
)


class Group:
    """A group whose machines come as told, one increase after the other."""

    def __init__(self, settings: FailureSettings = WIDE) -> None:
        self.settings = settings
        self.history = ArrivalHistory()
        self.now = 0.0

    def deadline(self) -> float | None:
        return learned_deadline(self.history, self.settings, self.now)

    def scale_up(self, *seconds: float) -> None:
        """An increase all of whose machines come after so long each; the next one is a moment later."""
        asked, left = self.now, len(seconds)
        self.look(0, left, Awaited(asked, left))
        for one in sorted(seconds):
            self.now, left = asked + one, left - 1
            self.look(1, left)
        self.now += 60.0

    def look(self, arrived: int, outstanding: int, *asked: Awaited) -> None:
        self.history = observe_arrivals(self.history, asked, arrived, outstanding, self.settings, self.now)


def taught(*seconds: float, settings: FailureSettings = WIDE) -> Group:
    """A group that knows as much as these three increases of ten taught it."""
    group = Group(settings)
    for _ in range(3):
        group.scale_up(*(seconds or (100.0,)) * (10 // len(seconds or (100.0,))))
    return group


TIMES = st.lists(st.floats(1.0, 5000.0), min_size=10, max_size=12)


def test_thirty_arrivals_in_three_increases_are_enough_and_fewer_are_not() -> None:
    group = Group()
    for machines in (10, 10, 9):
        group.scale_up(*[100.0] * machines)
    assert group.deadline() is None, "29 arrivals"
    group.scale_up(100.0)
    assert group.deadline() is not None
    single = Group()
    single.scale_up(*[100.0] * 40)
    single.scale_up(*[100.0] * 40)
    assert single.deadline() is None, "two increases"


@given(st.lists(TIMES, min_size=3, max_size=6))
def test_the_deadline_is_the_99th_percentile_with_a_margin_to_a_tenth(increases: list[list[float]]) -> None:
    group = Group()
    for seconds in increases:
        group.scale_up(*seconds)
        if group.deadline() is not None:
            group.history = replace_held(group.history)
    ranked = sorted(second for seconds in increases for second in seconds)
    exact = ranked[math.ceil(len(ranked) * 0.99) - 1]
    deadline = group.deadline()
    assert deadline is not None
    assert MARGIN * exact - 1 <= deadline <= MARGIN * exact * 1.1 + 1


def replace_held(history: ArrivalHistory) -> ArrivalHistory:
    """The history with nothing to fall from: what remains is the statistic."""
    return ArrivalHistory(
        awaited=history.awaited, scale_ups=history.scale_ups, recent=history.recent, before=history.before, held=0.001
    )


@given(st.lists(TIMES, min_size=3, max_size=6), st.floats(0, 5000), st.floats(0, 5000))
def test_it_stays_within_floor_and_ceiling(increases: list[list[float]], one: float, other: float) -> None:
    bounds = sorted((one, other))
    group = Group(
        FailureSettings(
            max_node_provision_time="auto", min_learned_provision_time=bounds[0], max_learned_provision_time=bounds[1]
        )
    )
    for seconds in increases:
        group.scale_up(*seconds)
        assert bounds[0] <= (group.deadline() or bounds[1]) <= bounds[1]
        group.history = after_timeout(group.history, group.settings, group.now)
        assert bounds[0] <= (group.deadline() or bounds[1]) <= bounds[1]


@given(st.lists(TIMES, min_size=1, max_size=12), st.lists(st.floats(0, DAY), min_size=12, max_size=12))
def test_it_never_falls_by_more_than_a_fifth_a_day(increases: list[list[float]], gaps: list[float]) -> None:
    group = taught(3000.0)
    for seconds, gap in zip(increases, gaps, strict=False):
        before, at = group.deadline(), group.now
        group.scale_up(*seconds)
        group.now += gap
        assert before is not None
        assert group.deadline() is not None
        assert group.deadline() >= (before - 1) * 0.8 ** ((group.now - at) / DAY) - 1e-6


def test_it_falls_by_a_fifth_a_day_to_what_is_usual_however_often_one_looks() -> None:
    group = taught(1000.0)
    deadlines = []
    for _ in range(4):
        for _ in range(48):
            asked = group.now
            group.scale_up(*[100.0] * 20)
            group.now = asked + 1800
        deadlines.append(group.deadline() or 0.0)
    assert deadlines[0] == pytest.approx(2500, rel=0.2), "slow arrivals are forgotten only with the window"
    assert [late / early for early, late in pairwise(deadlines[1:])] == pytest.approx([0.8, 0.8], abs=0.01)
    group.now += 10 * DAY
    assert group.deadline() == pytest.approx(250, rel=0.1)


def test_it_rises_at_once() -> None:
    group = taught(100.0)
    group.scale_up(*[400.0] * 10)
    assert group.deadline() == pytest.approx(1000, rel=0.1)


def test_a_machine_that_came_late_counts_with_all_the_time_it_took() -> None:
    group = taught(100.0)
    asked = group.now
    group.look(0, 1, Awaited(asked, 1))
    group.now = asked + 900
    group.history = after_timeout(group.history, group.settings, group.now)
    group.look(0, 1)
    group.now = asked + 2000
    group.look(1, 0)
    assert group.history.recent[-1].step == math.ceil(math.log(2000) / math.log(1.1))


def test_what_was_withdrawn_is_awaited_no_longer() -> None:
    group = taught(100.0)
    asked = group.now
    group.look(0, 2, Awaited(asked, 2))
    group.now += 900
    group.look(0, 0)
    group.look(0, 1, Awaited(group.now, 1))
    assert group.history.awaited == (Awaited(group.now, 1),)


def test_what_came_after_the_clock_was_set_back_teaches_nothing() -> None:
    group = taught(100.0)
    before = group.history
    group.look(0, 1, Awaited(group.now, 1))
    group.now -= 3600
    group.look(1, 0)
    assert (group.history.recent, group.history.awaited) == (before.recent, ())


def test_a_timeout_doubles_it_up_to_the_ceiling() -> None:
    group = taught(100.0, settings=AUTO)
    first = group.deadline()
    assert first is not None
    group.history = after_timeout(group.history, AUTO, group.now)
    assert group.deadline() == pytest.approx(2 * first, abs=1)
    for _ in range(5):
        group.history = after_timeout(group.history, AUTO, group.now)
    assert group.deadline() == AUTO.max_learned_provision_time


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 40), st.integers(0, 40), st.integers(0, 90)), max_size=60))
def test_whatever_is_seen_the_memory_is_bounded_and_in_order(looks: list[tuple[float, int, int, int]]) -> None:
    group = Group(AUTO)
    for gap, asked, arrived, outstanding in looks:
        group.now += gap
        group.look(arrived, outstanding, Awaited(group.now, asked))
        history = group.history
        assert len(history.awaited) <= 32
        assert sum(machines for _, machines in history.awaited) <= outstanding
        moments = [asked for asked, _ in history.awaited]
        assert moments == sorted(moments)
        assert len(history.recent) + len(history.before) <= 400
        assert len(history.scale_ups) <= 3


def test_only_the_last_arrivals_count() -> None:
    group = taught(1000.0)
    for _ in range(110):
        group.scale_up(*[100.0] * 10)
    assert {step for step, _ in (*group.history.recent, *group.history.before)} == {49}


LONG_TAILS: dict[str, Callable[[Random], float]] = {
    "lognormal": lambda random: random.lognormvariate(math.log(60), 0.5),
    "long lognormal": lambda random: random.lognormvariate(math.log(60), 0.8),
    "pareto": lambda random: 45 * random.paretovariate(3),
    "some are five times as slow": lambda random: random.gauss(60, 8) * (5 if random.random() < 0.01 else 1),
}


@pytest.mark.parametrize("tail", LONG_TAILS)
def test_of_ten_thousand_slow_but_healthy_machines_one_in_a_thousand_is_given_up_at_most(tail: str) -> None:
    """The strictest reading: a machine that takes longer than the deadline is lost and never counted."""
    random, group, lost = Random(1), Group(AUTO), 0
    for _ in range(1000):
        deadline = group.deadline() or AUTO.ordinary_provision_seconds
        seconds = [LONG_TAILS[tail](random) for _ in range(10)]
        came = [one for one in seconds if one <= deadline]
        asked = group.now
        group.scale_up(*came)
        if len(came) < len(seconds):
            lost += len(seconds) - len(came)
            group.history = after_timeout(group.history, AUTO, asked + deadline)
        group.now = asked + 3600
    assert lost <= 10
    assert group.deadline() is not None


# In the fold


class Cloud:
    """A world with one group whose machines are set by hand, folded as an engine does."""

    def __init__(self, settings: FailureSettings = AUTO, **group: Any) -> None:
        self.world = World()
        self.settings = Settings(failures=settings)
        self.group: Mapping[str, Any] = group
        self.machines = 0
        self.target = 0
        self.state = self.look()

    @property
    def patience(self) -> float:
        return self.state.groups[G].seen.options.max_node_provision_seconds

    def look(self, *outcomes: Outcome, **group: Any) -> ClusterState:
        world = self.world
        world.nodes.clear()
        world.add_group("g", size=self.machines, **{"target": self.target, "max_size": 1000, **self.group, **group})
        self.state = fold(world.memory, world.state(self.settings).observation, outcomes, self.settings)
        world.memory = self.state.memory
        return self.state

    def ask(self, machines: int) -> None:
        action = IncreaseSize(group=G, expected_target=self.target, target=self.target + machines)
        self.target += machines
        self.look(Done(action=action, started=self.world.now, accepted=machines))

    def teach(self, seconds: float = 100.0) -> None:
        for _ in range(3):
            self.ask(10)
            self.world.now += seconds
            self.machines += 10
            self.look()


def test_the_fold_learns_and_puts_it_in_place_of_the_ordinary_time() -> None:
    cloud = Cloud()
    assert cloud.patience == 900
    cloud.teach()
    assert cloud.patience == pytest.approx(250, rel=0.1)
    cloud.ask(1)
    (request,) = cloud.state.groups[G].requests
    assert request.deadline == request.started + cloud.patience


def test_nothing_is_learned_unless_asked_for() -> None:
    cloud = Cloud(FailureSettings())
    cloud.teach()
    assert (cloud.patience, cloud.world.memory.arrivals) == (900, {})


def test_what_a_provider_says_of_a_group_is_stronger() -> None:
    cloud = Cloud(options=GroupOptions(max_node_provision_seconds=1234.0))
    cloud.teach()
    assert (cloud.patience, cloud.world.memory.arrivals) == (1234, {})


def test_a_timeout_gives_the_next_ones_twice_the_time_and_those_of_the_same_failure_no_more() -> None:
    cloud = Cloud()
    cloud.teach()
    first = cloud.patience
    cloud.ask(1)
    cloud.world.now += 20
    cloud.ask(1)
    cloud.world.now += first - 19
    assert cloud.look().groups[G].timed_out == 1
    cloud.look()
    assert cloud.patience == pytest.approx(2 * first, abs=2)
    cloud.world.now += 20
    assert cloud.look().groups[G].timed_out == 1
    cloud.look()
    assert cloud.patience == pytest.approx(2 * first, abs=2)


def test_another_template_is_learned_anew() -> None:
    cloud = Cloud()
    cloud.teach()
    cloud.group = {"cpu": "8"}
    cloud.look()
    assert cloud.patience == 900
    cloud.teach(200.0)
    assert cloud.patience == pytest.approx(500, rel=0.1)


def test_a_template_with_another_taint_is_learned_anew() -> None:
    cloud = Cloud()
    cloud.teach()
    cloud.group = {"taints": (Taint(key="dedicated", value="gpu", effect="NoSchedule"),)}
    cloud.look()
    assert cloud.patience == 900


def test_the_same_template_read_again_is_the_same() -> None:
    cloud = Cloud()
    cloud.teach()
    world = cloud.world
    world.memory = replace(world.memory, last_known={})
    world.groups[G] = replace(world.groups[G], template=build_node("template-g", cpu="4"))
    cloud.look()
    assert cloud.patience == pytest.approx(250, rel=0.1)


def test_a_group_that_cannot_be_read_keeps_what_was_learned() -> None:
    cloud = Cloud()
    cloud.teach()
    learned = cloud.patience
    for _ in range(3):
        cloud.look(target=None, instances=None, problem="unreachable")
        assert cloud.patience == learned
    cloud.look()
    assert cloud.patience == learned


def test_machines_that_fail_or_that_nobody_asked_for_teach_nothing() -> None:
    cloud = Cloud()
    for _ in range(4):
        cloud.ask(10)
        cloud.world.now += 100
        failures = tuple(FailedInstance(failure_id=f"{cloud.world.now}-{n}") for n in range(10))
        cloud.look(failed=failures)
        cloud.target -= 10
        cloud.look()
    for _ in range(4):
        cloud.target += 10
        cloud.look()
        cloud.world.now += 100
        cloud.machines += 10
        cloud.look()
    assert cloud.patience == 900
    assert not cloud.world.memory.arrivals[G].recent


def test_a_machine_that_had_an_instance_before_its_node_arrives_once() -> None:
    cloud = Cloud()
    cloud.ask(1)
    booting = (Instance(id="cloud:///g/0"),)
    cloud.world.now += 50
    cloud.look(instances=booting)
    cloud.world.now += 50
    cloud.machines = 1
    cloud.look()
    cloud.look()
    (arrived,) = cloud.world.memory.arrivals[G].recent
    assert (1.1 ** (arrived.step - 1) < 100 <= 1.1**arrived.step, arrived.arrivals) == (True, 1)
