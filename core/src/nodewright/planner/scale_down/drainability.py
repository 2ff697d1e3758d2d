"""What becomes of the pods of a node that goes (behaviour/down.md A7), and whether it counts as empty (A2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.model.reason import BlockingCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.planner.scale_down.drain_rules import SAFE_TO_EVICT, Asked, Court, Fate, PodVerdict, apply_rules
from nodewright.snapshot.snapshot import Snapshot
from nodewright.snapshot.workloads import Workloads

_UNASKED = Workloads()


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


class Emptiness(IntEnum):
    """In the order in which candidates are looked at: empty, empty but for pods to wait for, not empty."""

    EMPTY = 0
    AWAITING = 1
    OCCUPIED = 2


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


def emptiness(snapshot: Snapshot, rows: Iterable[int], settings: DrainSettings, now: float) -> list[Emptiness]:
    """Whether nodes count as empty when candidates are ordered: controllers and budgets are not asked then.

    Computed again only for nodes whose pods changed, or while one of them terminates.
    """
    court, numbers = Court(_UNASKED, None, settings, now), list(rows)
    known = snapshot.of_pods(("emptiness", settings), numbers, lambda pods: _lasting_emptiness(pods, court))
    return [
        _emptiness(snapshot.pods(row), court) if found is None else found
        for row, found in zip(numbers, known, strict=True)
    ]


def _lasting_emptiness(pods: Sequence[Pod], court: Court) -> Emptiness | None:
    """What time does not change; None while a pod terminates. (Time lets a system pod be moved: occupied still.)"""
    if any(pod.metadata.deletion_timestamp is not None for pod in pods):
        return None
    return _emptiness(pods, court)


def _emptiness(pods: Sequence[Pod], court: Court) -> Emptiness:
    found = Emptiness.EMPTY
    for pod in pods:
        fate = apply_rules(_asked(pod), court).fate
        if fate in (Fate.MOVE, Fate.BLOCK):
            return Emptiness.OCCUPIED
        if fate == Fate.AWAIT:
            found = Emptiness.AWAITING
    return found


def _asked(pod: Pod) -> Asked:
    metadata = pod.metadata
    return Asked(pod, metadata.controller, pod.is_daemonset_pod, metadata.annotations.get(SAFE_TO_EVICT))
