"""Pending pods that are planned as one."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

MAX_VARIETIES = 10


@dataclass(eq=False)
class PodGroup:
    """Pods of one controller that are alike (CA: equivalence group); the first stands for all."""

    pod_class: PodClass
    pods: list[Pod] = field(default_factory=list)


def group_pods(pods: Iterable[Pod], snapshot: Snapshot) -> list[PodGroup]:
    """Equivalence groups in order of first appearance (behaviour/up.md §3.5).

    A pod without a controller, or of a DaemonSet, stands alone; so does every pod past the tenth variety of
    its controller.
    """
    groups: list[PodGroup] = []
    shared: dict[tuple[str, PodClass], PodGroup] = {}
    varieties: dict[str, int] = {}
    for pod in pods:
        pod_class = snapshot.class_of(pod)
        controller = pod.metadata.controller
        alone = controller is None or pod.is_daemonset_pod
        uid = "" if controller is None else controller.uid
        held = None if alone else shared.get((uid, pod_class))
        if held is None:
            held = PodGroup(pod_class)
            groups.append(held)
            if not alone and varieties.get(uid, 0) < MAX_VARIETIES:
                varieties[uid] = varieties.get(uid, 0) + 1
                shared[uid, pod_class] = held
        held.pods.append(pod)
    return groups
