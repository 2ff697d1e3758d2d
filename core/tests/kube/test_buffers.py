"""CapacityBuffers on an API server: read where they are served, and their status written whole."""

from datetime import UTC, datetime

from core.tests.kube.conftest import NOW, ApiServer, followed

from nodewright.adapters.kube.api import MERGE_PATCH
from nodewright.adapters.kube.caches import OPTIONAL_KINDS, optional_kinds
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.writes import KubeWrites
from nodewright.model.capacity_buffer import READY, CapacityBuffer, CapacityBufferStatus
from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.objects import POD_GROUP_KINDS
from nodewright.model.provisioning_request import PodTemplate, TemplateReference
from nodewright.snapshot.context import Workloads
from nodewright.testkit.world import settings_with

ROOT = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/shop/capacitybuffers/spare"
CONDITION = Condition(
    type=READY,
    status="True",
    reason="AttributesSetSuccessfully",
    message="ready",
    last_transition_time=datetime.fromtimestamp(NOW, tz=UTC),
    observed_generation=3,
)


def write(server: ApiServer, status: CapacityBufferStatus) -> dict[str, object]:
    server.put(f"{ROOT}/status", {"metadata": {"name": "spare"}})
    meta = ObjectMeta(name="spare", namespace="shop", uid="u1")
    KubeWrites(server, Workloads).write_buffer_status(CapacityBuffer(metadata=meta, status=status))
    call = server.writes[-1]
    assert (call.method, call.path, call.content_type) == ("PATCH", f"{ROOT}/status", MERGE_PATCH)
    return server.written()


def test_the_status_is_written_of_this_very_buffer(server: ApiServer) -> None:
    status = CapacityBufferStatus(
        pod_template_ref=TemplateReference(name="chunk"),
        replicas=5,
        pod_template_generation=2,
        provisioning_strategy="buffer.x-k8s.io/active-capacity",
        conditions=(CONDITION,),
    )
    assert write(server, status) == {
        "metadata": {"uid": "u1"},
        "status": {
            "podTemplateRef": {"name": "chunk"},
            "replicas": 5,
            "podTemplateGeneration": 2,
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "conditions": [
                {
                    "type": "ReadyForProvisioning",
                    "status": "True",
                    "reason": "AttributesSetSuccessfully",
                    "message": "ready",
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                    "observedGeneration": 3,
                }
            ],
        },
    }


def test_what_does_not_hold_any_more_is_taken_away(server: ApiServer) -> None:
    body = write(server, CapacityBufferStatus(conditions=(CONDITION,)))
    status = body["status"]
    assert isinstance(status, dict)
    assert {name for name, value in status.items() if value is None} == {
        "podTemplateRef",
        "replicas",
        "podTemplateGeneration",
        "provisioningStrategy",
    }


def test_what_is_followed_depends_on_the_settings() -> None:
    always = optional_kinds(settings_with())
    assert always == POD_GROUP_KINDS
    assert optional_kinds(settings_with(profile="ca")) == frozenset()
    injecting = settings_with(capacity_buffer_pod_injection_enabled=True)
    assert optional_kinds(injecting) - always == {"PodTemplate", "CapacityBuffer"}
    controlling = settings_with(capacity_buffer_controller_enabled=True)
    assert optional_kinds(controlling) - always == {"PodTemplate", "CapacityBuffer", "Deployment", "ResourceQuota"}
    assert optional_kinds(controlling) <= OPTIONAL_KINDS


def test_buffers_are_read_with_what_they_refer_to_and_follow_changes(server: ApiServer) -> None:
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}
    server.put("/apis/apps/v1/deployments/web", {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
    server.put("/api/v1/podtemplates/chunk", {"metadata": {"name": "chunk", "namespace": "shop", "generation": 1}})
    server.put(
        "/api/v1/resourcequotas/q", {"metadata": {"name": "q", "namespace": "shop"}, "status": {"hard": {"cpu": 1}}}
    )
    buffer = {"percentage": "20%", "limits": {"cpu": -1}, "scalableRef": {"kind": "Deployment", "name": "web"}}
    path = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers/spare"
    server.put(path, {"metadata": {"name": "spare", "namespace": "shop"}, "spec": buffer})
    with followed(server, enable_provisioning_requests=True, capacity_buffer_controller_enabled=True) as caches:
        cluster = KubeCluster(server, caches, max_age=180.0)
        seen = cluster.read(NOW).buffers
        caches.of("PodTemplate").put(PodTemplate(metadata=ObjectMeta(name="chunk", namespace="shop", generation=2)))
        later = cluster.read(NOW)
    assert [one.key for one in seen.buffers] == ["shop/spare"]
    assert (seen.buffers[0].spec.percentage, seen.buffers[0].spec.limits) == ("20%", {"cpu": -1})
    assert seen.deployments["shop/web"].spec.replicas == 2
    assert [quota.key for quota in seen.quotas] == ["shop/q"]
    # Both read PodTemplates: a change reaches both.
    assert later.buffers.templates["shop/chunk"].metadata.generation == 2
    assert later.provisioning.templates["shop/chunk"].metadata.generation == 2
