"""The whole engine against Compute Engine over HTTP, on virtual time: what the failure scenarios look like there."""

from random import Random
from typing import Any

import pytest

from engine_play import CHEAP, DEAR, EnginePlay, PlayedKubelets, with_simulation
from gcecloud import GceCloud
from nodewright.spec import ProviderContext, ProviderInfo, hookimpl
from nodewright.testkit import FakeClock
from nodewright_gce.provider import GceProvider

QUOTA = ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded. Limit: 8.0 in region us-east1.")
_LIST, _GET = "instanceGroupManagers.list", "instanceGroupManagers.get"
_CREATE, _TEMPLATE = "instanceGroupManagers.createInstances", "instanceTemplates.get"


class PlayedGce(PlayedKubelets, GceProvider):
    """The plugin as it is; kubelets are played for the machines that the cloud has."""

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        return with_simulation(super().provider_info())


class Play(EnginePlay):
    """The engine on Compute Engine."""

    def __init__(self, cloud: GceCloud, clock: FakeClock, options: dict[str, Any]) -> None:
        self.cloud = cloud
        kinds = {CHEAP: "e2-standard-2", DEAR: "n2-custom-2-8192"}
        names = {role: cloud.add_group(template=cloud.add_template(machine_type=kind)) for role, kind in kinds.items()}
        context = ProviderContext(
            clock=clock,
            random=Random(1),
            options={"endpoints": cloud.endpoints, **options},
            node_group_specs=tuple(f"0:10:{name}" for name in names.values()),
        )
        plugin = PlayedGce(context)
        plugin.play_kubelets(clock, cloud.machines, tuple(names.values()))
        # Machines that never come are left twice the provision time.
        super().__init__("gce", plugin, clock, names, end=2400.0)

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.group(name).target for role, name in self.names.items()}


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def play(cloud: GceCloud, clock: FakeClock, options: dict[str, Any]) -> Play:
    return Play(cloud, clock, options)


def test_a_stock_out_moves_the_pods_to_the_next_group(play: Play) -> None:
    play.cloud.limit(play.names[CHEAP], 1)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 1, DEAR: 2}
    assert len(play.cloud.machines(play.names[CHEAP])) == 1


def test_a_quota_does_too(play: Play) -> None:
    play.cloud.limit(play.names[CHEAP], 0, QUOTA)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 0, DEAR: 3}


@pytest.mark.parametrize("complaint", [QUOTA, None], ids=["undetected", "silent"])
@pytest.mark.parametrize("options", [{"detect_failures": False}])
def test_without_detection_the_time_out_does(play: Play, complaint: tuple[str, str] | None) -> None:
    play.cloud.limit(play.names[CHEAP], 0, complaint)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 0, DEAR: 3}


def test_an_operation_that_ends_with_a_shortage_moves_the_pods_too(play: Play) -> None:
    play.cloud.fail_operation_once(*QUOTA)
    result = play.run()
    assert result.final.pending == 0
    assert sum(play.sizes().values()) == 3


@pytest.mark.parametrize(
    "trouble",
    ["lost answer", "throttling storm", "expired token", "no credentials for a while", "internal errors", "slow"],
)
def test_trouble_with_calls_buys_nothing_twice(play: Play, trouble: str) -> None:
    cloud = play.cloud
    if trouble == "lost answer":
        cloud.lose_answer_once(_CREATE)
    elif trouble == "throttling storm":
        storm = {_LIST: 6, _TEMPLATE: 6, _GET: 3, _CREATE: 2}
        for operation, times in storm.items():
            for _ in range(times):
                cloud.refuse_once(operation, 429, "rateLimitExceeded", "Rate Limit Exceeded")
    elif trouble == "expired token":
        play.at(4.0, cloud.expire_tokens)
    elif trouble == "no credentials for a while":
        play.at(4.0, lambda: cloud.expire_tokens(for_good=True))
        play.at(120.0, cloud.renew_tokens)
    elif trouble == "internal errors":
        for _ in range(6):
            cloud.refuse_once(_LIST, 503, "backendError", "try later")
    else:
        cloud.state.operation_seconds = 8.0
    result = play.run()
    assert result.final.pending == 0
    assert sum(len(cloud.machines(name)) for name in play.names.values()) == 3
    assert sum(play.sizes().values()) == 3


def test_a_machine_that_vanishes_is_replaced(play: Play) -> None:
    cheap = play.names[CHEAP]
    play.at(300.0, lambda: play.cloud.vanish(min(play.cloud.machines(cheap))))
    result = play.run()
    assert result.final.pending == 0
    assert len(play.cloud.machines(cheap)) == 3


def test_somebody_elses_resize_is_neither_undone_nor_harmful(play: Play) -> None:
    cheap = play.names[CHEAP]
    there: list[frozenset[str]] = []
    sizes: list[int] = []
    play.at(200.0, lambda: there.append(play.cloud.machines(cheap)))
    play.at(210.0, lambda: play.cloud.set_target(cheap, 4))
    play.at(400.0, lambda: sizes.append(play.sizes()[CHEAP]))
    result = play.run()
    assert result.final.pending == 0
    assert there[0] <= play.cloud.machines(cheap)
    assert sizes == [4]
