"""The resources that a pod requests from a node, by kube-scheduler's formula."""

import re
from collections.abc import Iterable, Mapping
from sys import intern

from nodewright.model.meta import Resources
from nodewright.model.pod import Container, ContainerStatus, Pod, ResourceRequirements
from nodewright.model.quantity import Quantity

PODS = "pods"
# Sums of up to 512 clamped requests, and every clamped allocatable, stay exact in int64.
MAX_REQUEST = 2**53
MAX_ALLOCATABLE = 2**62

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_EXTENDED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_counted(name: str) -> bool:
    """Return whether kube-scheduler counts a resource of this name. It ignores others, on pods and on nodes."""
    if name in _NATIVE or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return not name.startswith("requests.") and _EXTENDED.fullmatch(name) is not None


def whole(name: str, quantity: Quantity) -> int:
    """Return the integer that kube-scheduler compares: millicores for cpu, whole units for other resources."""
    return quantity.milli if name == "cpu" else quantity.value


def node_amounts(resources: Resources) -> dict[str, int]:
    """Return a node's allocatable or capacity in comparable integers: only counted resources and pods."""
    return {
        name: min(whole(name, quantity), MAX_ALLOCATABLE)
        for name, quantity in resources.items()
        if name == PODS or is_counted(name)
    }


def exact_requests(pod: Pod, *, placed: bool) -> dict[str, int]:
    """Return exact totals in nano-units. ``placed``: the pod runs, and in-place resizes count."""
    spec, statuses = pod.spec, _statuses(pod) if placed else {}
    infeasible = any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions)

    def asked(container: Container) -> Resources:
        return _resized(container, statuses.get(container.name), infeasible=infeasible)

    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, asked(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        candidate = dict(sidecars)
        _add(candidate, asked(container))
        if container.restart_policy == "Always":
            _add(total, asked(container))
            sidecars = candidate
        _raise_to(peak, candidate)
    _raise_to(total, peak)
    if spec.resources is not None:
        whole_pod = spec.resources.requests
        if placed and pod.status.resources is not None:
            whole_pod = _actual(whole_pod, pod.status.resources, pod.status.allocated_resources, infeasible=infeasible)
        total.update({n: q.nano for n, q in whole_pod.items() if _pod_level(n)})
    _add(total, spec.overhead)
    return total


def pod_requests(pod: Pod, *, placed: bool) -> dict[str, int]:
    """Return ``exact_requests`` in comparable integers, rounded up once per pod.

    Leave out zero requests, and negative ones, which would free resources for other pods (the API server refuses them).
    Names are interned, because looking up the identical string is five times faster than an equal one.
    """
    exact = exact_requests(pod, placed=placed)
    amounts = {name: min(whole(name, Quantity(nano)), MAX_REQUEST) for name, nano in exact.items() if is_counted(name)}
    return {intern(name): amount for name, amount in amounts.items() if amount > 0}


def _pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    return {s.name: s for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)}


def _resized(container: Container, status: ContainerStatus | None, *, infeasible: bool) -> Resources:
    if status is None or status.resources is None:
        return container.resources.requests
    return _actual(container.resources.requests, status.resources, status.allocated_resources, infeasible=infeasible)


def _actual(wanted: Resources, held: ResourceRequirements, allocated: Resources, *, infeasible: bool) -> Resources:
    """Return what a container or pod takes while it is resized; what it wants counts unless that is infeasible."""
    return _largest([held.requests, allocated, *(() if infeasible else (wanted,))])


def _largest(sources: Iterable[Resources]) -> Resources:
    largest: Resources = {}
    for source in sources:
        for name, quantity in source.items():
            if name not in largest or largest[name] < quantity:
                largest[name] = quantity
    return largest


def _add(total: dict[str, int], amounts: Resources) -> None:
    for name, quantity in amounts.items():
        total[name] = total.get(name, 0) + quantity.nano


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, nano in floor.items():
        total[name] = max(total.get(name, nano), nano)
