"""Find nodes to remove together, and nodes to buy for their pods, if that pays (docs/consolidation.md)."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.move import RejectedMove
from nodewright.model.node import INSTANCE_TYPE_LABEL
from nodewright.model.plan import PlannedNode
from nodewright.model.pod import Pod
from nodewright.model.settings import ConsolidationSettings
from nodewright.optimizer.closing import Closing, find_closing
from nodewright.optimizer.relaxation import ClosingProblem
from nodewright.planner.capacity_buffers.pods import is_virtual
from nodewright.planner.consolidation.placing import Relocation, place
from nodewright.planner.consolidation.problem import Consolidation, GroupsToGrow, make_problem
from nodewright.planner.consolidation.score import LEAST_SCORE, LEAST_SHARE, PoolTotals
from nodewright.planner.consolidation.sources import NodePool, PoolNode, find_sources
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.snapshot.pod_class import PodClass

# What a unit of disruption costs while nodes are chosen, in USD an hour: evictions go where they save most, in large and small
# pools alike. As a factor of the pool's price for each unit of disruption it is at least _LEAST_WEIGHT, and at most LEAST_SCORE.
_DISRUPTION_PRICE = 0.0082
_LEAST_WEIGHT, _SECOND_WEIGHT = 0.05, 0.25
# The search ends after this many tries in which a filter rejected planned places, or limits let only some of the nodes go.
_MOST_TRIES = 8
# The nodes that all moves together should give up, if limits let only some of them go now. None: not yet known. A step gives up some of
# them, and its pods go to none of them. Empty: no step pays, so that any nodes may go.
_Target = frozenset[str] | None
_NO_TARGET = frozenset[str]()
# The part of the time in which the target is searched for, if limits may forbid it.
_PART_OF_TARGET = 0.6
# The shortest and the longest life that is expected of new nodes, and how long old and new nodes run together, in seconds.
_SHORTEST_LIFE, _LONGEST_LIFE = 3600.0, 86400.0
_OVERLAP = 600.0
# How many cheaper machine types a move from spot to spot needs to choose from, or which part of the price it saves.
_SPOT_TYPES, _SPOT_SHARE = 15, 0.2
# The first weight gets this part of the time, the others share the rest.
_FIRST_PART = 0.75
# Sets of nodes are not changed if they can gain no more than this part of their price.
_SMALL = 0.002
_NO_POOL = PoolTotals(0.0, 0.0)
_NO_TURN = "PodDisruptionBudgets or gangs let its pods go only after those of other nodes"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A move that pays.

    ``sources``: the nodes that are removed. ``places``: the node of each of their pods that goes to an existing node.
    ``new_nodes`` are bought, with the pods that they are for. ``savings`` in USD an hour, ``disruption`` in evictions of
    ordinary pods, ``score``: the share of the savings over that of the disruption. ``evictions`` counts pods. ``reason``:
    why the nodes are removed (None: their pods cost less elsewhere).
    """

    sources: tuple[str, ...]
    new_nodes: tuple[PlannedNode, ...]
    places: Mapping[str, str]
    savings: float
    disruption: float
    score: float
    evictions: int
    reason: DisruptionReason | None = None


@dataclass(frozen=True, kw_only=True)
class FoundMoves:
    """``proposals`` may all be carried out together. ``held``: why other nodes of groups stay. ``pool``: the pool's totals.

    ``rejected``: if nothing is proposed, the move with the largest savings of those that do not pay (None: none was found).
    ``held_until``: when the next held node becomes free by time alone (epoch seconds). ``was_searched``: whether any node may go.
    """

    proposals: tuple[Proposal, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    pool: PoolTotals = _NO_POOL
    held_until: float = math.inf
    rejected: RejectedMove | None = None
    was_searched: bool = False


def find_moves(
    context: PlanningContext,
    settings: ConsolidationSettings,
    random: Random,
    *,
    most_nodes: int | None = None,
    settled: Mapping[str, str] | None = None,
    unneeded: Collection[str] = (),
) -> FoundMoves:
    """Return the best move, if one pays. ``context``: the cluster with pending pods that fit, and upcoming nodes.

    ``most_nodes``: how many nodes may go together (None: no limit). ``settled``: nodes that must stay, and why.
    ``unneeded``: nodes that scale-down removes by itself. Those without pods to move are left to it, unless the move buys nodes: the
    others are chosen as if these were gone, and kube-scheduler would put pods there instead of on what was bought.
    """
    if settings.consolidation_policy == "off":
        return FoundMoves()
    sources = find_sources(context, settings.consolidate_after, settled or {}).with_left(unneeded)
    if settings.consolidation_policy == "when-empty":
        sources = sources.only_empty()
    found = FoundMoves(
        held=dict(sources.outside) | {node.name: node.held for node in sources.nodes if node.held},
        pool=sources.pool,
        held_until=sources.held_until,
        was_searched=not all(node.held for node in sources.nodes),
    )
    most = len(sources.nodes) if most_nodes is None else min(most_nodes, len(sources.nodes))
    search = _MoveSearch(context, settings, sources, most, random)
    weights = _weights(settings.consolidation_policy, sources.pool)
    part = (1.0 - _FIRST_PART) / max(1, len(weights) - 1)
    for number, weight in enumerate(weights):
        proposal = search.find(weight, _FIRST_PART + part * number, part if number else 1.0)
        if proposal is not None:
            return replace(found, proposals=(proposal,))
        if search.is_hopeless:
            break
    return replace(found, rejected=search.rejected)


def _towards(target: _Target, plan: Consolidation, sources: NodePool) -> ClosingProblem:
    """Return the problem of this step: all nodes, those of the target, or any as far as limits allow."""
    problem = plan.problem
    if target is None:
        return replace(problem, most=len(sources.nodes))
    if not target:
        return problem
    going = np.zeros(len(plan.rows), dtype=bool)
    going[: len(sources.nodes)] = [node.name in target for node in sources.nodes]
    return replace(problem, may_close=problem.may_close & going, takes=np.where(going, 0, problem.takes))


def _weights(policy: str, pool: PoolTotals) -> tuple[float, ...]:
    """Return the weights of disruption with which nodes are chosen, one after the other, until a move pays."""
    if policy != "balanced":
        return (0.01,) if policy == "when-cheaper" else (0.0,)
    first = min(LEAST_SCORE, max(_LEAST_WEIGHT, _DISRUPTION_PRICE / pool.rate)) if pool.rate > 0 else LEAST_SCORE
    return (first, *(weight for weight in (_SECOND_WEIGHT, LEAST_SCORE) if weight > first))


class _MoveSearch:
    def __init__(
        self, context: PlanningContext, settings: ConsolidationSettings, sources: NodePool, most: int, random: Random
    ) -> None:
        self._context, self._settings, self._sources, self._most = context, settings, sources, most
        self._random = random
        self._growing = GroupsToGrow(context)
        self._began = context.state.elapsed()
        # The part of the time in which the search with this weight begins, and in which it ends.
        self._from, self._until = 0.0, 1.0
        # True: no set of nodes is worth its disruption. Then none is with a larger weight of disruption, either.
        self.is_hopeless = False
        self._stuck = frozenset[PodClass]()
        self.rejected: RejectedMove | None = None

    def find(self, weight: float, until: float, part: float) -> Proposal | None:
        """Return the best move at this weight of disruption; None if it does not pay.

        It takes until this part of the time, and this part of the usual number of changes.
        """
        self._until = until
        self._from = min(self._used_of_all(), until)
        small = _SMALL
        if self._settings.consolidation_policy == "balanced":
            # The least gain of a move whose score and savings are high enough.
            small = max(small, LEAST_SHARE * (1.0 - weight / LEAST_SCORE))
        target: _Target = None
        for _ in range(_MOST_TRIES):
            plan = make_problem(self._context, self._sources, self._growing, weight, self._most, self._stuck)
            if plan is None:
                return None
            used = self._used_of_target if target is None else self._used
            closing = find_closing(_towards(target, plan, self._sources), used, self._random, part=part, small=small)
            if closing is not None and not any(closing.bought.left):
                going = sorted((self._sources.nodes[at] for at in closing.closed.tolist()), key=_by_worth)
                if not self._may_go_together(going):
                    target = frozenset(node.name for node in going) if target is None else target
                    continue
                stuck = self._stuck
                proposal = self._proposal(plan, going, closing)
                if proposal is not None:
                    return proposal
                if stuck != self._stuck:
                    continue
            elif not target:
                self.is_hopeless = closing is None
            if not target:
                return None
            target = _NO_TARGET
        return None

    def _may_go_together(self, going: Sequence[PoolNode]) -> bool:
        """Return whether limits let these nodes go together. If not, hold those that PodDisruptionBudgets or gangs do not let go now."""
        without_turn = self._find_without_turn(going)
        self._sources = self._sources.without(without_turn, _NO_TURN)
        return not without_turn and len(going) <= self._most

    def _proposal(self, plan: Consolidation, going: Sequence[PoolNode], closing: Closing) -> Proposal | None:
        """Return the move if all its pods find places and it pays. If filters keep pods off their places, note their classes."""
        placement = place(self._context, plan, going, closing)
        if placement is None:
            return None
        if placement.misplaced:
            self._stuck |= placement.misplaced
            return None
        if not placement.new_nodes:
            going = [node for node in going if not node.is_left]
        self.is_hopeless = not going
        return self._accepted(going, placement)

    def _find_without_turn(self, going: Sequence[PoolNode]) -> frozenset[str]:
        """Return the nodes that PodDisruptionBudgets or gangs do not let go with those that go; empty if all of these may go."""
        state, policy = self._context.state, self._context.settings.policy
        budgets = DisruptionBudgets.of(state.observation.workloads, policy)
        if not budgets:
            return frozenset()
        first = set[str]()
        for node in going:
            if _lets_go(budgets, node):
                budgets.remove(_evicted(node))
                first.add(node.name)
        if len(first) == len(going):
            return frozenset()
        others = (node for node in self._sources.nodes if not node.held and node.name not in first)
        return frozenset(node.name for node in others if not _lets_go(budgets, node))

    def _used_of_target(self) -> float:
        """Return the used share of the time for the target: if limits allow it, the target is the move."""
        budgets = self._context.state.observation.workloads.budgets
        is_limited = budgets or self._most < len(self._sources.nodes)
        return self._used() / (_PART_OF_TARGET if is_limited else 1.0)

    def _used(self) -> float:
        """Return the used share of the time for this weight."""
        time = self._until - self._from
        return (self._used_of_all() - self._from) / time if time > 0.0 else 1.0

    def _used_of_all(self) -> float:
        """Return the used share of all time."""
        budget = self._settings.consolidation_budget
        return (self._context.state.elapsed() - self._began) / budget if budget else 0.0

    def _accepted(self, going: Sequence[PoolNode], placement: Relocation) -> Proposal | None:
        """Return the move if its score, and its savings over the life of the new nodes, are high enough."""
        pool = self._sources.pool
        added = sum(self._price_of(node.group) for node in placement.new_nodes)
        savings = sum(node.price for node in going) - added
        disruption = sum(node.disruption for node in going)
        evictions = sum(len(_evicted(node)) for node in going)
        score = pool.score(savings, disruption)
        names = tuple(node.name for node in going)
        if savings <= 0:
            return None
        reasons = (
            (
                evictions > 0 and savings < LEAST_SHARE * pool.price,
                f"it saves less than {LEAST_SHARE:.0%} of the price of all nodes",
            ),
            (
                self._settings.consolidation_policy == "balanced" and score < LEAST_SCORE,
                f"its score is {score:.2f}, below {LEAST_SCORE}",
            ),
            (
                savings * self._expected_life() <= added * _OVERLAP,
                "new nodes would not live long enough to pay for the time in which old and new nodes run together",
            ),
            (
                self._is_idle_spot_move(going, placement, savings),
                "it moves from spot to spot, saves too little, and there are too few machine types",
            ),
        )
        why = next((text for holds, text in reasons if holds), "")
        if why:
            if self.rejected is None or self.rejected.savings < savings:
                self.rejected = RejectedMove(sources=names, savings=savings, why=why)
            return None
        return Proposal(
            sources=names,
            new_nodes=placement.new_nodes,
            places=placement.places,
            savings=savings,
            disruption=disruption,
            score=score,
            evictions=evictions,
        )

    def _is_idle_spot_move(self, going: Sequence[PoolNode], placement: Relocation, savings: float) -> bool:
        """Return whether a move from spot to spot saves too little for the risk that the next machine is taken sooner."""
        groups = self._context.state.groups
        spot = {ref for ref, group in groups.items() if group.seen.price is not None and group.seen.price.spot}
        before = [node.price for node in going if node.group in spot]
        if not before or not any(node.group in spot for node in placement.new_nodes):
            return False
        cheaper = [ref for ref in self._growing.refs if ref in spot and self._price_of(ref) < min(before)]
        types = {
            self._context.templates[ref].node.metadata.labels.get(INSTANCE_TYPE_LABEL, str(ref)) for ref in cheaper
        }
        return len(types) < _SPOT_TYPES and savings < _SPOT_SHARE * sum(node.price for node in going)

    def _price_of(self, ref: GroupRef) -> float:
        return self._context.state.groups[ref].seen.hourly_price or 0.0

    def _expected_life(self) -> float:
        """Return how long new nodes probably live, in seconds: as long as half of the present nodes did so far."""
        now, snapshot = self._context.state.now, self._context.snapshot
        ages = sorted(now - snapshot.node(node.row).created for node in self._sources.nodes)
        return min(_LONGEST_LIFE, max(_SHORTEST_LIFE, ages[len(ages) // 2] if ages else 0.0))


def _evicted(node: PoolNode) -> list[Pod]:
    """Return the pods that are evicted if the node is removed."""
    return [pod for pod in node.moving.pods if not is_virtual(pod)]


def _lets_go(budgets: DisruptionBudgets, node: PoolNode) -> bool:
    """Return whether the node's pods may be evicted now, and leave no gang with fewer pods than it needs."""
    pods = _evicted(node)
    return budgets.can_remove(pods).can_remove and budgets.broken_gang(pods) is None


def _by_worth(node: PoolNode) -> tuple[float, str]:
    """Return a sort key by which nodes with the highest price for their disruption come first."""
    return -node.price / node.disruption, node.name
