"""A cloud without groups or desired counts, whose listings are late: what the core buys there when answers are lost."""

import math
from collections.abc import Sequence
from contextlib import suppress

import pytest

from nodewright import spec
from nodewright.adapters.provider import ProviderClient
from nodewright.cli.connect import find_misspelt
from nodewright.model.errors import ContractViolation
from nodewright.spec import ProviderError, ProviderUnavailable, hookimpl
from nodewright.testkit import FakeClock, build_template
from nodewright.testkit.contract import CallSettings, connect

LAG = 5.0


class LabelledServers:
    """Servers with a label are the group; their number in a listing is its target."""

    def __init__(
        self, clock: FakeClock, *, settles_after: float, lost_answers: int = 0, remembers_writes: bool = False
    ) -> None:
        self.bought: list[float] = []
        self._remembers_writes = remembers_writes
        self._clock = clock
        self._settles_after = settles_after
        self._lost = lost_answers
        self._listed = 0

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        remembers = self._remembers_writes
        return spec.ProviderInfo(name="late", settles_after=self._settles_after, remembers_writes=remembers)

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        del wanted
        self._listed = sum(bought <= self._clock.now() - LAG for bought in self.bought)
        return True

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return (spec.NodeGroup(id="servers", min_size=0, max_size=10),)

    @hookimpl
    def target_size(self, group_id: str) -> int:
        del group_id
        return self._listed

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return [spec.Instance(id=f"{group_id}-{number}") for number in range(self._listed)]

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        del group_id
        return build_template()

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        del group_id
        self.bought += [self._clock.now()] * (target - expected_target)
        if self._lost:
            self._lost -= 1
            raise ProviderUnavailable("the connection was reset")
        self._listed = target
        return target - expected_target

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        del group_id, expected_target, target
        return 0

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        del group_id, instance_ids, expected_target
        return ()


def buy_one(settles_after: float, lost_answers: int) -> int:
    """Play six loops, a second apart, that want one server. Return how many were bought."""
    clock = FakeClock(1000)
    cloud = LabelledServers(clock, settles_after=settles_after, lost_answers=lost_answers)
    client = connect("late", cloud, clock)
    for _ in range(6):
        client.refresh(frozenset({"servers"}))
        client.node_groups()
        if client.target_size("servers") < 1:
            with suppress(ProviderError):
                client.increase_size("servers", 0, 1)
        clock.sleep(1.0)
    return len(cloud.bought)


@pytest.mark.parametrize("lost_answers", [0, 1, 2, 3])
def test_one_server_is_bought_whatever_answers_are_lost(lost_answers: int) -> None:
    assert buy_one(LAG, lost_answers) == 1


@pytest.mark.parametrize("lost_answers", [0, 1, 2, 3])
def test_without_settles_after_late_listings_cost_money(lost_answers: int) -> None:
    assert buy_one(0.0, lost_answers) > 1


@pytest.mark.parametrize("remembers_writes", [False, True])
def test_a_new_process_sees_what_the_one_before_bought_last(remembers_writes: bool) -> None:
    clock = FakeClock(1000)
    cloud = LabelledServers(clock, settles_after=LAG, remembers_writes=remembers_writes)
    before = connect("late", cloud, clock)
    before.refresh()
    before.increase_size("servers", 0, 1)
    after = connect("late", cloud, clock)
    after.refresh()
    assert after.target_size("servers") == 1


@pytest.mark.parametrize("lost_answers", [0, 1])
@pytest.mark.parametrize(("remembers_writes", "waits"), [(False, LAG), (True, 0.0)])
def test_the_core_does_not_wait_after_writes_that_a_plugin_remembers(
    remembers_writes: bool, waits: float, lost_answers: int
) -> None:
    clock = FakeClock(1000)
    client = connect(
        "late",
        LabelledServers(clock, settles_after=LAG, lost_answers=lost_answers, remembers_writes=remembers_writes),
        clock,
        CallSettings(write_repeats=0),
    )
    client.refresh()
    looks = client.stats()["refresh"].calls
    with suppress(ProviderError):
        client.increase_size("servers", 0, 1)
    if client.stats()["refresh"].calls == looks:  # otherwise the core has looked what became of the write
        client.refresh()
    assert clock.now() == 1000 + LAG + waits


@pytest.mark.parametrize(("wrote_last", "waits"), [(-math.inf, 0.0), (994.0, 0.0), (998.0, 3.0), (1000.0, LAG)])
def test_a_new_process_waits_from_the_last_write_of_the_one_before(wrote_last: float, waits: float) -> None:
    clock = FakeClock(1000)
    client = connect("late", LabelledServers(clock, settles_after=LAG), clock)
    client.note_last_write(wrote_last)
    client.refresh()
    assert clock.now() == 1000 + waits


def test_a_standby_that_has_read_before_it_leads_waits_for_the_leader_before_it() -> None:
    """It looks for misspelt groups at its start, without a wait."""
    clock = FakeClock(1000)
    cloud = LabelledServers(clock, settles_after=LAG)
    standby = connect("late", cloud, clock)
    assert isinstance(standby, ProviderClient)
    standby.demand_limits(["0:10:servers"])
    assert not list(find_misspelt([standby], ()))
    assert clock.now() == 1000
    clock.sleep(3600)
    standby.note_last_write(clock.now())
    standby.refresh()
    assert clock.now() == 4600 + LAG


def test_a_dry_run_does_not_wait_for_the_process_before_it() -> None:
    clock = FakeClock(1000)
    for wrote_last in (None, 1000.0):
        client = connect("late", LabelledServers(clock, settles_after=LAG), clock, CallSettings(dry_run=True))
        if wrote_last is not None:
            client.note_last_write(wrote_last)
        client.refresh()
    assert clock.now() == 1000


@pytest.mark.parametrize("wrong", [-1.0, 61.0, True, "5s"])
def test_a_delay_that_cannot_be_is_refused(wrong: float) -> None:
    with pytest.raises(ContractViolation, match="settles_after"):
        buy_one(wrong, 0)
