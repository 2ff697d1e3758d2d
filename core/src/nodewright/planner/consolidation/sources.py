"""Find the nodes that may be removed, the price of each, and the disruption if it is removed."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.planner.consolidation.score import NODE_DISRUPTION, PoolTotals, disruption_of
from nodewright.planner.consolidation.unpriced import find_unpriced
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_down.drainability import (
    DrainabilityCache,
    DrainabilityRules,
    NodeDrainability,
    evaluate_subset,
)
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED, SHARED, deletion_taint_times, disabled_nodes
from nodewright.planner.scale_down.node_removal import destination_rows
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import PodSubset, find_pod_subsets
from nodewright.planner.scale_down.unneeded import is_ready_node
from nodewright.snapshot.pod_class import PodClass

# Karpenter's annotation with which users say that a node or a pod must stay.
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_NOT_EMPTY = "it has pods to move (--consolidation-policy)"


@dataclass(frozen=True, kw_only=True)
class PoolNode:
    """A node of the pool. ``moving``: its pods that need another place; ``held``: why it may not be removed (empty: it may).

    ``is_left``: it has no pods to move, and scale-down removes it by itself.
    """

    row: int
    name: str
    group: GroupRef
    price: float
    disruption: float
    moving: PodSubset
    classes: Mapping[PodClass, int] = field(default_factory=dict)
    held: str = ""
    is_left: bool = False


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """The nodes of the pool, the pool's totals, and further rows to which pods may go (``destinations``).

    ``outside``: why other nodes of groups are not in the pool. ``most_of_group``: how many nodes of each group may go.
    ``held_until``: when the next node has been without a new pod for long enough (epoch seconds).
    """

    nodes: tuple[PoolNode, ...]
    pool: PoolTotals
    destinations: tuple[int, ...]
    most_of_group: Mapping[GroupRef, int]
    held_until: float = math.inf
    outside: Mapping[str, str] = field(default_factory=dict)

    def only_empty(self) -> "NodePool":
        """Return a copy in which all nodes with pods to move are held."""
        held = (replace(node, held=node.held or _NOT_EMPTY, classes={}) if node.moving else node for node in self.nodes)
        return replace(self, nodes=tuple(held))

    def with_left(self, unneeded: Collection[str]) -> "NodePool":
        """Return a copy in which those of the named nodes that have no pods to move are left to scale-down."""
        nodes = (replace(node, is_left=not node.moving) if node.name in unneeded else node for node in self.nodes)
        return replace(self, nodes=tuple(nodes)) if unneeded else self

    def without(self, names: Collection[str], why: str) -> "NodePool":
        """Return a copy in which the named nodes are held."""
        held = (replace(node, held=why, classes={}) if node.name in names else node for node in self.nodes)
        return replace(self, nodes=tuple(held))


def find_sources(context: PlanningContext, consolidate_after: float, settled: Mapping[str, str]) -> NodePool:
    """Return the nodes whose price is known.

    ``consolidate_after``: seconds without a new pod after which a node may be removed. ``settled``: nodes that must stay, and
    why.
    """
    state, snapshot = context.state, context.snapshot
    open_rows = destination_rows(snapshot, state)
    names = [(int(row), snapshot.name(int(row))) for row in open_rows.nonzero()[0]]
    refs = [state.group_of_node.get(name) for _, name in names]
    prices = {ref: group.seen.hourly_price or 0.0 for ref, group in state.groups.items() if group.seen.reserved is None}
    unpriced = find_unpriced(state)
    pooled = [
        (row, name, ref)
        for (row, name), ref in zip(names, refs, strict=True)
        if ref is not None and prices.get(ref) and name not in unpriced
    ]
    rows = [row for row, _, _ in pooled]
    rules = SourceRules(context, consolidate_after, settled)
    disruptions = snapshot.of_pods(disruption_of, rows, disruption_of)
    nodes = tuple(
        rules.source(row, name, ref, prices[ref], NODE_DISRUPTION + disruption, subset)
        for (row, name, ref), disruption, subset in zip(
            pooled, disruptions, find_pod_subsets(snapshot, rows), strict=True
        )
    )
    pool = PoolTotals(sum(node.price for node in nodes), sum(node.disruption for node in nodes))
    return NodePool(
        nodes=nodes,
        pool=pool,
        destinations=tuple(
            row
            for (row, name), ref in zip(names, refs, strict=True)
            if ref is None or not prices.get(ref) or name in unpriced
        ),
        most_of_group={ref: rules.spare(ref) for ref in dict.fromkeys(ref for _, _, ref in pooled)},
        held_until=rules.until,
        outside={
            name: why_outside(state, ref) or unpriced[name]
            for (_, name), ref in zip(names, refs, strict=True)
            if ref is not None and (not prices.get(ref) or name in unpriced)
        },
    )


def why_outside(state: ClusterState, ref: GroupRef) -> str:
    """Return why nodes of a group are not compared by price; empty if they are."""
    group = state.groups.get(ref)
    if group is None or not group.seen.hourly_price:
        return f"group {ref} has no price"
    return f"group {ref} may use machines that are paid already (--prices)" if group.seen.reserved is not None else ""


class SourceRules:
    """The rules that keep nodes in place."""

    def __init__(self, context: PlanningContext, consolidate_after: float, settled: Mapping[str, str]) -> None:
        state, snapshot, policy = context.state, context.snapshot, context.settings.policy
        self._context, self._after, self._settled = context, consolidate_after, settled
        budgets = DisruptionBudgets.of(state.observation.workloads, policy)
        rules = DrainabilityRules(
            state.observation.workloads, budgets, context.settings.drain, state.now, policy.applies_all_drain_rules
        )
        self._rules = DrainabilityCache(rules)
        self._disabled = snapshot.column("scale_down_disabled", disabled_nodes)
        self._tainted = snapshot.column("to_be_deleted_at", deletion_taint_times)
        self._leaving = Counter(removing.removal.group for removing in state.observation.removing.values())
        self.until = math.inf
        self._of_group = {ref: self._why_group_stays(state, ref) for ref in state.groups}

    def spare(self, ref: GroupRef) -> int:
        """Return how many nodes a group may lose without going below its minimum size."""
        seen = self._context.state.groups[ref].seen
        return max(0, (seen.target or 0) - self._leaving[ref] - seen.group.min_size)

    def why_stays(self, row: int, name: str, ref: GroupRef) -> str:
        """Return what keeps a node in place, drain rules of its pods aside; empty: nothing."""
        return self._of_group[ref] or self._why_node_stays(row, name)

    def why_pods_stay(self, row: int) -> str:
        """Return what drain rules keep a node in place for its pods; empty: none do."""
        (subset,) = find_pod_subsets(self._context.snapshot, [row])
        return _why_pods_stay(evaluate_subset(subset, self._rules))

    def source(
        self, row: int, name: str, ref: GroupRef, price: float, disruption: float, subset: PodSubset
    ) -> PoolNode:
        status = evaluate_subset(subset, self._rules)
        why = self.why_stays(row, name, ref) or _why_pods_stay(status)
        classes = status.moving.counts() if not why else {}
        return PoolNode(
            row=row,
            name=name,
            group=ref,
            price=price,
            disruption=disruption,
            moving=status.moving,
            classes=classes,
            held=why,
        )

    def _why_group_stays(self, state: ClusterState, ref: GroupRef) -> str:
        group, observed = state.groups[ref], state.observation.groups.get(ref)
        if observed is None or not observed.is_known or group.seen.target is None:
            return f"group {ref} cannot be read"
        if ref in state.left_out:
            return f"the cluster is unhealthy because of group {ref}"
        if group.seen.options.zero_or_max_node_scaling:
            return f"group {ref} has all its nodes or none"
        if not group.seen.consolidates:
            return f"a schedule switches consolidation of group {ref} off"
        if not self.spare(ref):
            return f"group {ref} is at its minimum size"
        return ""

    def _why_node_stays(self, row: int, name: str) -> str:
        state, snapshot = self._context.state, self._context.snapshot
        node = snapshot.node(row)
        (newest,) = snapshot.of_pods(_newest, (row,), _newest)
        (pinned,) = snapshot.of_pods(_undisruptable, (row,), _undisruptable)
        calm_at = max(node.created, newest) + self._after
        if state.now < calm_at:
            self.until = min(self.until, calm_at)
        reasons = (
            (name in self._settled, self._settled.get(name, "")),
            (self._disabled[row], f"it is annotated {SCALE_DOWN_DISABLED}"),
            (node.metadata.annotations.get(DO_NOT_DISRUPT) == "true", f"it is annotated {DO_NOT_DISRUPT}"),
            (not np.isnan(self._tainted[row]), "it is tainted for deletion"),
            (not is_ready_node(state, name), "it is not ready"),
            (state.shares_machine(node), SHARED.message),
            (state.now < calm_at, "a pod came to it less than --consolidate-after ago"),
            (bool(pinned), f"pod {pinned} is annotated {DO_NOT_DISRUPT}"),
        )
        return next((why for holds, why in reasons if holds), "")


def _why_pods_stay(status: NodeDrainability) -> str:
    if status.blocking is not None:
        return f"pod {status.blocking.pod}: {status.blocking.message}"
    return f"the completion of pod {status.on_completion[0].key} is awaited" if status.on_completion else ""


def _newest(pods: Iterable[Pod]) -> float:
    """Return when the newest pod was created that does not come with the node, in epoch seconds; 0: there is none."""
    return max((pod.created for pod in pods if not (pod.is_daemonset_pod or pod.is_mirror)), default=0.0)


def _undisruptable(pods: Sequence[Pod]) -> str:
    return next((pod.key for pod in pods if pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true"), "")
