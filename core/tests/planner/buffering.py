"""A world with buffers of spare capacity in it, of 1 cpu a pod."""

from datetime import UTC, datetime
from typing import Any

from nodewright.model.capacity_buffer import CapacityBuffer, CapacityBufferSpec
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.plan import BufferAllocation, Plan
from nodewright.model.pod import Container, PodSpec, ResourceRequirements
from nodewright.model.provisioning_request import (
    CHECK_CAPACITY,
    PROVISIONED,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
    TemplateReference,
)
from nodewright.model.quantity import Quantity
from nodewright.testkit.world import NOW, World

ON = {"capacity_buffer_controller_enabled": True, "capacity_buffer_pod_injection_enabled": True}


def shape(cpu: str = "1", **extras: Any) -> PodTemplateSpec:
    requests = {"cpu": Quantity.of(cpu), "memory": Quantity.of("1Gi")}
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    return PodTemplateSpec(spec=PodSpec(containers=(container,), **extras))


def add_template(world: World, name: str = "chunk", generation: int = 1, **extras: Any) -> None:
    meta = ObjectMeta(name=name, namespace="shop", generation=generation)
    world.templates.append(PodTemplate(metadata=meta, template=shape(**extras)))


def add_buffer(world: World, name: str = "spare", **spec: Any) -> None:
    """Of a PodTemplate ``chunk``, unless ``spec`` says otherwise."""
    if "scalable_ref" not in spec:
        spec.setdefault("pod_template_ref", TemplateReference(name="chunk"))
    meta = ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", generation=1)
    world.buffers.append(CapacityBuffer(metadata=meta, spec=CapacityBufferSpec(**spec)))


def book(world: World, name: str, template: str, count: int) -> None:
    """A request for which room was found ten seconds ago."""
    since = datetime.fromtimestamp(NOW - 10, tz=UTC)
    found = Condition(type=PROVISIONED, status="True", reason="CapacityIsFound", last_transition_time=since)
    sets = (PodSet(pod_template_ref=TemplateReference(name=template), count=count),)
    request = ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace="shop", uid=name),
        spec=ProvisioningRequestSpec(pod_sets=sets, provisioning_class_name=CHECK_CAPACITY),
        status=ProvisioningRequestStatus(conditions=(found,)),
    )
    world.requests.append(request)


def make_world(size: int = 1, **group: Any) -> World:
    world = World()
    world.add_group("pool", size, **group)
    add_template(world)
    return world


def allocation(plan: Plan, name: str = "spare") -> BufferAllocation:
    (found,) = [one for one in plan.buffers.allocations if one.buffer.name == name]
    return found


def said(plan: Plan, kind: str, name: str = "spare") -> str:
    held = allocation(plan, name).buffer.status.condition(kind)
    return f"{held.status}/{held.reason}/{held.message}" if held is not None else ""
