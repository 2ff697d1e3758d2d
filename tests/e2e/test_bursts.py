"""Pods that arrive together are planned together: few calls to the cloud, and no node more than one decision buys."""

import math
from collections import Counter

import pytest
from tests.e2e.cloud import RealClock, SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.test_scale_up import count_running, deploy

from nodewright_fake import GroupConfig

FAMILIES = ("general", "compute", "memory")
PODS_EACH = 60


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    return tuple(make_group(family, max_size=60, zone=f"zone-{family}") for family in FAMILIES)


def increases(shared: SharedCloud) -> Counter[str]:
    with shared.lock:
        return Counter(arguments[0] for what, arguments in shared.calls if what == "increase")


def sizes(shared: SharedCloud) -> dict[str, int]:
    with shared.lock:
        return {family: shared.cloud.view(family).target for family in FAMILIES}


def test_a_burst_is_one_decision(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Of pods that only one group each helps, a machine of 4 cores takes four. No group waits for the next scan."""
    daemon = start("--scan-interval=5m")
    wait_until(lambda: daemon.says("loop"), "first loop")
    for family in FAMILIES:
        deploy(clean, family, PODS_EACH, nodeSelector={"topology.kubernetes.io/zone": f"zone-{family}"})
    wait_until(lambda: count_running(clean) == PODS_EACH * len(FAMILIES), "every pod runs")
    assert sizes(shared) == dict.fromkeys(FAMILIES, math.ceil(PODS_EACH / 4))
    assert max(increases(shared).values()) <= 2


def test_a_trickle_is_gathered_for_ten_seconds_at_most(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Three pods a second for 24 s never pause for the idle duration; waiting is bounded all the same.

    That duration is 4 s here: on a busy machine pods come, and are tried, in fits and starts. Where they take longer to
    come than they should, further batches are due.
    """
    daemon = start("--scan-interval=10s", "--batch-idle-duration=4s")
    wait_until(lambda: daemon.says("loop"), "first loop")
    begin = RealClock().now()
    for number in range(72):
        deploy(clean, f"trickle-{number}", 1, nodeSelector={"topology.kubernetes.io/zone": "zone-general"})
        RealClock().sleep(begin + (number + 1) / 3 - RealClock().now())
    wait_until(lambda: count_running(clean) == 72, "every pod runs")
    with shared.lock:
        took = max(shared.call_times) - begin
    assert 2 <= increases(shared)["general"] <= 2 + took // 10
