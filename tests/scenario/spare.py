"""Buffers of spare capacity in a story: a user sets them up, and reads their status."""

from typing import Any

from tests.scenario.requesting import make_template
from tests.scenario.story import Story

from nodewright.model.capacity_buffer import CapacityBuffer, CapacityBufferSpec
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import TemplateReference

ON = {"capacity-buffer-controller-enabled": True, "capacity-buffer-pod-injection-enabled": True}


class Sparing:
    """A user of buffers in a story. Times are of the story."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.buffers = story.simulation.api_server.buffers

    def template(self, name: str = "chunk", *, at: float = 0.0, **shape: Any) -> None:
        """A PodTemplate of 1 cpu, unless ``shape`` says otherwise."""
        self.story.at(at, lambda: self.story.simulation.api_server.templates.put(make_template(name, shape)))

    def buffer(self, name: str = "spare", *, at: float = 0.0, **spec: Any) -> None:
        """Of the PodTemplate ``chunk``, unless ``spec`` says otherwise; given twice, it is changed."""
        if "scalable_ref" not in spec:
            spec.setdefault("pod_template_ref", TemplateReference(name="chunk"))
        made = CapacityBuffer(metadata=ObjectMeta(name=name, namespace="default"), spec=CapacityBufferSpec(**spec))
        self.story.at(at, lambda: self.buffers.put(made, self.story.clock.now()))

    def drop(self, name: str = "spare", *, at: float) -> None:
        self.story.at(at, lambda: self.buffers.delete(f"default/{name}"))

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
