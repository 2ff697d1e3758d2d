"""Seed 001 minute by minute: an autoscaler that learns of failures by timeout alone, in two stages."""

from dataclasses import replace
from random import Random

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Backoff, Memory
from nodewright.model.action import DecreaseTargetSize, Done, IncreaseSize, Outcome
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World, ref, settings_with

A, B = ref("a"), ref("b")


SETTINGS: Settings = settings_with(size_correction="seed", expander="priority")


class Story:
    """Pool ``a``, which is preferred and gets no machine any more, and pool ``b``; a loop every ``step`` seconds.

    ``told`` says what happened, in minutes since the first loop.
    """

    def __init__(self, step: float = 10.0) -> None:
        self.step = step
        self.world = World(priorities="10: [a]\n1: [b]")
        self.world.add_group("a", 1, cpu="1")
        self.world.add_group("b", 0, cpu="1")
        self.world.running = [build_pod("busy", cpu="1", node_name="a-0")]
        self.told: list[tuple[int, str]] = []
        self.began = self.world.now
        self.add_pods(2)
        self._outcomes: list[Outcome] = []

    def add_pods(self, count: int) -> None:
        start = len(self.world.pending)
        self.world.pending += [
            build_pod(f"p{n}", cpu="1", unschedulable=True, created_at=0.0) for n in range(start, start + count)
        ]

    def run_until(self, minute: float) -> list[tuple[int, str]]:
        """What happened up to this minute since the story began."""
        while self.world.now < self.began + minute * 60:
            self._loop()
            self.world.now += self.step
        return self.told

    def _loop(self) -> None:
        state = fold(self.world.memory, self.world.state(SETTINGS).observation, self._outcomes, SETTINGS)
        if is_active(state.groups[A].backoff, self.world.now) != is_active(self._backoff(), self.world.now - self.step):
            ended = not is_active(state.groups[A].backoff, self.world.now)
            self._tell("a may grow again" if ended else f"a backed off: {state.groups[A].timed_out} timed out")
        self.world.memory = state.memory
        self._outcomes = []
        for action in make_plan(state, SETTINGS, Random(1))[0].actions:
            if isinstance(action, IncreaseSize | DecreaseTargetSize):
                self._resize(action)

    def _backoff(self) -> Backoff | None:
        return self.world.memory.backoffs.get(A)

    def _resize(self, action: IncreaseSize | DecreaseTargetSize) -> None:
        change = action.target - action.expected_target
        self._tell(f"{action.group.group_id} {change:+}")
        self.world.groups[action.group] = replace(self.world.groups[action.group], target=action.target)
        self._outcomes.append(Done(action=action, started=self.world.now, accepted=abs(change)))

    def _tell(self, what: str) -> None:
        self.told.append((int((self.world.now - self.began) / 60), what))


def test_scenario_1_a_dead_pool_is_left_after_ninety_minutes() -> None:
    """15 min to the timeout, 15 more to the correction, three times over; only the third backoff outlasts them.

    The loops' own ten seconds come on top of the ninety minutes, as the document says.
    """
    assert Story().run_until(100) == [
        (0, "a +2"),
        (15, "a backed off: 2 timed out"),
        (20, "a may grow again"),
        (30, "a -2"),
        (30, "a +2"),
        (45, "a backed off: 2 timed out"),
        (55, "a may grow again"),
        (60, "a -2"),
        (61, "a +2"),
        (76, "a backed off: 2 timed out"),
        (91, "a -2"),
        (91, "b +2"),
        (96, "a may grow again"),
    ]


def test_scenario_2_new_pods_reset_the_timeout() -> None:
    story = Story()
    assert story.run_until(10) == [(0, "a +2")]
    story.add_pods(1)
    assert story.run_until(41) == [
        (0, "a +2"),
        (10, "a +1"),
        (25, "a backed off: 3 timed out"),
        (30, "a may grow again"),
        (40, "a -3"),
        (40, "a +3"),
    ]


def test_scenario_3_after_a_restart_an_empty_pool_is_never_corrected() -> None:
    """The missing machines are taken for upcoming, and keep the pods waiting, until a human comes."""
    story = Story(step=60)
    story.world.nodes.clear()
    story.world.running.clear()
    story.world.groups[A] = replace(story.world.groups[A], target=2, instances=())
    story.world.memory = Memory()
    assert story.run_until(6 * 60) == []


def test_a_late_machine_ends_the_watch() -> None:
    story = Story()
    story.run_until(16)
    story.world.groups.clear()
    story.world.nodes.clear()
    story.world.add_group("a", 3, cpu="1")
    story.world.add_group("b", 0, cpu="1")
    assert story.run_until(60)[2:] == [(20, "a may grow again")]
