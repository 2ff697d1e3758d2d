"""Pending pods that are planned as one."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass, has_only_parts
from nodewright.snapshot.snapshot import Snapshot

MAX_VARIETIES = 10


@dataclass(eq=False)
class PodGroup:
    """Pods of one controller that are alike (CA: equivalence group); the first stands for all.

    ``alone``: pods of one class, each of which is a group to CA; they came one after another.
    """

    pod_class: PodClass
    pods: list[Pod] = field(default_factory=list)
    alone: bool = False


def group_pods(pods: Iterable[Pod], snapshot: Snapshot) -> list[PodGroup]:
    """Equivalence groups in order of first appearance (behaviour/up.md §3.5).

    A pod without a controller, or of a DaemonSet, stands alone; so does every pod past the tenth variety of
    its controller.
    """
    sorter = _Sorter(snapshot)
    last: Pod | None = None
    for pod in pods:
        if last is None or not _share_parts(pod, last):
            group = sorter.find(pod)
            last = pod if has_only_parts(pod) and (not group.alone or group.pod_class.is_plain) else None
        group.pods.append(pod)
    return sorter.groups


def _share_parts(pod: Pod, other: Pod) -> bool:
    """Whether all by which pods are grouped is the same; the other is of no class of its own."""
    if pod.spec is not other.spec or pod.status is not other.status:
        return False
    one, two = pod.metadata, other.metadata
    return (
        one.labels is two.labels
        and one.owner_references is two.owner_references
        and one.annotations is two.annotations
        and one.namespace == two.namespace
        and one.deletion_timestamp is None
    )


class _Sorter:
    """Finds the group of a pod, or makes one."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.groups: list[PodGroup] = []
        self._snapshot = snapshot
        self._shared: dict[tuple[str, PodClass], PodGroup] = {}
        self._varieties: dict[str, int] = {}

    def find(self, pod: Pod) -> PodGroup:
        pod_class, controller = self._snapshot.class_of(pod), pod.metadata.controller
        if controller is None or pod.is_daemonset_pod:
            return self._stand_alone(pod_class)
        held = self._shared.get((controller.uid, pod_class))
        if held is not None:
            return held
        varieties = self._varieties.get(controller.uid, 0)
        if varieties >= MAX_VARIETIES:
            return self._stand_alone(pod_class)
        self._varieties[controller.uid] = varieties + 1
        group = self._shared[controller.uid, pod_class] = PodGroup(pod_class)
        self.groups.append(group)
        return group

    def _stand_alone(self, pod_class: PodClass) -> PodGroup:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.alone and last.pod_class is pod_class and pod_class.is_plain:
            return last
        self.groups.append(PodGroup(pod_class, alone=True))
        return self.groups[-1]
