"""What becomes of the pods of a node that goes (behaviour/down.md A7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.model.reason import BlockingCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.planner.scale_down.drain_rules import DrainabilityRules, Fate, PodVerdict
from nodewright.planner.scale_down.load import Load, PodKind, sort_pods
from nodewright.snapshot.workloads import Workloads


class Blocker(NamedTuple):
    """The pod (``namespace/name``) that keeps its node, why, and what would unblock it."""

    pod: str
    code: BlockingCode
    message: str


@dataclass(frozen=True, kw_only=True)
class DrainVerdict:
    """What becomes of the pods of a node, in node order; the lists hold what was met before ``blocking``.

    ``moving`` are to be moved, ``daemons`` go with the node, ``on_completion`` are waited for.
    """

    moving: Load
    daemons: tuple[Pod, ...] = ()
    on_completion: tuple[Pod, ...] = ()
    blocking: Blocker | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing has to be moved and nothing blocks; there may be pods to wait for."""
        return self.blocking is None and not self.moving

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods to move."""
        return tuple(self.moving.pods)


class Verdicts:
    """What a court says of pods by kind: asked once, or again and again where a budget is about them."""

    def __init__(self, court: DrainabilityRules) -> None:
        self._court = court
        self._final: dict[PodKind, PodVerdict] = {}

    def of(self, kind: PodKind) -> PodVerdict:
        verdict = self._final.get(kind)
        if verdict is None:
            verdict = self._court.judge(kind.pod)
            if self._court.budgets is None or not self._court.budgets.covers(kind.pod):
                self._final[kind] = verdict
        return verdict


def judge_pods(
    pods: Sequence[Pod],
    workloads: Workloads,
    budgets: DisruptionBudgets | None,
    settings: DrainSettings,
    now: float,
    *,
    as_ca: bool = False,
) -> DrainVerdict:
    """Go through the pods of a node until one blocks; ``budgets`` None: budgets are not asked."""
    return judge_load(sort_pods(pods), Verdicts(DrainabilityRules(workloads, budgets, settings, now, as_ca)))


def judge_load(load: Load, verdicts: Verdicts) -> DrainVerdict:
    """As ``judge_pods``, with one verdict for all pods of a kind."""
    fates: dict[Fate, set[PodKind]] = {}
    blocking, stop = None, len(load)
    for kind in load.variety if len(load.variety) == 1 else dict.fromkeys(load.kinds):
        verdict = verdicts.of(kind)
        if verdict.code is not None:
            stop = load.kinds.index(kind)
            blocking = Blocker(load.pods[stop].key, verdict.code, verdict.message)
            break
        fates.setdefault(verdict.fate, set()).add(kind)
    met = load.part(0, stop)
    moving, daemons, awaited = (met.only(fates.get(fate, set())) for fate in (Fate.MOVE, Fate.DAEMON, Fate.AWAIT))
    return DrainVerdict(
        moving=moving, daemons=tuple(daemons.pods), on_completion=tuple(awaited.pods), blocking=blocking
    )
