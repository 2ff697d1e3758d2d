"""Buffers of spare capacity in a story: somebody sets them up, and reads their status."""

from functools import partial
from typing import Any

from msgspec.structs import replace
from tests.scenario.story import Story

from nodewright.adapters.simulated.controllers import Deployment
from nodewright.adapters.simulated.scenario import PodTemplate as PodShape
from nodewright.adapters.simulated.workloads import pod_of
from nodewright.model.capacity_buffer import CapacityBuffer, CapacityBufferSpec
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import PodTemplate, TemplateReference

ON = {"capacity-buffer-controller-enabled": True, "capacity-buffer-pod-injection-enabled": True}


class Sparing:
    """Whoever works with buffers in a story. Times are of the story."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.buffers = story.simulation.api_server.buffers

    def template(self, name: str = "chunk", *, at: float = 0.0, **shape: Any) -> None:
        """A PodTemplate of 1 cpu, unless ``shape`` says otherwise."""
        pod = pod_of(name, PodShape(**{"cpu": "1", "memory": "1Gi", **shape}))
        meta = replace(pod.metadata, name=name)
        template = PodTemplate(metadata=meta, template=PodTemplateSpec(metadata=pod.metadata, spec=pod.spec))
        self.story.at(at, lambda: self.buffers.put_template(template))

    def buffer(self, name: str = "spare", *, at: float = 0.0, **spec: Any) -> None:
        """Of the PodTemplate ``chunk``, unless ``spec`` says otherwise; given twice, it is changed."""
        if "scalable_ref" not in spec:
            spec.setdefault("pod_template_ref", TemplateReference(name="chunk"))
        made = CapacityBuffer(metadata=ObjectMeta(name=name, namespace="default"), spec=CapacityBufferSpec(**spec))
        self.story.at(at, lambda: self.buffers.put(made, self.story.clock.now()))

    def drop(self, name: str = "spare", *, at: float) -> None:
        self.story.at(at, lambda: self.buffers.delete(f"default/{name}"))

    def deploy(self, name: str, *steps: tuple[float, int], **shape: Any) -> None:
        """A Deployment, and how many replicas it has from when on."""
        pod = pod_of(name, PodShape(**{"cpu": "1", "memory": "1Gi", **shape}))
        deployment = Deployment(self.story.simulation.cluster, name, pod)
        for at, replicas in steps:
            self.story.simulation.agenda.at(at, partial(deployment.scale, replicas))

    def conditions(self, name: str = "spare") -> dict[str, str]:
        """What the buffer says at the end: type → ``status/reason``."""
        assert self.story.result
        held = self.buffers.get(f"default/{name}")
        return {one.type: f"{one.status}/{one.reason}" for one in held.status.conditions} if held is not None else {}

    def message(self, kind: str, name: str = "spare") -> str:
        assert self.story.result
        held = self.buffers.get(f"default/{name}")
        found = held.status.condition(kind) if held is not None else None
        return found.message if found is not None else ""

    def replicas(self, name: str = "spare") -> int | None:
        assert self.story.result
        held = self.buffers.get(f"default/{name}")
        return held.status.replicas if held is not None else None
