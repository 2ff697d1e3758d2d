"""Status writes of requests for capacity, with any response of API server and providers."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from core.tests.kube.conftest import ApiServer

from nodewright import spec
from nodewright.actuation.audit import AuditLog
from nodewright.actuation.status_writes import StatusWriter
from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.writes import KubeWrites
from nodewright.model.action import IncreaseSize
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.errors import ProviderUnavailable
from nodewright.model.meta import ObjectMeta
from nodewright.model.plan import Plan
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    TemplateReference,
)
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit import FakeClock, build_pod
from nodewright.testkit.world import NOW, PROVIDER, World

STATUS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests/{}/status"


class Oracle:
    """A provider whose answer to every question a test chooses."""

    name = PROVIDER

    def __init__(self, answer: spec.ProvisioningVerdict | spec.ProviderError) -> None:
        self._answer = answer

    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict:
        assert request.pod_count == 2
        if isinstance(self._answer, spec.ProvisioningVerdict):
            return self._answer
        raise self._answer


def plan_for(*names: str, kind: str = BEST_EFFORT_ATOMIC) -> Plan:
    world = World(provider=ProviderSeen(name=PROVIDER, provisioning_classes=("queued.example.com",)))
    world.add_group("pool", 0, max_size=20)
    pods = PodTemplateSpec(spec=build_pod("one", "3").spec)
    world.templates = [PodTemplate(metadata=ObjectMeta(name="one", namespace="default"), template=pods)]
    pod_set = PodSet(pod_template_ref=TemplateReference(name="one"), count=2)
    wanted = ProvisioningRequestSpec(provisioning_class_name=kind, pod_sets=(pod_set,))
    created = datetime.fromtimestamp(NOW - 60, tz=UTC)
    world.requests = [
        ProvisioningRequest(
            metadata=ObjectMeta(name=name, namespace="default", uid=name, creation_timestamp=created), spec=wanted
        )
        for name in names
    ]
    return world.plan(enable_provisioning_requests=True, scale_down_enabled=False)


def served_by(plan: Plan) -> list[str]:
    """The requests for which machines are to be asked for."""
    return [one.request.key for one in plan.actions if isinstance(one, IncreaseSize) and one.request is not None]


def make_writer(server: ApiServer, providers: Sequence[Oracle] = ()) -> StatusWriter:
    cluster: Any = KubeWrites(server, Workloads)  # the rest of a cluster is not asked
    return StatusWriter(cluster, providers, FakeClock(NOW), AuditLog())


def serve(server: ApiServer, *names: str) -> None:
    for name in names:
        server.put(STATUS.format(name), {"metadata": {"name": name}})


@pytest.mark.parametrize("status", [404, 409, 422, 403, 503, 0])
def test_of_a_request_that_cannot_be_told_so_nothing_is_bought_and_the_others_go_on(
    server: ApiServer, status: int
) -> None:
    plan = plan_for("first", "second")
    assert served_by(plan) == ["default/first", "default/second"]
    serve(server, "first", "second")
    server.faults.append(ApiError("no", status=status))
    writer = make_writer(server)
    assert served_by(writer.write_pending(plan)) == ["default/second"]
    told = {(event.name, event.reason) for event in writer.take_events()}
    assert ("default/first", "StatusNotWritten") in told
    assert ("default/second", "Accepted") in told


def test_what_a_provider_says_at_length_is_cut_to_what_a_condition_holds(server: ApiServer) -> None:
    serve(server, "first")
    long = "x" * 100_000
    for answer in (
        spec.ProvisioningVerdict(accepted=False, reason="TooLarge", message=long),
        ProviderUnavailable(long),
    ):
        make_writer(server, [Oracle(answer)]).call_providers(
            plan_for("first", kind="queued.example.com").provisioning, "1"
        )
        assert b'"' + b"x" * 32_768 + b'"' in (server.writes[-1].body or b"")
