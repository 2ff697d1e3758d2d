"""What would become of the pods of a node that goes, one by one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from nodewright.clusterstate.state import ClusterState
from nodewright.model.pod import Pod
from nodewright.model.reason import BlockingCode, Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.explain.picture import destinations, group_refusals, memory_of, why_not, without_unneeded
from nodewright.planner.explain.values import PodOutlook, Refusal
from nodewright.planner.plan import Plan
from nodewright.planner.scale_down.drainability import DrainabilityRules, DrainOutcome, PodDrainability
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import is_being_replaced
from nodewright.planner.scale_down.simulation import replace_with_tainted_copy
from nodewright.planner.scale_up.pending_pods import Hints
from nodewright.predicates import feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_GOES_ITSELF = "could go, too"
_LATER = "had no room for it when that was tried"
_FILLED = "with the other pods of the node: "


@dataclass(kw_only=True)
class _Scene:
    """The cluster without the node, which a tainted copy without pods stands for, as in the simulation.

    ``now`` is that cluster, in ``rest`` all other unneeded nodes are gone as well, and on ``board`` the pods of the
    node get their places on the ``open_rows`` of that. Rows are the same in all three. ``stuck`` is the pod for which
    the plan found no place; ``goes``: it found one for all.
    """

    now: Snapshot
    rest: Snapshot
    board: Snapshot
    open_rows: Mask
    unneeded: frozenset[str]
    hints: Hints
    stuck: str
    goes: bool
    told: dict[PodClass, tuple[Refusal, ...]] = field(default_factory=dict)


def outlook(
    picture: Snapshot, name: str, state: ClusterState, plan: Plan, settings: Settings
) -> tuple[PodOutlook, ...]:
    """The pods of a node, and those that would come to it; one that may not be moved does not keep the others from
    being judged.
    """
    workloads = state.observation.workloads
    rest, left = without_unneeded(picture, name, state, plan, settings)
    there = picture if name in plan.scale_down.unneeded else rest
    pods = there.pods(there.row(name))
    reason = plan.scale_down.unremovable.get(name)
    budgets = left if _is_after_others(reason) else DisruptionBudgets.of(workloads, settings)
    court = DrainabilityRules(workloads, budgets, settings.drain, state.now, settings.is_ca)
    verdicts = (court.evaluate(pod) for pod in pods)
    judged = [
        _as_it_ends(_as_planned(verdict, pod, reason), pod, settings)
        for pod, verdict in zip(pods, verdicts, strict=True)
    ]
    scene = _set(picture, rest, name, state, plan)
    moving = [pod for pod, verdict in zip(pods, judged, strict=True) if verdict.outcome is DrainOutcome.MOVE]
    places = dict(_place(scene, moving))
    return tuple(
        replace(
            places.get(pod.key, PodOutlook(pod=pod.key, fate=verdict.outcome)),
            arrives=pod.spec.node_name != name,
            rule=verdict.rule,
            code=verdict.code,
            message=verdict.message,
        )
        for pod, verdict in zip(pods, judged, strict=True)
    )


def _is_after_others(reason: Unremovable | None) -> bool:
    """Whether what unneeded nodes take of the budgets is to count: where that keeps the node, or may by now."""
    if reason is None:
        return False
    return reason.pod_code == BlockingCode.NOT_ENOUGH_PDB or reason.code == UnremovableCode.RECENTLY_UNREMOVABLE


def _as_planned(verdict: PodDrainability, pod: Pod, reason: Unremovable | None) -> PodDrainability:
    """The plan's word about the pod that it names: it took nodes in an order that is not known here."""
    if reason is None or reason.pod_code is None or reason.pod != pod.key or reason.pod_code == verdict.code:
        return verdict
    return PodDrainability(DrainOutcome.BLOCK, "", reason.pod_code, reason.message)


def _as_it_ends(verdict: PodDrainability, pod: Pod, settings: Settings) -> PodDrainability:
    """A pod that is ending is waited for, and needs no place."""
    if verdict.outcome is not DrainOutcome.MOVE or settings.is_ca or not is_being_replaced(pod):
        return verdict
    return PodDrainability(DrainOutcome.AWAIT, "Terminating")


def _set(picture: Snapshot, rest: Snapshot, name: str, state: ClusterState, plan: Plan) -> _Scene:
    now = picture.fork()
    for board in (now, rest):
        replace_with_tainted_copy(board, board.row(name), state.now)
    unneeded, reason = frozenset(plan.scale_down.unneeded), plan.scale_down.unremovable.get(name)
    return _Scene(
        now=now,
        rest=rest,
        board=rest.fork(),
        open_rows=destinations(rest, state, name),
        unneeded=unneeded - {name},
        goes=name in unneeded,
        hints=Hints(before=memory_of(state, plan).hints if name in unneeded else {}),
        stuck=reason.pod if reason is not None and reason.code == UnremovableCode.NO_PLACE else "",
    )


def _place(scene: _Scene, moving: Iterable[Pod]) -> Iterator[tuple[str, PodOutlook]]:
    """A place for each pod, those of high priority first; one that has none does not keep the others back."""
    for pod in sorted(moving, key=lambda pod: pod.spec.priority or 0, reverse=True):
        told = PodOutlook(pod=pod.key, fate=DrainOutcome.MOVE)
        pod_class = scene.board.class_of(pod, placed=True)
        row, choices = _choose(scene, scene.board, pod, pod_class)
        if row is not None and pod.key != scene.stuck:
            scene.board.place(pod_class, row, pod=pod)
        elif scene.goes:
            # Where the plan had it go may be known no more: another node that it tried later took the note along.
            row, choices = _choose(scene, scene.now, pod, pod_class)
        else:
            row = None
        if row is None:
            yield pod.key, replace(told, refusals=_refusals(scene, pod_class))
        else:
            yield pod.key, replace(told, place=scene.board.name(row), choices=choices)


def _choose(scene: _Scene, board: Snapshot, pod: Pod, pod_class: PodClass) -> tuple[int | None, int]:
    """The row of the node that the plan had in mind, or else of the first that takes the pod; and how many do."""
    fits = feasible(board, pod_class) & (scene.open_rows | _rows(board, scene.unneeded))
    hinted = scene.hints.get(pod)
    row = board.find_row(hinted) if hinted is not None else None
    free = np.flatnonzero(fits & board.schedulable)
    if row is not None and fits[row]:
        return row, len(free)
    return (int(free[0]) if len(free) else None), len(free)


def _refusals(scene: _Scene, pod_class: PodClass) -> tuple[Refusal, ...]:
    """Why no node takes a pod of a class; asked once for all of its pods."""
    if pod_class not in scene.told:
        open_rows = scene.open_rows | _rows(scene.now, scene.unneeded)
        rows = np.flatnonzero(open_rows).tolist()
        found = ((scene.now.name(row), _why(scene, pod_class, row)) for row in rows)
        scene.told[pod_class] = group_refusals(found)
    return scene.told[pod_class]


def _why(scene: _Scene, pod_class: PodClass, row: int) -> str:
    if scene.now.name(row) in scene.unneeded:
        return why_not(scene.now, pod_class, row) or _GOES_ITSELF
    at_first = why_not(scene.rest, pod_class, row)
    if at_first:
        return at_first
    filled = why_not(scene.board, pod_class, row)
    return _FILLED + filled if filled else _LATER


def _rows(snapshot: Snapshot, names: Iterable[str]) -> Mask:
    rows = np.zeros(len(snapshot), dtype=np.bool_)
    rows[[row for name in names if (row := snapshot.find_row(name)) is not None]] = True
    return rows
