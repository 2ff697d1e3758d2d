"""Requests for capacity in ``plan``, ``explain``, ``status`` and the metrics."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from nodewright.adapters.metrics import Metrics
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.engine.report import LoopReport
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    CLASS_ANNOTATION,
    REQUEST_ANNOTATION,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
    TemplateReference,
)
from nodewright.planner import make_plan
from nodewright.testkit import FakeClock, build_node, build_pod
from nodewright.testkit.world import NOW, World, settings_with

Nodewright = Callable[..., Any]
WriteDump = Callable[..., str]

POOL = {"pool": "general"}
ON = ("--group-by", "pool", "--group-max", "20", "--enable-provisioning-requests")
MADE = datetime.fromtimestamp(7200, tz=UTC)
TEMPLATE = PodTemplate(
    metadata=ObjectMeta(name="t", namespace="ml"), template=PodTemplateSpec(spec=build_pod("p", "2").spec)
)


def request(name: str, count: int, kind: str, *said: tuple[str, str], made: datetime = MADE) -> ProvisioningRequest:
    """``said`` are conditions that are True, with their reasons."""
    conditions = tuple(
        Condition(type=what, status="True", reason=reason, last_transition_time=made) for what, reason in said
    )
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace="ml", uid=name, creation_timestamp=made),
        spec=ProvisioningRequestSpec(
            pod_sets=(PodSet(pod_template_ref=TemplateReference(name="t"), count=count),), provisioning_class_name=kind
        ),
        status=ProvisioningRequestStatus(conditions=conditions),
    )


@pytest.fixture
def dump(write_dump: WriteDump) -> str:
    nodes = [build_node(f"n-{n}", cpu="4", labels=POOL, created_at=3600.0) for n in range(2)]
    return write_dump(
        *nodes,
        TEMPLATE,
        request("train", 6, BEST_EFFORT_ATOMIC),
        request("big", 200, BEST_EFFORT_ATOMIC),
        request("small", 1, CHECK_CAPACITY),
        request("over", 1, CHECK_CAPACITY, ("Provisioned", "CapacityIsFound"), ("Failed", "Expired")),
    )


def test_a_plan_for_people(nodewright: Nodewright, dump: str) -> None:
    said = " ".join(nodewright("plan", dump, *ON).out.split())
    assert "dump/general 2 → 4 20 grows for request ml/train" in said
    assert said.endswith("Plan: 2 more nodes in 1 group for 1 request.")
    text = nodewright("explain", "request", "ml/big", dump, *ON).out
    assert "nodes, and the maximum size leaves 18)" in " ".join(text.split())
    text = nodewright("explain", "request", "ml/small", dump, *ON).out
    assert "room is held for 1 pod until 1970-01-01T02:10:00Z" in " ".join(text.split())


def test_a_plan_for_programs(nodewright: Nodewright, dump: str) -> None:
    document = nodewright("plan", dump, *ON, "-o", "json").document
    states = {one["request"]: one["state"] for one in document["capacity_requests"]}
    assert states == {"ml/train": "provisioning", "ml/big": "waiting", "ml/small": "booked", "ml/over": "failed"}
    assert document["expansions"] == [
        {"group": "dump/general", "current": 2, "target": 4, "max": 20, "purpose": "request"}
    ]
    assert document["actions"][0]["request"] == {"id": "train", "is_gang": False, "key": "ml/train", "nodes": 2}


def test_where_requests_are_off_the_plan_says_so(nodewright: Nodewright, dump: str) -> None:
    assert "4 requests for capacity are ignored: --enable-provisioning-requests is off." in (
        nodewright("plan", dump, "--group-by", "pool").out
    )


def test_where_requests_are_off_one_of_them_says_so(nodewright: Nodewright, dump: str) -> None:
    off = "requests are not served: --enable-provisioning-requests is off"
    assert off in " ".join(nodewright("explain", "request", "ml/train", dump, "--group-by", "pool").out.split())
    assert off in nodewright("explain", "request", "ml/none", dump, "--group-by", "pool").err


def test_one_request(nodewright: Nodewright, dump: str) -> None:
    found = nodewright("explain", "request", "ml/big", dump, *ON, "-o", "json").document
    assert (found["state"], found["pods"], found["next_try_at"]) == ("waiting", 200, "1970-01-01T02:01:00Z")
    assert "the maximum size leaves 18" in found["message"]
    text = " ".join(nodewright("explain", "request", "ml/small", dump, *ON).out.split())
    assert text.startswith("Request ml/small, as of 1970-01-01T02:00:00Z: booked.")
    ended = nodewright("explain", "request", "ml/smal", dump, *ON)
    assert (ended.code, "did you mean ml/small?" in ended.err) == (2, True)


def test_what_its_pods_are_told(nodewright: Nodewright, write_dump: WriteDump) -> None:
    lost = request("lost", 1, "qeued.example.com")
    dump = write_dump(build_node("n", labels=POOL, created_at=3600.0), lost)
    found = nodewright(
        "explain", "request", "ml/lost", dump, *ON, "--now", "1970-01-01T02:05:00Z", "-o", "json"
    ).document
    assert found["state"] == "new"
    assert [one["to"] for one in found["told"]] == ["ml/lost"]
    assert "class qeued.example.com" in found["told"][0]["message"]


@pytest.mark.parametrize(
    ("name", "outcome", "says"),
    [
        ("train", "waits", "because it's consuming ProvisioningRequest ml/train"),
        ("trian", "unhelped", "waits for ProvisioningRequest ml/trian, which does not exist: create it"),
        ("over", "unhelped", "annotation autoscaling.x-k8s.io/provisioning-class-name is best-effort"),
    ],
)
def test_pods_that_consume_a_request_say_so(
    name: str, outcome: str, says: str, nodewright: Nodewright, write_dump: WriteDump
) -> None:
    annotations = {REQUEST_ANNOTATION: name, CLASS_ANNOTATION: BEST_EFFORT_ATOMIC}
    requests = [request("train", 6, BEST_EFFORT_ATOMIC), request("over", 1, CHECK_CAPACITY)]
    pod = build_pod("p", "2", namespace="ml", annotations=annotations)
    dump = write_dump(build_node("n", labels=POOL, created_at=3600.0), TEMPLATE, *requests, pod)
    (found,) = nodewright("plan", dump, *ON, "-o", "json").document["pods"]
    assert (found["outcome"], says in found["reason"]) == (outcome, True)


def test_of_many_pods_that_consume_a_request_all_say_so(nodewright: Nodewright, write_dump: WriteDump) -> None:
    annotations = {REQUEST_ANNOTATION: "train", CLASS_ANNOTATION: BEST_EFFORT_ATOMIC}
    pods = [build_pod(f"p-{n}", "2", namespace="ml", annotations=annotations) for n in range(52)]
    dump = write_dump(
        build_node("n", labels=POOL, created_at=3600.0), TEMPLATE, request("train", 52, BEST_EFFORT_ATOMIC), *pods
    )
    found = nodewright("plan", dump, *ON, "-o", "json").document["pods"]
    assert {one["outcome"] for one in found} == {"waits"}
    assert all("ProvisioningRequest ml/train" in one["reason"] for one in found)


def make_report() -> LoopReport:
    world, settings = World(), settings_with(enable_provisioning_requests=True)
    world.add_group("a", 1)
    world.templates = [TEMPLATE]
    made = datetime.fromtimestamp(NOW - 60, tz=UTC)
    world.requests = [
        request("held", 2, CHECK_CAPACITY, ("Provisioned", "CapacityIsFound"), made=made),
        request("fresh", 1, CHECK_CAPACITY, made=made),
    ]
    state = world.state(settings)
    return LoopReport(started=NOW, finished=NOW, state=state, plan=make_plan(state, settings, Random(1))[0])


def test_the_daemon_tells_what_the_api_server_said_last() -> None:
    server = DebugServer(FakeClock(NOW))
    server.publish(make_report(), settings_with(), None)
    held = server.pages()["/status"]({}).body.decode()
    assert '"request": "ml/held"' in held
    assert '"booked_until": "1970-01-02T03:55:40Z"' in held
    assert '"held_pods": 2' in held
    assert '"state": "new"' in held
    table = server.pages()["/status"]({"output": "table", "width": "200"}).body.decode()
    assert "room is held for 2 pods until 1970-01-02T03:55:40Z" in table


def test_metrics() -> None:
    metrics = Metrics(settings_with())
    metrics.observe(make_report())
    page = metrics.page().decode()
    kind = f'class="{CHECK_CAPACITY}"'
    assert f'nodewright_capacity_requests{{{kind},state="booked"}} 1.0' in page
    assert f'nodewright_capacity_requests{{{kind},state="new"}} 1.0' in page
    assert "nodewright_booked_pods 2.0" in page
