"""Group pending pods that are alike (CA: equivalence groups)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass, map_alike
from nodewright.snapshot.snapshot import Snapshot

MAX_VARIETIES = 10


@dataclass(eq=False)
class PodGroup:
    """Pods of one controller and one class (CA: equivalence group).

    ``alone``: consecutive pods of one class, each of which CA treats as a group of its own.
    """

    pod_class: PodClass
    pods: list[Pod] = field(default_factory=list)
    alone: bool = False


def group_pods(pods: Iterable[Pod], snapshot: Snapshot) -> list[PodGroup]:
    """Return the equivalence groups in order of first appearance.

    A pod without a controller, or of a DaemonSet, is a group of its own. So is each pod of a controller beyond its
    first ten classes (``MAX_VARIETIES``).
    """
    grouper = _Grouper(snapshot)
    for pod, known in map_alike(pods, grouper.find):
        group = grouper.find(pod) if known.alone and known.pods and not grouper.accepts_next(known) else known
        group.pods.append(pod)
    return grouper.groups


class _Grouper:
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

    def accepts_next(self, group: PodGroup) -> bool:
        """Return whether the next single pod of the class is added to this group of single pods."""
        return group is self.groups[-1] and group.pod_class.is_plain

    def _stand_alone(self, pod_class: PodClass) -> PodGroup:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.alone and last.pod_class is pod_class and self.accepts_next(last):
            return last
        self.groups.append(PodGroup(pod_class, alone=True))
        return self.groups[-1]
