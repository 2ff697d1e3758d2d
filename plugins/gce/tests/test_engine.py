"""The whole engine against Compute Engine over HTTP, on virtual time: what the failure scenarios look like there."""

from typing import Any

import pytest

from engine_play import CHEAP, DEAR, told
from gcecloud import GceCloud
from gcecloud.play import QUOTA, GcePlay
from nodewright.testkit import FakeClock

_LIST, _GET = "instanceGroupManagers.list", "instanceGroupManagers.get"
_CREATE, _TEMPLATE = "instanceGroupManagers.createInstances", "instanceTemplates.get"


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def play(cloud: GceCloud, clock: FakeClock, options: dict[str, Any]) -> GcePlay:
    return GcePlay(cloud, clock, options)


def test_a_stock_out_moves_the_pods_to_the_next_group(play: GcePlay) -> None:
    play.cloud.limit(play.names[CHEAP], 1)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 1, DEAR: 2}
    assert len(play.cloud.machines(play.names[CHEAP])) == 1


@pytest.mark.parametrize(("retry_after", "sizes"), [("", {CHEAP: 3, DEAR: 0}), ("300", {CHEAP: 0, DEAR: 3})])
def test_one_throttled_call_costs_a_moment(play: GcePlay, retry_after: str, sizes: dict[str, int]) -> None:
    play.cloud.refuse_once(_CREATE, 429, "rateLimitExceeded", "Rate Limit Exceeded", retry_after=retry_after)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == sizes
    assert told(result, "FailedToScaleUpGroup") == []
    assert len(told(result, "ScaleUpDeferred")) == bool(retry_after)


def test_a_quota_does_too(play: GcePlay) -> None:
    play.cloud.limit(play.names[CHEAP], 0, QUOTA)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 0, DEAR: 3}


@pytest.mark.parametrize("complaint", [QUOTA, None], ids=["undetected", "silent"])
@pytest.mark.parametrize("options", [{"detect_failures": False}])
def test_without_detection_the_time_out_does(play: GcePlay, complaint: tuple[str, str] | None) -> None:
    play.cloud.limit(play.names[CHEAP], 0, complaint)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 0, DEAR: 3}


def test_an_operation_that_ends_with_a_shortage_moves_the_pods_too(play: GcePlay) -> None:
    play.cloud.fail_operation_once(*QUOTA)
    result = play.run()
    assert result.final.pending == 0
    assert sum(play.sizes().values()) == 3


def _requesting(cloud: GceCloud, clock: FakeClock, **options: Any) -> GcePlay:
    """A ProvisioningRequest of three machines, all or none, of groups whose machines have a run duration."""
    settings = {"enable-provisioning-requests": True}
    return GcePlay(cloud, clock, {"atomic_run_duration": "2h", **options}, settings=settings, as_request=True)


def _states(play: GcePlay, role: str) -> list[str]:
    return [one["state"] for one in play.cloud.group(play.names[role]).resize_requests.values()]


@pytest.mark.parametrize("grows", [True, False])
def test_a_request_that_waits_in_the_queue_is_granted_minutes_later(
    cloud: GceCloud, clock: FakeClock, grows: bool
) -> None:
    cloud.state.grows_at_request = grows
    play = _requesting(cloud, clock)
    cheap = play.names[CHEAP]
    cloud.limit(cheap, 0)
    seen: list[dict[str, int]] = []
    play.at(590.0, lambda: seen.append(play.sizes()))
    play.at(600.0, lambda: cloud.limit(cheap, 3))
    play.at(700.0, lambda: seen.append(play.sizes()))
    play.run()
    assert seen == [{CHEAP: 3 if grows else 0, DEAR: 0}, {CHEAP: 3, DEAR: 0}]
    assert (_states(play, CHEAP), _states(play, DEAR)) == (["SUCCEEDED"], [])


@pytest.mark.parametrize("grows", [True, False])
def test_a_request_whose_time_is_over_is_cancelled_and_asked_elsewhere(
    cloud: GceCloud, clock: FakeClock, grows: bool
) -> None:
    cloud.state.grows_at_request = grows
    play = _requesting(cloud, clock)
    cloud.limit(play.names[CHEAP], 0)
    seen: list[list[str]] = []
    play.at(880.0, lambda: seen.append(_states(play, CHEAP)))
    play.at(1000.0, lambda: seen.append(_states(play, CHEAP)))
    play.run()
    assert seen == [["ACCEPTED"], ["CANCELLED"]]
    assert _states(play, DEAR) == ["SUCCEEDED"]


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_each_of_two_requests_waits_for_its_own_time(
    cloud: GceCloud, clock: FakeClock, is_deleted: bool, grows: bool
) -> None:
    """The older one is cancelled when its user deletes it, or its time is over; the younger one is granted later."""
    cloud.state.grows_at_request = grows
    play = _requesting(cloud, clock)
    play.request_more("younger", count=2, at=300.0)
    if is_deleted:
        play.delete_request(400.0)
    cheap = play.names[CHEAP]
    for name in play.names.values():
        cloud.limit(name, 0)
    seen: dict[float, list[str]] = {}
    for moment in (390.0, 440.0, 880.0, 960.0, 1080.0):
        play.at(moment, lambda moment=moment: seen.update({moment: _states(play, CHEAP)}))  # type: ignore[misc]
    play.at(1090.0, lambda: cloud.limit(cheap, 2))
    play.run()
    both, younger = ["ACCEPTED", "ACCEPTED"], ["CANCELLED", "ACCEPTED"]
    rest = younger if is_deleted else both
    assert seen == {390.0: both, 440.0: rest, 880.0: rest, 960.0: younger, 1080.0: younger}
    assert _states(play, CHEAP)[:2] == ["CANCELLED", "SUCCEEDED"]


def test_a_request_that_fails_in_the_queue_is_asked_elsewhere_at_once(cloud: GceCloud, clock: FakeClock) -> None:
    play = _requesting(cloud, clock)
    cloud.limit(play.names[CHEAP], 0)
    seen: list[dict[str, int]] = []
    play.at(60.0, lambda: cloud.end_requests(play.names[CHEAP], "FAILED", QUOTA))
    play.at(100.0, lambda: seen.append(play.sizes()))
    play.run()
    assert seen == [{CHEAP: 0, DEAR: 3}]
    assert _states(play, CHEAP) == ["FAILED"]


@pytest.mark.parametrize(
    "trouble",
    ["lost answer", "throttling storm", "expired token", "no credentials for a while", "internal errors", "slow"],
)
def test_trouble_with_calls_buys_nothing_twice(play: GcePlay, trouble: str) -> None:
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
    assert cloud.mishaps.left() == []
    assert result.final.pending == 0
    assert sum(len(cloud.machines(name)) for name in play.names.values()) == 3
    assert sum(play.sizes().values()) == 3


def test_a_machine_that_vanishes_is_replaced(play: GcePlay) -> None:
    cheap = play.names[CHEAP]
    play.at(300.0, lambda: play.cloud.vanish(min(play.cloud.machines(cheap))))
    result = play.run()
    assert result.final.pending == 0
    assert len(play.cloud.machines(cheap)) == 3


def test_somebody_elses_resize_is_neither_undone_nor_harmful(play: GcePlay) -> None:
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
