"""The type of a predicate: one kube-scheduler filter, as a mask over nodes and as an explanation for one node."""

from collections.abc import Callable
from dataclasses import dataclass

from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

Texts = tuple[str, ...]


def always(_: PodClass) -> bool:
    """Return True: the predicate concerns every pod."""
    return True


def never(_: Snapshot, __: PodClass) -> Texts | None:
    """Return None: the predicate never refuses a pod for all nodes."""
    return None


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """One filter of kube-scheduler, under the name of its plugin.

    ``mask`` returns which rows of a window pass; None: all pass. Its values for dead rows have no meaning. ``explain``
    returns kube-scheduler's texts for one row; None: the node passes. ``explain`` reads objects and ``mask`` reads
    columns, so that tests can compare them. ``refuse_pod`` returns the texts with which the plugin's PreFilter refuses
    the pod for all nodes. ``concerns`` returns, once per class, whether the predicate can refuse such a pod at all. A
    ``static`` predicate depends only on the node, never on pods or volumes.
    """

    name: str
    mask: Callable[[Snapshot, PodClass, slice], Mask | None]
    explain: Callable[[Snapshot, PodClass, int], Texts | None]
    refuse_pod: Callable[[Snapshot, PodClass], Texts | None] = never
    concerns: Callable[[PodClass], bool] = always
    static: bool = False
