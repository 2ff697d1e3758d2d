"""A real control plane for each test session, or one clear reason why there is none.

``E2E=require`` (CI) builds what is missing and fails where it cannot be had; with ``E2E=off`` no test here is collected.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.binary import Unavailable, provide
from tests.e2e.cloud import Kubelets, SharedCloud
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess
from tests.e2e.rights import MODES, bind_role

from nodewright_fake import CloudOptions, GroupConfig, fixed

StartDaemon = Callable[..., DaemonProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count every test of this folder to the slow tier."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


_WISH = os.environ.get("E2E", "auto")
collect_ignore_glob = ["*"] if _WISH == "off" else []


@pytest.fixture(scope="session")
def farm_binary() -> Path:
    try:
        return provide(may_build=_WISH == "require").farm
    except Unavailable as reason:
        if _WISH == "require":
            pytest.fail(f"no control plane: {reason}")
        pytest.skip(f"no control plane: {reason}")


@pytest.fixture(scope="session")
def plane(farm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    users: dict[str, tuple[str, ...]] = dict.fromkeys(MODES, ())
    with ControlPlane(farm_binary, tmp_path_factory.mktemp("plane"), users) as running:
        for user in MODES:
            bind_role(running, user)
        yield running


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, emptied of what the test leaves behind."""
    yield plane
    plane.request("/apis/apps/v1/namespaces/default/deployments", method="DELETE")
    plane.request("/api/v1/namespaces/default/pods", method="DELETE", body={"gracePeriodSeconds": 0})
    plane.request("/apis/policy/v1/namespaces/default/poddisruptionbudgets", method="DELETE")
    plane.request("/api/v1/nodes", method="DELETE")
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    for path in (leases, "/api/v1/namespaces/kube-system/configmaps", "/api/v1/namespaces/default/events"):
        plane.request(path, method="DELETE")


def make_group(name: str, max_size: int = 10, zone: str = "") -> GroupConfig:
    """Machines of 4 cores that are ready within about a second."""
    return GroupConfig(
        name=name,
        max_size=max_size,
        zone=zone,
        cpu=4.0,
        memory="16Gi",
        request_delay=fixed(0),
        provision_delay=fixed(0.5),
        register_delay=fixed(0.2),
        ready_delay=fixed(0.2),
        delete_delay=fixed(0.2),
    )


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    """What the cloud offers; tests override it."""
    return (make_group("small"),)


@pytest.fixture
def cloud_options(groups: tuple[GroupConfig, ...]) -> CloudOptions:
    """How the cloud is; tests override it."""
    return CloudOptions(groups=groups)


@pytest.fixture
def shared(clean: ControlPlane, cloud_options: CloudOptions, tmp_path: Path) -> Iterator[SharedCloud]:
    """A cloud whose machines become nodes of the control plane."""
    cloud = SharedCloud(cloud_options, tmp_path / "cloud.sock")
    with Kubelets(clean, cloud).at_work():
        yield cloud
    cloud.close()


@pytest.fixture
def start(plane: ControlPlane, shared: SharedCloud, tmp_path: Path) -> Iterator[StartDaemon]:
    """Starts ``nodewright run`` with further flags, as the user that has the role of the chart; ends what still runs."""
    started: list[DaemonProcess] = []

    def begin(
        *flags: str,
        user: str = "nodewright",
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> DaemonProcess:
        folder = tmp_path / f"daemon-{len(started)}"
        folder.mkdir()
        started.append(DaemonProcess(folder, plane.kubeconfig(user), shared.address, flags, settings, environ))
        return started[-1]

    yield begin
    for daemon in started:
        daemon.kill()
