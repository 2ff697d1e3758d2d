"""Renewal: replace nodes that are too old, or that differ from new nodes of their group (docs/disruption.md).

A renewal is a move (planner/moves.py). The pods of the node go to existing nodes that stay. If these have no room, nodes
are bought as for pending pods. The group of the node does not shrink below its minimum.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from zlib import crc32

from nodewright.clusterstate.drift import find_drift
from nodewright.clusterstate.memory import MoveMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.disruption import DisruptionReason
from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.plan import Expansion, OutdatedNode, PlannedNode, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, SkipReason, Unremovable, UnremovableCode
from nodewright.model.settings import RenewalSettings
from nodewright.planner.capacity_buffers.pods import is_virtual
from nodewright.planner.consolidation.find_moves import Proposal
from nodewright.planner.consolidation.sources import DO_NOT_DISRUPT
from nodewright.planner.context import PlanningContext
from nodewright.planner.growth import grow
from nodewright.planner.scale_down.drainability import DrainabilityCache, DrainabilityRules, evaluate_subset
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED, SHARED, find_candidates
from nodewright.planner.scale_down.limits import DisruptionLimits, is_atomic
from nodewright.planner.scale_down.node_removal import RemovalSimulator, destination_rows
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import find_pod_subsets
from nodewright.planner.scale_down.simulation import DrainSimulation
from nodewright.planner.scale_down.unneeded import is_ready_node
from nodewright.planner.scale_up.misfits import bars_of
from nodewright.planner.scale_up.options import skip_reason
from nodewright.planner.scale_up.pending_pods import unplaced
from nodewright.planner.scale_up.planned_nodes import grown
from nodewright.snapshot.node_pods import PodDestinations

# Seconds between two searches for room for the pods of outdated nodes.
_SEARCH_SECONDS = 60.0
# How many nodes one search examines.
_MOST_EXAMINED = 30
# How many groups may grow one after the other for the pods of one node.
_MOST_EXPANSIONS = 4


def expires_at(node: Node, settings: RenewalSettings) -> float:
    """Return when a node becomes too old (epoch seconds).

    The jitter is computed from the node's name, so that the result changes only with the settings.
    """
    share = crc32(node.name.encode()) / 2**32
    return node.created + settings.node_max_age * (1.0 - settings.node_max_age_jitter * share)


@dataclass(frozen=True, kw_only=True)
class Renewals:
    """The nodes that are to be replaced, and the memory for the next loop.

    ``proposal``: the move that replaces some of them now (None: none is replaced). ``next_at``: when the next node
    becomes too old, room is searched again, or the pause of an outdated node ends (epoch seconds; inf: only after the
    cluster changed).
    """

    memory: MoveMemory
    outdated: tuple[OutdatedNode, ...] = ()
    proposal: Proposal | None = None
    next_at: float = math.inf


def find_renewals(
    context: PlanningContext, held: MoveMemory, settings: RenewalSettings, random: Random, *, hindrance: str
) -> Renewals:
    """Return the outdated nodes, and how to replace some: as many as may be drained at a time, all for one reason.

    None is replaced while a move is under way, too short a time after the last search, or if there is a ``hindrance``:
    the reason why no node may be replaced now (empty: there is none).
    """
    outdated, next_at = _find_outdated(context, held, settings)
    known = {one.node for one in outdated}
    unrenewed = {name: why for name, why in held.unrenewed.items() if name in known}
    proposal = None
    free = [one for one in outdated if not one.held and one.node not in context.state.observation.removing]
    if free and not hindrance and not held.under_way and context.state.now >= held.renewed_at + _SEARCH_SECONDS:
        search = RenewalSearch(context, free, random)
        # Nodes that could not be replaced go last, in the order in which they were examined.
        turns = {name: number for number, name in enumerate(unrenewed, start=1)}
        search.take(sorted(free, key=lambda one: turns.get(one.node, 0)))
        proposal, stuck = search.result()
        done = {*stuck, *(proposal.sources if proposal is not None else ())}
        unrenewed = {name: why for name, why in unrenewed.items() if name not in done}
        unrenewed |= stuck
        held = replace(held, renewed_at=context.state.now)
    shown = tuple(replace(one, held=one.held or hindrance or unrenewed.get(one.node, "")) for one in outdated)
    if hindrance and outdated:
        next_at = min(next_at, context.state.now + _SEARCH_SECONDS)
    elif free and not held.under_way:
        next_at = min(next_at, max(context.state.now, held.renewed_at + _SEARCH_SECONDS))
    pauses = (held.pauses[name].until for name in known if name in held.pauses)
    next_at = min(next_at, *(until for until in pauses if until >= context.state.now), math.inf)
    memory = replace(held, unrenewed=unrenewed)
    return Renewals(memory=memory, outdated=shown, proposal=proposal, next_at=next_at)


def _find_outdated(
    context: PlanningContext, held: MoveMemory, settings: RenewalSettings
) -> tuple[tuple[OutdatedNode, ...], float]:
    """Return the nodes that are to be replaced, the first due first, why some are held, and when the next is due."""
    state, now, next_at = context.state, context.state.now, math.inf
    due = dict[str, tuple[float, Node, DisruptionReason, str]]()
    for drift in find_drift(state, context.settings.templates):
        due[drift.node.name] = drift.since, drift.node, DisruptionReason.DRIFTED, drift.why
    for node in state.observation.snapshot.live_nodes() if settings.node_max_age else ():
        if node.metadata.creation_timestamp is None or node.name not in state.group_of_node:
            continue
        at = expires_at(node, settings)
        if at >= now:
            next_at = min(next_at, at)
        else:
            why = f"it is {format_duration(round(now - node.created))} old (--node-max-age)"
            due.setdefault(node.name, (at, node, DisruptionReason.EXPIRED, why))
    known = [name for name in due if state.group_of_node[name] in state.groups and name not in state.interrupted]
    find_obstacle = _Obstacles(context, held, known).find
    found = list[OutdatedNode]()
    for name in sorted(known, key=lambda name: (due[name][0], name)):
        _, node, reason, why = due[name]
        held_by = find_obstacle(node, reason)
        found.append(OutdatedNode(node=name, group=state.group_of_node[name], reason=reason, why=why, held=held_by))
    return tuple(found), next_at


class _Obstacles:
    """The reasons, other than missing room, why outdated nodes are not replaced now."""

    def __init__(self, context: PlanningContext, held: MoveMemory, names: Sequence[str]) -> None:
        self._context, self._pauses = context, held.pauses
        self._limits = DisruptionLimits(context.state)
        self._moving = {name for move in held.under_way.values() for name in move.left}
        self._passed_over = find_candidates(context.state, names, context.settings.scale_down).passed_over

    def find(self, node: Node, reason: DisruptionReason) -> str:
        """Return why a node is not replaced now; empty: it may be replaced, or its removal is under way."""
        state, name = self._context.state, node.name
        if name in self._moving or name in state.observation.removing:
            return ""
        pause, annotations = self._pauses.get(name), node.metadata.annotations
        pinned = next((key for key in (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT) if annotations.get(key) == "true"), "")
        passed_over = self._passed_over.get(name)
        if passed_over is not None and passed_over.code == UnremovableCode.MIN_SIZE_REACHED:
            passed_over = None
        obstacle = passed_over or self._limits.find_obstacle(name, reason)
        reasons = (
            (bool(pinned), f"it is annotated {pinned}"),
            (not is_ready_node(state, name) or name not in self._context.snapshot, "it is not ready"),
            (state.shares_machine(node), SHARED.message),
            (is_atomic(state, ref := state.group_of_node[name]), f"group {ref} has all its nodes or none"),
            (pause is not None and pause.until > state.now, pause.why if pause is not None else ""),
            (obstacle is not None, obstacle.message if obstacle is not None else ""),
        )
        return next((why for holds, why in reasons if holds), "")


class RenewalSearch:
    """The nodes to replace so far, the nodes to buy for them, and the cluster with both."""

    def __init__(
        self,
        context: PlanningContext,
        outdated: Collection[OutdatedNode],
        random: Random,
        *,
        barred: Mapping[GroupRef, SkipReason] | None = None,
    ) -> None:
        """``barred``: groups to which the pods may not go. Then only new nodes count as room (None: existing nodes do, too)."""
        self._sources: list[OutdatedNode] = []
        self._held: dict[str, str] = {}
        self._bought = list[PlannedNode]()
        self._context, self._random, self._barred = context, random, barred
        state = context.state
        open_rows = destination_rows(context.snapshot, state)
        open_rows[[context.snapshot.row(one.node) for one in outdated if one.node in context.snapshot]] = False
        simulation = DrainSimulation(context.snapshot.fork(), open_rows, PodDestinations(), state.now)
        drain, policy = context.settings.drain, context.settings.policy
        self._simulator = RemovalSimulator(simulation, state, drain, policy)
        budgets = DisruptionBudgets.of(state.observation.workloads, policy)
        rules = DrainabilityRules(
            state.observation.workloads, budgets, drain, state.now, policy.applies_all_drain_rules
        )
        self._rules = DrainabilityCache(rules)
        self._grown = replace(context, growth_limit=context.nodes_left)
        self._spare = {ref: _spare(state, ref) for ref in state.groups}

    def take(self, outdated: Iterable[OutdatedNode]) -> None:
        """Plan the replacement of the first nodes that can be replaced, and note why others cannot."""
        limits = DisruptionLimits(self._context.state)
        most = max(1, self._context.settings.scale_down.max_drain_parallelism)
        for one in islice(outdated, _MOST_EXAMINED):
            if len(self._sources) >= most:
                return
            if self._sources and one.reason != self._sources[0].reason:
                continue
            if limits.find_obstacle(one.node, one.reason) is None and self._add(one):
                limits.take(one.node)

    def _add(self, one: OutdatedNode) -> bool:
        nodes = self._replacement(one)
        if isinstance(nodes, str):
            self._held[one.node] = nodes
            return False
        self._sources.append(one)
        self._bought += nodes
        self._spare[one.group] -= 1
        for node in nodes:
            self._spare[node.group] += 1
        return True

    def result(self) -> tuple[Proposal | None, Mapping[str, str]]:
        """Return the move that replaces the nodes of ``take`` (None: there are none), and why others cannot be replaced."""
        names = tuple(one.node for one in self._sources)
        if not names:
            return None, self._held
        if not self._context.allows(Counter(node.group for node in self._bought)):
            text = "a limit of the cluster leaves no room for its replacement"
            return None, {**self._held, **dict.fromkeys(names, text)}
        proposal = Proposal(
            sources=names,
            new_nodes=tuple(self._bought),
            places={},
            savings=0.0,
            disruption=0.0,
            score=0.0,
            evictions=0,
            reason=self._sources[0].reason,
        )
        return proposal, self._held

    def _replacement(self, one: OutdatedNode) -> list[PlannedNode] | str:
        """Return the nodes to buy before this one goes, or why it cannot go."""
        row = self._context.snapshot.row(one.node)
        (subset,) = find_pod_subsets(self._context.snapshot, [row])
        status = evaluate_subset(subset, self._rules)
        pinned = next((pod.key for pod in subset.pods if pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true"), "")
        if status.blocking is not None:
            return f"pod {status.blocking.pod}: {status.blocking.message}"
        if status.on_completion:
            return f"the completion of pod {status.on_completion[0].key} is awaited"
        if pinned:
            return f"pod {pinned} is annotated {DO_NOT_DISRUPT}"
        keeps_minimum = self._spare[one.group] > 0
        if self._barred is not None and not keeps_minimum:
            return f"group {one.group} is at its minimum size"
        if (
            self._barred is None
            and keeps_minimum
            and not isinstance(self._simulator.try_removal(one.node, [one.node]), Unremovable)
        ):
            return []
        pods = [unplaced(pod) for pod in status.moving.pods if not is_virtual(pod)]
        snapshot = self._grown.snapshot.fork()
        snapshot.remove_node(row)
        classes = {snapshot.class_of(pod) for pod in pods}
        barred = {**self._grown.barred, **bars_of(self._grown, classes)}
        barred |= {one: {**barred.get(one, {}), **self._barred} for one in classes} if self._barred else {}
        current = replace(self._grown, snapshot=snapshot, barred=barred)
        return self._buy(current, one, pods, keeps_minimum=keeps_minimum)

    def _buy(
        self, current: PlanningContext, one: OutdatedNode, pods: Sequence[Pod], *, keeps_minimum: bool
    ) -> list[PlannedNode] | str:
        nodes = list[PlannedNode]()
        if not keeps_minimum:
            alike = _one_more(current, one.group)
            if isinstance(alike, str):
                return alike
            is_barred = any(one.group in bars for bars in current.barred.values())
            whole = grown(current, replace(alike, triggered=tuple(pods))) if not is_barred else None
            after = whole or grown(current, alike)
            if after is None:
                return f"a new node of group {one.group} cannot be planned"
            taken = tuple(pods) if whole is not None else ()
            current, pods = after, () if whole is not None else pods
            nodes.append(PlannedNode(group=one.group, pods=taken))
        for _ in range(_MOST_EXPANSIONS):
            if not pods:
                break
            for report in grow(current, pods, self._random, may_wait=False).reports:
                following = grown(current, report) if report.expansions else None
                if following is None:
                    return f"no new node takes pod {pods[0].key}{_why(report)}"
                current = following
                helped = {id(pod) for pod in report.triggered}
                pods = [pod for pod in pods if id(pod) not in helped]
                nodes += _planned(report)
        if pods:
            return f"no new node takes pod {pods[0].key}"
        left = self._grown.growth_limit
        self._grown = replace(current, growth_limit=None if left is None else left - len(nodes))
        return nodes


def _planned(report: ScaleUpReport) -> Iterator[PlannedNode]:
    """Yield the new nodes of a growth. Pods whose node is not known are given to the first unplanned node of each group."""
    yield from report.nodes
    planned = Counter(node.group for node in report.nodes)
    known = {id(pod) for node in report.nodes for pod in node.pods}
    others = tuple(pod for pod in report.triggered if id(pod) not in known)
    for made in report.expansions:
        for number in range(made.added - planned[made.group]):
            yield PlannedNode(group=made.group, pods=() if number else others)


def _spare(state: ClusterState, ref: GroupRef) -> int:
    """Return how many nodes a group may lose without going below its minimum size."""
    seen = state.groups[ref].seen
    leaving = sum(removing.removal.group == ref for removing in state.observation.removing.values())
    return (seen.target or 0) - leaving - seen.group.min_size


def _one_more(context: PlanningContext, ref: GroupRef) -> ScaleUpReport | str:
    """Return the growth of a group by one node, or why it may not grow."""
    reason = skip_reason(context, ref)
    if reason is not None:
        return f"group {ref} is at its minimum size and cannot grow: {reason.message}"
    seen = context.state.groups[ref].seen
    current = seen.target or 0
    return ScaleUpReport(
        expansions=(Expansion(group=ref, current=current, target=current + 1, maximum=seen.group.max_size),)
    )


def _why(report: ScaleUpReport) -> str:
    """Return why growth helps no pod, as the end of a sentence."""
    reasons = [*report.skipped.items(), *(pair for one in report.unhelped for pair in one.reasons.items())]
    return next(
        (f": {ref}: {reason if isinstance(reason, Rejection) else reason.message}" for ref, reason in reasons), ""
    )
