"""Gangs on the real scheduler: machines for all pods that must start together, or none."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import run_command, wait_until
from tests.e2e.test_scale_up import PODS, count_running, find_events

from nodewright.model.capability import Capability
from nodewright_fake import CloudOptions, GroupConfig, StockOut

POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
ROOM = 6


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    """Machines of which each has room for one pod of a gang."""
    return (make_group("few", max_size=2, zone="a"), make_group("some", max_size=4, zone="b"))


@pytest.fixture
def grouping(clean: ControlPlane) -> Iterator[ControlPlane]:
    yield clean
    clean.request(PODS, method="DELETE", body={"gracePeriodSeconds": 0})
    clean.request(POD_GROUPS, method="DELETE")
    wait_until(lambda: not clean.request(POD_GROUPS)["items"], "end of the PodGroups")


def add_pod_group(plane: ControlPlane, least: int) -> None:
    body = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}}}
    plane.request(POD_GROUPS, method="POST", body=body)


def add_members(plane: ControlPlane, *numbers: int) -> None:
    for number in numbers:
        container = {"name": "c", "image": "none.invalid/c", "resources": {"requests": {"cpu": "3"}}}
        spec = {"containers": [container], "schedulingGroup": {"podGroupName": "train"}}
        plane.request(PODS, method="POST", body={"metadata": {"name": f"train-{number}"}, "spec": spec})


def conditions(plane: ControlPlane) -> list[dict[str, Any]]:
    """PodScheduled of the pods that have it."""
    held = [one for pod in plane.request(PODS)["items"] for one in pod["status"].get("conditions", ())]
    return [one for one in held if one["type"] == "PodScheduled"]


def count_nodes(plane: ControlPlane) -> int:
    return len(plane.request("/api/v1/nodes")["items"])


def test_a_gang_of_six_runs_on_machines_that_are_bought_for_it(
    grouping: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """From nothing: the scheduler then says SchedulerError. Two groups serve it, as neither has room for all."""
    start()
    add_pod_group(grouping, ROOM)
    add_members(grouping, *range(ROOM))
    wait_until(lambda: count_running(grouping) == ROOM, "six running pods")
    bought = {args[0]: args[1:3] for what, args in shared.calls if what == "increase"}
    assert bought == {"few": (0, 2), "some": (0, 4)}
    assert len({pod["spec"]["nodeName"] for pod in grouping.request(PODS)["items"]}) == ROOM


def test_a_gang_waits_without_a_word_until_its_pods_are_there(
    grouping: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Pods that wait before the scheduler's queue have no condition, and buy nothing; the last one starts them all."""
    start()
    add_members(grouping, *range(ROOM - 1))  # the group may come after its pods
    add_pod_group(grouping, ROOM)
    wait_until(lambda: find_events(grouping, "NotTriggerScaleUp"), "event of a pod")
    wait_until(lambda: said(grouping, "5 of 6 pods exist"), "event that says how many pods there are")
    assert conditions(grouping) == []
    assert shared.calls == []
    add_members(grouping, ROOM - 1)
    wait_until(lambda: count_running(grouping) == ROOM, "six running pods")
    assert count_nodes(grouping) == ROOM


def said(plane: ControlPlane, text: str) -> bool:
    return any(text in event["message"] for event in find_events(plane, "NotTriggerScaleUp"))


class TestFourMachinesAreLeft:
    @pytest.fixture
    def groups(self) -> tuple[GroupConfig, ...]:
        return (make_group("some", max_size=4),)

    def test_none_is_bought_for_six(
        self, grouping: ControlPlane, shared: SharedCloud, start: StartDaemon, tmp_path: Any
    ) -> None:
        daemon = start()
        add_pod_group(grouping, ROOM)
        add_members(grouping, *range(ROOM))
        wait_until(lambda: said(grouping, "4 of 6 pods would have room"), "event that says what is missing")
        bundle, [told] = str(tmp_path / "bundle.tar.gz"), daemon.says("starting")
        made = run_command("bundle", bundle, f"--debug-address=127.0.0.1:{told['ports']['debug_address']}")
        assert made.returncode == 0, made.stderr
        explained = run_command("explain", "pod", "default/train-0", bundle, "--output=json")
        assert "4 of 6 pods would have room" in json.dumps(json.loads(explained.stdout)), explained.stderr
        assert shared.calls == []
        assert count_nodes(grouping) == 0

    def test_they_are_bought_for_a_gang_of_six_of_which_four_may_start(
        self, grouping: ControlPlane, shared: SharedCloud, start: StartDaemon
    ) -> None:
        start()
        add_pod_group(grouping, 4)
        add_members(grouping, *range(ROOM))
        wait_until(lambda: count_running(grouping) == 4, "four running pods")
        assert [args[:3] for what, args in shared.calls if what == "increase"] == [("some", 0, 4)]


class TestOneMachineCannotBeMade:
    @pytest.fixture
    def cloud_options(self) -> CloudOptions:
        """Three groups, the cheapest first, in a cloud that may carry out an increase in part."""
        prices = {"few": (2, 0.1), "some": (4, 0.2), "last": (10, 9.0)}
        groups = (
            msgspec.structs.replace(make_group(name, max_size=most), price_per_hour=price)
            for name, (most, price) in prices.items()
        )
        return CloudOptions(groups=tuple(groups), switched_off=(Capability.ATOMIC_RESIZE,))

    def test_a_gang_that_starts_with_five_keeps_its_five_machines(
        self, grouping: ControlPlane, shared: SharedCloud, start: StartDaemon
    ) -> None:
        """The sixth pod gets a machine of another group, and none of the five is given back."""
        shared.cloud.stock_out(StockOut(group="some", remaining=3))
        start("--expander=price")
        add_pod_group(grouping, 5)
        add_members(grouping, *range(ROOM))
        wait_until(lambda: count_running(grouping) == ROOM, "six running pods")
        increases = [args[:3] for what, args in shared.calls if what == "increase"]
        assert sorted(increases[:2]) == [("few", 0, 2), ("some", 0, 4)]
        assert increases[2:] == [("last", 0, 1)]
        assert count_nodes(grouping) == ROOM
