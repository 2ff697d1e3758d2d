"""Simulate the removal of candidates one after the other, each as if those before it were gone.

Most results of the last loop still hold. Therefore the simulation looks ahead at a run of nodes that were unneeded
before: if all their pods fit together where the last loop placed them, it drains all these nodes at once without a search
for places. If all fit together, each fits in its turn, so the result is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.new_nodes import IsOver
from nodewright.model.disruption import DisruptionReason
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.capacity_buffers.pods import is_virtual
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_down.drainability import DrainabilityCache, DrainabilityRules, evaluate_subset
from nodewright.planner.scale_down.limits import is_atomic
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import PodSubset, is_being_replaced
from nodewright.planner.scale_down.simulation import DrainSimulation, HintedNode
from nodewright.snapshot.column import Mask
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.snapshot.snapshot import Snapshot

# How many nodes are looked at ahead; if one of them does not fit, none of them takes the fast path.
LOOK_AHEAD = 64
# How many nodes may fail for lack of places in one loop; more would delay the scale-up of pending pods.
_MOST_FAILURES = 500
_NOT_EXAMINED = Unremovable(
    code=UnremovableCode.NOT_EXAMINED, message="one loop examines a limited number of nodes, and others came first"
)
_NONE_AT_A_TIME = Unremovable(
    code=UnremovableCode.SWITCHED_OFF, message="no node is removed while --max-scale-down-parallelism is 0"
)
_NO_TIME = Unremovable(
    code=UnremovableCode.NOT_EXAMINED,
    message="time was up (--scale-down-simulation-timeout) before its turn came: it is looked at in the next loop",
)


@dataclass(frozen=True, kw_only=True)
class RemovableNode:
    """A node that could be removed now: its pods to move, and ``awaited`` pods that must end first.

    ``places`` are the nodes for the pods to move, known once the node is selected; empty for a pod that needs no
    place. ``in_sequence``: the budgets do not let all its pods go at the same time.
    """

    name: str
    moving: PodSubset
    places: tuple[str, ...] = ()
    awaited: tuple[Pod, ...] = ()
    in_sequence: bool = False


@dataclass(kw_only=True)
class SimulatedRemovals:
    """The result for each candidate.

    ``skipped`` candidates were not simulated; ``partial`` says how many because of a lack of time. ``hints`` are the places
    that were found for pods. ``reason``: why nodes with pods to move are removed.
    """

    removable: list[RemovableNode] = field(default_factory=list)
    unremovable: dict[str, Unremovable] = field(default_factory=dict)
    skipped: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodDestinations = field(default_factory=PodDestinations)
    partial: str = ""
    reason: DisruptionReason = DisruptionReason.UNDERUSED


def simulate_removals(
    context: PlanningContext, names: Sequence[str], hints: PodDestinations, is_over: IsOver
) -> SimulatedRemovals:
    """Try to drain the named nodes in order; pods may go to all other nodes, to the nodes of ``hints`` first.

    The first node is simulated even if time ``is_over``. The context's snapshot is not changed.
    """
    found = SimulatedRemovals()
    if not names:
        return found
    state, snapshot, settings, policy = context.state, context.snapshot, context.settings, context.settings.policy
    simulation = DrainSimulation(snapshot.fork(), destination_rows(snapshot, state), hints, state.now)
    simulator = RemovalSimulator(simulation, state, settings.drain, policy)
    most, counted, failed = most_removable(context), 0, 0
    for index, name in enumerate(names):
        if index and is_over():
            found.skipped = dict.fromkeys(names[index:], _NO_TIME)
            found.partial = f"time was up: {len(found.skipped)} nodes were not looked at"
            break
        if counted >= most or (failed >= _MOST_FAILURES and policy.limits_failed_simulations):
            none_at_all = not settings.scale_down.max_scale_down_parallelism
            found.skipped = dict.fromkeys(names[index:], _NONE_AT_A_TIME if none_at_all else _NOT_EXAMINED)
            break
        status = simulator.try_removal(name, names[index : index + LOOK_AHEAD])
        if isinstance(status, Unremovable):
            found.unremovable[name] = status
            failed += status.code == UnremovableCode.NO_PLACE
        else:
            found.removable.append(status)
            counted += (not policy.empty_removals_are_free or bool(status.moving)) and not is_atomic(
                state, state.group_of_node[name]
            )
    found.hints = simulator.finish()
    return found


def destination_rows(snapshot: Snapshot, state: ClusterState) -> Mask:
    """Return the rows of nodes that are present and not being removed."""
    names = (node.metadata.name for node in state.observation.snapshot.live_nodes())
    found = np.zeros(len(snapshot), dtype=np.bool_)
    found[[snapshot.row(name) for name in names if name in snapshot and name not in state.observation.removing]] = True
    return found


def update_interval(context: PlanningContext) -> float:
    """Return the shortest interval between two loops so far, in seconds; before the second loop, the unneeded time.

    CA measures it. Outside profile "ca" it is the scan interval, because loops that would change nothing do not run.
    """
    settings, memory, now = context.settings, context.state.memory.scale_down, context.state.now
    longest = settings.scale_down.scale_down_unneeded_time or 1e-9
    if not memory.updated_at:
        return longest
    latest = settings.loop.scan_interval if settings.policy.uses_scan_interval else now - memory.updated_at
    return max(1e-9, min(memory.interval, latest))


def most_removable(context: PlanningContext) -> int:
    """Return how many removable nodes of ordinary groups are enough: then no more candidates are simulated.

    More nodes could not be removed in time. Empty nodes count only under profile "ca".
    """
    settings, interval = context.settings.scale_down, update_interval(context)
    step, rounds = settings.max_scale_down_parallelism, max(settings.scale_down_unneeded_time, interval) // interval
    return min(len(context.state.memory.scale_down.unneeded_since) + 2 * step, int(step * rounds) + step)


class RemovalSimulator:
    """The cluster without the candidates removed so far, and the disruptions that budgets still allow.

    ``budgets``: what they allow; by default what the API server says.
    """

    def __init__(
        self,
        simulation: DrainSimulation,
        state: ClusterState,
        drain: DrainSettings,
        policy: Policy,
        budgets: DisruptionBudgets | None = None,
    ) -> None:
        self._simulation = simulation
        if budgets is None:
            budgets = DisruptionBudgets.of(state.observation.workloads, policy)
        self._budgets = budgets
        rules = DrainabilityRules(
            state.observation.workloads,
            self._budgets,
            drain,
            state.now,
            policy.applies_all_drain_rules,
        )
        self._drainability = DrainabilityCache(rules)
        self._places_replaced = not policy.replaced_pods_need_no_place
        self._unneeded_before = state.memory.scale_down.unneeded_since
        # The nodes that were looked at ahead, and of these the nodes whose pods all fit together where the hints say.
        self._looked_ahead: set[str] = set()
        self._hinted: dict[str, HintedNode] = {}
        # Nodes that count as drained and are not yet drained in the simulation.
        self._undrained: list[tuple[HintedNode, PodSubset]] = []

    def try_removal(self, name: str, ahead: Sequence[str]) -> RemovableNode | Unremovable:
        """Remove a node in the simulation, or return why it must stay.

        ``ahead`` are the next candidates, beginning with this one.
        """
        if name not in self._looked_ahead:
            self._look_ahead(ahead)
        row = self._simulation.snapshot.find_row(name)
        if row is None:
            return Unremovable(
                code=UnremovableCode.NO_NODE_INFO, message="it is no longer in the snapshot of the cluster"
            )
        subset = self._simulation.subset(row)
        status = evaluate_subset(subset, self._drainability)
        if status.blocking is not None:
            blocking = status.blocking
            return Unremovable(
                code=UnremovableCode.BLOCKED_BY_POD, pod=blocking.pod, pod_code=blocking.code, message=blocking.message
            )
        needing_place = status.moving if self._places_replaced else _without_replaced(status.moving)
        unplaced = self._drain(name, row, subset, needing_place)
        if unplaced is not None:
            text = f"pod {unplaced.key} would find no other node"
            return Unremovable(code=UnremovableCode.NO_PLACE, pod=unplaced.key, message=text)
        in_sequence = self._spend_budgets(_without_virtual(needing_place))
        return RemovableNode(
            name=name, moving=_without_virtual(status.moving), awaited=status.on_completion, in_sequence=in_sequence
        )

    def finish(self) -> PodDestinations:
        """Return where pods were placed, once all candidates were tried."""
        self._drain_pending()
        return self._simulation.finish()

    def _look_ahead(self, names: Sequence[str]) -> None:
        """Find the next candidates whose pods all fit together where the last loop had placed them."""
        self._drain_pending()
        nodes: dict[str, HintedNode] = {}
        for name in takewhile(self._unneeded_before.__contains__, names):
            row = self._simulation.snapshot.find_row(name)
            hinted = self._simulation.find_hinted(row) if row is not None else None
            if hinted is None:
                break
            nodes[name] = hinted
        self._looked_ahead = {*nodes, names[0]}
        self._hinted = nodes if len(nodes) > 1 and self._simulation.fit_together(nodes.values()) else {}

    def _drain(self, name: str, row: int, subset: PodSubset, needing_place: PodSubset) -> Pod | None:
        """Drain a node in the simulation; return a pod that finds no place, None if the node is drained."""
        hinted = self._hinted.get(name)
        if hinted is not None and all(number in hinted.hinted_rows for number in needing_place.numbers):
            self._undrained.append((hinted, needing_place))
            return None
        self._drain_pending()
        return self._simulation.drain(row, subset, needing_place)

    def _spend_budgets(self, evicted: PodSubset) -> bool:
        """Count pods as evicted; return whether their budgets do not let all of them go at the same time."""
        if not self._budgets:
            return False
        pods = evicted.pods
        in_sequence = not self._budgets.can_remove(pods).in_parallel
        self._budgets.remove(pods)
        return in_sequence

    def _drain_pending(self) -> None:
        """Drain the nodes of the fast path in the simulation, before another node takes the room for their pods."""
        self._simulation.drain_together(self._undrained)
        self._undrained, self._hinted = [], {}


def _without_virtual(subset: PodSubset) -> PodSubset:
    """Return the pods that run, without the virtual pods of capacity buffers."""
    return subset.only({kind for kind in subset.distinct_kinds if not is_virtual(kind.pod)})


def _without_replaced(moving: PodSubset) -> PodSubset:
    """Return the pods that need a place: not terminating ones whose controllers have already made replacements.

    Terminating pods are still awaited. CA keeps a place for both pods, so that it finds none for a half-drained node.
    """
    return moving.only({kind for kind in moving.distinct_kinds if not is_being_replaced(kind.pod)})
