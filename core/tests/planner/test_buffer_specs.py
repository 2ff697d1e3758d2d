"""What a buffer stands for: numbers, shares, limits and quotas, and what is wrong with it."""

from typing import Any

import pytest
from core.tests.planner.buffering import ON, add_buffer, add_template, allocation, make_world, said, shape
from msgspec.structs import replace

from nodewright.model.capacity_buffer import ScalableReference
from nodewright.model.cluster import (
    Deployment,
    Job,
    JobSpec,
    QuotaScope,
    QuotaScopes,
    ReplicaSet,
    ReplicaSetSpec,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    StatefulSet,
    TemplatedSpec,
)
from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.pod import ClaimSource, Volume
from nodewright.model.provisioning_request import TemplateReference
from nodewright.model.quantity import Quantity
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World, grown

# What a spec amounts to

WEB = ScalableReference(api_group="apps", kind="Deployment", name="web")


def deploy(world: World, replicas: int | None, *pods: str, cpu: str = "2") -> None:
    """A Deployment of pods that ask for 1 cpu by its template; ``cpu`` is what those on the named nodes ask for."""
    owner = OwnerReference(kind="Deployment", name="web", uid="uid-web", controller=True)
    meta = ObjectMeta(name="web", namespace="shop", uid="uid-web")
    world.deployments.append(Deployment(metadata=meta, spec=TemplatedSpec(replicas=replicas, template=shape())))
    made = ObjectMeta(name="web-1", namespace="shop", uid="uid-ReplicaSet-web-1", owner_references=(owner,))
    world.controllers = [ReplicaSet(metadata=made, spec=ReplicaSetSpec(replicas=replicas))]
    for number, node in enumerate(pods):
        pod = build_pod(f"web-1-{number}", cpu, namespace="shop", node_name=node, owner=("ReplicaSet", "web-1"))
        world.running.append(pod)


@pytest.mark.parametrize(
    ("spec", "replicas", "pods"),
    [
        ({"replicas": 3}, 10, 3),
        ({"percentage": 20}, 10, 2),
        ({"percentage": 20}, 11, 3),
        ({"percentage": 1}, 1, 1),
        ({"percentage": 50}, None, 1),
        ({"percentage": 50}, 0, 0),
        ({"percentage": 0}, 10, 0),
        ({"percentage": 20, "replicas": 5}, 10, 5),
        ({"percentage": 20, "replicas": 1}, 10, 2),
        ({"percentage": 200, "limits": {"cpu": "7"}}, 10, 7),
        ({"limits": {"cpu": 3, "memory": "2500Mi"}}, 10, 2),
        ({"limits": {"cpu": "1500m", "nvidia.com/gpu": 1}}, 10, 1),
    ],
)
def test_how_many_pods(spec: dict[str, Any], replicas: int | None, pods: int) -> None:
    world = make_world()
    deploy(world, replicas)
    add_buffer(world, scalable_ref=WEB, **spec)
    assert len(allocation(world.plan(**ON)).pods) == pods


def test_the_newest_living_pod_says_what_pods_are_like() -> None:
    world = make_world(4)
    deploy(world, 2, "pool-0", "pool-1")
    add_buffer(world, scalable_ref=WEB, replicas=2)
    (pod, _) = allocation(world.plan(**ON)).pods
    assert pod.spec.containers[0].resources.requests["cpu"] == Quantity.of("2")
    assert (pod.spec.node_name, pod.name, pod.metadata.uid) == ("", "capacity-buffer-spare-1", "uid-spare-1")
    assert pod.metadata.annotations["podType"] == "capacityBufferFakePod"


def test_where_no_pod_lives_the_template_says_it() -> None:
    world = make_world(1)
    deploy(world, 0)
    add_buffer(world, scalable_ref=WEB, replicas=1)
    plan = world.plan(**ON)
    (pod,) = allocation(plan).pods
    assert pod.spec.containers[0].resources.requests["cpu"] == Quantity.of("1")
    assert allocation(plan).buffer.status.pod_template_ref is None


def test_a_job_s_pods_say_what_it_is_like_and_its_parallelism_how_large() -> None:
    world = make_world(1)
    meta = ObjectMeta(name="sum", namespace="shop", uid="uid-Job-sum")
    world.controllers = [Job(metadata=meta, spec=JobSpec(parallelism=4))]
    add_buffer(world, scalable_ref=ScalableReference(api_group="batch", kind="Job", name="sum"), percentage=50)
    assert said(world.plan(**ON), "ReadyForProvisioning") == (
        "False/error/Job shop/sum has no pod whose shape could be taken: start one, or use spec.podTemplateRef"
    )
    # One that waits will do, but not one that ends.
    ending = build_pod("sum-b", "3", namespace="shop", owner=("Job", "sum"), deleted_at=5.0, node_name="pool-0")
    world.running = [ending]
    world.pending = [build_pod("sum-a", "2", namespace="shop", owner=("Job", "sum"))]
    pods = allocation(world.plan(**ON)).pods
    assert [pod.spec.containers[0].resources.requests["cpu"] for pod in pods] == [Quantity.of("2")] * 2


def test_a_stateful_set_s_pod_leaves_its_own_volume_behind() -> None:
    world = make_world(1)
    meta = ObjectMeta(name="db", namespace="shop", uid="uid-StatefulSet-db")
    world.controllers = [StatefulSet(metadata=meta, spec=TemplatedSpec(replicas=1))]
    own, shared = (
        Volume(name=name, persistent_volume_claim=ClaimSource(claim_name=claim))
        for name, claim in (("data", "data-db-0"), ("common", "common"))
    )
    pod = build_pod("db-0", "1", namespace="shop", node_name="pool-0", owner=("StatefulSet", "db"))
    world.running = [replace(pod, spec=replace(pod.spec, volumes=(own, shared)))]
    reference = ScalableReference(api_group="apps", kind="StatefulSet", name="db")
    add_buffer(world, scalable_ref=reference, replicas=1)
    (virtual,) = allocation(world.plan(**ON)).pods
    assert virtual.spec.volumes == (shared,)


KINDS = "apps/Deployment, apps/ReplicaSet, apps/StatefulSet, batch/Job, ReplicationController"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no template": (
        {"pod_template_ref": TemplateReference(name="chunky"), "replicas": 1},
        "there is no PodTemplate shop/chunky: create it, or name another one in spec.podTemplateRef",
    ),
    "neither": (
        {"pod_template_ref": None, "replicas": 1},
        "spec has no podTemplateRef and no scalableRef: it must have one of them",
    ),
    "both": (
        {"pod_template_ref": TemplateReference(name="chunk"), "scalable_ref": WEB, "replicas": 1},
        "spec has both podTemplateRef and scalableRef: it must have one of them",
    ),
    "unknown kind": (
        {"scalable_ref": ScalableReference(api_group="argoproj.io", kind="Rollout", name="web"), "replicas": 1},
        f"spec.scalableRef is of kind argoproj.io/Rollout: it must be one of {KINDS}",
    ),
    "wrong group": (
        {"scalable_ref": ScalableReference(kind="Deployment", name="web"), "replicas": 1},
        f"spec.scalableRef is of kind Deployment: it must be one of {KINDS}",
    ),
    "no scalable": (
        {"scalable_ref": WEB, "percentage": 10},
        "there is no Deployment shop/web: create it, or name another one in spec.scalableRef",
    ),
    "a share that is text": (
        {"percentage": "20%"},
        "spec.percentage is '20%': it must be a whole number, 0 or more",
    ),
    "a share of nothing": (
        {"percentage": 20},
        "spec.percentage is of the replicas of spec.scalableRef, which is not set: set spec.replicas instead",
    ),
    "less than nothing": ({"replicas": -1}, "spec.replicas is the number -1: it must be a whole number, 0 or more"),
    "half a pod": ({"replicas": 0.5}, "spec.replicas is the number 0.5: it must be a whole number, 0 or more"),
    "no number at all": ({}, "spec has no replicas, percentage or limits: it must have one of them"),
    "far too many": (
        {"replicas": 2_000_000_000},
        "it would be 2000000000 pods, and a buffer has at most 16384: lower replicas, percentage or limits",
    ),
    "a limit that is no amount": (
        {"limits": {"cpu": "many"}},
        "spec.limits.cpu: 'many' is not a quantity (like 500m, 1.5Gi or 2e3)",
    ),
    "a negative limit": ({"limits": {"cpu": -1}}, "spec.limits.cpu is the number -1: it must be 0 or more"),
    "a limit of what its pods do not request": (
        {"limits": {"nvidia.com/gpu": 1}},
        "spec.limits names nvidia.com/gpu, of which its pods request nothing: name a resource that they request",
    ),
}


@pytest.mark.parametrize(("spec", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_told_with_what_to_change_and_stops_nothing_else(spec: dict[str, Any], message: str) -> None:
    world = make_world(0)
    world.pending = [build_pod("web", "1")]
    add_buffer(world, "bad", **spec)
    add_buffer(world, "good", replicas=1)
    plan = world.plan(**ON)
    assert said(plan, "ReadyForProvisioning", "bad") == f"False/error/{message}"
    assert said(plan, "Provisioning", "bad") == (
        "False/NotReadyForProvisioning/CapacityBuffer is not ready for provisioning"
    )
    assert allocation(plan, "bad").buffer.status.replicas is None
    assert allocation(plan, "good").coming == 1
    assert grown(plan) == {"pool": (0, 1)}
    assert [pod.name for pod in plan.scale_up.triggered] == ["web"]


def test_pods_that_give_way_to_anything_are_no_buffer() -> None:
    world = World()
    world.add_group("pool", 1)
    add_template(world, priority=-100)
    add_buffer(world, replicas=1)
    assert "below -10 (--expendable-pods-priority-cutoff): raise it" in said(world.plan(**ON), "ReadyForProvisioning")


def test_an_empty_buffer_is_told_so() -> None:
    world = make_world()
    add_buffer(world, replicas=0)
    plan = world.plan(**ON)
    assert said(plan, "ReadyForProvisioning") == "True/AttributesSetSuccessfully/ready"
    assert said(plan, "Provisioning") == "False/BufferIsEmpty/CapacityBuffer has zero replicas"


def test_a_buffer_of_another_strategy_is_left_alone() -> None:
    world = make_world()
    add_buffer(world, replicas=1, provisioning_strategy="example.com/other")
    assert world.plan(**ON).buffers.allocations == ()


def test_a_status_that_says_it_all_is_not_written_again() -> None:
    world = make_world(3)
    add_buffer(world, replicas=2)
    world.buffers = list(world.plan(**ON).buffers.writes)
    world.now += 100
    plan = world.plan(**ON)
    assert plan.buffers.writes == ()
    assert allocation(plan).held == 2


# Another controller's word

INJECT = {"capacity_buffer_pod_injection_enabled": True}


def believed(world: World, **changes: Any) -> None:
    """The buffer as a controller left it, but for the changes of its status."""
    (buffer,) = world.plan(capacity_buffer_controller_enabled=True).buffers.writes
    world.buffers = [replace(buffer, status=replace(buffer.status, **changes))]


def test_without_the_controller_its_word_is_taken() -> None:
    world = make_world(0)
    add_buffer(world, replicas=2)
    believed(world)
    plan = world.plan(**INJECT)
    assert grown(plan) == {"pool": (0, 1)}
    assert said(plan, "Provisioning") == "True/FakePodsInjected/"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"replicas": 0}, "False/BufferIsEmpty/CapacityBuffer has zero replicas"),
        ({"pod_template_ref": None}, "False/NotReadyForProvisioning/CapacityBuffer is not ready for provisioning"),
        ({"conditions": ()}, "False/NotReadyForProvisioning/CapacityBuffer is not ready for provisioning"),
        (
            {"pod_template_ref": TemplateReference(name="gone")},
            "False/FailedToGetPodTemplate/there is no PodTemplate shop/gone",
        ),
        (
            {"pod_template_generation": 7},
            "False/FailedToGetPodTemplate/PodTemplate chunk has changed since the controller looked at it",
        ),
        (
            {"replicas": 10**9},
            "False/FailedToGetPodTemplate/it would be 1000000000 pods, and a buffer has at most 16384",
        ),
    ],
)
def test_what_the_controller_s_word_does_not_allow(changes: dict[str, Any], told: str) -> None:
    world = make_world(0)
    add_buffer(world, replicas=2)
    believed(world, **changes)
    plan = world.plan(**INJECT)
    assert plan.actions == ()
    assert said(plan, "Provisioning").startswith(told)


def test_a_buffer_that_no_controller_has_seen_is_left_alone() -> None:
    world = make_world(0)
    add_buffer(world, replicas=2)
    assert world.plan(**INJECT).buffers.allocations == ()


# Quotas of the namespace


def add_quota(world: World, hard: dict[str, str], used: dict[str, str] | None = None, **extras: Any) -> None:
    amounts = [{name: Quantity.of(amount) for name, amount in part.items()} for part in (hard, used or {})]
    meta = ObjectMeta(name=f"quota-{len(world.resource_quotas)}", namespace=extras.pop("namespace", "shop"))
    status = ResourceQuotaStatus(hard=amounts[0], used=amounts[1])
    world.resource_quotas.append(ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(**extras), status=status))


def test_quotas_are_shared_out_in_order_and_the_reason_is_told() -> None:
    world = make_world(4)
    add_quota(world, {"requests.cpu": "10", "pods": "1"}, {"requests.cpu": "4"})
    add_buffer(world, "a", replicas=4)
    add_buffer(world, "b", replicas=4)
    plan = world.plan(**ON)
    assert (len(allocation(plan, "a").pods), len(allocation(plan, "b").pods)) == (4, 2)
    assert said(plan, "LimitedByQuotas", "a") == "False/ResourceQuotasAllocated/"
    assert said(plan, "LimitedByQuotas", "b") == (
        "True/ResourceQuotasAllocated/Buffer replicas limited from 4 to 2 due to quotas: quota-0"
    )
    assert allocation(plan, "b").buffer.status.replicas == 2


def scope(name: str, operator: str, *values: str) -> dict[str, Any]:
    return {
        "scope_selector": QuotaScopes(
            match_expressions=(QuotaScope(scope_name=name, operator=operator, values=values),)
        )
    }


@pytest.mark.parametrize(
    ("extras", "pods"),
    [
        ({}, 1),
        ({"namespace": "other"}, 4),
        ({"scopes": ("NotTerminating",)}, 1),
        ({"scopes": ("Terminating",)}, 4),
        ({"scopes": ("BestEffort",)}, 4),
        ({"scopes": ("NotBestEffort",)}, 1),
        ({"scopes": ("NotBestEffort", "Terminating")}, 4),
        ({"scopes": ("CrossNamespacePodAffinity",)}, 4),
        (scope("PriorityClass", "In", "high", "low"), 1),
        (scope("PriorityClass", "In", "high"), 4),
        (scope("PriorityClass", "NotIn", "high"), 1),
        (scope("PriorityClass", "Exists"), 1),
        (scope("PriorityClass", "DoesNotExist"), 4),
        ({"scopes": ("PriorityClass",)}, 1),
    ],
)
def test_a_quota_is_about_pods_of_its_scope(extras: dict[str, Any], pods: int) -> None:
    world = World()
    world.add_group("pool", 4)
    add_template(world, priority_class_name="low")
    add_quota(world, {"cpu": "1500m"}, **extras)
    add_buffer(world, replicas=4)
    assert len(allocation(world.plan(**ON)).pods) == pods
