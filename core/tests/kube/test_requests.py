"""Requests for capacity on an API server: read where they are served, and written so that others' conditions stay."""

import time
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.kube.api import MERGE_PATCH, ApiError
from nodewright.adapters.kube.caches import CacheOptions, Caches, optional_kinds
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.request_writes import RequestWrites
from nodewright.adapters.kube.status_writes import APPLY_PATCH
from nodewright.adapters.simulated.clock import VirtualClock
from nodewright.expander.priority import CONFIG_MAP
from nodewright.model.condition import Condition
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import ACCEPTED, ProvisioningRequest, ProvisioningRequestStatus
from nodewright.testkit.world import settings_with

ROOT = "/apis/autoscaling.x-k8s.io/v1/namespaces/shop/provisioningrequests/train"
NOW = 1_800_000_000.0
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


def written(server: ApiServer) -> dict[str, Any]:
    body = server.writes[-1].body
    assert body is not None
    found: dict[str, Any] = msgspec.json.decode(body)
    return found


def test_conditions_are_applied_beside_those_of_others(server: ApiServer) -> None:
    server.put(f"{ROOT}/status", {"metadata": {"name": "train"}})
    RequestWrites(server).write_conditions(REQUEST, (OURS,), is_apply=True)
    call = server.writes[-1]
    assert (call.method, call.path, call.content_type) == ("PATCH", f"{ROOT}/status", APPLY_PATCH)
    assert call.query == {"fieldManager": "cluster-autoscaler", "force": "true"}
    assert written(server) == {
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
    RequestWrites(server).write_conditions(REQUEST, (OURS,), is_apply=False)
    assert server.writes[-1].content_type == MERGE_PATCH
    assert [one["type"] for one in written(server)["status"]["conditions"]] == ["Queued", "Accepted"]


def test_a_request_is_deleted_by_its_uid_and_one_that_is_gone_is_no_error(server: ApiServer) -> None:
    server.put(ROOT, {"metadata": {"name": "train"}})
    RequestWrites(server).delete_request(REQUEST)
    assert written(server)["preconditions"] == {"uid": "u1"}
    RequestWrites(server).delete_request(REQUEST)
    server.faults.append(ApiError("another has its name", status=409))
    RequestWrites(server).delete_request(REQUEST)
    server.faults.append(ApiError("no", status=403))
    with pytest.raises(ApiError):
        RequestWrites(server).delete_request(REQUEST)


@pytest.mark.parametrize("served", [True, False])
def test_they_are_followed_only_where_they_are_served(server: ApiServer, served: bool) -> None:
    server.put(
        "/apis/autoscaling.x-k8s.io/v1/provisioningrequests/train",
        {"metadata": {"name": "train", "namespace": "shop", "uid": "u1"}, "spec": {"provisioningClassName": "c"}},
    )
    server.put("/api/v1/podtemplates/t", {"metadata": {"name": "t", "namespace": "shop"}})
    optional = optional_kinds(settings_with(enable_provisioning_requests=served))
    options = CacheOptions(config_maps=(CONFIG_MAP,), optional=optional)
    caches = Caches(server, VirtualClock(NOW), Random(1), options)
    caches.start()
    try:
        deadline = time.monotonic() + 20
        while caches.missing() and time.monotonic() < deadline:
            caches.wait_synced(1.0)
        seen = KubeCluster(server, caches, max_age=180.0).read(NOW).provisioning
    finally:
        caches.stop()
    assert [request.key for request in seen.requests] == (["shop/train"] if served else [])
    assert sorted(seen.templates) == (["shop/t"] if served else [])
    assert caches.uid_of("ProvisioningRequest", "shop/train") == ("u1" if served else "")
    assert caches.uid_of("ProvisioningRequest", "shop/other") == ""
