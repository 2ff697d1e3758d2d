"""Pending pods that are planned as one."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass, ask_once
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
    for pod, known in ask_once(pods, sorter.find):
        group = sorter.find(pod) if known.alone and known.pods and not sorter.goes_on(known) else known
        group.pods.append(pod)
    return sorter.groups


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

    def goes_on(self, group: PodGroup) -> bool:
        """Whether the next pod of the class that stands alone is noted in the same group."""
        return group is self.groups[-1] and group.pod_class.is_plain

    def _stand_alone(self, pod_class: PodClass) -> PodGroup:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.alone and last.pod_class is pod_class and self.goes_on(last):
            return last
        self.groups.append(PodGroup(pod_class, alone=True))
        return self.groups[-1]
