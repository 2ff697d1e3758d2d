"""Taints on nodes: the deletion taint, the soft taint of deletion candidates, and the removal of stale ones at startup.

The functions from Node to Node are pure edits; ``ClusterWrites.edit_node`` applies them.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from nodewright.actuation.drain import EVICTION_RETRY_SECONDS
from nodewright.actuation.events import taint_removed_event
from nodewright.actuation.ports import ClusterWrites, Event, EventSink
from nodewright.clusterstate.deletions import DELETION_SECONDS
from nodewright.clusterstate.state import ClusterState
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError
from nodewright.model.group import InstanceState, Machine
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node, Taint
from nodewright.model.settings import RemovalSettings, ScaleDownSettings
from nodewright.planner.scale_down.eligibility import deletion_taint_times
from nodewright.planner.scale_down.unneeded import tainted_at

# Set on nodes that nodewright has cordoned. A node that the operator cordoned stays cordoned.
CORDONED_ANNOTATION = "nodewright.io/cordoned"

NodeEdit = Callable[[Node], Node]


def has_taint(node: Node, key: str) -> bool:
    """Return whether the node has a taint with this key."""
    return any(taint.key == key for taint in node.spec.taints)


def with_deletion_taint(node: Node, now: float, *, cordon: bool) -> Node:
    """Return the node with the deletion taint, and cordoned if ``cordon``.

    A node that already has the taint is returned unchanged.
    """
    if has_taint(node, TO_BE_DELETED_TAINT):
        return node
    tainted = _with_taint(node, Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now))))
    if not cordon or node.spec.unschedulable:
        return tainted
    annotations = {**node.metadata.annotations, CORDONED_ANNOTATION: "true"}
    return replace(
        tainted,
        metadata=replace(tainted.metadata, annotations=annotations),
        spec=replace(tainted.spec, unschedulable=True),
    )


def without_deletion_taint(node: Node, *, uncordon: bool, force_uncordon: bool) -> Node:
    """Return the node without the deletion taint, uncordoned if ``uncordon`` and nodewright cordoned it.

    ``force_uncordon``: uncordon it even if the operator cordoned it, as CA does. A node without the taint is returned
    unchanged.
    """
    if not has_taint(node, TO_BE_DELETED_TAINT):
        return node
    bare = _without_taint(node, TO_BE_DELETED_TAINT)
    ours = CORDONED_ANNOTATION in node.metadata.annotations
    if not uncordon or not (ours or force_uncordon):
        return bare
    annotations = {key: value for key, value in node.metadata.annotations.items() if key != CORDONED_ANNOTATION}
    return replace(
        bare, metadata=replace(bare.metadata, annotations=annotations), spec=replace(bare.spec, unschedulable=False)
    )


def untaint_edit(settings: RemovalSettings) -> NodeEdit:
    """Return the edit that removes the deletion taint, and uncordons the node if the settings say so."""
    return partial(
        without_deletion_taint,
        uncordon=settings.drain.cordon_node_before_terminating,
        force_uncordon=not settings.policy.uncordons_own_nodes_only,
    )


def with_candidate_taint(node: Node, now: float) -> Node:
    """Return the node with the soft taint of a deletion candidate. An existing taint keeps its time."""
    if has_taint(node, DELETION_CANDIDATE_TAINT):
        return node
    return _with_taint(node, Taint(key=DELETION_CANDIDATE_TAINT, effect="PreferNoSchedule", value=str(int(now))))


def without_candidate_taint(node: Node) -> Node:
    """Return the node without the soft taint of a deletion candidate."""
    return _without_taint(node, DELETION_CANDIDATE_TAINT) if has_taint(node, DELETION_CANDIDATE_TAINT) else node


def _with_taint(node: Node, taint: Taint) -> Node:
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def _without_taint(node: Node, key: str) -> Node:
    return replace(node, spec=replace(node.spec, taints=tuple(t for t in node.spec.taints if t.key != key)))


def update_soft_taints(
    cluster: ClusterWrites, clock: Clock, *, taint: Sequence[str], untaint: Sequence[str], settings: ScaleDownSettings
) -> None:
    """Remove soft taints from ``untaint``, then add them to ``taint``.

    Stop when the allowed number of writes or the allowed time is used up; the next loop writes the rest.
    """
    began = clock.now()

    def add(node: Node) -> Node:
        return node if has_taint(node, TO_BE_DELETED_TAINT) else with_candidate_taint(node, began)

    def drop(node: Node) -> Node:
        return node if has_taint(node, TO_BE_DELETED_TAINT) else without_candidate_taint(node)

    edits: list[tuple[str, NodeEdit]] = [*((name, drop) for name in untaint), *((name, add) for name in taint)]
    for name, edit in edits[: settings.max_bulk_soft_taint_count]:
        if clock.now() - began >= settings.max_bulk_soft_taint_time:
            return
        try:
            cluster.edit_node(name, edit)
        except KubeApiError:
            continue


class NodeTainter:
    """Taints nodes that are to be removed, and untaints nodes that stay. A failed untaint is retried later."""

    def __init__(self, cluster: ClusterWrites, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        # Node name → when to try again to remove its taint (epoch seconds).
        self._pending_untaints: dict[str, float] = {}

    def due(self) -> Collection[float]:
        """Return when failed untaints are retried (epoch seconds)."""
        return self._pending_untaints.values()

    def taint(self, name: str, now: float, settings: RemovalSettings) -> tuple[Node | None, str]:
        """Taint the node. Return the node as it was before, or None and the reason why it could not be tainted."""
        cordon = settings.drain.cordon_node_before_terminating
        try:
            node = self._cluster.edit_node(name, lambda held: with_deletion_taint(held, now, cordon=cordon))
        except KubeApiError as error:
            self._pending_untaints[name] = now + EVICTION_RETRY_SECONDS  # the taint may have been written
            return None, str(error)
        self._pending_untaints.pop(name, None)
        return node, "the node is gone"

    def untaint(self, name: str, settings: RemovalSettings) -> None:
        """Remove the deletion taint; if that fails, retry later."""
        try:
            self._cluster.edit_node(name, untaint_edit(settings))
        except KubeApiError:
            self._pending_untaints[name] = self._clock.now() + EVICTION_RETRY_SECONDS
        else:
            self._pending_untaints.pop(name, None)

    def retry_untaints(self, now: float, settings: RemovalSettings) -> None:
        """Retry the failed untaints that are due at ``now`` (epoch seconds)."""
        for name in [name for name, due in self._pending_untaints.items() if due <= now]:
            self.untaint(name, settings)


class StaleTaints(NamedTuple):
    """Names of nodes with a stale taint: ``hard`` have a deletion taint, ``soft`` a candidate taint.

    ``deleting`` also have a deletion taint, but their machine is being deleted or may be.
    """

    hard: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    deleting: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Return all names."""
        return frozenset((*self.hard, *self.soft, *self.deleting))


def find_stale_taints(state: ClusterState, settings: RemovalSettings, among: frozenset[str] | None) -> StaleTaints:
    """Find deletion taints on nodes of groups and, if soft taints are switched off, candidate taints on any node.

    The taint of a machine that is being deleted is kept, except under profile "ca". So is the taint of a node of a
    group to which an earlier process may still be writing. ``among``: consider only these nodes (None: all).
    """
    deleting = frozenset(name for group in state.groups.values() for name in group.readiness.deleted)
    found: dict[str, list[str]] = {"hard": [], "soft": [], "deleting": []}
    for _, node in state.observation.snapshot.nodes():
        if (among is not None and node.name not in among) or node.name in state.observation.removing:
            continue
        if has_taint(node, TO_BE_DELETED_TAINT) and node.name in state.group_of_node:
            is_held = state.group_of_node[node.name] in state.memory.writes_in_flight
            is_deleting = is_held or (node.name in deleting and settings.policy.keeps_taints_of_deleted_machines)
            found["deleting" if is_deleting else "hard"].append(node.name)
        if not settings.scale_down.max_bulk_soft_taint_count and _is_stale(node, state.now, settings):
            found["soft"].append(node.name)
    return StaleTaints(**{kind: tuple(names) for kind, names in found.items()})


def remove_stale_taints(cluster: ClusterWrites, stale: StaleTaints, settings: RemovalSettings) -> Iterator[Event]:
    """Remove stale taints, and yield an event for each.

    A node that cannot be written keeps its taint until the next loop.
    """
    untaint = untaint_edit(settings)
    edits: list[tuple[str, str, NodeEdit]] = [(name, TO_BE_DELETED_TAINT, untaint) for name in stale.hard]
    edits += [(name, DELETION_CANDIDATE_TAINT, without_candidate_taint) for name in stale.soft]
    for name, key, edit in edits:
        try:
            cluster.edit_node(name, edit)
        except KubeApiError:
            continue
        yield taint_removed_event(name, key)


def _is_stale(node: Node, now: float, settings: RemovalSettings) -> bool:
    """Return whether the node has a soft taint that is too old, or whose value is not a time.

    A recent taint is kept: its value is the time since which the node is unneeded.
    """
    if not has_taint(node, DELETION_CANDIDATE_TAINT):
        return False
    since = tainted_at(node, DELETION_CANDIDATE_TAINT)
    return since is None or since + settings.scale_down.node_deletion_candidate_ttl < now


class StartupCleanup:
    """Removes the taints that an earlier process left on nodes.

    The first loop removes all of them. Later loops remove deletion taints older than this process: the API server may
    have shown nodes as they were before the earlier process tainted them.
    """

    def __init__(self, cluster: ClusterWrites, events: EventSink) -> None:
        self._cluster = cluster
        self._events = events
        # When this process looked first (epoch seconds); None before.
        self._started: float | None = None
        # Nodes that had a stale taint when this process looked last.
        self._tainted: frozenset[str] = frozenset()
        self.abandoned = AbandonedRemovals()

    @property
    def is_pending(self) -> bool:
        """Return whether some nodes still have a stale taint, so that the next loop must try again at once."""
        return bool(self._tainted)

    def run(self, state: ClusterState, settings: RemovalSettings) -> bool:
        """Remove stale taints; return whether there were any. If so, the cluster must be read again."""
        among = None if self._started is None else self._tainted | _tainted_before(state, self._started)
        self._started = state.now if self._started is None else self._started
        if among is not None and not among:
            return False
        stale = find_stale_taints(state, settings, among)
        self._tainted = stale.names
        self.abandoned.note(state, stale)
        for event in remove_stale_taints(self._cluster, stale, settings):
            self._events.record(event)
        return bool(stale.hard or stale.soft)


def _tainted_before(state: ClusterState, started: float) -> frozenset[str]:
    """Return the nodes with a deletion taint from before that time that are not being removed."""
    snapshot = state.observation.snapshot
    tainted = np.flatnonzero(snapshot.column("to_be_deleted_at", deletion_taint_times) < started)
    return frozenset(snapshot.node(row).name for row in tainted.tolist()) - state.observation.removing.keys()


class AbandonedRemovals:
    """Machines whose removal an earlier process started and did not finish.

    The deletion budget was charged for them. It is unknown whether that process requested their deletion just before
    it ended. A machine that still runs ``DELETION_SECONDS`` later was not deleted.
    """

    def __init__(self) -> None:
        self._settled_at: dict[Machine, float] = {}

    def next_at(self) -> float:
        """Return when ``take_settled`` has more to return (epoch seconds; inf: never)."""
        return min(self._settled_at.values(), default=math.inf)

    def note(self, state: ClusterState, stale: StaleTaints) -> None:
        """Note the charged machines of nodes with a stale deletion taint."""
        snapshot = state.observation.snapshot
        ids = {snapshot.node(snapshot.row(name)).spec.provider_id.lower() for name in stale.hard}
        deletions = (*state.memory.deletions, *state.memory.empty_deletions)
        charged = (machine for machine in deletions if machine[1].lower() in ids)
        self._settled_at |= dict.fromkeys(charged, state.now + DELETION_SECONDS)

    def take_settled(self, state: ClusterState) -> frozenset[Machine]:
        """Return the machines that still run after ``DELETION_SECONDS``, each once.

        A machine whose removal has started again stays charged.
        """
        due = [machine for machine, at in self._settled_at.items() if at <= state.now]
        for machine in due:
            del self._settled_at[machine]
        again = {(r.removal.group, r.removal.instance_id) for r in state.observation.removing.values()}
        return frozenset(machine for machine in due if machine not in again and _runs(machine, state))


def _runs(machine: Machine, state: ClusterState) -> bool:
    ref, instance_id = machine
    group = state.groups.get(ref)
    instances = (group.seen.instances or ()) if group is not None else ()
    return any(i.id == instance_id and i.state == InstanceState.RUNNING for i in instances)
