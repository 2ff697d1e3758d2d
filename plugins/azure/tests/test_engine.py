"""The whole engine against Azure over HTTP, on virtual time: what the failure scenarios look like there."""

from collections.abc import Iterator

import pytest

from azurecloud import Authority
from azurecloud.play import QUOTA, AzurePlay
from azurecloud.sets import STOCK_OUT, Trouble
from engine_play import CHEAP, DEAR, told

CHEAP_POOL = f"{CHEAP}/Standard_D2s_v3"


@pytest.fixture
def play(authority: Authority) -> Iterator[AzurePlay]:
    made = AzurePlay(authority)
    yield made
    made.cloud.close()


@pytest.mark.parametrize("leaves", ["failed", "missing", "nothing", "refused"])
def test_a_stock_out_moves_the_pods_to_the_next_group(play: AzurePlay, leaves: str) -> None:
    play.cloud.limit(CHEAP, 1, leaves)
    result = play.run()
    assert result.final.pending == 0
    got = 0 if leaves == "refused" else 1
    assert play.living() == {CHEAP: got, DEAR: 3 - got}
    assert play.sizes() == {CHEAP: got, DEAR: 3 - got}


@pytest.mark.parametrize(("retry_after", "sizes"), [("", {CHEAP: 3, DEAR: 0}), ("300", {CHEAP: 0, DEAR: 3})])
def test_one_throttled_call_costs_a_moment(play: AzurePlay, retry_after: str, sizes: dict[str, int]) -> None:
    play.cloud.refuse_once("update", "TooManyRequests", "slow down", 429, retry_after=retry_after)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == sizes
    assert told(result, "FailedToScaleUpGroup") == []
    assert len(told(result, "ScaleUpDeferred")) == bool(retry_after)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("Conflict", "Another change of this set has not ended."),
        ("OperationNotAllowed", "Operation In Progress: an upgrade is running."),
    ],
)
def test_one_conflict_costs_a_moment_too(play: AzurePlay, code: str, message: str) -> None:
    play.cloud.refuse_once("update", code, message, 409)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 3, DEAR: 0}
    assert told(result, "FailedToScaleUpGroup") == []


@pytest.mark.parametrize("leaves", ["failed", "refused"])
def test_a_quota_does_too(play: AzurePlay, leaves: str) -> None:
    play.cloud.limit(CHEAP, 0, leaves, QUOTA)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 0, DEAR: 3}


def test_listings_that_lag_buy_nothing_twice(play: AzurePlay) -> None:
    play.cloud.lag(20.0)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 3, DEAR: 0}


@pytest.mark.parametrize("trouble", ["lost answer", "throttling storm", "expired credentials", "internal errors"])
def test_trouble_with_calls_buys_nothing_twice(play: AzurePlay, trouble: str) -> None:
    cloud = play.cloud
    if trouble == "lost answer":
        cloud.lose_answer_once("update")
    elif trouble == "throttling storm":
        for operation, times in {"list": 6, "machines": 6, "skus": 3, "update": 2}.items():
            for _ in range(times):
                cloud.refuse_once(operation, "TooManyRequests", "slow down", 429, retry_after="3")
    elif trouble == "expired credentials":
        expired = ("ExpiredAuthenticationToken", "The access token expiry is over", 401)
        play.at(4.0, lambda: cloud.refuse_once("update", *expired))
        for moment in (100.0, 101.0, 102.0):
            play.at(moment, lambda: cloud.refuse_once("list", *expired))
    else:
        for _ in range(6):
            cloud.refuse_once("list", "InternalServerError", "oops", 500)
    result = play.run()
    assert cloud.mishaps.left() == []
    assert result.final.pending == 0
    assert sum(play.living().values()) == 3
    assert sum(play.sizes().values()) == 3


def test_a_machine_that_vanishes_is_replaced(play: AzurePlay) -> None:
    one = play.cloud.set(CHEAP)
    play.at(200.0, lambda: one.vanish(next(vm for vm in one.vms if vm.counts(play.cloud.now()))))
    result = play.run()
    assert result.final.pending == 0
    assert sum(play.living().values()) == 3


@pytest.mark.parametrize("power", ["stopped", "deallocated", "unknown"])
def test_ready_nodes_stay_whatever_azure_says_of_their_machines(play: AzurePlay, power: str) -> None:
    """Measured before: three of three Ready nodes were deleted in one call."""
    there: list[frozenset[str]] = []
    play.at(300.0, lambda: there.append(play.cloud.machines(CHEAP)))
    play.at(301.0, lambda: play.cloud.spoil(CHEAP, power, Trouble("OperationPreempted", "it went wrong")))
    result = play.run()
    assert result.final.pending == 0
    assert play.cloud.machines(CHEAP) == there[0]
    assert play.sizes() == {CHEAP: 3, DEAR: 0}


@pytest.mark.parametrize(
    ("trouble", "disputed"), [(STOCK_OUT, True), (Trouble("OperationPreempted", "it went wrong"), False)]
)
def test_nor_when_the_plugin_has_just_started(authority: Authority, trouble: Trouble, disputed: bool) -> None:
    """The plugin cannot know that they ran: the nodes tell it to the core, if the code is that of a creation."""
    play = AzurePlay(authority, forgetful=True)
    play.at(301.0, lambda: play.cloud.spoil(CHEAP, "stopped", trouble))
    result = play.run()
    assert result.final.pending == 0
    assert play.living() == play.sizes() == {CHEAP: 3, DEAR: 0}
    assert ("RunningMachineReportedFailed" in {held.event.reason for held in result.events}) is disputed
    play.cloud.close()


@pytest.fixture
def pool_play(authority: Authority) -> Iterator[AzurePlay]:
    made = AzurePlay(authority, cheap_pool=True)
    yield made
    made.cloud.close()


def test_a_vm_pool_grows(pool_play: AzurePlay) -> None:
    result = pool_play.run()
    assert result.final.pending == 0
    assert pool_play.living() == pool_play.sizes() == {CHEAP: 3, DEAR: 0}


@pytest.mark.parametrize("leaves", ["missing", "refused"])
def test_a_stock_out_of_a_vm_pool_moves_the_pods_too(pool_play: AzurePlay, leaves: str) -> None:
    """At once if AKS refuses, and when the provision time is over if it only falls short."""
    pool_play.cloud.limit(CHEAP_POOL, 1, leaves)
    result = pool_play.run()
    assert result.final.pending == 0
    got = 0 if leaves == "refused" else 1
    assert pool_play.living() == {CHEAP: got, DEAR: 3 - got}
    assert pool_play.sizes() == {CHEAP: got, DEAR: 3 - got}


def test_a_lost_answer_of_aks_buys_nothing_twice(pool_play: AzurePlay) -> None:
    pool_play.cloud.lose_answer_once("put")
    result = pool_play.run()
    assert result.final.pending == 0
    assert pool_play.living() == {CHEAP: 3, DEAR: 0}


def test_somebody_elses_resize_is_neither_undone_nor_harmful(play: AzurePlay) -> None:
    there: list[frozenset[str]] = []
    sizes: list[int] = []
    play.at(200.0, lambda: there.append(play.cloud.machines(CHEAP)))
    play.at(210.0, lambda: play.cloud.set_target(CHEAP, 4))
    play.at(400.0, lambda: sizes.append(play.sizes()[CHEAP]))
    result = play.run()
    assert result.final.pending == 0
    assert there[0] <= play.cloud.machines(CHEAP)
    assert sizes == [4]
