"""How long no replica scales after the leader is gone."""

from collections.abc import Callable
from random import Random

import pytest
from core.tests.kube.conftest import ApiServer
from core.tests.leaders import mutants
from core.tests.leaders.clouds import SharedWorld
from core.tests.leaders.replica import LEASE, Replica
from core.tests.leaders.schedule import START, settings_of
from core.tests.leaders.stage import Process, Stage

from nodewright.engine.intent import START_SECONDS
from nodewright.model.settings import ProviderSettings

HELD = ProviderSettings().call_timeout + START_SECONDS


class Calm:
    """Implements Weather: nothing befalls anybody but what a test orders. ``dies_in_call``: with its next write."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.dies_in_call = False
        self.wrote_at: list[tuple[float, str, str]] = []

    def step(self, process: Process, *, weighs: bool) -> None:
        if process.is_dead or weighs:
            self._stage.sleep(0.01)
        else:
            self._stage.sleep(0.02)

    def is_cut_off(self, process: Process) -> bool:  # noqa: ARG002 - as Weather
        return False

    def wrote(self, replica: Replica, group_id: str) -> None:
        self.wrote_at.append((self._stage.now(), replica.process.name, group_id))
        if self.dies_in_call:
            replica.process.is_dead = True


class Prompt(Replica):
    """It hears at once that it is to stop."""

    patience = 0.1


class Pair:
    """A leader, and a replica that waits."""

    def __init__(self, *, is_ca: bool, groups: int = 1) -> None:
        self.stage = Stage(START)
        self.world = SharedWorld(self.stage, Random(7), groups)
        self.calm = Calm(self.stage)
        self.server, self._settings = ApiServer(), settings_of(is_ca=is_ca, shrinks=False)
        self.leader = self.spawn("one")
        self.stage.run(START + 5)
        self.other = self.spawn("two")
        self.stage.run(START + 60)
        assert self.leader.lease.remaining() > 0

    def spawn(self, name: str, make: type[Replica] = Prompt) -> Replica:
        """Start a replica."""
        replica = make(Process(name), self.world, self.server, self.calm, self._settings)
        self.stage.spawn(replica.process, replica.live)
        return replica

    def at(self, seconds: float, happening: Callable[[], object]) -> None:
        self.stage.at(START + seconds, happening)

    def run(self, seconds: float) -> None:
        try:
            self.stage.run(START + seconds)
        finally:
            self.stage.end()


@pytest.mark.parametrize("is_ca", [False, True])
@pytest.mark.parametrize("moment", [61.0, 62.1, 63.3])
def test_after_a_kill_the_next_request_comes_within_25_seconds(moment: float, *, is_ca: bool) -> None:
    pair = Pair(is_ca=is_ca)

    def kill() -> None:
        pair.leader.process.is_dead = True
        pair.world.add_pods(3)

    pair.at(moment, kill)
    pair.run(moment + 60)
    [(asked, who, _)] = pair.calm.wrote_at
    assert who == "two"
    assert 13 < asked - START - moment < 18
    assert pair.world.bought == 3


@pytest.mark.parametrize("is_ca", [False, True])
def test_after_a_good_bye_the_next_request_comes_within_3_seconds(*, is_ca: bool) -> None:
    """Also where the one that goes has just written: its call was answered, and nothing is held."""
    pair = Pair(is_ca=is_ca, groups=2)
    pair.at(61, lambda: pair.world.add_pods(3))
    pair.stage.run(START + 90)
    [(_, who, _)] = pair.calm.wrote_at
    assert who == "one"

    def stop() -> None:
        pair.leader.is_told_to_stop = True
        pair.world.add_pods(2)

    pair.at(91, stop)
    pair.run(120)
    [_, (asked, who, _)] = pair.calm.wrote_at
    assert who == "two"
    assert asked - START - 91 < 3
    assert pair.world.bought == 5


def test_only_groups_with_a_write_under_way_are_held() -> None:
    """The leader dies in its call for one group, which never arrives; pods that come later are helped elsewhere."""
    pair = Pair(is_ca=False, groups=2)
    pair.world.lost_calls = 1
    pair.calm.dies_in_call = True
    pair.world.add_pods(2)
    pair.stage.run(START + 72)
    pair.calm.dies_in_call = False
    [(died, _, held)] = pair.calm.wrote_at
    pair.at(73, lambda: pair.world.add_pods(3))
    pair.run(220)
    after = [(at - died, group) for at, _, group in pair.calm.wrote_at[1:]]
    assert after[0][1] != held
    assert after[0][0] < 25
    # The two that waited for the held group get their machines once the call cannot arrive any more.
    assert pair.world.bought == 5
    assert HELD - START_SECONDS < after[1][0] < HELD + 3


def test_a_held_group_stays_held_when_the_leader_that_holds_it_says_good_bye() -> None:
    """The first one dies in its call, the second ends orderly; the third waits for the call of the first."""
    pair = Pair(is_ca=False)
    pair.world.lost_calls = 1
    pair.calm.dies_in_call = True
    pair.world.add_pods(2)
    pair.stage.run(START + 72)
    pair.calm.dies_in_call = False
    [(died, _, _)] = pair.calm.wrote_at

    def stop() -> None:
        pair.other.is_told_to_stop = True

    pair.at(95, stop)
    pair.at(96, lambda: pair.spawn("three"))
    pair.run(220)
    assert pair.other.problems == []
    [_, (asked, who, _)] = pair.calm.wrote_at
    assert who == "three"
    assert HELD - START_SECONDS < asked - died < HELD + 3


@pytest.mark.parametrize(("make", "is_caught"), [(Prompt, False), (mutants.TakesMissingLeases, True)])
def test_a_replica_that_starts_where_the_lease_was_just_deleted_waits(make: type[Replica], *, is_caught: bool) -> None:
    """One that takes each missing lease leads beside its holder. Few random schedules start a process at such a moment."""
    pair, most = Pair(is_ca=False), [0]
    started = [pair.leader, pair.other]

    def count() -> None:
        most[0] = max(most[0], sum(replica.lease.remaining() > 0 for replica in started))

    def start() -> None:
        pair.server.drop(LEASE)
        started.append(pair.spawn(f"{len(started)}", make))

    pair.stage.watch = count
    for second in range(65, 120, 5):
        pair.at(second + 0.3 * (second % 7), start)
    pair.run(150)
    assert (most[0] > 1) == is_caught
