"""What operators do by hand to a running daemon, and to its objects in the cluster."""

import signal
import urllib.error

from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.requesting import MERGE_PATCH
from tests.e2e.test_scale_up import LEASE, count_ready, count_running, deploy, find_lease

STATE = "/api/v1/namespaces/kube-system/configmaps/nodewright-state"


def test_its_lease_is_deleted_and_its_memory_broken(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """It goes on, alone, and nothing waits for a restart; told to hang up it says good-bye."""
    leader = start()
    wait_until(lambda: leader.says("loop"), "leader")
    other = start()
    wait_until(lambda: other.says("waiting to become the leader"), "second replica")
    deploy(clean, "web", 4)
    wait_until(lambda: count_running(clean) == 4, "four running pods")
    before = holder(clean)
    clean.request(LEASE, method="DELETE")
    clean.request(STATE, method="PATCH", body={"data": {"digest": "rubbish"}}, content=MERGE_PATCH)
    deploy(clean, "more", 4)
    wait_until(lambda: count_running(clean) == 8, "eight running pods")
    assert shared.calls == [("increase", ("small", 0, 1)), ("increase", ("small", 1, 2))]
    wait_until(lambda: holder(clean) == before, "lease of the one that had it")
    assert not other.says("leading")
    assert all(line["loop"] == line["write"]["loop"] for line in leader.says("cloud write"))
    leader.process.send_signal(signal.SIGHUP)
    assert leader.wait() == 0
    wait_until(lambda: other.says("leading"), "successor")
    assert other.end() == 0


def test_one_loop_finishes_the_removal_that_it_begins(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """No next loop would take the taint off, or go on."""
    with shared.lock:
        shared.cloud.increase("small", 0, 1)
    wait_until(lambda: count_ready(clean), "ready node")
    daemon = start("--once", "--scale-down-unneeded-time=0s", "--node-delete-delay-after-taint=1s")
    assert daemon.wait() == 0
    assert [what for what, _ in shared.calls] == ["delete"]
    assert daemon.says("node removed by cluster autoscaler")


def holder(plane: ControlPlane) -> str:
    """Empty while there is no lease."""
    try:
        found: str = find_lease(plane)["holderIdentity"]
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return ""
    return found
