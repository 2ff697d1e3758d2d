"""The type of a predicate: one kube-scheduler filter, as a mask over nodes and as an explanation for one node."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

Texts = tuple[str, ...]
Q = TypeVar("Q", bound=Hashable)


def always(_: PodClass) -> bool:
    """Return True: the predicate concerns every pod."""
    return True


def never(_: Snapshot, __: PodClass) -> Texts | None:
    """Return None: the predicate never refuses a pod for all nodes."""
    return None


def whole(pod: PodClass) -> PodClass:
    """Return the class itself: the predicate is not static."""
    return pod


@dataclass(frozen=True, kw_only=True)
class Predicate(Generic[Q]):
    """One filter of kube-scheduler, under the name of its plugin.

    ``reads`` returns what the mask reads of a pod, and the mask gets nothing else. A predicate that depends only on the
    node, never on placed pods or volumes, is static: it gives a small value, compared by content, so that pods with equal
    values share its mask (``predicates/check.py::static_key``). All others give the ``whole`` class, and must make the
    pods that they concern not ``is_plain``. ``mask`` returns which rows of a window pass; None: all pass. Its values for
    dead rows have no meaning. ``explain`` returns kube-scheduler's texts for one row; None: the node passes. It reads
    objects and ``mask`` reads columns, so that tests can compare them. ``refuse_pod`` returns the texts with which the
    plugin's PreFilter refuses the pod for all nodes; what it reads of a plain pod must be in ``reads``. ``concerns``
    returns, once per class, whether the predicate can refuse such a pod at all.
    """

    name: str
    reads: Callable[[PodClass], Q]
    mask: Callable[[Snapshot, Q, slice], Mask | None]
    explain: Callable[[Snapshot, PodClass, int], Texts | None]
    refuse_pod: Callable[[Snapshot, PodClass], Texts | None] = never
    concerns: Callable[[PodClass], bool] = always

    @property
    def is_static(self) -> bool:
        """Return whether the predicate depends only on the node, and on what it reads of the pod."""
        return self.reads is not whole
