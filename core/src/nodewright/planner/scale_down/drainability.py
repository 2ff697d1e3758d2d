"""Which pods of a node may be moved, by CA's twelve rules in CA's order (behaviour/down.md A7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.model.reason import BlockingCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.snapshot.workloads import Workloads


class Fate(StrEnum):
    """What becomes of a pod when its node goes."""

    MOVE = "move"
    DAEMON = "daemon"
    SKIP = "skip"
    AWAIT = "await"
    BLOCK = "block"


class PodVerdict(NamedTuple):
    """What becomes of one pod and the rule that said so; ``code`` and ``message`` are set where it blocks.

    ``message`` says what is wrong and what would unblock the pod.
    """

    fate: Fate
    rule: str
    code: BlockingCode | None = None
    message: str = ""


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
        """Nothing has to be moved and nothing blocks; pods to wait for may be there."""
        return self.blocking is None and not self.pods


def judge_pods(
    pods: Sequence[Pod], workloads: Workloads, budgets: DisruptionBudgets | None, settings: DrainSettings, now: float
) -> DrainVerdict:
    """Go through the pods of a node until one blocks; ``budgets`` None: budgets are not asked."""
    found: dict[Fate, list[Pod]] = {fate: [] for fate in Fate}
    blocking: Blocker | None = None
    for pod in pods:
        verdict = judge_pod(pod, workloads, budgets, settings, now)
        if verdict.code is not None:
            blocking = Blocker(pod.key, verdict.code, verdict.message)
            break
        found[verdict.fate].append(pod)
    return DrainVerdict(
        pods=tuple(found[Fate.MOVE]),
        daemons=tuple(found[Fate.DAEMON]),
        on_completion=tuple(found[Fate.AWAIT]),
        blocking=blocking,
    )


def judge_pod(
    pod: Pod, workloads: Workloads, budgets: DisruptionBudgets | None, settings: DrainSettings, now: float
) -> PodVerdict:
    """What becomes of one pod: the first rule that has an opinion decides."""
    return PodVerdict(Fate.DAEMON if pod.is_daemonset_pod else Fate.MOVE, "")
