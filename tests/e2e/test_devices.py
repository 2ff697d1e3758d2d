"""Dynamic resource allocation on the real scheduler: pods that claim devices land on the nodes that were bought for them.

No driver runs here: the ResourceSlices of the next nodes are there before the nodes.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.test_scale_up import PODS, count_running, find_events

from nodewright_fake import GroupConfig
from nodewright_fake.options import DevicesConfig

RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
DRIVER, EXTENDED = "gpu.example.com", "example.com/gpu"
DEVICES = 2


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    """Machines without devices, and such with two."""
    devices = DevicesConfig(driver=DRIVER, count=DEVICES, attributes={"model": "a100"})
    return (make_group("plain"), msgspec.structs.replace(make_group("gpu"), devices=(devices,)))


@pytest.fixture
def claiming(clean: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with a class of devices, and the slices of the next nodes of group ``gpu``."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body = {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector], "extendedResourceName": EXTENDED}}
    clean.request(f"{RESOURCES}/deviceclasses", method="POST", body=body)
    devices = [{"name": f"{number:03}", "attributes": {"model": {"string": "a100"}}} for number in range(DEVICES)]
    for name in (f"gpu-{number}" for number in range(6)):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        clean.request(f"{RESOURCES}/resourceslices", method="POST", body={"metadata": {"name": name}, "spec": spec})
    yield clean
    clean.request(PODS, method="DELETE", body={"gracePeriodSeconds": 0})
    wait_until(lambda: not clean.request(PODS)["items"], "the end of the pods")
    for held in clean.request(CLAIMS)["items"]:
        own = f"{CLAIMS}/{held['metadata']['name']}"
        clean.request(
            own, method="PATCH", body={"metadata": {"finalizers": None}}, content="application/merge-patch+json"
        )
    clean.request(CLAIMS, method="DELETE")
    for kind in ("resourceslices", "deviceclasses"):
        clean.request(f"{RESOURCES}/{kind}", method="DELETE")


def add_claim(plane: ControlPlane, name: str, model: str) -> None:
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].model == '{model}'"}}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": [selector]}
    spec = {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}
    plane.request(CLAIMS, method="POST", body={"metadata": {"name": name}, "spec": spec})


def add_pod(plane: ControlPlane, name: str, container: dict[str, Any], **spec: Any) -> None:
    container = {"name": "c", "image": "none.invalid/c", **container}
    plane.request(PODS, method="POST", body={"metadata": {"name": name}, "spec": {"containers": [container], **spec}})


def add_claiming_pod(plane: ControlPlane, name: str, model: str = "a100") -> None:
    add_claim(plane, name, model)
    claims = [{"name": "gpu", "resourceClaimName": name}]
    resources = {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu"}]}
    add_pod(plane, name, {"resources": resources}, resourceClaims=claims)


def bought(shared: SharedCloud) -> dict[str, int]:
    counts: dict[str, int] = {}
    for what, args in shared.calls:
        if what == "increase":
            counts[args[0]] = counts.get(args[0], 0) + args[2] - args[1]
    return counts


def hosts(plane: ControlPlane) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in plane.request(PODS)["items"])


def test_three_claims_get_two_machines_with_two_devices(
    claiming: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    start()
    for name in ("x", "y", "z"):
        add_claiming_pod(claiming, name)
    wait_until(lambda: count_running(claiming) == 3, "three running pods")
    assert bought(shared) == {"gpu": 2}
    assert set(hosts(claiming)) == {"gpu-0", "gpu-1"}


def test_an_extended_resource_is_served_by_the_class_that_names_it(
    claiming: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    start()
    amounts = {"cpu": "100m", EXTENDED: "1"}
    for name in ("x", "y", "z"):
        add_pod(claiming, name, {"resources": {"requests": amounts, "limits": {EXTENDED: "1"}}})
    wait_until(lambda: count_running(claiming) == 3, "three running pods")
    assert bought(shared) == {"gpu": 2}
    assert set(hosts(claiming)) == {"gpu-0", "gpu-1"}


def test_a_claim_that_no_device_meets_buys_nothing(
    claiming: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    start()
    add_claiming_pod(claiming, "x", model="h100")
    wait_until(lambda: find_events(claiming, "NotTriggerScaleUp"), "event of the pod")
    assert "cannot allocate all claims" in find_events(claiming, "NotTriggerScaleUp")[0]["message"]
    assert shared.calls == []
