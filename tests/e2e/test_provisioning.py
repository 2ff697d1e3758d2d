"""Requests for capacity on a real control plane, under the chart's role for them: the scenarios of seed 004, and what goes
wrong. The pods come afterwards, and the real scheduler places them.
"""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.e2e.cloud import RealClock, SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.requesting import Asking, increases, install_crds
from tests.e2e.rights import bind_role, find_refused, granted, is_used, read_asked
from tests.e2e.test_scale_up import count_ready, count_running, find_events

from nodewright.model.capability import Capability
from nodewright.model.duration import format_moment
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    CLASS_ANNOTATION,
    REQUEST_ANNOTATION,
    SEED_ATOMIC,
    SEED_CHECK_CAPACITY,
)
from nodewright_fake import CloudOptions, GroupConfig, StockOut, fixed
from nodewright_fake.options import MachineShape, MachineTypeConfig

SETTINGS = {
    "provisioning": {"enable-provisioning-requests": True, "enable-provisioning-classes": True},
    "limits": {"capacity-quotas-enabled": True},
}
# No other writer leads here: a successor need not wait for a lease.
ON = (
    "--enable-provisioning-requests",
    "--enable-provisioning-classes",
    "--capacity-quotas-enabled",
    "--provisioning-request-initial-backoff-time=2s",
    "--leader-elect=false",
)
# As those of make_group, for groups that are made; but no machine is a node before the next loop has seen its group.
_SHAPE = {name: getattr(make_group(""), name) for name in MachineShape.__struct_fields__}
FOUR_CORES = MachineTypeConfig(name="four-cores", **{**_SHAPE, "provision_delay": fixed(3)})
# Unlike other groups: what has no room here gets none of them.
NARROW = replace(make_group("narrow", max_size=2), labels={"pool": "narrow"})
FOUND, BOUGHT = "True/CapacityIsFound", "True/CapacityIsProvisioned"
UNDER_WAY, NOT_FOUND = "False/Provisioning", "False/CapacityIsNotFound"
CONSUMED = "True/CapacityBookingConsumed"


@pytest.fixture(scope="module")
def allowed(plane: ControlPlane) -> Iterator[ControlPlane]:
    """What the chart gives where requests are enabled, and no longer than here."""
    install_crds(plane)
    for user in ("nodewright", "dry-run"):
        bind_role(plane, user, SETTINGS)
    yield plane
    for user in ("nodewright", "dry-run"):
        bind_role(plane, user)


@pytest.fixture
def asking(clean: ControlPlane, allowed: ControlPlane) -> Iterator[Asking]:
    assert clean is allowed
    someone = Asking(clean)
    someone.template("one-core")
    yield someone
    someone.clear()


@pytest.fixture
def cloud_options(groups: tuple[GroupConfig, ...], request: pytest.FixtureRequest) -> CloudOptions:
    """The parameter says what the cloud cannot do."""
    switched_off: tuple[Capability, ...] = getattr(request, "param", ())
    return CloudOptions(groups=groups, switched_off=switched_off)


def group(**changes: Any) -> pytest.MarkDecorator:
    """The cloud has one group, with something else about it."""
    return pytest.mark.parametrize("groups", [(replace(make_group("small"), **changes),)], ids=[""])


def names_in(plane: ControlPlane, path: str) -> set[str]:
    return {held["metadata"]["name"] for held in plane.request(path)["items"]}


@group(size=2)
def test_room_is_checked_held_and_used(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """The seed's first scenario: 2 nodes, room for 8 pods."""
    wait_until(lambda: count_ready(clean) == 2, "two nodes")
    asking.ask("fits", 4, 2, kind=SEED_CHECK_CAPACITY)
    asking.ask("large", 20, kind=CHECK_CAPACITY)
    start(*ON)
    asking.wait("fits", "CapacityAvailable", FOUND)
    asking.wait("large", "CapacityAvailable", NOT_FOUND)
    assert asking.message("large", "Provisioned").endswith("there is room for 2 of 20 pods")
    asking.consume("fits", 6, SEED_CHECK_CAPACITY)
    wait_until(lambda: count_running(clean) == 6, "running pods")
    asking.wait("fits", "BookingExpired", CONSUMED)
    wait_until(lambda: "CapacityBookingConsumed" in asking.told("ProvisioningRequest", "fits"), "event of the end")
    assert {"Accepted", "CapacityIsFound"} <= asking.told("ProvisioningRequest", "fits").keys()
    asking.consume("large", 3, CHECK_CAPACITY)
    wait_until(lambda: find_events(clean, "ConsumesProvisioningRequest"), "event of a pod that waits")
    assert increases(shared) == []


def test_machines_for_all_pods_and_the_pods_on_them(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """The second scenario, with today's name of the class."""
    start(*ON)
    asking.ask("train", 6, 4, kind=BEST_EFFORT_ATOMIC)
    asking.wait("train", "Provisioned", BOUGHT)
    assert asking.message("train", "Provisioned") == "3 nodes were provisioned"
    assert count_ready(clean) == 3
    asking.consume("train", 10, BEST_EFFORT_ATOMIC)
    wait_until(lambda: count_running(clean) == 10, "running pods")
    asking.wait("train", "BookingExpired", CONSUMED)
    assert increases(shared) == [("small", 0, 3)]
    assert asking.told("ProvisioningRequest", "train")["Provisioning"].endswith("shared/small 0->3")


@pytest.mark.parametrize(
    "cloud_options", [CloudOptions(groups=(make_group("narrow", max_size=1),), machine_types=(FOUR_CORES,))], ids=[""]
)
def test_groups_are_made_where_there_is_none_for_it(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """The third scenario: a group that is too narrow, a label that no group has; and the limits that hold for such groups."""
    start(*ON, "--node-autoprovisioning-enabled", "--cores-total=0:20", "--memory-total=0:96")
    asking.template("of-team", nodeSelector={"team": "a"})
    asking.ask("wide", 8)
    asking.wait("wide", "Provisioned", BOUGHT)
    asking.ask("own", 4, template="of-team")
    asking.wait("own", "Provisioned", BOUGHT)
    asking.ask("beyond", 12, template="of-team", parameters={"noRetry": "true"})
    asking.wait("beyond", "Failed", "True/CapacityIsNotFound")
    assert "shared/nap-four-cores-" in asking.message("beyond", "Failed")
    assert "it takes 3 nodes, and the cluster's limits (cpu) leave 2" in asking.message("beyond", "Failed")
    asking.consume("wide", 8)
    wait_until(lambda: count_running(clean) == 8, "running pods")
    labels = [node["metadata"]["labels"] for node in clean.request("/api/v1/nodes")["items"]]
    assert sorted(held.get("team", "") for held in labels) == ["", "", "a"]
    assert len([group for group, _, _ in increases(shared) if group.startswith("nap-four-cores-")]) == 2


@pytest.mark.parametrize("groups", [(NARROW, make_group("wide", max_size=50))], ids=[""])
def test_what_a_limit_forbids_is_refused_whole_and_the_limit_named(
    asking: Asking, shared: SharedCloud, start: StartDaemon
) -> None:
    """The fourth scenario: sizes of groups, and what the cluster may have."""
    start(*ON, "--max-nodes-total=6", "--cores-total=0:20", "--memory-total=0:64")
    for name, pods, says in (
        ("nodes", 28, "it takes 7 nodes, and --max-nodes-total leaves 6"),
        ("both", 24, "it takes 6 nodes, and the cluster's limits (cpu, memory) leave 4"),
        ("memory", 20, "it takes 5 nodes, and the cluster's limits (memory) leave 4"),
    ):
        asking.ask(name, pods, parameters={"noRetry": "true"})
        asking.wait(name, "Failed", "True/CapacityIsNotFound")
        assert says in asking.message(name, "Failed")
        assert "shared/narrow: it takes" in asking.message(name, "Failed")
        assert "the maximum size leaves 2" in asking.message(name, "Failed")
    assert increases(shared) == []
    asking.ask("fits", 16)
    asking.wait("fits", "Provisioned", BOUGHT)
    assert increases(shared) == [("wide", 0, 4)]


@group(size=2)
def test_many_small_ones_and_a_huge_one(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """The fifth scenario, as small as it may be here: bench/capacity_requests.py measures it. Room for 8 pods is promised once."""
    wait_until(lambda: count_ready(clean) == 2, "two nodes")
    for number in range(120):
        asking.ask(f"r{number}", 2, kind=CHECK_CAPACITY)
    start(*ON)
    wait_until(lambda: asking.count("Provisioned").total() == 120, "a word on each")
    assert asking.count("Provisioned") == {FOUND: 4, NOT_FOUND: 116}
    asking.ask("huge", *[16_384] * 8)
    asking.wait("huge", "Provisioned", NOT_FOUND)
    assert "it takes 32768 nodes, and the maximum size leaves 8" in asking.message("huge", "Provisioned")
    assert increases(shared) == []


@pytest.mark.parametrize("cloud_options", [(Capability.ATOMIC_RESIZE,)], indirect=True)
def test_where_the_cloud_has_not_all_machines_those_that_came_go(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    with shared.lock:
        shared.cloud.stock_out(StockOut(group="small", remaining=1))
    start(*ON)
    asking.ask("train", 8)
    asking.wait("train", "Provisioned", NOT_FOUND)
    wait_until(lambda: shared.cloud.view("small").target == 0, "end of what came")
    wait_until(lambda: not clean.request("/api/v1/nodes")["items"], "cluster without nodes")
    assert increases(shared) == [("small", 0, 2)]


@group(request_delay=fixed(600))
def test_deletion_cancels_at_once(asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Of a request, and of the namespace in which another is; of a third, that waits for its finalizer."""
    namespaces = "/api/v1/namespaces"
    clean.request(namespaces, method="POST", body={"metadata": {"name": "team"}})
    team = Asking(clean, "team")
    team.template("one-core")
    start(*ON, user="admin")  # events in a namespace that goes are refused, and that is no missing right
    for someone, name in ((asking, "train"), (team, "train"), (asking, "held")):
        someone.ask(name, 8)
        someone.wait(name, "Provisioned", UNDER_WAY)
    asking.hold("held")
    assert shared.cloud.view("small").target == 6
    asking.withdraw("train")
    wait_until(lambda: shared.cloud.view("small").target == 4, "withdrawal of what was asked for")
    clean.request(f"{namespaces}/team", method="DELETE")
    asking.withdraw("held")
    wait_until(lambda: shared.cloud.view("small").target == 0, "withdrawal of all")
    asking.let_go("held")
    wait_until(lambda: "team" not in names_in(clean, namespaces), "end of the namespace")


@group(provision_delay=fixed(4))
def test_a_daemon_that_is_killed_under_way_loses_nothing(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    first = start(*ON)
    asking.ask("train", 8)
    asking.wait("train", "Provisioned", UNDER_WAY)
    first.process.send_signal(signal.SIGKILL)
    first.wait()
    assert asking.conditions("train")["Accepted"] == "True/Accepted"
    start(*ON)
    asking.wait("train", "Provisioned", BOUGHT)
    asking.consume("train", 8)
    wait_until(lambda: count_running(clean) == 8, "running pods")
    asking.wait("train", "BookingExpired", CONSUMED)
    assert increases(shared) == [("small", 0, 2)]


def test_pods_are_told_what_is_wrong_with_their_annotations(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    start(*ON)
    asking.pod("lost", {REQUEST_ANNOTATION: "nobody", CLASS_ANNOTATION: SEED_ATOMIC})
    wait_until(lambda: "ProvisioningRequestMissing" in asking.told("Pod", "lost"), "event of the one without request")
    assert increases(shared) == []
    asking.pod("half", {CLASS_ANNOTATION: SEED_ATOMIC})
    wait_until(lambda: "ProvisioningRequestNotNamed" in asking.told("Pod", "half"), "event of the one with one of two")
    wait_until(lambda: count_running(clean) > 0, "an ordinary pod that runs")


@group(size=2)
def test_what_is_over_is_collected_and_every_right_is_used(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Ten minutes and a week pass by the dates of the conditions. A quota and a class bring the rest of the rights."""
    wait_until(lambda: count_ready(clean) == 2, "two nodes")
    asking.make("v1beta1/CapacityQuota", "capacityquotas", "total", {"limits": {"resources": {"cpu": 1000}}})
    for kind in (CHECK_CAPACITY, SEED_ATOMIC):
        asking.make("v1alpha1/ProvisioningClass", "provisioningclasses", kind, {"limits": {"pods": 10}})
    daemon = start(*ON)
    asking.ask("wrong", 1, template="nowhere")
    asking.ask("large", 11)
    asking.ask("fits", 8, kind=CHECK_CAPACITY)
    asking.wait("large", "Failed", "True/InvalidRequest")
    assert f"limits.pods of class {SEED_ATOMIC} allows 10 in a namespace" in asking.message("large", "Failed")
    asking.wait("wrong", "Failed", "True/FailedToCreatePods")
    assert asking.message("wrong", "Failed").endswith("1 templates were missing: nowhere")
    asking.wait("fits", "Provisioned", FOUND)
    asking.set_back("fits", "Provisioned", format_moment(RealClock().now() - 660))
    asking.wait("fits", "BookingExpired", "True/CapacityReservationTimeExpired")
    asking.set_back("wrong", "Failed", "2020-01-01T00:00:00Z")
    wait_until(lambda: "wrong" not in asking.names(), "end of what failed")
    assert daemon.end() == 0
    asked = read_asked(clean)
    assert not find_refused(asked, granted(settings=SETTINGS))
    assert not [right for right in granted(settings=SETTINGS) - granted() if not is_used(right, asked)]
    assert not shared.calls


def test_who_only_looks_writes_no_condition(
    asking: Asking, clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    daemon = start("--dry-run", *ON, user="dry-run")
    asking.ask("train", 8)
    wait_until(lambda: daemon.says("would be done"), "plan in the log")
    assert daemon.says("would be done")[0]["action"]["type"] == "IncreaseSize"
    assert daemon.end() == 0
    assert asking.conditions("train") == {}
    assert not shared.calls
    asked = read_asked(clean, "dry-run")
    assert not find_refused(asked, granted("dry-run", SETTINGS))
    of_requests = granted("dry-run", SETTINGS) - granted("dry-run")
    assert not [right for right in of_requests if not is_used(right, asked)]
