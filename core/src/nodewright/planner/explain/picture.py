"""The cluster in which scale-down was planned, made again from what the plan says of it."""

from collections.abc import Iterable

import numpy as np

from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings
from nodewright.planner.explain.values import Refusal
from nodewright.planner.plan import Plan
from nodewright.planner.scale_down.drainability import evaluate_pods
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import is_being_replaced
from nodewright.planner.scale_up.pending_pods import Hints, drop_passed_over, drop_preempted
from nodewright.predicates import explain, taint_toleration
from nodewright.predicates.taint_toleration import tolerates_all
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_NAMED = 3
_CORDONED = "node(s) were unschedulable"


def memory_of(state: ClusterState, plan: Plan) -> ScaleDownMemory:
    """What is remembered once the plan is made."""
    return plan.scale_down.memory or state.memory.scale_down


def planned_picture(state: ClusterState, plan: Plan, settings: Settings, *, spare: bool = True) -> Snapshot:
    """Nodes that are there, with their pods and those that wait and have room on them; with ``spare``, those of buffers too.

    Without machines on their way: they take no pods of nodes that go.
    """
    snapshot = state.observation.snapshot.fork()
    drop_passed_over(snapshot, settings)
    if not settings.is_ca:
        drop_preempted(snapshot, state.now)
    for group in state.groups.values():
        for name in group.readiness.not_started if group.upcoming > 0 else ():
            snapshot.remove_node(snapshot.row(name))
    places = Hints(before=memory_of(state, plan).pending_hints)
    holdings = [holding for holding in plan.buffers.holdings if holding.injected and spare]
    for pod in (*plan.fitting, *(pod for holding in holdings for pod in holding.pods)):
        _put(snapshot, pod, places)
    return snapshot


def destinations(snapshot: Snapshot, state: ClusterState, name: str) -> Mask:
    """The rows of nodes that may take pods of the node ``name``."""
    rows: Mask = snapshot.alive.copy()
    for other in (*state.observation.removing, name):
        row = snapshot.find_row(other)
        if row is not None:
            rows[row] = False
    return rows


def without_unneeded(
    picture: Snapshot, name: str, state: ClusterState, plan: Plan, settings: Settings
) -> tuple[Snapshot, DisruptionBudgets]:
    """The cluster once all unneeded nodes but ``name`` are gone, and what disruption budgets then still allow."""
    board, places = picture.fork(), Hints(before=memory_of(state, plan).hints)
    workloads = state.observation.workloads
    budgets = DisruptionBudgets.of(workloads, settings)
    for other in plan.scale_down.unneeded:
        row = board.find_row(other)
        if other == name or row is None:
            continue
        found = evaluate_pods(board.pods(row), workloads, budgets, settings.drain, state.now, as_ca=settings.is_ca).pods
        moving = [pod for pod in found if settings.is_ca or not is_being_replaced(pod)]
        board.remove_node(row)
        for pod in moving:
            _put(board, pod, places)
        budgets.remove(moving)
    return board, budgets


def place_of(state: ClusterState, plan: Plan, settings: Settings, pod: Pod) -> str:
    """The node on which a pod that waits has room; empty where none has, or a machine on its way does."""
    name = Hints(before=memory_of(state, plan).pending_hints).get(pod) if pod in plan.fitting else None
    return name if name is not None and name in planned_picture(state, plan, settings) else ""


def pending_refusals(state: ClusterState, plan: Plan, settings: Settings, pod: Pod) -> tuple[Refusal, ...]:
    """Why no node that is there takes a pod that waits; those that would are left out."""
    picture = planned_picture(state, plan, settings, spare=False)  # pods come first
    pod_class = picture.class_of(pod)
    names = ((row, picture.name(row)) for row in np.flatnonzero(picture.alive).tolist())
    return group_refusals((name, why_not(picture, pod_class, row)) for row, name in names)


def group_refusals(found: Iterable[tuple[str, str]]) -> tuple[Refusal, ...]:
    """Pairs of a node and its reason, by reason, the commonest first; where the reason is empty there is none."""
    nodes: dict[str, list[str]] = {}
    for name, reason in found:
        if reason:
            nodes.setdefault(reason, []).append(name)
    ranked = sorted(nodes.items(), key=lambda item: -len(item[1]))
    return tuple(Refusal(reason=reason, count=len(names), nodes=tuple(names[:_NAMED])) for reason, names in ranked)


def why_not(snapshot: Snapshot, pod_class: PodClass, row: int) -> str:
    """Why a node does not take one more pod of a class; empty where it does."""
    rejection = explain(snapshot, pod_class, row)
    if rejection is None:
        return "" if snapshot.schedulable[row] else _CORDONED
    if rejection.predicate == taint_toleration.PREDICATE.name:
        spared = pod_class.spec.tolerations
        taints = (t for t in snapshot.node(row).spec.taints if not tolerates_all(spared, (t,)))
        return ", ".join(
            f"taint {t.key}={t.value}:{t.effect}" if t.value else f"taint {t.key}:{t.effect}" for t in taints
        )
    return str(rejection)


def _put(snapshot: Snapshot, pod: Pod, places: Hints) -> None:
    name = places.get(pod)
    row = snapshot.find_row(name) if name is not None else None
    if row is not None:
        snapshot.place(snapshot.class_of(pod, placed=True), row, pod=pod)
