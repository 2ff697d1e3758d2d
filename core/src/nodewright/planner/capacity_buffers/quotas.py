"""How many pods of its buffers the ResourceQuotas of a namespace allow (behaviour/up.md §6.1)."""

from collections import Counter
from collections.abc import Iterable, Mapping

from nodewright.model.cluster import PodTemplateSpec, QuotaScope, ResourceQuota
from nodewright.model.pod import PodAffinityTerm, PodSpec

_PREFIX = "requests."


class QuotaLedger:
    """What is left of each quota, for one buffer after the other: what an earlier one holds is not there for the next."""

    def __init__(self, quotas: Iterable[ResourceQuota]) -> None:
        self._quotas = tuple(quotas)
        self._reserved: dict[str, Counter[str]] = {quota.key: Counter() for quota in self._quotas}

    def allow(
        self, namespace: str, pod: PodTemplateSpec, requests: Mapping[str, int], wanted: int
    ) -> tuple[int, list[str]]:
        """How many of the wanted pods are allowed, and the names of the quotas that allow fewer; they count from now.

        ``requests`` of one pod in nano-units.
        """
        asked = {name: amount for name, amount in requests.items() if amount > 0}
        asked |= {f"{_PREFIX}{name}": amount for name, amount in asked.items()}
        ours = [one for one in self._quotas if one.metadata.namespace == namespace and _covers(one, pod.spec, requests)]
        room = {quota.name: self._room(quota, asked) for quota in ours}
        allowed = min([wanted, *(left for left in room.values() if left is not None)])
        for quota in ours:
            for name in asked.keys() & quota.status.hard.keys():
                self._reserved[quota.key][name] += allowed * asked[name]
        return allowed, [name for name, left in room.items() if left is not None and left < wanted]

    def _room(self, quota: ResourceQuota, asked: Mapping[str, int]) -> int | None:
        """None: it is about nothing that the pods ask for."""
        status, reserved = quota.status, self._reserved[quota.key]
        counts = []
        for name in asked.keys() & status.hard.keys():
            used = status.used[name].nano if name in status.used else 0
            left = status.hard[name].nano - used - reserved[name]
            counts.append(max(0, left) // asked[name])
        return min(counts, default=None)


def _covers(quota: ResourceQuota, spec: PodSpec, requests: Mapping[str, int]) -> bool:
    """As the API server sees it, for a pod that runs until somebody ends it."""
    selector = quota.spec.scope_selector
    scopes = [QuotaScope(scope_name=name, operator="Exists") for name in quota.spec.scopes]
    scopes += selector.match_expressions if selector is not None else ()
    return all(_is_in_scope(scope, spec, requests) for scope in scopes)


def _is_in_scope(scope: QuotaScope, spec: PodSpec, requests: Mapping[str, int]) -> bool:
    is_best_effort = not any(requests.get(name, 0) for name in ("cpu", "memory"))
    match scope.scope_name:
        case "NotTerminating":
            return True
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "PriorityClass":
            return _has_priority_class(scope, spec.priority_class_name)
        case "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(spec))
        case _:  # Terminating, and what is not known yet
            return False


def _has_priority_class(scope: QuotaScope, name: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case _:
            return False


def _affinity_terms(spec: PodSpec) -> Iterable[PodAffinityTerm]:
    if spec.affinity is None:
        return
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        yield from affinity.required if affinity is not None else ()
