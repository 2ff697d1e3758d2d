"""Buffers of spare capacity in ``plan``, ``explain``, ``status`` and the metrics."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from nodewright.adapters.metrics import Metrics
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.engine.report import LoopReport
from nodewright.model.capacity_buffer import CapacityBuffer, CapacityBufferSpec, ScalableReference
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import PodTemplate, TemplateReference
from nodewright.planner import make_plan
from nodewright.testkit import FakeClock, build_node, build_pod
from nodewright.testkit.world import NOW, World, settings_with

Nodewright = Callable[..., Any]
WriteDump = Callable[..., str]

POOL = {"pool": "general"}
ON = ("--capacity-buffer-controller-enabled", "--capacity-buffer-pod-injection-enabled")
GROUPS = ("--group-by", "pool", "--group-max", "4")
TEMPLATE = PodTemplate(
    metadata=ObjectMeta(name="t", namespace="shop"), template=PodTemplateSpec(spec=build_pod("p", "2").spec)
)


def buffer(name: str, **spec: Any) -> CapacityBuffer:
    if "scalable_ref" not in spec:
        spec["pod_template_ref"] = TemplateReference(name="t")
    return CapacityBuffer(metadata=ObjectMeta(name=name, namespace="shop", uid=name), spec=CapacityBufferSpec(**spec))


LOST = buffer("lost", scalable_ref=ScalableReference(api_group="apps", kind="Deployment", name="web"), percentage=10)


@pytest.fixture
def dump(write_dump: WriteDump) -> str:
    nodes = [build_node(f"n-{n}", cpu="4", labels=POOL, created_at=3600.0) for n in range(2)]
    return write_dump(*nodes, TEMPLATE, buffer("calm", replicas=2), buffer("spare", replicas=7), LOST)


def test_a_plan_for_people(nodewright: Nodewright, dump: str) -> None:
    said = " ".join(nodewright("plan", dump, *GROUPS, *ON).out.split())
    assert "dump/general 2 → 4 4 grows for 4 pods of buffers" in said
    assert "shop/calm PodTemplate t 2 2 full" in said
    assert "shop/spare PodTemplate t 7 2 short room for 4 pods is on its way; 1 pod without room" in said
    assert "shop/lost Deployment web 0 0 error there is no Deployment shop/web: create it" in said
    assert said.endswith("Plan: 2 more nodes in 1 group for spare capacity.")


def test_a_plan_for_programs(nodewright: Nodewright, dump: str) -> None:
    document = nodewright("plan", dump, *GROUPS, *ON, "-o", "json").document
    found = {one["buffer"]: one for one in document["capacity_buffers"]}
    assert {name: one["state"] for name, one in found.items()} == {
        "shop/calm": "full",
        "shop/spare": "short",
        "shop/lost": "error",
    }
    counts = {key: found["shop/spare"][key] for key in ("pods", "held", "coming", "missing")}
    assert counts == {"pods": 7, "held": 2, "coming": 4, "missing": 1}
    assert document["expansions"] == [
        {"group": "dump/general", "current": 2, "target": 4, "max": 4, "purpose": "buffer"}
    ]
    assert document["pods"] == []


def test_where_buffers_are_off_the_plan_says_so(nodewright: Nodewright, dump: str) -> None:
    assert "3 buffers of spare capacity are ignored: --capacity-buffer-controller-enabled is off." in (
        nodewright("plan", dump, *GROUPS).out
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "buffers are not filled: --capacity-buffer-controller-enabled is off"),
        (ON, "buffer shop/other is not filled: its provisioningStrategy"),
    ],
)
def test_a_buffer_that_is_left_alone_is_not_said_to_be_missing(
    flags: tuple[str, ...], says: str, nodewright: Nodewright, write_dump: WriteDump
) -> None:
    other = buffer("other", replicas=1, provisioning_strategy="example.com/other")
    dump = write_dump(build_node("n", labels=POOL, created_at=3600.0), TEMPLATE, other)
    ended = nodewright("explain", "buffer", "shop/other", dump, *GROUPS, *flags)
    assert (ended.code, says in ended.err) == (2, True)


def test_a_buffer_that_wants_nothing_says_so(nodewright: Nodewright, write_dump: WriteDump) -> None:
    dump = write_dump(build_node("n", labels=POOL, created_at=3600.0), TEMPLATE, buffer("none", replicas=0))
    text = " ".join(nodewright("explain", "buffer", "shop/none", dump, *GROUPS, *ON).out.split())
    assert "why no pods are wanted" in text


def test_one_buffer(nodewright: Nodewright, dump: str) -> None:
    text = " ".join(nodewright("explain", "buffer", "shop/spare", dump, *GROUPS, *ON).out.split())
    assert text.startswith("Buffer shop/spare, as of")
    assert "pods 7: 2 with room, 4 on its way, 1 without" in text
    assert "Provisioning True: 1 of 7 pods have no room yet" in text
    found = nodewright("explain", "buffer", "shop/lost", dump, *GROUPS, *ON, "-o", "json").document
    assert found["conditions"]["ReadyForProvisioning"].startswith("False: there is no Deployment shop/web")
    ended = nodewright("explain", "buffer", "shop/spar", dump, *GROUPS, *ON)
    assert (ended.code, "did you mean shop/spare?" in ended.err) == (2, True)


def test_a_node_that_holds_spare_capacity_says_for_whom(nodewright: Nodewright, dump: str) -> None:
    found = nodewright("explain", "node", "n-0", dump, *GROUPS, *ON, "-o", "json").document
    assert found["outcome"] == "stays"
    assert found["utilization"]["ratio"] == 1.0
    assert {pod["pod"].rpartition("-")[0] for pod in found["pods"]} <= {
        "shop/capacity-buffer-calm",
        "shop/capacity-buffer-spare",
    }
    assert found["pods"]


def make_report() -> LoopReport:
    world = World()
    world.add_group("a", 1, max_size=1)
    world.templates = [TEMPLATE]
    world.buffers = [buffer("calm", replicas=1), buffer("spare", replicas=2)]
    flags = {flag.removeprefix("--").replace("-", "_"): True for flag in ON}
    settings = settings_with(**flags)
    state = world.state(settings)
    return LoopReport(started=NOW, finished=NOW, state=state, plan=make_plan(state, settings, Random(1))[0])


def test_the_daemon_tells_how_buffers_stand() -> None:
    server = DebugServer(FakeClock(NOW))
    server.publish(make_report(), settings_with(), None)
    held = server.pages()["/status"]({}).body.decode()
    assert '"buffer": "shop/calm"' in held
    assert '"state": "short"' in held
    table = server.pages()["/status"]({"output": "table", "width": "200"}).body.decode()
    assert "1 pod without room: 1 max node group size reached" in table


def test_metrics() -> None:
    metrics = Metrics(settings_with())
    metrics.observe(make_report())
    page = metrics.page().decode()
    assert 'nodewright_capacity_buffers{state="full"} 1.0' in page
    assert 'nodewright_capacity_buffers{state="short"} 1.0' in page
    assert 'nodewright_buffer_pods{room="held"} 2.0' in page
    assert 'nodewright_buffer_pods{room="missing"} 1.0' in page
