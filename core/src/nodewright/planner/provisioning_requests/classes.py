"""Classes of requests: which process serves a request, and what ProvisioningClass objects allow each namespace.

Without ProvisioningClass objects each request is served by the class that it names (docs/adr/0016-provisioning-classes.md).
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from nodewright.model.duration import parse_duration
from nodewright.model.meta import LabelSelector
from nodewright.model.policy import Policy
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    NO_RETRY,
    PROCESSOR_INSTANCE,
    PROVISIONER_DETAIL,
    SEED_ATOMIC,
    SEED_CHECK_CAPACITY,
    VALID_UNTIL_SECONDS,
    ProvisioningClass,
    ProvisioningRequest,
    RequestClass,
)
from nodewright.model.settings import ProvisioningSettings
from nodewright.predicates.selectors import parse_selector
from nodewright.snapshot.observation import Observation


class Mode(StrEnum):
    """The service of a class for a request.

    CHECK: look for capacity that exists. ATOMIC: add nodes too, for all of its pods or none. PROVIDER: call the provider
    that serves the class itself.
    """

    CHECK = "check"
    ATOMIC = "atomic"
    PROVIDER = "provider"


_CA_CLASSES = {CHECK_CAPACITY: Mode.CHECK, BEST_EFFORT_ATOMIC: Mode.ATOMIC}
_CLASSES = {**_CA_CLASSES, SEED_CHECK_CAPACITY: Mode.CHECK, SEED_ATOMIC: Mode.ATOMIC}
# The most classes that an event lists.
_MOST_NAMES = 20


def is_core_class(name: str) -> bool:
    """Return whether this is one of the core's classes, which this process or another one serves."""
    return name in _CLASSES or name.endswith(CHECK_CAPACITY)


def find_mode(request_class: RequestClass, settings: ProvisioningSettings, policy: Policy) -> Mode | None:
    """Return the mode of a core class that this process serves; None: another process serves it, or none does."""
    classes = _CLASSES if policy.accepts_more_class_names else _CA_CLASSES
    instance = settings.check_capacity_processor_instance
    name, wanted = request_class.class_name, request_class.parameters.get(PROCESSOR_INSTANCE, "")
    mode = classes.get(name)
    if mode == Mode.ATOMIC:
        return mode if not instance else None
    if mode == Mode.CHECK:
        return mode if wanted == instance else None
    # CA's older way to name the processor instance: as a prefix of the class.
    return Mode.CHECK if instance and not wanted and name == f"{instance}{CHECK_CAPACITY}" else None


class ReservedAmounts(NamedTuple):
    """The numbers of pods and nodes that are reserved."""

    pods: int = 0
    nodes: int = 0

    def plus(self, other: "ReservedAmounts", times: int = 1) -> "ReservedAmounts":
        return ReservedAmounts(self.pods + times * other.pods, self.nodes + times * other.nodes)


class ClassUsage(NamedTuple):
    """The amounts that open requests reserve: by request id, and in all by (class, namespace)."""

    by_request: Mapping[str, ReservedAmounts] = {}
    totals: Mapping[tuple[str, str], ReservedAmounts] = {}

    @classmethod
    def of(cls, reserving: Iterable[tuple[ProvisioningRequest, int]]) -> "ClassUsage":
        """Count requests that reserve capacity, each with the number of nodes added for it."""
        by_request: dict[str, ReservedAmounts] = {}
        totals: dict[tuple[str, str], ReservedAmounts] = {}
        for request, nodes in reserving:
            amounts, key = ReservedAmounts(request.pod_count, nodes), _key(request)
            by_request[request.id] = amounts
            totals[key] = totals.get(key, ReservedAmounts()).plus(amounts)
        return cls(by_request, totals)

    def with_reserved(self, request: ProvisioningRequest, nodes: int) -> "ClassUsage":
        """Return the usage with the pods of this request and ``nodes`` nodes reserved."""
        amounts, key = ReservedAmounts(request.pod_count, nodes), _key(request)
        total = self.without(request).plus(amounts)
        return ClassUsage({**self.by_request, request.id: amounts}, {**self.totals, key: total})

    def without(self, request: ProvisioningRequest) -> ReservedAmounts:
        """Return what the other requests of the same class and namespace reserve."""
        own = self.by_request.get(request.id, ReservedAmounts())
        return self.totals.get(_key(request), ReservedAmounts()).plus(own, -1)


class ClassNodeLimit(NamedTuple):
    """The number of nodes that a request may still get by ``limits.nodes`` of its class."""

    class_name: str
    namespace: str
    left: int
    limit: int

    def __str__(self) -> str:
        return (
            f"limits.nodes of class {self.class_name} leaves {self.left} of {self.limit} to namespace {self.namespace}"
        )


class ClassRules:
    """The ProvisioningClass objects of one loop, and what they say about requests."""

    def __init__(self, seen: Observation, policy: Policy) -> None:
        serves = policy.serves_provisioning_classes
        self._classes = {one.name: one for one in seen.provisioning.classes} if serves else {}
        self._remembers = policy.remembers_provisioner
        self._namespaces = seen.snapshot.context.namespaces

    @property
    def are_used(self) -> bool:
        """Return whether there are ProvisioningClass objects that count."""
        return bool(self._classes)

    def get(self, request: ProvisioningRequest) -> ProvisioningClass | None:
        """Return the ProvisioningClass object that the request names."""
        return self._classes.get(request.spec.provisioning_class_name)

    def class_of(self, request: ProvisioningRequest) -> RequestClass:
        """Return the class that serves the request, with its parameters; those preset by its class take precedence."""
        held, asked = self.get(request), request.spec
        known = request.status.provisioning_class_details.get(PROVISIONER_DETAIL) if self._remembers else None
        if held is None:
            return RequestClass(known or asked.provisioning_class_name, asked.parameters)
        return RequestClass(known or held.provisioner, {**asked.parameters, **held.spec.parameters})

    def with_provisioner(self, request: ProvisioningRequest) -> ProvisioningRequest:
        """Return the request with its provisioner in its status, so that it is served also once its class is deleted."""
        if self.get(request) is None or PROVISIONER_DETAIL in request.status.provisioning_class_details:
            return request
        return request.with_details(**{PROVISIONER_DETAIL: self.class_of(request).class_name})

    def why_unusable(self, request: ProvisioningRequest, *, of_provider: bool) -> str:
        """Return what is wrong with the request's class (an operator may correct it); empty: nothing."""
        held = self.get(request)
        problem = _find_problem(held, of_provider=of_provider) if held is not None else ""
        return f"ProvisioningClass {request.spec.provisioning_class_name} cannot be used: {problem}" if problem else ""

    def why_not_allowed(self, request: ProvisioningRequest) -> str:
        """Return why the request's namespace may not use its class; empty: it may."""
        name, namespace, held = request.spec.provisioning_class_name, request.metadata.namespace, self.get(request)
        if held is None:
            known = ", ".join(sorted(self._classes)[:_MOST_NAMES])
            return f"there is no ProvisioningClass {name}; use one that exists: {known}" if known else ""
        labels = {"kubernetes.io/metadata.name": namespace, **self._namespaces.get(namespace, {})}
        selector = parse_selector(held.spec.namespace_selector or LabelSelector())
        if selector is None or selector.matches(labels):
            return ""
        return f"namespace {namespace} may not use class {name}: its labels do not match namespaceSelector"

    def why_never(self, request: ProvisioningRequest) -> str:
        """Return why the class can never grant the request; empty: it may."""
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

    def why_wait(self, request: ProvisioningRequest, usage: ClassUsage) -> str:
        """Return why the request must wait for other requests of its class and namespace; empty: it need not."""
        held = self.get(request)
        most = held.spec.limits.pods if held is not None else None
        if most is None:
            return ""
        taken = usage.without(request).pods
        if taken + request.pod_count <= most:
            return ""
        return (
            f"limits.pods of class {request.spec.provisioning_class_name} allows {most} in namespace "
            f"{request.metadata.namespace}: {taken} are held by open requests, and this one is for {request.pod_count}"
        )

    def node_limit(self, request: ProvisioningRequest, usage: ClassUsage) -> ClassNodeLimit | None:
        """Return how many nodes the request may still get; None: its class does not limit nodes."""
        held = self.get(request)
        most = held.spec.limits.nodes if held is not None else None
        if most is None:
            return None
        left = max(0, most - usage.without(request).nodes)
        return ClassNodeLimit(request.spec.provisioning_class_name, request.metadata.namespace, left, most)


def find_bad_parameter(parameters: Mapping[str, str]) -> str:
    """Return which parameter cannot be read, and what it must be; empty: all can be read."""
    if parameters.get(NO_RETRY, "false") not in ("true", "false"):
        return f"parameter {NO_RETRY} must be true or false"
    try:
        read_seconds(parameters.get(VALID_UNTIL_SECONDS, "1"))
    except ValueError:
        return f"parameter {VALID_UNTIL_SECONDS} must be a number of seconds above 0, or a duration like 2h"
    return ""


def read_seconds(text: str) -> float:
    """Return the seconds of a number of seconds, or of a duration like ``2h``. Raise ValueError unless above 0."""
    seconds = float(text) if text.strip().replace(".", "", 1).isdigit() else parse_duration(text)
    if not 0 < seconds < math.inf:
        raise ValueError("must be more than 0 seconds")
    return seconds


def _key(request: ProvisioningRequest) -> tuple[str, str]:
    return request.spec.provisioning_class_name, request.metadata.namespace


def _find_problem(held: ProvisioningClass, *, of_provider: bool) -> str:
    limits: Mapping[str, int | None] = {"pods": held.spec.limits.pods, "nodes": held.spec.limits.nodes}
    for name, most in limits.items():
        if most is not None and most < 0:
            return f"limits.{name} is {most}: it must be 0 or more"
    if held.spec.limits.nodes is not None and of_provider:
        return "limits.nodes works only for nodewright's own classes: providers do not report nodes; use limits.pods"
    if parse_selector(held.spec.namespace_selector or LabelSelector()) is None:
        return "namespaceSelector is not a valid label selector: check its keys and operators"
    return find_bad_parameter(held.spec.parameters)
