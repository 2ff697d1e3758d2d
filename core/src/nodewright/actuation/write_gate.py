"""The write gate: decide which planned writes are made now, and which wait.

Writes wait for the end of a pause, for the deletion budget, or for a second observation after the process started. Machines
that are deleted without a drain get a last look right before the call (docs/adr/0023-evidence-for-deletions.md).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from nodewright.actuation.drain import as_deletion
from nodewright.actuation.ports import NodeReader
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import Action, DeleteInstances, DeletionCause
from nodewright.model.clock import Clock
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.errors import KubeApiError
from nodewright.model.group import GroupRef, Machine
from nodewright.model.node import Node
from nodewright.model.plan import HeldBack, Plan, PlannedAction, ScaleDownReport
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleDownResult
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import SafetySettings
from nodewright.planner.scale_down.missing_pods import MissingPods
from nodewright.validate import NodesOfMachines

# The default budgets of deletions in a window: a share of the registered nodes, and at least so many machines.
_LEAST_BUDGET, _BUDGET_SHARE = 10, 0.05
_LEAST_EMPTY_BUDGET, _EMPTY_BUDGET_SHARE = 50, 0.25
_EXHAUSTED = "DeletionBudgetExhausted"
SECOND_LOOK = "nodewright has just started; it deletes a machine for its age only after a second look at the cluster"


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A pause that an operator ordered: no cloud writes from ``since`` until ``until``, epoch seconds."""

    since: float
    until: float

    def holds(self, now: float) -> bool:
        """Return whether the pause is still on at ``now`` (epoch seconds)."""
        return now < self.until

    def __str__(self) -> str:
        return f"paused until {format_moment(self.until)}"


@dataclass(frozen=True, kw_only=True)
class DeletionLimits:
    """The number of machines that may be deleted within ``window`` seconds (0: no limit); ``name`` appears in messages.

    ``of_cluster``: how many of all groups together. ``of_group``: how many of one group; a group that is not a key has
    no limit of its own. ``is_alert``: reaching the limit is reported as an event.
    """

    name: str
    window: float
    of_cluster: int
    of_group: Mapping[GroupRef, int]
    is_alert: bool


@dataclass(frozen=True, kw_only=True)
class ClusterLimits:
    """The number of machines of all groups that may be deleted within a window; None: no limit, or not known.

    ``of_empty`` counts nodes without pods to move, ``of_others`` all other deletions.
    """

    of_others: int | None = None
    of_empty: int | None = None


class DeletionBudget:
    """The deletions that one loop may still make. A machine that never ran is not counted.

    A machine that was charged before and still exists is counted once, at the later time. ``charged`` is machine → when
    its deletion was charged (epoch seconds), earlier loops included; the next loops must remember it.
    """

    def __init__(self, state: ClusterState, limits: DeletionLimits, charged: Mapping[Machine, float]) -> None:
        self.charged: dict[Machine, float] = dict(charged)
        self._state = state
        self._limits = limits
        self._used = Counter(ref for ref, _ in self.charged)

    @cached_property
    def _with_node(self) -> set[str]:
        """Return the provider ids of all nodes, in lower case. Computed only if a creation failed."""
        return {node.spec.provider_id.lower() for _, node in self._state.observation.snapshot.nodes()}

    def take(self, action: DeleteInstances) -> tuple[DeleteInstances | None, HeldBack | None]:
        """Return the part of the deletion that the budget allows, and the rest with the reason why it must wait.

        Each is None if it has no machines.
        """
        allowed = [place for place, machine in enumerate(self._machines(action)) if self._charge(machine)]
        if len(allowed) == len(action.instance_ids):
            return action, None
        rest = [place for place in range(len(action.instance_ids)) if place not in set(allowed)]
        return (action.part(allowed) if allowed else None), self._hold_back(action.part(rest))

    def take_whole(self, action: DeleteInstances) -> HeldBack | None:
        """Charge the whole deletion and return None, or return why all of it must wait.

        A deletion larger than the limit is allowed if nothing else is charged: otherwise a large zero-or-max group could
        never be removed.
        """
        new = [machine for machine in self._machines(action) if machine not in self.charged]
        used, limits = self._used, self._limits
        fits = used.total() + len(new) <= limits.of_cluster
        fits = fits and used[action.group] + len(new) <= self._most_of(action.group)
        if limits.window and used.total() and not fits:
            return self._hold_back(action)
        self._used[action.group] += len(new)
        self.charged.update(dict.fromkeys(self._machines(action) if limits.window else (), self._state.now))
        return None

    def _hold_back(self, action: DeleteInstances) -> HeldBack:
        why, until = self._why(action.group), self._frees_at(action.group)
        event = _EXHAUSTED if self._limits.is_alert else ""
        return HeldBack(action=action, reason=why, until=until, event=event)

    def _machines(self, action: DeleteInstances) -> Iterator[Machine]:
        return ((action.group, instance_id) for instance_id in action.instance_ids)

    def _charge(self, machine: Machine) -> bool:
        """Return whether the machine may be deleted; charge it unless it never ran."""
        ref, _ = machine
        if not self._limits.window or self._never_ran(machine):
            return True
        if machine not in self.charged:
            if self._used[ref] >= self._most_of(ref) or self._used.total() >= self._limits.of_cluster:
                return False
            self._used[ref] += 1
        self.charged[machine] = self._state.now
        return True

    def _never_ran(self, machine: Machine) -> bool:
        """Return whether the machine is a failed creation without a node, or was watched and never became a node."""
        ref, instance_id = machine
        if machine in self._state.memory.never_ran:
            return True
        failures = self._state.groups[ref].seen.failed or ()
        failed = {failure.instance_id or failure.failure_id for failure in failures}
        return instance_id in failed and instance_id.lower() not in self._with_node

    def _most_of(self, ref: GroupRef) -> int:
        return self._limits.of_group.get(ref, self._limits.of_cluster)

    def _is_used_up_by_group(self, ref: GroupRef) -> bool:
        return ref in self._limits.of_group and self._used[ref] >= self._most_of(ref)

    def _why(self, ref: GroupRef) -> str:
        of_group = self._is_used_up_by_group(ref)
        whose, most = (f"group {ref}", self._most_of(ref)) if of_group else ("the cluster", self._limits.of_cluster)
        window = format_duration(self._limits.window)
        return f"the {self._limits.name} of {whose} is used up: {most} machines within {window}"

    def _frees_at(self, ref: GroupRef) -> float:
        of_group = self._is_used_up_by_group(ref)
        moments = [at for (charged, _), at in self.charged.items() if charged == ref or not of_group]
        return min(moments, default=self._state.now) + self._limits.window


def deletion_limits(state: ClusterState, settings: SafetySettings) -> DeletionLimits:
    """Return the limits of all deletions except those of nodes without pods to move."""
    fixed = settings.max_deletions_per_window
    return DeletionLimits(
        name="deletion budget",
        window=settings.deletion_window,
        of_cluster=_cluster_limit(state, settings) or 0,
        of_group={ref: fixed or _default(group.readiness.registered) for ref, group in state.groups.items()},
        is_alert=True,
    )


def empty_deletion_limits(state: ClusterState, settings: SafetySettings) -> DeletionLimits:
    """Return the limits of deletions of ready nodes without pods to move. Reaching them is not reported as an event."""
    return DeletionLimits(
        name="deletion budget for empty nodes",
        window=settings.empty_deletion_window,
        of_cluster=_empty_cluster_limit(state, settings) or 0,
        of_group={},
        is_alert=False,
    )


def cluster_limits(state: ClusterState, settings: SafetySettings) -> ClusterLimits:
    """Return how many machines of all groups each of the two budgets allows within its window."""
    return ClusterLimits(of_others=_cluster_limit(state, settings), of_empty=_empty_cluster_limit(state, settings))


def _cluster_limit(state: ClusterState, settings: SafetySettings) -> int | None:
    if not settings.deletion_window:
        return None
    return settings.max_deletions_per_window or _default(_nodes(state))


def _empty_cluster_limit(state: ClusterState, settings: SafetySettings) -> int | None:
    """Return the limit for empty nodes; None: no limit.

    It is a share of the largest recent number of nodes, so that it does not shrink with each deletion.
    """
    if not settings.empty_deletion_window:
        return None
    nodes = max(_nodes(state), state.memory.scale_down.most_nodes.nodes)
    return settings.max_empty_deletions_per_window or max(_LEAST_EMPTY_BUDGET, int(_EMPTY_BUDGET_SHARE * nodes))


def _nodes(state: ClusterState) -> int:
    return sum(group.readiness.registered for group in state.groups.values())


def _default(nodes: int) -> int:
    return max(_LEAST_BUDGET, int(_BUDGET_SHARE * nodes))


@dataclass(frozen=True, kw_only=True)
class ChargedDeletions:
    """Machine → when its deletion was requested (epoch seconds), for deletions that the budgets still count.

    ``empty`` holds those of nodes without pods to move, ``deletions`` all others.
    """

    deletions: Mapping[Machine, float]
    empty: Mapping[Machine, float]


@dataclass(frozen=True, kw_only=True)
class WriteGate:
    """Decides which planned writes are made now. ``paused`` is the reason why no write may be made; empty: none.

    ``paused_until`` is in epoch seconds. ``has_looked`` is false in the first loop of a process: then only saved memory
    says how long a machine has been without a node, and saved memory never authorises a deletion.
    """

    settings: SafetySettings = field(default_factory=SafetySettings)
    paused: str = ""
    paused_until: float = 0.0
    has_looked: bool = True

    def apply(self, plan: Plan, state: ClusterState) -> tuple[Plan, ChargedDeletions]:
        """Return the plan with only the writes that may be made now, and the deletions that must be remembered."""
        charged = ChargedDeletions(deletions=state.memory.deletions, empty=state.memory.empty_deletions)
        if self.paused:
            writes = (*plan.actions, *(_as_planned([removal], state) for removal in plan.scale_down.removals))
            held = tuple(HeldBack(action=action, reason=self.paused, until=self.paused_until) for action in writes)
            report = _reduced(plan.scale_down, ())
            uncalled = replace(plan.provisioning, calls=())
            plan = replace(plan, actions=(), scale_down=report, provisioning=uncalled, held_back=held)
            return replace(plan, paused=self.paused), charged
        if not plan.scale_down.removals and not any(isinstance(action, DeleteInstances) for action in plan.actions):
            return plan, charged
        budget = DeletionBudget(state, deletion_limits(state, self.settings), charged.deletions)
        empty_budget = DeletionBudget(state, empty_deletion_limits(state, self.settings), charged.empty)
        allowed: list[PlannedAction] = []
        waiting: list[HeldBack] = []
        for action in plan.actions:
            now, later = self._split(action, budget, state)
            allowed += [now] if now is not None else []
            waiting += [later] if later is not None else []
        empty = [removal for removal in plan.scale_down.removals if removal.reason == RemovalReason.EMPTY]
        # The cloud takes these machines in any case.
        going = {removal.node for removal in plan.scale_down.removals if removal.is_forced}
        others = [
            removal
            for removal in plan.scale_down.removals
            if removal.reason != RemovalReason.EMPTY and removal.node not in going
        ]
        for own, removals in ((empty_budget, empty), (budget, others)):
            within, later_removals = _within(own, removals, state)
            going.update(removal.node for removal in within)
            waiting += later_removals
        report = _reduced(plan.scale_down, tuple(r for r in plan.scale_down.removals if r.node in going))
        plan = replace(plan, actions=tuple(allowed), scale_down=report, held_back=tuple(waiting))
        return plan, ChargedDeletions(deletions=budget.charged, empty=empty_budget.charged)

    def _split(
        self, action: PlannedAction, budget: DeletionBudget, state: ClusterState
    ) -> tuple[PlannedAction | None, HeldBack | None]:
        if not isinstance(action, DeleteInstances):
            return action, None
        if not self.has_looked and not action.failure_ids:
            return None, HeldBack(action=action, reason=SECOND_LOOK, until=state.now)
        return budget.take(action)


def _as_planned(removals: Sequence[NodeRemoval], state: ClusterState) -> DeleteInstances:
    """Return the cloud call that these removals of one group will lead to."""
    return as_deletion(removals, state.groups[removals[0].group].seen.target or 0)


def _reduced(report: ScaleDownReport, removals: tuple[NodeRemoval, ...]) -> ScaleDownReport:
    """Return the report with only these removals and the result for them."""
    none_left = report.removals and not removals
    return replace(report, removals=removals, result=ScaleDownResult.NO_NODE_DELETED if none_left else report.result)


def _within(
    budget: DeletionBudget, removals: Sequence[NodeRemoval], state: ClusterState
) -> tuple[tuple[NodeRemoval, ...], list[HeldBack]]:
    """Return the removals that the budget allows, and the deletions that are held back.

    The nodes of a zero-or-max group are removed together or not at all.
    """
    waiting: list[HeldBack] = []
    refused: set[str] = set()
    for group in dict.fromkeys(removal.group for removal in removals):
        own = [removal for removal in removals if removal.group == group]
        action = _as_planned(own, state)
        held = budget.take_whole(action) if own[0].batch > 1 else budget.take(action)[1]
        if held is not None and isinstance(held.action, DeleteInstances):
            waiting.append(held)
            refused.update(held.action.instance_ids)
    return tuple(removal for removal in removals if removal.instance_id not in refused), waiting


# Seconds for which one list of nodes serves all deletions. After longer calls the nodes are listed again.
_FRESH_SECONDS = 10.0
_EVENT = "DeletionWithheld"


class DeletionRecheck:
    """Withholds deletions that the present nodes contradict; ``withheld`` are those of this loop.

    Minutes may pass between the read of the cluster and a deletion: clouds answer slowly, earlier calls hang, a watch may
    be stuck. A machine may have become a node meanwhile. So the nodes are listed again from the API server, past every
    cache, once in a loop that deletes machines (``actions``). ``find_missing`` returns the pods that the cache lacks: a
    node of a reservation that looks empty may run such pods. It raises KubeApiError.
    """

    def __init__(
        self, cluster: NodeReader, clock: Clock, actions: Collection[Action], find_missing: Callable[[], MissingPods]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._find_missing = find_missing
        self._missing: MissingPods | None = None
        deletions = (action for action in actions if isinstance(action, DeleteInstances))
        self._machines = frozenset(one.lower() for action in deletions for one in action.instance_ids)
        # The nodes of these machines, or why they could not be listed.
        self._seen: NodesOfMachines | str = ""
        self._taken_at: float | None = None
        self.withheld: list[HeldBack] = []

    def permit(self, action: DeleteInstances) -> DeleteInstances | None:
        """Return the part of the deletion that may go on (None: no part). The rest waits: the next loop looks again."""
        why = self._contradictions(action)
        if not why:
            return action
        reason = "; ".join(dict.fromkeys(why.values()))
        part = action.part(why)
        self.withheld.append(HeldBack(action=part, reason=reason, until=self._clock.now(), event=_EVENT))
        rest = [place for place in range(len(action.instance_ids)) if place not in why]
        return action.part(rest) if rest else None

    def _contradictions(self, action: DeleteInstances) -> dict[int, str]:
        """Return why machines must stay, by their place in the deletion.

        If the API server fails, the machines that follow are not checked: each attempt may take long.
        """
        seen, places = self._read_nodes(), range(len(action.instance_ids))
        if isinstance(seen, str):
            return dict.fromkeys(places, f"the nodes could not be listed right before the call: {seen}")
        found: dict[int, str] = {}
        for place in places:
            try:
                part = action.part((place,))
                why = "; ".join(seen.broken_by(part)) or self._doubt(part, seen)
            except KubeApiError as error:
                why = f"the pods on its nodes could not be read right before the call: {error}"
                return {**found, **dict.fromkeys(places[place:], why)}
            if why:
                found[place] = why
        return found

    def _doubt(self, action: DeleteInstances, seen: NodesOfMachines) -> str:
        """Return why the node of a reserved machine may run pods that no list shows; empty: none. Raise KubeApiError."""
        if action.cause != DeletionCause.RESERVATION or not seen.has_any(action.instance_ids):
            return ""
        if self._missing is None:
            self._missing = self._find_missing()
        return str(self._missing) if self._missing.is_list_wrong else ""

    def _read_nodes(self) -> NodesOfMachines | str:
        if self._taken_at is None or not 0 <= self._clock.now() - self._taken_at <= _FRESH_SECONDS:
            self._seen, self._missing = self._list(), None
            self._taken_at = self._clock.now()
        return self._seen

    def _list(self) -> NodesOfMachines | str:
        try:
            nodes = [node for node in self._cluster.list_nodes() if node.spec.provider_id.lower() in self._machines]
        except KubeApiError as error:
            return str(error)
        return NodesOfMachines(nodes, self._pods_on)

    def _pods_on(self, node: Node) -> tuple[Pod, ...]:
        return (*self._cluster.get_node_view(node.name).pods, *self._cluster.find_unlisted(node.name))
