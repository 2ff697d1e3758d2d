"""Requests for capacity in a story: somebody asks, and reads the conditions."""

from typing import Any

from msgspec.structs import replace
from tests.scenario.story import Story

from nodewright.adapters.simulated.scenario import PodTemplate as PodShape
from nodewright.adapters.simulated.workloads import pod_of
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import (
    CHECK_CAPACITY,
    CLASS_ANNOTATION,
    REQUEST_ANNOTATION,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    TemplateReference,
)

ON = {"enable-provisioning-requests": True}


class Asking:
    """Whoever works with requests in a story. ``history`` is every status that was written: when, which, what."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.requests = story.simulation.api_server.requests
        self.history: list[tuple[float, str, dict[str, str]]] = []
        self.requests.watchers.append(self._see)

    def ask(
        self,
        name: str,
        *counts: int,
        at: float = 0.0,
        kind: str = CHECK_CAPACITY,
        parameters: dict[str, str] | None = None,
        templates: bool = True,
        **shape: Any,
    ) -> None:
        """So many pods a set, each of 1 cpu unless ``shape`` says otherwise."""
        made = [self._template(f"{name}-{number}", shape) for number in range(len(counts))]
        sets = tuple(
            PodSet(pod_template_ref=TemplateReference(name=template.name), count=count)
            for template, count in zip(made, counts, strict=True)
        )
        request = ProvisioningRequest(
            metadata=ObjectMeta(name=name, namespace="default"),
            spec=ProvisioningRequestSpec(
                pod_sets=sets, provisioning_class_name=kind, parameters=dict(parameters or {})
            ),
        )

        def create() -> None:
            for template in made if templates else ():
                self.requests.add_template(template)
            self.requests.add(request, self.story.clock.now())

        self.story.at(at, create)

    def withdraw(self, name: str, *, at: float) -> None:
        self.story.at(at, lambda: self.requests.delete(f"default/{name}"))

    def consume(self, name: str, count: int, *, at: float, kind: str = CHECK_CAPACITY) -> None:
        """The pods of a request come."""
        annotations = {REQUEST_ANNOTATION: name, CLASS_ANNOTATION: kind}
        self.story.pods(count, at=at, name=f"of-{name}", annotations=annotations)

    def conditions(self, name: str) -> dict[str, str]:
        """What the request says at the end: type → ``status/reason``."""
        assert self.story.result
        held = self.requests.get(f"default/{name}")
        return {one.type: f"{one.status}/{one.reason}" for one in held.status.conditions} if held is not None else {}

    def message(self, name: str, kind: str) -> str:
        assert self.story.result
        held = self.requests.get(f"default/{name}")
        found = held.condition(kind) if held is not None else None
        return found.message if found is not None else ""

    def when(self, name: str, kind: str, said: str) -> list[float]:
        """The moments at which a condition turned to ``status/reason``."""
        assert self.story.result
        found: list[float] = []
        before = ""
        for at, key, held in self.history:
            if key == f"default/{name}":
                if held.get(kind) == said != before:
                    found.append(at)
                before = held.get(kind, "")
        return found

    def _see(self, request: ProvisioningRequest, at: float) -> None:
        said = {one.type: f"{one.status}/{one.reason}" for one in request.status.conditions}
        self.history.append((at, request.key, said))

    def _template(self, name: str, shape: dict[str, Any]) -> PodTemplate:
        pod = pod_of(name, PodShape(**{"cpu": "1", "memory": "1Gi", **shape}))
        meta = replace(pod.metadata, namespace="default", name=name)
        return PodTemplate(metadata=meta, template=PodTemplateSpec(metadata=pod.metadata, spec=pod.spec))
