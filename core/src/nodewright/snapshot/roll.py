"""The pods of a node, and what is asked of each of them again and again: looked up once, until they change.

Pods lie far apart in memory, so that a pass over them costs more than what is done with them.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass, PodClasses
from nodewright.snapshot.snapshot import Snapshot

SYSTEM_NAMESPACE = "kube-system"


class Sample(NamedTuple):
    """A pod that stands for those of its class and phase that have the very same annotations and owners."""

    pod: Pod
    pod_class: PodClass


class Roll:
    """``pods`` in the order of their node; ``which`` tells for each the place of its sample.

    Pods that rules judge by their times, those that are ending and those of the system, are each a sample of their own.
    """

    def __init__(self, classes: PodClasses, pods: Sequence[Pod]) -> None:
        self.pods = pods
        self.samples: list[Sample] = []
        of, metas = classes.of, [pod.metadata for pod in pods]
        found = [of(pod, placed=True) for pod in pods]
        own = {pod_class for pod_class in set(found) if is_judged_by_its_times(pod_class)}
        parts: Iterable[Hashable] = zip(
            found,
            [id(meta.annotations) for meta in metas],
            [id(meta.owner_references) for meta in metas],
            [pod.status.phase for pod in pods],
            strict=True,
        )
        if own:
            parts = [
                id(pod) if pod_class in own else part for pod, pod_class, part in zip(pods, found, parts, strict=True)
            ]
        places: dict[Hashable, int] = {}
        self.which = [places.setdefault(part, len(places)) for part in parts]
        for pod, pod_class, place in zip(pods, found, self.which, strict=True):
            if place == len(self.samples):
                self.samples.append(Sample(pod, pod_class))

    @cached_property
    def keys(self) -> list[str]:
        """``namespace/name`` of each."""
        return [pod.key for pod in self.pods]

    @cached_property
    def ids(self) -> list[str]:
        """The uid of each, or without one its key."""
        return [pod.metadata.uid or pod.key for pod in self.pods]


def is_judged_by_its_times(pod_class: PodClass) -> bool:
    """Whether rules ask when pods of the class came or were deleted."""
    return pod_class.terminating or pod_class.namespace == SYSTEM_NAMESPACE


def find_rolls(snapshot: Snapshot, rows: Iterable[int]) -> list[Roll]:
    """Those of nodes; pods are gone through again only if they change."""
    return snapshot.of_pods(Roll, rows, partial(Roll, snapshot.vocabulary.classes))
