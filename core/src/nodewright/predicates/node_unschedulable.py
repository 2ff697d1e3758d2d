"""NodeUnschedulable: a cordoned node takes only pods that tolerate it."""

from nodewright.model.node import Taint
from nodewright.predicates.predicate import Predicate, Texts
from nodewright.predicates.taint_toleration import tolerates
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) were unschedulable"
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def _tolerates_cordon(pod: PodClass) -> bool:
    given = pod.spec.tolerations
    return bool(given) and any(tolerates(toleration, CORDON) for toleration in given)


def _mask(snapshot: Snapshot, tolerated: bool, window: slice) -> Mask | None:
    if tolerated:
        return None
    return snapshot.schedulable[window]


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    return (REASON,) if snapshot.node(row).spec.unschedulable and not _tolerates_cordon(pod) else None


PREDICATE = Predicate(name="NodeUnschedulable", reads=_tolerates_cordon, mask=_mask, explain=_explain)
