"""What ProvisioningClass objects say of requests: which classes there are, for whom, and how much each namespace may hold.

Without any of them each request is served by the class that it names (docs/adr/0016-provisioning-classes.md).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nodewright.model.meta import LabelSelector
from nodewright.model.provisioning_class import ProvisioningClass
from nodewright.model.provisioning_request import PROVISIONER_DETAIL, ProvisioningRequest
from nodewright.model.settings import Settings
from nodewright.planner.provisioning_requests.classes import Terms
from nodewright.planner.provisioning_requests.parameters import find_bad_parameter
from nodewright.predicates.selectors import parse_selector
from nodewright.snapshot.observation import Observation

# So many names of classes are told to whoever names another.
_MOST_NAMES = 20


class Held(NamedTuple):
    """What open requests hold."""

    pods: int = 0
    nodes: int = 0

    def plus(self, other: "Held", times: int = 1) -> "Held":
        return Held(self.pods + times * other.pods, self.nodes + times * other.nodes)


class NodeCap(NamedTuple):
    """How many nodes a request may still get by its class."""

    class_name: str
    namespace: str
    left: int
    limit: int

    def __str__(self) -> str:
        return (
            f"limits.nodes of class {self.class_name} leaves {self.left} of {self.limit} to namespace {self.namespace}"
        )


class ClassRules:
    """The classes of one loop, and what is held under each."""

    def __init__(self, seen: Observation, settings: Settings) -> None:
        self._classes = (
            {one.name: one for one in seen.provisioning.classes} if settings.policy.serves_provisioning_classes else {}
        )
        self._remembers = settings.policy.remembers_provisioner
        self._namespaces = seen.snapshot.context.namespaces
        self._of_request: dict[str, Held] = {}
        self._totals: dict[tuple[str, str], Held] = {}
        self._is_counted = False

    def get(self, request: ProvisioningRequest) -> ProvisioningClass | None:
        """The object that the request names."""
        return self._classes.get(request.spec.provisioning_class_name)

    def terms(self, request: ProvisioningRequest) -> Terms:
        """Under which the request is served; what its class presets holds."""
        held, asked = self.get(request), request.spec
        known = request.status.provisioning_class_details.get(PROVISIONER_DETAIL) if self._remembers else None
        if held is None:
            return Terms(known or asked.provisioning_class_name, asked.parameters)
        return Terms(known or held.provisioner, {**asked.parameters, **held.spec.parameters})

    def noted(self, request: ProvisioningRequest) -> ProvisioningRequest:
        """The request, saying who does the work: it comes to its end also if its class goes."""
        if self.get(request) is None or PROVISIONER_DETAIL in request.status.provisioning_class_details:
            return request
        return request.with_details(**{PROVISIONER_DETAIL: self.terms(request).class_name})

    def why_unusable(self, request: ProvisioningRequest, *, of_provider: bool) -> str:
        """What is wrong with its class, which somebody may put right."""
        held = self.get(request)
        problem = _find_problem(held, of_provider=of_provider) if held is not None else ""
        return f"ProvisioningClass {request.spec.provisioning_class_name} cannot be used: {problem}" if problem else ""

    def why_not_allowed(self, request: ProvisioningRequest) -> str:
        """Why the namespace of the request may not use its class; empty: it may."""
        name, namespace, held = request.spec.provisioning_class_name, request.metadata.namespace, self.get(request)
        if held is None:
            known = ", ".join(sorted(self._classes)[:_MOST_NAMES])
            return f"there is no ProvisioningClass {name}; name one of those that there are: {known}" if known else ""
        labels = {"kubernetes.io/metadata.name": namespace, **self._namespaces.get(namespace, {})}
        selector = parse_selector(held.spec.namespace_selector or LabelSelector())
        if selector is None or selector.matches(labels):
            return ""
        return f"namespace {namespace} is none of those that may use class {name}: its labels do not match namespaceSelector"

    def why_never(self, request: ProvisioningRequest) -> str:
        """What keeps the request from ever being granted; empty: nothing."""
        held = self.get(request)
        if held is None:
            return ""
        for name, preset in held.spec.parameters.items():
            own = request.spec.parameters.get(name, preset)
            if own != preset:
                return f"parameter {name} is {own}, and class {held.name} sets it to {preset}: leave it out"
        most = held.spec.limits.pods
        if most is None or request.pod_count <= most:
            return ""
        return (
            f"it is for {request.pod_count} pods, and limits.pods of class {held.name} allows {most} in a namespace: ask "
            "for less, or have the limit raised"
        )

    def why_wait(self, request: ProvisioningRequest) -> str:
        """What open requests of its namespace hold of what it asks for; empty: there is room."""
        held = self.get(request)
        most = held.spec.limits.pods if held is not None else None
        if most is None:
            return ""
        taken = self._held_beside(request).pods
        if taken + request.pod_count <= most:
            return ""
        return (
            f"limits.pods of class {request.spec.provisioning_class_name} allows {most} in namespace "
            f"{request.metadata.namespace}: {taken} are held by open requests, and this one is for {request.pod_count}"
        )

    def node_cap(self, request: ProvisioningRequest) -> NodeCap | None:
        """None: its class does not limit nodes."""
        held = self.get(request)
        most = held.spec.limits.nodes if held is not None else None
        if most is None:
            return None
        left = max(0, most - self._held_beside(request).nodes)
        return NodeCap(request.spec.provisioning_class_name, request.metadata.namespace, left, most)

    def count(self, holders: Iterable[tuple[ProvisioningRequest, int]]) -> None:
        """Say once which requests hold room, and how many nodes were made for each."""
        if self._is_counted or not self._classes:
            return
        self._is_counted = True
        for request, nodes in holders:
            self.hold(request, nodes)

    def hold(self, request: ProvisioningRequest, nodes: int) -> None:
        """From now on the request holds its pods, and so many nodes."""
        if not self._is_counted:
            return
        fresh, key = Held(request.pod_count, nodes), _key(request)
        before = self._of_request.get(request.id, Held())
        self._totals[key] = self._totals.get(key, Held()).plus(before, -1).plus(fresh)
        self._of_request[request.id] = fresh

    def _held_beside(self, request: ProvisioningRequest) -> Held:
        """By the other requests of its class and namespace."""
        return self._totals.get(_key(request), Held()).plus(self._of_request.get(request.id, Held()), -1)


def _key(request: ProvisioningRequest) -> tuple[str, str]:
    return request.spec.provisioning_class_name, request.metadata.namespace


def _find_problem(held: ProvisioningClass, *, of_provider: bool) -> str:
    limits: Mapping[str, int | None] = {"pods": held.spec.limits.pods, "nodes": held.spec.limits.nodes}
    for name, most in limits.items():
        if most is not None and most < 0:
            return f"limits.{name} is {most}: it must be 0 or more"
    if held.spec.limits.nodes is not None and of_provider:
        return "limits.nodes is for classes of nodewright: what a provider makes for a request it does not say; use limits.pods"
    if parse_selector(held.spec.namespace_selector or LabelSelector()) is None:
        return "namespaceSelector is no label selector that can match: see its keys and operators"
    return find_bad_parameter(held.spec.parameters)
