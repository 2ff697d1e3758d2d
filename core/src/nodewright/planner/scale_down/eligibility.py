"""Find the candidates for removal, by their group, their own state and their utilization, and put them in order.

For each node the first condition that holds decides why it stays.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, groupby
from math import ceil

import numpy as np
from numpy.typing import NDArray

from nodewright.clusterstate.accelerators import Accelerators
from nodewright.clusterstate.deletions import DELETION_SECONDS
from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.readiness import is_ready
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.group import GroupRef
from nodewright.model.node import TO_BE_DELETED_TAINT
from nodewright.model.pod import SAFE_TO_EVICT_ANNOTATION
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import ScaleDownSettings
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_down.drainability import DrainabilityCache, DrainabilityRules, evaluate_subset
from nodewright.planner.scale_down.pod_index import PodKind, find_kinds, find_pod_subsets
from nodewright.planner.scale_down.unneeded import tainted_at
from nodewright.planner.scale_down.utilization import Measure, Utilizations, utilizations
from nodewright.planner.scale_up.balancing import is_similar
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.node_pods import find_node_pods
from nodewright.snapshot.node_table import NodeTable

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
# Stands for an infinite ratio; counts tenths of a per cent.
_MANY_TENTHS = 2**32
_NO_INFO = Unremovable(code=UnremovableCode.UNEXPECTED, message="the node is not in the snapshot of the cluster")
_BEING_DELETED = Unremovable(
    code=UnremovableCode.BEING_DELETED, message="it was tainted for deletion less than 5 minutes ago"
)
_UNDER_WAY = Unremovable(code=UnremovableCode.BEING_DELETED, message="its removal is under way")
_DISABLED = Unremovable(
    code=UnremovableCode.SCALE_DOWN_DISABLED, message=f'it is annotated {SCALE_DOWN_DISABLED}: "true"'
)
NO_GROUP = Unremovable(code=UnremovableCode.NOT_AUTOSCALED, message="it belongs to no node group")
SHARED = Unremovable(
    code=UnremovableCode.QUARANTINED,
    message="another node has the same providerID, and it is unknown which of them is the machine; delete the other one",
)
_LOST_GROUP = Unremovable(code=UnremovableCode.UNEXPECTED, message="its node group is unknown")
_UNREADY = Unremovable(
    code=UnremovableCode.UNREADY_DISABLED, message="it is not ready, and --scale-down-unready-enabled is off"
)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Candidates by name, in the order of nodes; ``passed_over`` says why other nodes are not candidates.

    ``count`` includes nodes whose removal is under way.
    """

    names: tuple[str, ...] = ()
    count: int = 0
    passed_over: Mapping[str, Unremovable] = field(default_factory=dict)


def find_candidates(state: ClusterState, names: Iterable[str], settings: ScaleDownSettings) -> Candidates:
    """Return the nodes whose group may lose a node."""
    obstacles = {ref: _obstacle(state, ref, settings) for ref in state.groups}
    group_of_node, removing, names = state.group_of_node, state.observation.removing, tuple(names)
    if not removing and not any(obstacles.values()) and None not in map(group_of_node.get, names):
        return Candidates(names=names, count=len(names))  # as in most loops
    found: list[str] = []
    passed_over: dict[str, Unremovable] = {}
    under_way_count = 0
    for name in names:
        ref = group_of_node.get(name)
        obstacle = obstacles[ref] if ref is not None else NO_GROUP
        under_way = name in removing
        under_way_count += under_way and obstacle is None
        if under_way:
            passed_over[name] = _UNDER_WAY
        elif obstacle is not None:
            passed_over[name] = obstacle
        else:
            found.append(name)
    return Candidates(names=tuple(found), count=len(found) + under_way_count, passed_over=passed_over)


def _obstacle(state: ClusterState, ref: GroupRef, settings: ScaleDownSettings) -> Unremovable | None:
    """Return why no node of a group may go; None if nothing prevents it."""
    observed, seen, memory = state.observation.groups[ref], state.groups[ref].seen, state.memory.scale_down
    if not observed.is_known or seen.target is None:
        return Unremovable(code=UnremovableCode.UNEXPECTED, message=f"group {ref} cannot be read: {observed.problem}")
    if ref in state.left_out:
        text = f"the cluster is unhealthy because of group {ref}: its nodes stay until it is healthy again"
        return Unremovable(code=UnremovableCode.UNHEALTHY_GROUP, message=text)
    if seen.target <= seen.group.min_size:
        text = f"group {ref} has {seen.target} nodes, and its minimum size is {seen.group.min_size}"
        return Unremovable(code=UnremovableCode.MIN_SIZE_REACHED, message=text)
    return _local_delay(ref, memory, settings, state.now)


def _local_delay(ref: GroupRef, memory: ScaleDownMemory, settings: ScaleDownSettings, now: float) -> Unremovable | None:
    """Return the reason if the group grew, shrank or failed to shrink lately (``--scale-down-delay-type-local``)."""
    if not settings.scale_down_delay_type_local:
        return None
    delays = (
        ("grew", memory.grown_at, settings.scale_down_delay_after_add),
        ("shrank", memory.shrunk_at, settings.scale_down_delay_after_delete),
        ("failed to shrink", memory.failed_at, settings.scale_down_delay_after_failure),
    )
    for what, moments, delay in delays:
        if ref in moments and moments[ref] + delay > now:
            text = f"group {ref} {what} less than {delay:g} s ago"
            return Unremovable(code=UnremovableCode.IN_COOLDOWN, message=text)
    return None


@dataclass(frozen=True, kw_only=True)
class Eligibility:
    """``names`` have a utilization low enough for removal, in the order given. ``unremovable`` says why the others stay.

    ``utilization`` has the ratios that were compared with a threshold (under profile "ca" possibly NaN or infinite).
    """

    names: tuple[str, ...] = ()
    utilization: Mapping[str, float] = field(default_factory=dict)
    unremovable: Mapping[str, Unremovable] = field(default_factory=dict)


def find_eligible(context: PlanningContext, candidates: Sequence[str]) -> Eligibility:
    """Check candidates (names of nodes) against the snapshot and their group's options.

    A node that could not be removed is skipped until the time in ``memory.scale_down.rechecks``.
    """
    found = context.snapshot.find_rows(candidates)
    rows = np.array([-1 if row is None else row for row in found], dtype=np.int64)
    if not (rows < 0).any():
        return _EligibilityCheck(context, candidates, rows).evaluate({})
    absent = {name: _NO_INFO for name, row in zip(candidates, found, strict=True) if row is None}
    names = [name for name in candidates if name not in absent]
    return _EligibilityCheck(context, names, rows[rows >= 0]).evaluate(absent)


class _EligibilityCheck:
    """The candidates of one loop, and the reasons found so far."""

    def __init__(self, context: PlanningContext, names: Sequence[str], rows: Ids) -> None:
        self._snapshot, self._names, self._rows = context.snapshot, names, rows
        self._state, self._settings = context.state, context.settings
        members = context.state.memory.members
        providers = context.state.observation.providers.values()
        self._accelerators = members.accelerators if members is not None else Accelerators.of(providers)
        self._reasons: NDArray[np.object_] = np.full(len(names), None, dtype=object)
        self._open = np.ones(len(names), dtype=np.bool_)

    def evaluate(self, absent: Mapping[str, Unremovable]) -> Eligibility:
        """Apply the conditions in order."""
        self._refuse_recent()
        self._refuse_marked()
        groups, places = self._find_groups()
        self._refuse_shared()
        measured = self._measure(groups, places)
        self._refuse(measured.problem_ids > 0, [_unmeasured(text) for text in measured.problems], measured.problem_ids)
        if not self._settings.scale_down.scale_down_unready_enabled:
            self._refuse(self._unready(), [_UNREADY])
        compared = self._open.copy()
        self._refuse_used(measured, groups, places)
        return self._result(measured, compared, absent)

    def _refuse(self, mask: Mask, reasons: Sequence[Unremovable], which: Ids | None = None) -> None:
        """Refuse the masked rows that are still open; ``which`` is the index of each row's reason."""
        hit = np.flatnonzero(mask & self._open)
        if len(hit):
            self._reasons[hit] = [reasons[n] for n in which[hit].tolist()] if which is not None else reasons[0]
            self._open[hit] = False

    def _refuse_recent(self) -> None:
        rechecks, now = self._state.memory.scale_down.rechecks, self._state.now
        for index, name in enumerate(self._names if rechecks else ()):
            known = rechecks.get(name)
            if known is not None and known.at > now:
                self._reasons[index] = _recently(known.reason, ceil(known.at - now))
                self._open[index] = False

    def _refuse_marked(self) -> None:
        tainted_at = self._snapshot.column("to_be_deleted_at", deletion_taint_times)[self._rows]
        # A node with an older taint is considered again. CA waits forever if the taint's time is in the future.
        age = self._state.now - tainted_at
        age = np.abs(age) if self._settings.policy.rechecks_future_taints else age
        self._refuse(age < DELETION_SECONDS, [_BEING_DELETED])
        self._refuse(self._snapshot.column("scale_down_disabled", disabled_nodes)[self._rows], [_DISABLED])

    def _find_groups(self) -> tuple[list[GroupState], Ids]:
        """Return the groups of the candidates, and for each candidate the index of its group.

        Refuse nodes without a group.
        """
        refs, known = self._state.group_of_node, self._state.groups
        of_names = [*map(refs.get, self._names)]
        place_of = dict.fromkeys(of_names, -2)
        groups = [known[ref] for ref in place_of if ref is not None and ref in known]
        place_of |= {group.ref: place for place, group in enumerate(groups)}
        place_of[None] = -1
        places = np.fromiter(map(place_of.__getitem__, of_names), dtype=np.int64, count=len(of_names))
        self._refuse(places == -1, [NO_GROUP])
        self._refuse(places == -2, [_LOST_GROUP])
        return groups, places

    def _refuse_shared(self) -> None:
        """Refuse nodes that share their provider id with another node: the machine's pods run on only one of them."""
        members = self._state.memory.members
        if members is None or not members.shared or not self._settings.policy.spares_shared_machines:
            return
        nodes = (self._snapshot.node(row) for row in self._rows.tolist())
        self._refuse(np.array([members.shares_machine(node) for node in nodes], dtype=np.bool_), [SHARED])

    def _measure(self, groups: Sequence[GroupState], places: Ids) -> Utilizations:
        measure = Measure.of(self._state, self._settings.scale_down, self._settings.policy)
        ignores = _per_group((group.seen.options.ignore_daemonsets_utilization for group in groups), places)
        return utilizations(self._snapshot, self._rows, measure, ignores > 0)

    def _unready(self) -> Mask:
        templates, accelerators = self._settings.templates, self._accelerators

        def of_nodes(table: NodeTable, window: slice) -> Mask:
            nodes = [table.template(row) for row in range(window.start, window.stop)]
            return np.array(
                [not is_ready(node, templates) or accelerators.are_missing(node) for node in nodes], dtype=np.bool_
            )

        unready: Mask = self._snapshot.column(("unready", templates, accelerators), of_nodes)[self._rows]
        return unready

    def _refuse_used(self, measured: Utilizations, groups: Sequence[GroupState], places: Ids) -> None:
        """Refuse nodes above the threshold. A ratio equal to it, or NaN, is low enough."""
        options = [group.seen.options for group in groups]
        plain = _per_group((option.scale_down_utilization_threshold for option in options), places)
        gpu = _per_group((option.scale_down_gpu_utilization_threshold for option in options), places)
        thresholds = np.where(measured.has_gpu, gpu, plain)
        above = np.flatnonzero((measured.ratios > thresholds) & self._open)
        limits, limit_ids = np.unique(thresholds[above], return_inverse=True)
        keys = (limit_ids * len(measured.resources) + measured.resource_ids[above]) * _MANY_TENTHS
        kinds, which = np.unique(keys + _tenths(measured.ratios[above]), return_inverse=True)
        reasons = []
        for kind in kinds.tolist():
            rest, tenths = divmod(kind, _MANY_TENTHS)
            limit, resource = divmod(rest, len(measured.resources))
            reasons.append(_used(measured.resources[resource], tenths, float(limits[limit])))
        self._reasons[above] = np.array(reasons, dtype=object)[which] if reasons else None
        self._open[above] = False

    def _result(self, measured: Utilizations, compared: Mask, absent: Mapping[str, Unremovable]) -> Eligibility:
        stays, unremovable = ~self._open, dict(absent)
        unremovable.update(zip(self._of(stays), self._reasons[stays].tolist(), strict=True))
        return Eligibility(
            names=tuple(self._of(self._open)),
            utilization=dict(zip(self._of(compared), measured.ratios[compared].tolist(), strict=True)),
            unremovable=unremovable,
        )

    def _of(self, mask: Mask) -> Iterable[str]:
        """Return the names of the masked rows."""
        return self._names if mask.all() else compress(self._names, mask.tolist())


def _per_group(amounts: Iterable[float], places: Ids) -> NDArray[np.float64]:
    """Spread one amount per group over the rows; NaN for rows without a group."""
    return np.array([*amounts, np.nan])[np.where(places < 0, -1, places)]


def _recently(reason: Unremovable, seconds: int) -> Unremovable:
    """Return the reason of a node that is not simulated again for some seconds, with that of the last simulation."""
    return Unremovable(
        code=UnremovableCode.RECENTLY_UNREMOVABLE,
        message=f"it could not be emptied: {reason.describe()}; the next simulation is in {seconds} s",
        found=reason.code,
    )


def _unmeasured(problem: str) -> Unremovable:
    return Unremovable(code=UnremovableCode.UNEXPECTED, message=f"its utilization is unknown: {problem}")


def _tenths(ratios: NDArray[np.float64]) -> Ids:
    """Return tenths of a per cent, rounded up, so that a ratio above the threshold never looks equal to it."""
    return np.minimum(np.ceil(ratios * 1000 - 1e-9), _MANY_TENTHS - 1).astype(np.int64)


@lru_cache(maxsize=8192)
def _used(resource: str, tenths: int, threshold: float) -> Unremovable:
    """Return the reason for a node that is used too much; cached, because many nodes share it."""
    if tenths == _MANY_TENTHS - 1:
        text = (
            f"its pods request {resource}, but pods of DaemonSets and mirror pods, which do not count here "
            "(--ignore-daemonsets-utilization, --ignore-mirror-pods-utilization), leave none of it"
        )
    else:
        text = f"{resource} {tenths / 10:.10g} % is above the threshold of {threshold * 100:g} %"
    return Unremovable(code=UnremovableCode.NOT_UNDERUTILIZED, message=text)


def deletion_taint_times(table: NodeTable, window: slice) -> NDArray[np.float64]:
    """Return when deletion taints were set; NaN where unknown."""
    nodes = (table.template(row) for row in range(window.start, window.stop))
    return np.array([tainted_at(node, TO_BE_DELETED_TAINT) for node in nodes], dtype=np.float64)


def disabled_nodes(table: NodeTable, window: slice) -> Mask:
    nodes = (table.template(row) for row in range(window.start, window.stop))
    return np.array([node.metadata.annotations.get(SCALE_DOWN_DISABLED) == "true" for node in nodes], dtype=np.bool_)


class SimilarGroupBalance:
    """Orders candidates so that the largest of similar groups loses nodes first (``--balance-scale-down``)."""

    def __init__(self, context: PlanningContext, refs: Iterable[GroupRef]) -> None:
        self._state = context.state
        self._kinds: dict[GroupRef, GroupRef] = {}
        for ref in dict.fromkeys(refs):
            known = dict.fromkeys(self._kinds.values())
            alike = (kind for kind in known if _are_alike(context, kind, ref))
            self._kinds[ref] = next(alike, ref)

    def ordered(self, names: Sequence[str]) -> list[str]:
        """Return the names in an order in which the largest of similar groups loses a node first, then the next largest.

        Each set of similar groups keeps its positions among the others.
        """
        left = self._sizes()
        queues: dict[GroupRef, dict[GroupRef, deque[str]]] = {}
        for name in names:
            ref = self._state.group_of_node[name]
            queues.setdefault(self._kinds[ref], {}).setdefault(ref, deque()).append(name)
        found: list[str] = []
        for name in names:
            alike = queues[self._kinds[self._state.group_of_node[name]]]
            largest = max((ref for ref in alike if alike[ref]), key=left.__getitem__)
            found.append(alike[largest].popleft())
            left[largest] -= 1
        return found

    def _sizes(self) -> dict[GroupRef, int]:
        leaving = Counter(removing.removal.group for removing in self._state.observation.removing.values())
        return {ref: max(0, (self._state.groups[ref].seen.target or 0) - leaving[ref]) for ref in self._kinds}


def _are_alike(context: PlanningContext, one: GroupRef, other: GroupRef) -> bool:
    return one in context.templates and other in context.templates and is_similar(context, one, other)


def sort_candidates(names: Sequence[str], context: PlanningContext, balance: SimilarGroupBalance | None) -> list[str]:
    """Sort candidates: empty nodes first, then those that were unneeded before; ties in the order given, or balanced."""
    snapshot = context.snapshot
    verdicts = DrainabilityCache(
        DrainabilityRules(
            Workloads(),
            None,
            context.settings.drain,
            context.state.now,
            context.settings.policy.applies_all_drain_rules,
        )
    )
    before = context.state.memory.scale_down.unneeded_since
    rows = [snapshot.row(name) for name in names]

    def rank(name: str, row: int, kinds: Iterable[PodKind]) -> tuple[bool, bool, bool]:
        if _is_ordinary(kinds):
            return True, False, name not in before
        status = evaluate_subset(find_pod_subsets(snapshot, (row,))[0], verdicts)
        return not status.is_empty, bool(status.on_completion), name not in before

    found = [node_pods.once(find_kinds) for node_pods in find_node_pods(snapshot, rows)]
    ranks = {name: rank(name, row, kinds) for name, row, kinds in zip(names, rows, found, strict=True)}
    ranked = sorted(names, key=ranks.__getitem__)
    if balance is None:
        return ranked
    return [name for _, equals in groupby(ranked, ranks.__getitem__) for name in balance.ordered(list(equals))]


def _is_ordinary(kinds: Iterable[PodKind]) -> bool:
    """Return whether some pod moves or blocks regardless of time and settings, and no pod is awaited."""
    found = False
    for kind in kinds:
        pod, annotations = kind.pod, kind.pod.metadata.annotations
        if annotations.get(SAFE_TO_EVICT_ANNOTATION) == "on-completion":
            return False
        found = found or not (pod.metadata.deletion_timestamp or pod.is_mirror or pod.is_daemonset_pod)
    return found
