"""Evictions and edits of nodes: responses of the API server, and their outcomes."""

from typing import Any

import msgspec
import pytest
from core.tests.kube.conftest import ApiServer
from msgspec.structs import replace

from nodewright.actuation.ports import EvictionAnswer
from nodewright.actuation.taints import with_deletion_taint, without_deletion_taint
from nodewright.adapters.kube.api import ApiError, GuardedApi
from nodewright.adapters.kube.resources import PAGE
from nodewright.adapters.kube.writes import KubeWrites
from nodewright.model.gang import PodGroups, SchedulingPodGroup
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.context import Workloads

NODE = "/api/v1/nodes/a"
POD = Pod(metadata=ObjectMeta(name="p", namespace="shop", uid="u1"))
EVICTION = "/api/v1/namespaces/shop/pods/p/eviction"
FOREIGN = {"key": "dedicated", "value": "db", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}


@pytest.fixture
def writes(server: ApiServer) -> KubeWrites:
    server.put(
        NODE, {"metadata": {"name": "a", "annotations": {"mine": "1"}}, "spec": {"taints": [FOREIGN], "podCIDR": "x"}}
    )
    return KubeWrites(server, Workloads)


def mark(node: Node) -> Node:
    return with_deletion_taint(node, 1000.0, cordon=True)


def test_an_edit_leaves_everything_else_alone(server: ApiServer, writes: KubeWrites) -> None:
    before = writes.edit_node("a", mark)
    assert before is not None
    assert not before.spec.unschedulable
    held = server.objects[NODE]
    assert held["spec"]["podCIDR"] == "x"
    assert held["spec"]["taints"][0] == FOREIGN
    assert held["spec"]["taints"][1] == {
        "key": "ToBeDeletedByClusterAutoscaler",
        "value": "1000",
        "effect": "NoSchedule",
    }
    assert held["spec"]["unschedulable"] is True
    assert held["metadata"]["annotations"]["mine"] == "1"
    writes.edit_node("a", lambda node: without_deletion_taint(node, uncordon=True, force_uncordon=False))
    assert server.objects[NODE]["spec"] == {"taints": [FOREIGN], "podCIDR": "x"}
    assert server.objects[NODE]["metadata"]["annotations"] == {"mine": "1"}


def test_an_edit_that_changes_nothing_is_not_written(server: ApiServer, writes: KubeWrites) -> None:
    writes.edit_node("a", mark)
    count = len(server.writes)
    writes.edit_node("a", mark)
    assert len(server.writes) == count


def test_an_edit_meets_somebody_elses(server: ApiServer, writes: KubeWrites) -> None:
    other = {"key": "other", "effect": "NoExecute"}

    def somebody_writes() -> None:
        server.put(NODE, {"metadata": {"name": "a"}, "spec": {"taints": [FOREIGN, other]}})

    server.after_read = somebody_writes
    writes.edit_node("a", mark)
    keys = [taint["key"] for taint in server.objects[NODE]["spec"]["taints"]]
    assert keys == ["dedicated", "other", "ToBeDeletedByClusterAutoscaler"]


def test_a_node_that_is_not_there(server: ApiServer, writes: KubeWrites) -> None:
    assert writes.edit_node("b", mark) is None
    server.after_read = lambda: server.drop(NODE)
    assert writes.edit_node("a", mark) is None
    assert writes.get_node_view("a").node is None


def test_a_look_is_past_every_cache(server: ApiServer, writes: KubeWrites) -> None:
    server.put("/api/v1/pods/p", {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"nodeName": "a"}})
    server.put("/api/v1/pods/q", {"metadata": {"name": "q", "namespace": "shop"}, "status": {"phase": "Failed"}})
    view = writes.get_node_view("a")
    assert [pod.key for pod in view.pods] == ["shop/p"]
    assert server.reads[-1].query == {"fieldSelector": "spec.nodeName=a"}


def test_the_pods_of_gangs_are_read_by_namespace_past_every_cache(server: ApiServer) -> None:
    path = "/api/v1/namespaces/shop/pods"
    server.put(f"{path}/p", {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"nodeName": "a"}})
    server.put(f"{path}/q", {"metadata": {"name": "q", "namespace": "shop"}, "status": {"phase": "Failed"}})
    groups = PodGroups(kubernetes={"shop/g": SchedulingPodGroup()})
    view = KubeWrites(server, Workloads, lambda: groups).get_gang_view("shop")
    assert [pod.key for pod in view.pods] == ["shop/p"]
    assert view.groups is groups
    assert server.reads[-1].path == path


def test_an_eviction_is_of_this_very_pod(server: ApiServer, writes: KubeWrites) -> None:
    assert writes.evict(POD, 30).answer == EvictionAnswer.ACCEPTED
    [request] = server.writes
    body: dict[str, Any] = msgspec.json.decode(request.body or b"")
    assert request.path == EVICTION
    assert body["deleteOptions"] == {"gracePeriodSeconds": 30, "preconditions": {"uid": "u1"}}


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ApiError("pods p not found", status=404), EvictionAnswer.GONE),
        (
            ApiError("Precondition failed: UID in precondition: u1, UID in object meta: u2", status=409),
            EvictionAnswer.GONE,
        ),
        (ApiError("the object has been modified", status=409), EvictionAnswer.REFUSED),
        (
            ApiError("Cannot evict pod as it would violate the pod's disruption budget.", status=429),
            EvictionAnswer.REFUSED,
        ),
        (ApiError("This pod has more than one PodDisruptionBudget", status=500), EvictionAnswer.REFUSED),
    ],
)
def test_a_refused_eviction(server: ApiServer, writes: KubeWrites, error: ApiError, answer: EvictionAnswer) -> None:
    server.faults = [error]
    assert writes.evict(POD, 30).answer == answer


def test_the_api_server_says_how_long_to_wait(server: ApiServer, writes: KubeWrites) -> None:
    server.faults = [ApiError("too many requests", status=429, retry_after=7.0)]
    assert writes.evict(POD, 30).retry_after == 7.0


@pytest.mark.parametrize("status", [0, 500, 503, 403])
def test_an_eviction_without_an_answer_is_an_error(server: ApiServer, writes: KubeWrites, status: int) -> None:
    server.faults = [ApiError("oops", status=status)]
    with pytest.raises(ApiError, match="oops"):
        writes.evict(POD, 30)


def test_nothing_is_written_without_a_lease(server: ApiServer) -> None:
    remaining = [60.0]
    server.put(NODE, {"metadata": {"name": "a"}})
    writes = KubeWrites(GuardedApi(server, lambda: remaining[0]), Workloads)
    writes.edit_node("a", mark)
    assert server.writes[-1].timeout == 30.0
    remaining[0] = 5.0
    writes.edit_node("a", lambda node: replace(node, spec=replace(node.spec, unschedulable=False)))
    assert server.writes[-1].timeout == 5.0
    remaining[0] = 0.0
    with pytest.raises(ApiError, match="does not lead"):
        writes.evict(POD, 30)
    assert writes.get_node_view("a").node is not None


def test_nodes_are_listed_page_by_page_past_every_cache(server: ApiServer, writes: KubeWrites) -> None:
    """Without a resource version the list is no older than the request."""
    for number in range(PAGE):
        server.put(f"/api/v1/nodes/n{number}", {"metadata": {"name": f"n{number}"}})
    found = {node.name for node in writes.list_nodes()}
    assert found == {"a", *(f"n{number}" for number in range(PAGE))}
    assert [dict(request.query) for request in server.reads] == [
        {"limit": str(PAGE)},
        {"limit": str(PAGE), "continue": str(PAGE)},
    ]


def test_a_list_of_nodes_that_breaks_off_is_no_list(server: ApiServer, writes: KubeWrites) -> None:
    for number in range(PAGE):
        server.put(f"/api/v1/nodes/n{number}", {"metadata": {"name": f"n{number}"}})
    nodes = writes.list_nodes()
    next(nodes)
    server.faults.append(ApiError("the continue token is too old", status=410))
    with pytest.raises(ApiError, match="too old"):
        list(nodes)
