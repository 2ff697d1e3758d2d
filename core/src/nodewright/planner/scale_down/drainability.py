"""What becomes of the pods of a node that goes (behaviour/down.md A7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.model.reason import BlockingCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.planner.scale_down.drain_rules import SAFE_TO_EVICT, Asked, Court, Fate, PodVerdict, apply_rules
from nodewright.snapshot.workloads import Workloads


class Blocker(NamedTuple):
    """The pod (``namespace/name``) that keeps its node, why, and what would unblock it."""

    pod: str
    code: BlockingCode
    message: str


@dataclass(frozen=True, kw_only=True)
class DrainVerdict:
    """What becomes of the pods of a node, in node order; the lists hold what was met before ``blocking``.

    ``pods`` are to be moved, ``daemons`` go with the node, ``on_completion`` are waited for.
    """

    pods: tuple[Pod, ...] = ()
    daemons: tuple[Pod, ...] = ()
    on_completion: tuple[Pod, ...] = ()
    blocking: Blocker | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing has to be moved and nothing blocks; there may be pods to wait for."""
        return self.blocking is None and not self.pods


def judge_pods(
    pods: Sequence[Pod], workloads: Workloads, budgets: DisruptionBudgets | None, settings: DrainSettings, now: float
) -> DrainVerdict:
    """Go through the pods of a node until one blocks; ``budgets`` None: budgets are not asked."""
    moved, daemons, awaited = list[Pod](), list[Pod](), list[Pod]()
    lists = {Fate.MOVE: moved, Fate.DAEMON: daemons, Fate.AWAIT: awaited, Fate.SKIP: list[Pod]()}
    court, blocking = Court(workloads, budgets, settings, now), None
    for pod in pods:
        verdict = apply_rules(_asked(pod), court)
        if verdict.code is not None:
            blocking = Blocker(pod.key, verdict.code, verdict.message)
            break
        lists[verdict.fate].append(pod)
    return DrainVerdict(pods=tuple(moved), daemons=tuple(daemons), on_completion=tuple(awaited), blocking=blocking)


def judge_pod(
    pod: Pod, workloads: Workloads, budgets: DisruptionBudgets | None, settings: DrainSettings, now: float
) -> PodVerdict:
    """What becomes of one pod, whatever its neighbours; a DaemonSet pod that may go is DAEMON by whichever rule."""
    return apply_rules(_asked(pod), Court(workloads, budgets, settings, now))


def _asked(pod: Pod) -> Asked:
    metadata = pod.metadata
    return Asked(pod, metadata.controller, pod.is_daemonset_pod, metadata.annotations.get(SAFE_TO_EVICT))
