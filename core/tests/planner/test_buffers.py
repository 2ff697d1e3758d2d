"""Buffers of spare capacity: what they stand for, where it is, and that nobody else goes without for it."""

from typing import Any

from nodewright.model.capacity_buffer import CapacityBuffer, CapacityBufferSpec
from nodewright.model.cluster import (
    PodTemplateSpec,
)
from nodewright.model.meta import ObjectMeta
from nodewright.model.pod import Container, PodSpec, ResourceRequirements
from nodewright.model.provisioning_request import PodTemplate, TemplateReference
from nodewright.model.quantity import Quantity
from nodewright.planner.buffers.desk import Holding
from nodewright.planner.plan import Plan
from nodewright.testkit.world import World, grown

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


def make_world(size: int = 1, **group: Any) -> World:
    world = World()
    world.add_group("pool", size, **group)
    add_template(world)
    return world


def holding(plan: Plan, name: str = "spare") -> Holding:
    (found,) = [one for one in plan.buffers.holdings if one.buffer.name == name]
    return found


def said(plan: Plan, kind: str, name: str = "spare") -> str:
    held = holding(plan, name).buffer.status.condition(kind)
    return f"{held.status}/{held.reason}/{held.message}" if held is not None else ""


def test_a_buffer_makes_its_group_grow_by_what_has_no_room() -> None:
    world = make_world(1)
    add_buffer(world, replicas=10)
    plan = world.plan(**ON)
    assert grown(plan) == {"pool": (1, 3)}
    held = holding(plan)
    assert (held.held, held.coming, held.missing) == (4, 6, 0)
    status = held.buffer.status
    assert status.replicas == 10
    assert status.pod_template_ref == TemplateReference(name="chunk")
    assert status.pod_template_generation == 1
    assert said(plan, "ReadyForProvisioning") == "True/AttributesSetSuccessfully/ready"
    assert said(plan, "Provisioning") == "True/FakePodsInjected/"
    assert said(plan, "LimitedByQuotas") == "False/ResourceQuotasAllocated/"
    assert plan.buffers.writes == (held.buffer,)
    assert plan.scale_up.triggered == ()
