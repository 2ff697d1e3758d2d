"""What would become of the pods of a node that goes, one by one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from nodewright.model.pod import Pod
from nodewright.model.reason import BlockingCode, Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.explain.picture import destinations, group_refusals, memory_of, why_not, without_unneeded
from nodewright.planner.explain.values import PodOutlook, Refusal
from nodewright.planner.hints import Hints
from nodewright.planner.plan import Plan
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.planner.scale_down.drain_rules import Fate
from nodewright.planner.scale_down.drainability import judge_pod
from nodewright.planner.scale_down.simulation import tainted
from nodewright.predicates import feasible
from nodewright.registry.state import ClusterState
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_GOES_ITSELF = "could go, too"
_FILLED = "with the other pods of the node: "


@dataclass(kw_only=True)
class _Scene:
    """The cluster without the node, which a tainted copy without pods stands for, as in the simulation.

    ``now`` is that cluster, in ``rest`` all other unneeded nodes are gone as well, and on ``board`` the pods of the
    node get their places on the ``open_rows`` of that. Rows are the same in all three.
    """

    now: Snapshot
    rest: Snapshot
    board: Snapshot
    open_rows: Mask
    unneeded: frozenset[str]
    hints: Hints
    told: dict[PodClass, tuple[Refusal, ...]] = field(default_factory=dict)


def outlook(
    picture: Snapshot, name: str, state: ClusterState, plan: Plan, settings: Settings
) -> tuple[PodOutlook, ...]:
    """The pods of a node in their order; one that may not be moved does not keep the others from being judged."""
    pods, workloads = picture.pods(picture.row(name)), state.observation.workloads
    rest, left = without_unneeded(picture, name, state, plan, settings)
    reason = plan.scale_down.unremovable.get(name)
    budgets = left if _is_after_others(reason) else DisruptionBudgets(workloads.budgets)
    judged = [judge_pod(pod, workloads, budgets, settings.drain, state.now) for pod in pods]
    scene = _set(picture, rest, name, state, plan)
    moving = [pod for pod, verdict in zip(pods, judged, strict=True) if verdict.fate is Fate.MOVE]
    places = dict(_place(scene, moving))
    return tuple(
        replace(
            places.get(pod.key, PodOutlook(pod=pod.key, fate=verdict.fate)),
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


def _set(picture: Snapshot, rest: Snapshot, name: str, state: ClusterState, plan: Plan) -> _Scene:
    now = _without(picture.fork(), name, state.now)
    rest = _without(rest, name, state.now)
    unneeded = frozenset(plan.scale_down.unneeded)
    return _Scene(
        now=now,
        rest=rest,
        board=rest.fork(),
        open_rows=destinations(rest, state, name),
        unneeded=unneeded - {name},
        hints=Hints(before=memory_of(state, plan).hints if name in unneeded else {}),
    )


def _without(snapshot: Snapshot, name: str, now: float) -> Snapshot:
    row = snapshot.row(name)
    node = snapshot.node(row)
    snapshot.remove_node(row)
    snapshot.add_node(tainted(node, now))
    return snapshot


def _place(scene: _Scene, moving: Iterable[Pod]) -> Iterator[tuple[str, PodOutlook]]:
    """A place for each pod, those of high priority first; one that has none does not keep the others back."""
    for pod in sorted(moving, key=lambda pod: pod.spec.priority or 0, reverse=True):
        pod_class = scene.board.class_of(pod, placed=True)
        fits = feasible(scene.board, pod_class) & scene.open_rows
        hinted = scene.hints.get(pod)
        row = scene.board.find_row(hinted) if hinted is not None else None
        free = np.flatnonzero(fits & scene.board.schedulable)
        if row is None or not fits[row]:
            row = int(free[0]) if len(free) else None
        if row is None:
            yield pod.key, PodOutlook(pod=pod.key, fate=Fate.MOVE, refusals=_refusals(scene, pod_class))
            continue
        scene.board.place(pod_class, row, pod=pod)
        yield pod.key, PodOutlook(pod=pod.key, fate=Fate.MOVE, place=scene.board.name(row), choices=len(free))


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
    return why_not(scene.rest, pod_class, row) or _FILLED + why_not(scene.board, pod_class, row)


def _rows(snapshot: Snapshot, names: Iterable[str]) -> Mask:
    rows = np.zeros(len(snapshot), dtype=np.bool_)
    rows[[row for name in names if (row := snapshot.find_row(name)) is not None]] = True
    return rows
