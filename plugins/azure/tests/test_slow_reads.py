"""Scale sets for which Azure does not answer: they hold up no others, and a refresh ends in time."""

import os
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

import pytest

from attached import Stage
from azurecloud import AzureCloud
from nodewright.spec import ProviderContext, ProviderError, ProviderUnavailable
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_azure.account import load_account
from nodewright_azure.options import load_options
from nodewright_azure.provider import AzureProvider
from nodewright_azure.sdk import Sdk
from nodewright_azure.shapes import InstanceView, Machine, ScaleSet

# The core gives a refresh up after a minute.
_CORE_WAITS = 60.0


class _SlowSdk(Sdk):
    """Azure does not answer for some sets: a call takes twenty seconds, and fails."""

    def __init__(self, *args: Any, clock: FakeClock, silent: Collection[str]) -> None:
        super().__init__(*args)
        self.clock, self.silent = clock, set(silent)

    def _wait(self, name: str) -> None:
        if name in self.silent:
            self.clock.sleep(20.0)
            raise ProviderUnavailable(f"no answer for {name}")

    def scale_sets(self) -> Sequence[ScaleSet]:
        self._wait("list")
        return super().scale_sets()

    def scale_set(self, name: str) -> ScaleSet:
        self._wait(name)
        return super().scale_set(name)

    def machines(self, name: str) -> Sequence[Machine]:
        self._wait(name)
        return super().machines(name)

    def loose_machines(self) -> Sequence[Machine]:
        self._wait("machines")
        return super().loose_machines()

    def machine_view(self, name: str) -> InstanceView:
        self._wait("views")
        return super().machine_view(name)


Start = Callable[..., tuple[Stage[AzureCloud], _SlowSdk]]


@pytest.fixture
def start(cloud: AzureCloud, clock: FakeClock) -> Start:
    """One call at a time. The sets are read once before some are silent."""

    def started(names: Sequence[str], silent: Collection[str], **more: object) -> tuple[Stage[AzureCloud], _SlowSdk]:
        context = ProviderContext(
            clock=clock,
            random=Random(1),
            options={**cloud.options, "parallel_calls": 1, "refresh_interval": 0, **more},
            node_group_specs=tuple(f"0:10:{name}" for name in names),
        )
        options = load_options(context)
        sdk = _SlowSdk(load_account(options, os.environ), options, clock, clock=clock, silent=())
        stage = Stage(clock=clock, cloud=cloud, client=connect("azure", AzureProvider(context, sdk), clock))
        stage.later(0)
        sdk.silent = set(silent)
        return stage, sdk

    return started


def test_silent_sets_do_not_hold_up_the_refresh_or_other_sets(
    cloud: AzureCloud, clock: FakeClock, start: Start
) -> None:
    names = [cloud.add_set(capacity=1) for _ in range(8)]
    silent, fine = names[:6], names[6:]
    stage, sdk = start(names, silent)
    for _ in range(4):  # two silent sets are found in each of the first three
        began = clock.now()
        stage.later(0, *names)
        assert clock.now() - began < _CORE_WAITS
    assert [len(stage.client.instances(name)) for name in fine] == [1, 1]
    for name in silent:
        with pytest.raises(ProviderError):
            stage.client.target_size(name)
    sdk.silent = set()
    stage.later(0, *names)
    assert [len(stage.client.instances(name)) for name in names] == [1] * 8


def test_a_set_that_is_not_read_in_time_says_so(cloud: AzureCloud, start: Start) -> None:
    names = [cloud.add_set(capacity=1) for _ in range(4)]
    stage, _ = start(names, names[:3])
    stage.later(0, *names)
    with pytest.raises(ProviderError, match=rf"{names[3]} was not read: Azure was slow to answer for others"):
        stage.client.target_size(names[3])


def test_sets_that_recover_are_read_although_others_before_them_stay_silent(cloud: AzureCloud, start: Start) -> None:
    names = [cloud.add_set(f"set-{number}", capacity=1) for number in range(8)]
    stage, sdk = start(names, names)
    for _ in range(4):
        stage.later(5, *names)
    sdk.silent = set(names[:2])
    for _ in range(3):
        stage.later(5, *names)
    assert [len(stage.client.instances(name)) for name in names[2:]] == [1] * 6
    for name in names[:2]:
        with pytest.raises(ProviderError, match="no answer"):
            stage.client.target_size(name)


@pytest.mark.parametrize("silent", [["views"], ["machines"], ["machines", "views"]])
def test_reads_of_single_machines_end_in_time(
    cloud: AzureCloud, clock: FakeClock, start: Start, silent: Sequence[str]
) -> None:
    slow = [cloud.add_set(capacity=1) for _ in range(2)]
    flexible = cloud.add_set(capacity=1, properties={"orchestrationMode": "Flexible"})
    stage, sdk = start([*slow, flexible], ())
    cloud.hold(flexible)
    stage.client.increase_size(flexible, 1, 7)
    for _ in range(6):
        cloud.fail(flexible)
    sdk.silent = {*slow, *silent}
    for _ in range(3):
        began = clock.now()
        stage.later(0, *slow, flexible)
        assert clock.now() - began < _CORE_WAITS
    sdk.silent = set()
    stage.later(61, *slow, flexible)
    assert len(stage.client.failed_instances(flexible) or ()) == 6


def test_sizes_and_prices_are_not_asked_for_when_the_time_is_over(cloud: AzureCloud, start: Start) -> None:
    names = [cloud.add_set(capacity=1) for _ in range(3)]
    often = {"sku_interval": 1, "price_list_interval": 1}
    stage, sdk = start(names, names[:2], **often)
    calls = ("skus", "prices")
    before = [cloud.calls[name] for name in calls]
    stage.later(5, *names)
    assert [cloud.calls[name] for name in calls] == before
    sdk.silent = set()
    stage.later(61, *names)
    assert stage.client.template_node(names[2])
    assert [cloud.calls[name] for name in calls] == [one + 1 for one in before]


def test_after_a_refresh_that_failed_a_write_reads_what_it_needs(
    cloud: AzureCloud, clock: FakeClock, start: Start
) -> None:
    name = cloud.add_set(capacity=1)
    stage, sdk = start([name], ())
    sdk.silent = {"list"}
    with pytest.raises(ProviderError):
        stage.later(5)
    clock.sleep(31)
    stage.client.delete_instances(name, [min(cloud.machines(name))], 1)
    assert stage.client.target_size(name) == 0
