"""The budgets for deletions: one for nodes without pods to move, one for all others, whatever the reason."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances
from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef
from nodewright.model.settings import SafetySettings
from nodewright.planner.plan import HeldBack

_ALWAYS = 10
_SHARE = 0.05
_ALWAYS_EMPTY = 50
_SHARE_EMPTY = 0.25

Machine = tuple[GroupRef, str]


@dataclass(frozen=True, kw_only=True)
class DeletionLimits:
    """How many machines may be deleted within ``window`` seconds (0: any number), and what the budget is called.

    ``of_group``: how many of one group; a group that is not there has no limit of its own. ``is_alert``: an operator
    should look into it when the limit is reached.
    """

    name: str
    window: float
    of_cluster: int
    of_group: Mapping[GroupRef, int]
    is_alert: bool


@dataclass(frozen=True, kw_only=True)
class ClusterLimits:
    """How many machines of all groups may be deleted within a window: nodes without pods to move, and others.

    None where any number may, and where it is not known.
    """

    of_others: int | None = None
    of_empty: int | None = None


class DeletionBudget:
    """What may be deleted in one loop. A machine that never ran is free; one that is still there although it was
    charged already costs no more, from now on.

    ``charged`` is what the next loops must remember, the earlier deletions included.
    """

    def __init__(self, state: ClusterState, limits: DeletionLimits, charged: Mapping[Machine, float]) -> None:
        self.charged: dict[Machine, float] = dict(charged)
        self._state = state
        self._limits = limits
        self._used = Counter(ref for ref, _ in self.charged)

    @cached_property
    def _with_node(self) -> set[str]:
        """The machines of all nodes, by their ids in lower case: only failed creations are looked up."""
        return {node.spec.provider_id.lower() for _, node in self._state.observation.snapshot.nodes()}

    def take(self, action: DeleteInstances) -> tuple[DeleteInstances | None, HeldBack | None]:
        """As much of the deletion as the budget allows, and the rest with the reason why it waits."""
        allowed = [place for place, machine in enumerate(self._machines(action)) if self._charge(machine)]
        if len(allowed) == len(action.instance_ids):
            return action, None
        rest = [place for place in range(len(action.instance_ids)) if place not in set(allowed)]
        return (_part(action, allowed) if allowed else None), self._hold_back(_part(action, rest))

    def take_whole(self, action: DeleteInstances) -> HeldBack | None:
        """All of the deletion or, with the reason, nothing of it. More than the budget ever allows is allowed while
        nothing else of it is used: a zero-or-max group could never go otherwise.
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
        return HeldBack(action=action, reason=why, until=until, is_alert=self._limits.is_alert)

    def _machines(self, action: DeleteInstances) -> Iterator[Machine]:
        return ((action.group, instance_id) for instance_id in action.instance_ids)

    def _charge(self, machine: Machine) -> bool:
        """May it be deleted? Then it is charged, unless it is free."""
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
        """A failed creation that no node stands for, or an instance that was watched and never was a node."""
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
    """Return the limits of all deletions but those of nodes without pods to move."""
    fixed = settings.max_deletions_per_window
    return DeletionLimits(
        name="deletion budget",
        window=settings.deletion_window,
        of_cluster=_cluster_limit(state, settings) or 0,
        of_group={ref: fixed or _default(group.readiness.registered) for ref, group in state.groups.items()},
        is_alert=True,
    )


def empty_deletion_limits(state: ClusterState, settings: SafetySettings) -> DeletionLimits:
    """Return the limits of deletions of ready nodes without pods to move: reaching them is no reason for alarm."""
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
    """The share is of the nodes that there were of late, so that it does not shrink with each deletion."""
    if not settings.empty_deletion_window:
        return None
    nodes = max(_nodes(state), state.memory.scale_down.most_nodes.nodes)
    return settings.max_empty_deletions_per_window or max(_ALWAYS_EMPTY, int(_SHARE_EMPTY * nodes))


def _nodes(state: ClusterState) -> int:
    return sum(group.readiness.registered for group in state.groups.values())


def _default(nodes: int) -> int:
    return max(_ALWAYS, int(_SHARE * nodes))


def _part(action: DeleteInstances, places: list[int]) -> DeleteInstances:
    """Some of the machines, each with its failure."""
    ids, failures = action.instance_ids, action.failure_ids
    return replace(
        action,
        instance_ids=tuple(ids[place] for place in places),
        failure_ids=tuple(failures[place] for place in places) if failures else (),
    )
