"""Two processes, one leader: on the real lease, with real processes that freeze and die."""

import signal
import time

import pytest
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.rights import read_asked
from tests.e2e.test_inquiries import address_of, nodewright
from tests.e2e.test_scale_up import PODS, count_running, deploy, find_lease

from nodewright.adapters.kube.store import STATE_NAME


def test_a_frozen_leader_writes_nothing_when_it_wakes(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    first = start()
    wait_until(lambda: first.says("loop"), "loop of the first")
    second = start()
    wait_until(lambda: second.says("waiting to become"), "second candidate")
    holder = find_lease(clean)["holderIdentity"]
    first.freeze()
    wait_until(lambda: find_lease(clean)["holderIdentity"] != holder, "new holder")
    deploy(clean, "web", 4)  # the frozen one has not seen this, and will find it as new when it wakes
    wait_until(lambda: second.says("loop"), "loop of the second")
    wait_until(lambda: count_running(clean) == 4, "running pods")
    calls = list(shared.calls)
    loops = len(first.says("loop"))
    first.thaw()
    assert first.wait() == 4
    assert first.says("another process may lead")
    assert len(first.says("loop")) <= loops + 1  # the loop that the freeze cut in two
    assert shared.calls == calls
    assert second.end() == 0


def test_a_killed_leader_is_followed_and_nothing_is_bought_twice(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    first, second = start(), start()
    deploy(clean, "web", 4)
    wait_until(lambda: shared.calls, "increase")
    leader, other = (first, second) if first.says("loop") else (second, first)
    leader.process.send_signal(signal.SIGKILL)
    wait_until(lambda: other.says("loop"), "loop of the other")
    deploy(clean, "more", 4)
    wait_until(lambda: count_running(clean) == 8, "running pods")
    assert [call for call in shared.calls if call[0] == "increase"] == [
        ("increase", ("small", 0, 1)),
        ("increase", ("small", 1, 2)),
    ]


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_after_a_kill_the_next_request_comes_within_25_seconds(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon, profile: str
) -> None:
    leader = start(f"--profile={profile}")
    wait_until(lambda: leader.says("loop"), "loop of the leader")
    other = start(f"--profile={profile}")
    wait_until(lambda: other.says("waiting to become"), "second candidate")
    leader.kill()
    killed = time.monotonic()
    deploy(clean, "web", 4)
    wait_until(lambda: shared.calls, "request of the other")
    assert time.monotonic() - killed < 25
    assert shared.calls == [("increase", ("small", 0, 1))]


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_a_call_that_outlives_its_caller_is_waited_for(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon, profile: str
) -> None:
    """It takes effect 40 s after it was sent; the next leader plans 25 s before that."""
    settings = {"providers": {"shared": {"options": {"address": str(shared.address)}, "call-timeout": "50s"}}}
    shared.increase_seconds = 40.0
    leader = start(f"--profile={profile}", settings=settings)
    wait_until(lambda: leader.says("loop"), "loop of the leader")
    other = start(f"--profile={profile}", settings=settings)
    wait_until(lambda: other.says("waiting to become"), "second candidate")
    deploy(clean, "web", 4)
    wait_until(lambda: shared.waiting, "call of the leader")
    leader.kill()
    wait_until(lambda: other.says("loop"), "loop of the other")
    assert not shared.calls
    assert other.says("may still be writing to it")
    wait_until(lambda: count_running(clean) == 4, "running pods")
    assert shared.calls == [("increase", ("small", 0, 1))]


def test_good_bye_hands_over_at_once(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Its lease would hold for longer than anybody waits here."""
    first = start("--leader-elect-lease-duration=1h")
    wait_until(lambda: first.says("loop"), "loop of the first")
    second = start("--leader-elect-lease-duration=1h")
    wait_until(lambda: second.says("waiting to become"), "second candidate")
    asked = nodewright("status", f"--debug-address={address_of(second)}")
    assert f"does not lead, so it has no snapshot: ask {find_lease(clean)['holderIdentity']}" in asked.stderr
    assert first.end() == 0
    wait_until(lambda: second.says("loop"), "loop of the second")
    assert find_lease(clean)["leaseTransitions"] == 1
    assert not shared.calls


def test_good_bye_in_the_middle_of_a_loop_waits_for_its_end(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """What the loop decides is saved and done, and only then is the lease given back."""
    deploy(clean, "web", 4)
    wait_until(lambda: find_unschedulable(clean) == 4, "verdict of the scheduler")
    settings = {"providers": {"shared": {"options": {"address": str(shared.address), "busy_seconds": 5}}}}
    before = count_looks(clean)
    daemon = start("--leader-elect-lease-duration=90s", settings=settings)
    wait_until(lambda: count_looks(clean) > before, "look for a saved state, the last thing before the first loop")
    assert not daemon.says("loop")
    assert daemon.end() == 0
    assert len(daemon.says("loop")) == 1
    assert shared.calls == [("increase", ("small", 0, 1))]
    assert clean.request(f"/api/v1/namespaces/kube-system/configmaps/{STATE_NAME}")["binaryData"]
    assert not find_lease(clean).get("holderIdentity")


def count_looks(plane: ControlPlane) -> int:
    return sum((one.right.verb, one.right.name) == ("get", STATE_NAME) for one in read_asked(plane))


def find_unschedulable(plane: ControlPlane) -> int:
    return sum("Unschedulable" in str(pod["status"].get("conditions")) for pod in plane.request(PODS)["items"])


def test_who_may_not_take_the_lease_says_so(start: StartDaemon) -> None:
    """It is healthy and waits: without this an operator would not know what for."""
    daemon = start(user="onlooker")
    wait_until(lambda: daemon.says("the lease: GET /apis/coordination.k8s.io"), "complaint")
    assert "forbidden" in daemon.says("the lease: ")[0]["message"]
    assert daemon.end() == 0
