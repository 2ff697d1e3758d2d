"""Requests for capacity on an API server: read where they are served, and written so that others' conditions stay."""

from datetime import UTC, datetime

import pytest
from core.tests.kube.conftest import NOW, ApiServer, followed

from nodewright.adapters.kube.api import MERGE_PATCH, ApiError
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.writes import APPLY_PATCH, KubeWrites
from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.provisioning_request import ACCEPTED, ProvisioningRequest, ProvisioningRequestStatus
from nodewright.snapshot.context import Workloads

ROOT = "/apis/autoscaling.x-k8s.io/v1/namespaces/shop/provisioningrequests/train"
OURS = Condition(
    type=ACCEPTED,
    status="True",
    reason="Accepted",
    message="it is",
    last_transition_time=datetime.fromtimestamp(NOW, tz=UTC),
    observed_generation=3,
)
THEIRS = Condition(type="Queued", status="True", reason="InLine")
REQUEST = ProvisioningRequest(
    metadata=ObjectMeta(name="train", namespace="shop", uid="u1"),
    status=ProvisioningRequestStatus(conditions=(THEIRS, OURS)),
)


def test_conditions_are_applied_beside_those_of_others(server: ApiServer) -> None:
    server.put(f"{ROOT}/status", {"metadata": {"name": "train"}})
    KubeWrites(server, Workloads).write_conditions(REQUEST, (OURS,), is_apply=True)
    call = server.writes[-1]
    assert (call.method, call.path, call.content_type) == ("PATCH", f"{ROOT}/status", APPLY_PATCH)
    assert call.query == {"fieldManager": "cluster-autoscaler", "force": "true"}
    assert server.written() == {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "train", "namespace": "shop", "uid": "u1"},
        "status": {
            "conditions": [
                {
                    "type": "Accepted",
                    "status": "True",
                    "reason": "Accepted",
                    "message": "it is",
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                    "observedGeneration": 3,
                }
            ]
        },
    }


def test_as_ca_the_whole_status_is_written(server: ApiServer) -> None:
    server.put(f"{ROOT}/status", {"metadata": {"name": "train"}})
    KubeWrites(server, Workloads).write_conditions(REQUEST, (OURS,), is_apply=False)
    assert server.writes[-1].content_type == MERGE_PATCH
    assert [one["type"] for one in server.written()["status"]["conditions"]] == ["Queued", "Accepted"]


def test_a_request_is_deleted_by_its_uid_and_one_that_is_gone_is_no_error(server: ApiServer) -> None:
    server.put(ROOT, {"metadata": {"name": "train"}})
    KubeWrites(server, Workloads).delete_request(REQUEST)
    assert server.written()["preconditions"] == {"uid": "u1"}
    KubeWrites(server, Workloads).delete_request(REQUEST)
    server.faults.append(ApiError("another has its name", status=409))
    KubeWrites(server, Workloads).delete_request(REQUEST)
    server.faults.append(ApiError("no", status=403))
    with pytest.raises(ApiError):
        KubeWrites(server, Workloads).delete_request(REQUEST)


@pytest.mark.parametrize("served", [True, False])
def test_they_are_followed_only_where_they_are_served(server: ApiServer, served: bool) -> None:
    server.put(
        "/apis/autoscaling.x-k8s.io/v1/provisioningrequests/train",
        {"metadata": {"name": "train", "namespace": "shop", "uid": "u1"}, "spec": {"provisioningClassName": "c"}},
    )
    server.put("/api/v1/podtemplates/t", {"metadata": {"name": "t", "namespace": "shop"}})
    with followed(server, enable_provisioning_requests=served) as caches:
        seen = KubeCluster(server, caches, max_age=180.0).read(NOW).provisioning
    assert [request.key for request in seen.requests] == (["shop/train"] if served else [])
    assert sorted(seen.templates) == (["shop/t"] if served else [])
    assert caches.uid_of("ProvisioningRequest", "shop/train") == ("u1" if served else "")
    assert caches.uid_of("ProvisioningRequest", "shop/other") == ""
