"""CapacityBuffers on a real control plane, under the chart's role for them: room that the real scheduler finds free."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.requesting import DEFINITIONS, MERGE_PATCH, Asking, increases, install_crds
from tests.e2e.rights import bind_role, find_refused, granted, is_used, read_asked
from tests.e2e.test_scale_up import count_running, deploy, find_events

ON = ("capacity-buffer-controller-enabled", "capacity-buffer-pod-injection-enabled")
FLAGS = tuple(f"--{flag}" for flag in ON)
SETTINGS = {"buffers": dict.fromkeys(ON, True)}
DEFINITION = "capacitybuffers.autoscaling.x-k8s.io"
BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"
READY = "True/AttributesSetSuccessfully"


@pytest.fixture(scope="module")
def allowed(plane: ControlPlane) -> Iterator[ControlPlane]:
    """What the chart gives where buffers are enabled, and no longer than here."""
    install_crds(plane)
    bind_role(plane, settings=SETTINGS)
    yield plane
    bind_role(plane)


@pytest.fixture
def sparing(clean: ControlPlane, allowed: ControlPlane) -> Iterator[ControlPlane]:
    assert clean is allowed
    someone = Asking(clean)
    someone.template("chunk")
    yield clean
    clean.request(BUFFERS, method="DELETE")
    someone.clear()


def add_buffer(plane: ControlPlane, name: str, **spec: Any) -> None:
    if "scalableRef" not in spec:
        spec.setdefault("podTemplateRef", {"name": "chunk"})
    head = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": name}}
    plane.request(BUFFERS, method="POST", body={**head, "spec": spec})


def read_status(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.request(f"{BUFFERS}/{name}").get("status", {})
    return found


def said(plane: ControlPlane, name: str, kind: str) -> str:
    conditions = {one["type"]: one for one in read_status(plane, name).get("conditions", ())}
    return f"{conditions[kind]['status']}/{conditions[kind]['reason']}" if kind in conditions else ""


def test_room_is_made_found_and_made_again(sparing: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """With every right that the chart gives for it, and no other."""
    start(*FLAGS)
    add_buffer(sparing, "spare", replicas=6)
    wait_until(lambda: increases(shared) == [("small", 0, 2)], "two machines")
    wait_until(lambda: said(sparing, "spare", "Provisioning") == "True/FakePodsInjected", "condition of the buffer")
    status = read_status(sparing, "spare")
    assert (status["replicas"], status["podTemplateRef"]) == (6, {"name": "chunk"})
    assert status["podTemplateGeneration"] == 1
    assert status["provisioningStrategy"] == "buffer.x-k8s.io/active-capacity"
    wait_until(lambda: find_events(sparing, "TriggeredScaleUp"), "event of the buffer")
    event = find_events(sparing, "TriggeredScaleUp")[0]
    assert event["involvedObject"]["kind"] == "CapacityBuffer"
    assert event["message"].startswith("capacity buffer 6 fake pods triggered scale-up")
    deploy(sparing, "web", 5)
    wait_until(lambda: count_running(sparing) == 5, "running pods")
    wait_until(lambda: increases(shared)[1:] == [("small", 2, 3)], "a third machine")
    asked = read_asked(sparing)
    assert not find_refused(asked, granted(settings=SETTINGS))
    assert not [right for right in granted(settings=SETTINGS) - granted() if not is_used(right, asked)]


def test_a_share_follows_its_deployment_and_what_is_wrong_is_told(
    sparing: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    start(*FLAGS)
    deploy(sparing, "web", 4)
    web = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    add_buffer(sparing, "share", scalableRef=web, percentage=50)
    add_buffer(sparing, "lost", podTemplateRef={"name": "nowhere"}, replicas=1)
    wait_until(lambda: read_status(sparing, "share").get("replicas") == 2, "half of four pods")
    wait_until(lambda: said(sparing, "lost", "ReadyForProvisioning") == "False/error", "what is wrong")
    (ready, *_) = read_status(sparing, "lost")["conditions"]
    assert ready["message"].startswith("there is no PodTemplate default/nowhere: create it")
    Asking(sparing).template("nowhere")
    wait_until(lambda: said(sparing, "lost", "ReadyForProvisioning") == READY, "what was wrong")
    scale = "/apis/apps/v1/namespaces/default/deployments/web/scale"
    sparing.request(scale, method="PATCH", body={"spec": {"replicas": 6}}, content=MERGE_PATCH)
    wait_until(lambda: read_status(sparing, "share").get("replicas") == 3, "half of six pods")
    wait_until(lambda: count_running(sparing) == 6, "running pods")
    assert sum(after - before for _, before, after in increases(shared)) == 3


def test_where_the_definition_is_not_installed_nothing_else_stops(
    clean: ControlPlane, allowed: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Until it is."""
    assert clean is allowed
    clean.request(f"{DEFINITIONS}/{DEFINITION}", method="DELETE")
    wait_until(lambda: not (_is_defined(clean) or _is_served(clean)), "definition gone")
    start(*FLAGS)
    deploy(clean, "web", 1)
    wait_until(lambda: count_running(clean) == 1, "a running pod")
    assert increases(shared) == [("small", 0, 1)]
    install_crds(clean)


def _is_defined(plane: ControlPlane) -> bool:
    return any(held["metadata"]["name"] == DEFINITION for held in plane.request(DEFINITIONS)["items"])


def _is_served(plane: ControlPlane) -> bool:
    versions = "/apis/autoscaling.x-k8s.io/v1beta1"
    groups = {group["name"] for group in plane.request("/apis")["groups"]}
    if "autoscaling.x-k8s.io" not in groups:
        return False
    return any(one["name"] == "capacitybuffers" for one in plane.request(versions)["resources"])
