"""Requests for capacity in a story: a user asks, and reads the conditions."""

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from tests.scenario.story import Story

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
from nodewright_simulator.scenario import PodShape
from nodewright_simulator.workloads import pod_of

ON = {"enable-provisioning-requests": True}


class Asking:
    """A user of requests in a story. ``history`` is every status that was written: when, which, what."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.requests = story.simulation.api_server.requests
        self.templates = story.simulation.api_server.templates
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
        template: str = "",
        **shape: Any,
    ) -> None:
        """So many pods a set, each of 1 cpu unless ``shape`` says otherwise; or all of one ``template`` that is there."""
        made = [make_template(f"{name}-{number}", shape) for number in range(len(counts))]
        sets = tuple(
            PodSet(pod_template_ref=TemplateReference(name=template or fresh.name), count=count)
            for fresh, count in zip(made, counts, strict=True)
        )
        request = ProvisioningRequest(
            metadata=ObjectMeta(name=name, namespace="default"),
            spec=ProvisioningRequestSpec(
                pod_sets=sets, provisioning_class_name=kind, parameters=dict(parameters or {})
            ),
        )

        def create() -> None:
            for fresh in made if templates and not template else ():
                self.templates.put(fresh)
            self.requests.add(request, self.story.clock.now())

        self.story.at(at, create)

    def template(self, name: str, *, at: float, **shape: Any) -> None:
        """A template is changed."""
        self.story.at(at, lambda: self.templates.put(make_template(name, shape)))

    def withdraw(self, name: str, *, at: float) -> None:
        self.story.at(at, lambda: self.requests.delete(f"default/{name}"))

    def begin_to_delete(self, name: str, *, at: float) -> None:
        """A finalizer of another controller keeps it there."""

        def begin() -> None:
            held = self.requests.get(f"default/{name}")
            if held is not None:
                going = datetime.fromtimestamp(self.story.clock.now(), tz=UTC)
                self.requests.put(replace(held, metadata=replace(held.metadata, deletion_timestamp=going)))

        self.story.at(at, begin)

    def date(self, name: str, kind: str, since: float, *, at: float) -> None:
        """A condition is dated otherwise."""

        def change() -> None:
            held = self.requests.get(f"default/{name}")
            condition = held.condition(kind) if held is not None else None
            assert held is not None
            assert condition is not None
            moment = datetime.fromtimestamp(since, tz=UTC)
            self.requests.put(held.with_condition(replace(condition, last_transition_time=moment)))

        self.story.at(at, change)

    def refuse_writes(self, start: float, end: float) -> None:
        """The API server takes no status in between."""

        def refuse(refuses: bool) -> None:
            self.requests.refuses = refuses

        self.story.at(start, lambda: refuse(True))
        self.story.at(end, lambda: refuse(False))

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


def make_template(name: str, shape: dict[str, Any]) -> PodTemplate:
    """Of pods of 1 cpu, unless ``shape`` says otherwise."""
    pod = pod_of(name, PodShape(**{"cpu": "1", "memory": "1Gi", **shape}))
    meta = replace(pod.metadata, namespace="default", name=name)
    return PodTemplate(metadata=meta, template=PodTemplateSpec(metadata=pod.metadata, spec=pod.spec))
