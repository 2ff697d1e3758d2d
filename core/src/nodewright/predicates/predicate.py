"""What a predicate is: one kube-scheduler filter, as a mask over nodes and as an explanation for one."""

from collections.abc import Callable
from dataclasses import dataclass

from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

Texts = tuple[str, ...]


def always(_: PodClass) -> bool:
    """Every pod concerns the predicate."""
    return True


def never(_: Snapshot, __: PodClass) -> Texts | None:
    """The predicate has nothing to say about a pod as a whole."""
    return None


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """One filter of kube-scheduler, under the name of its plugin.

    ``mask`` tells for the rows of a window which nodes pass, None where all do; what it says of dead rows means
    nothing. ``explain`` gives the scheduler's texts for one row, None where the node passes: it looks at objects where
    the mask looks at columns, so that each checks the other. ``refuse_pod`` gives the texts with which the
    plugin's PreFilter turns the pod away from every node. ``concerns`` tells, once per class, whether the predicate
    can ever refuse such a pod. A ``static`` predicate depends on the node alone, never on pods or volumes.
    """

    name: str
    mask: Callable[[Snapshot, PodClass, slice], Mask | None]
    explain: Callable[[Snapshot, PodClass, int], Texts | None]
    refuse_pod: Callable[[Snapshot, PodClass], Texts | None] = never
    concerns: Callable[[PodClass], bool] = always
    static: bool = False
