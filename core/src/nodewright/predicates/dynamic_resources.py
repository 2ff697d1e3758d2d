"""DynamicResources: nodewright cannot place pods with resource claims yet."""

from nodewright.predicates.predicate import Predicate, Texts
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "resource claims (dynamic resource allocation) are not supported yet"


def _concerns(pod: PodClass) -> bool:
    return bool(pod.spec.resource_claims)


def _mask(_: Snapshot, __: bool, ___: slice) -> Mask | None:
    return None


def _explain(_: Snapshot, __: PodClass, ___: int) -> Texts | None:
    return None


def _refuse_pod(_: Snapshot, pod: PodClass) -> Texts | None:
    return (REASON,) if pod.spec.resource_claims else None


PREDICATE = Predicate(
    name="DynamicResources", reads=_concerns, mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=_concerns
)
