"""Rebuild, from a plan, the snapshot in which its removals were planned; explain in it why nodes reject pods."""

from collections.abc import Iterable

import msgspec
import numpy as np

from nodewright.clusterstate.state import ClusterState
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.settings import DrainSettings, PodSettings
from nodewright.planner.scale_down.drainability import DrainabilityRules, evaluate_pods
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


class NodeRejections(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` nodes that reject a pod for one reason; ``nodes`` names the first few."""

    reason: str
    count: int
    nodes: tuple[str, ...]


def planned_snapshot(
    state: ClusterState, plan: Plan, pods: PodSettings, policy: Policy, *, spare: bool = True
) -> Snapshot:
    """Return a snapshot of the existing nodes, their pods, and the pending pods that fit on them.

    With ``spare`` the virtual pods of buffers are there too. Upcoming nodes are left out: drained pods do not move to
    them.
    """
    snapshot = state.observation.snapshot.fork()
    drop_passed_over(snapshot, pods, policy)
    if policy.counts_on_preempted_room:
        drop_preempted(snapshot, state.now)
    for group in state.groups.values():
        for name in group.readiness.not_started if group.upcoming > 0 else ():
            snapshot.remove_node(snapshot.row(name))
    places = Hints(before=state.memory.scale_down.pending_hints)
    allocations = [allocation for allocation in plan.buffers.allocations if allocation.injected and spare]
    for pod in (*plan.fitting, *(pod for allocation in allocations for pod in allocation.pods)):
        _put(snapshot, pod, places)
    return snapshot


def destinations(snapshot: Snapshot, state: ClusterState, name: str) -> Mask:
    """Return the rows of the nodes that may take pods of the node ``name``."""
    rows: Mask = snapshot.alive.copy()
    for other in (*state.observation.removing, name):
        row = snapshot.find_row(other)
        if row is not None:
            rows[row] = False
    return rows


def without_unneeded(
    snapshot: Snapshot, name: str, state: ClusterState, plan: Plan, drain: DrainSettings, policy: Policy
) -> tuple[Snapshot, DisruptionBudgets]:
    """Return a snapshot without all unneeded nodes but ``name``, and the disruption budgets after their evictions."""
    remaining, places = snapshot.fork(), Hints(before=state.memory.scale_down.hints)
    workloads = state.observation.workloads
    budgets = DisruptionBudgets.of(workloads, policy)
    for other in plan.scale_down.unneeded:
        row = remaining.find_row(other)
        if other == name or row is None:
            continue
        rules = DrainabilityRules(workloads, budgets, drain, state.now, policy.applies_all_drain_rules)
        found = evaluate_pods(remaining.pods(row), rules).pods
        moving = [pod for pod in found if not (policy.replaced_pods_need_no_place and is_being_replaced(pod))]
        remaining.remove_node(row)
        for pod in moving:
            _put(remaining, pod, places)
        budgets.remove(moving)
    return remaining, budgets


def node_with_room(state: ClusterState, plan: Plan, pods: PodSettings, policy: Policy, pod: Pod) -> str:
    """Return the node on which a pending pod fits; empty if it fits on no existing node (maybe on an upcoming one)."""
    name = Hints(before=state.memory.scale_down.pending_hints).get(pod) if pod in plan.fitting else None
    return name if name is not None and name in planned_snapshot(state, plan, pods, policy) else ""


def rejections_of_pending_pod(
    state: ClusterState, plan: Plan, pods: PodSettings, policy: Policy, pod: Pod
) -> tuple[NodeRejections, ...]:
    """Return why the existing nodes reject a pending pod; nodes that accept it are left out."""
    snapshot = planned_snapshot(state, plan, pods, policy, spare=False)  # pending pods take precedence over buffers
    pod_class = snapshot.class_of(pod)
    names = ((row, snapshot.name(row)) for row in np.flatnonzero(snapshot.alive).tolist())
    return group_rejections((name, rejection_text(snapshot, pod_class, row)) for row, name in names)


def group_rejections(found: Iterable[tuple[str, str]]) -> tuple[NodeRejections, ...]:
    """Group (node, reason) pairs by reason, the most frequent one first; pairs with an empty reason are left out."""
    nodes: dict[str, list[str]] = {}
    for name, reason in found:
        if reason:
            nodes.setdefault(reason, []).append(name)
    ranked = sorted(nodes.items(), key=lambda item: -len(item[1]))
    return tuple(
        NodeRejections(reason=reason, count=len(names), nodes=tuple(names[:_NAMED])) for reason, names in ranked
    )


def rejection_text(snapshot: Snapshot, pod_class: PodClass, row: int) -> str:
    """Return why a node rejects one more pod of the class; empty if it accepts it."""
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
