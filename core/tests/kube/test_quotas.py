"""CapacityQuotas and ProvisioningClasses on an API server: followed where a setting asks, quotas' status written as ours."""

from datetime import UTC, datetime

import pytest
from core.tests.kube.conftest import NOW, ApiServer, followed
from msgspec.structs import replace

from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.writes import APPLY_PATCH, KubeWrites
from nodewright.model.capacity_quota import QUOTA_VALID, CapacityQuota, CapacityQuotaStatus, QuotaAmounts
from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.snapshot.context import Workloads

GROUP = "/apis/autoscaling.x-k8s.io"
VALID = Condition(
    type=QUOTA_VALID,
    status="True",
    reason="Valid",
    message="it is enforced",
    last_transition_time=datetime.fromtimestamp(NOW, tz=UTC),
    observed_generation=2,
)
QUOTA = CapacityQuota(
    metadata=ObjectMeta(name="team-a", uid="q1"),
    status=CapacityQuotaStatus(
        used=QuotaAmounts(resources={"cpu": "1500m"}), conditions=(VALID,), observed_generation=2
    ),
)


def test_a_status_is_applied_beside_the_conditions_of_others(server: ApiServer) -> None:
    server.put(f"{GROUP}/v1beta1/capacityquotas/team-a/status", {"metadata": {"name": "team-a"}})
    KubeWrites(server, Workloads).write_quota_status(QUOTA)
    call = server.writes[-1]
    assert (call.method, call.content_type) == ("PATCH", APPLY_PATCH)
    assert call.path == f"{GROUP}/v1beta1/capacityquotas/team-a/status"
    assert call.query == {"fieldManager": "cluster-autoscaler", "force": "true"}
    body = server.written()
    assert (body["apiVersion"], body["kind"]) == ("autoscaling.x-k8s.io/v1beta1", "CapacityQuota")
    assert body["metadata"] == {"name": "team-a", "uid": "q1"}
    assert body["status"]["used"] == {"resources": {"cpu": "1500m"}}
    assert body["status"]["observedGeneration"] == 2
    assert [one["type"] for one in body["status"]["conditions"]] == [QUOTA_VALID]


def test_what_is_not_counted_is_taken_away(server: ApiServer) -> None:
    server.put(f"{GROUP}/v1beta1/capacityquotas/team-a/status", {"metadata": {"name": "team-a"}})
    KubeWrites(server, Workloads).write_quota_status(replace(QUOTA, status=replace(QUOTA.status, used=None)))
    assert "used" not in server.written()["status"]


def test_what_its_class_notes_of_a_request_is_applied_with_its_conditions(server: ApiServer) -> None:
    place = f"{GROUP}/v1/namespaces/shop/provisioningrequests/train/status"
    server.put(place, {"metadata": {"name": "train"}})
    request = ProvisioningRequest(metadata=ObjectMeta(name="train", namespace="shop", uid="u1"))
    noted = request.with_details(provisioner="p", nodes="3", somebodys="x")
    KubeWrites(server, Workloads).write_conditions(noted, (), is_apply=True)
    assert server.written()["status"] == {
        "conditions": [],
        "provisioningClassDetails": {"provisioner": "p", "nodes": "3"},
    }


@pytest.mark.parametrize("is_on", [True, False])
def test_they_are_followed_only_where_a_setting_asks(server: ApiServer, is_on: bool) -> None:
    """An amount that is no quantity keeps nothing else from being read."""
    spec = {"limits": {"resources": {"cpu": "many", "nodes": -3, "memory": 1.5}}}
    server.put(f"{GROUP}/v1beta1/capacityquotas/q", {"metadata": {"name": "q"}, "spec": spec})
    server.put(f"{GROUP}/v1alpha1/provisioningclasses/c", {"metadata": {"name": "c"}, "spec": {"limits": {"pods": 3}}})
    on = {"capacity_quotas_enabled": is_on, "enable_provisioning_classes": is_on}
    with followed(server, enable_provisioning_requests=True, **on) as caches:
        seen = KubeCluster(server, caches, max_age=180.0).read(NOW)
    amounts = {"cpu": "many", "nodes": -3, "memory": 1.5}
    assert [quota.spec.limits.resources for quota in seen.quotas] == ([amounts] if is_on else [])
    assert [held.spec.limits.pods for held in seen.provisioning.classes] == ([3] if is_on else [])
