"""Planned nodes: add them with their pods to a snapshot, and remember which pods each is for.

--expander=least-cost needs this memory (docs/cost.md). Placing pods on upcoming machines in turn would not find a tight mix
again: some pods would be left, and more nodes would be bought for them. So the next loops know how many pods of each kind
each machine is for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import PlannedPods, PlannedPodsByGroup
from nodewright.estimator.binpacking import Template
from nodewright.model.group import GroupRef
from nodewright.model.plan import Expansion, PlannedNode, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.planner.context import PlanningContext, with_targets
from nodewright.planner.late_machines import last_registered
from nodewright.planner.scale_up.pending_pods import ByClass, take_fitting
from nodewright.planner.scale_up.templates import place_daemons, runs_only_daemons
from nodewright.predicates import feasible
from nodewright.snapshot.pod_class import PodClass, kind_of
from nodewright.snapshot.snapshot import Snapshot

# Seconds after the arrival of a group's last machine for which the pods of its machines are remembered: kube-scheduler needs
# a moment to bind them.
_BINDING_SECONDS = 60.0
# The most different machines that are remembered for one group.
_MOST_PATTERNS = 300


def note_planned(
    held: PlannedPodsByGroup, reports: Iterable[ScaleUpReport], context: PlanningContext
) -> PlannedPodsByGroup:
    """Return the pods that machines under way are for, with the machines that a plan adds."""
    now = context.state.now
    found = {ref: list(planned) for ref, planned in held.items() if _is_awaited(context, ref, planned)}
    for report in reports:
        patterns = Counter((node.group, node.kinds) for node in report.nodes)
        for (ref, kinds), copies in patterns.items():
            found.setdefault(ref, []).append(PlannedPods(asked=now, copies=copies, pods=dict(kinds)))
    return {ref: tuple(planned[-_MOST_PATTERNS:]) for ref, planned in found.items()}


def planned_places(context: PlanningContext, by_class: ByClass) -> Mapping[str, Mapping[int, int]]:
    """Return how many pods of each kind are planned on which rows of machines that are upcoming or just came.

    Each row gets the pods of one remembered machine. Machines whose pods all still wait come first.
    """
    held = context.state.memory.planned_pods
    if not held:
        return {}
    waiting = Counter[str]()
    for pod_class, pods in by_class.items():
        waiting[kind_of(pod_class)] += len(pods)
    found: dict[str, dict[int, int]] = {}
    for ref, planned in held.items():
        left = list(planned)
        for row in _rows(context, ref, planned):
            chosen = max(range(len(left)), key=lambda n: _rank(left[n], waiting), default=None)
            if chosen is None:
                break
            for kind, count in left[chosen].pods.items():
                placed = min(count, waiting[kind])
                waiting[kind] -= placed
                if placed:
                    found.setdefault(kind, {})[row] = placed
            copies = left[chosen].copies - 1
            left[chosen : chosen + 1] = [changed(left[chosen], copies=copies)] if copies else []
    return found


def _rank(planned: PlannedPods, waiting: Mapping[str, int]) -> tuple[bool, int]:
    """Return whether all pods of a machine still wait, and how many."""
    still = sum(min(count, waiting[kind]) for kind, count in planned.pods.items())
    return still == sum(planned.pods.values()), still


def _is_awaited(context: PlanningContext, ref: GroupRef, planned: Sequence[PlannedPods]) -> bool:
    group = context.state.groups.get(ref)
    if group is None:
        return False
    last = max(last_registered(group, context.state), *(one.asked for one in planned))
    return bool(context.coming.get(ref)) or context.state.now < last + _BINDING_SECONDS


def _rows(context: PlanningContext, ref: GroupRef, planned: Sequence[PlannedPods]) -> Iterator[int]:
    """Yield the rows of upcoming machines, then those of nodes that came since the request and run only DaemonSet pods."""
    yield from context.coming.get(ref, ())
    group, snapshot = context.state.groups.get(ref), context.snapshot
    oldest = min(one.asked for one in planned)
    for name in group.readiness.ready if group is not None else ():
        row = snapshot.find_row(name)
        if row is not None and snapshot.node(row).created >= oldest and runs_only_daemons(snapshot, row):
            yield row


def grown(context: PlanningContext, report: ScaleUpReport) -> PlanningContext | None:
    """Return a context with the new nodes and the pods they are for; None if not all of these pods fit."""
    return grow_in_place(replace(context, snapshot=context.snapshot.fork()), report)


def grow_in_place(context: PlanningContext, report: ScaleUpReport) -> PlanningContext | None:
    """Do as ``grown`` does, but change the context's own snapshot."""
    _, left = fill_machines(context, report)
    targets = {expansion.group: expansion.target for expansion in report.expansions}
    return None if left else with_targets(context, targets)


def fill_machines(context: PlanningContext, report: ScaleUpReport) -> tuple[list[Pod], list[Pod]]:
    """Add the new nodes and their pods to the context's own snapshot; return pods with room and pods without."""
    snapshot = context.snapshot
    placed = place_planned(snapshot, report.nodes, context.templates)
    add_unplanned(snapshot, report.expansions, report.nodes, context.templates)
    known = set(map(id, placed))
    fitting, left = take_fitting(snapshot, [pod for pod in report.triggered if id(pod) not in known])
    return [*placed, *fitting], left


def place_planned(
    snapshot: Snapshot, nodes: Sequence[PlannedNode], templates: Mapping[GroupRef, Template]
) -> list[Pod]:
    """Add planned nodes with their pods to the snapshot; return the pods."""
    by_class: dict[PodClass, dict[int, list[Pod]]] = {}
    for row, node in zip(add_planned(snapshot, nodes, templates), nodes, strict=True):
        for pod in node.pods:
            by_class.setdefault(snapshot.class_of(pod), {}).setdefault(row, []).append(pod)
    for pod_class, rows in by_class.items():
        snapshot.place_many(pod_class, np.fromiter(rows, int), np.fromiter(map(len, rows.values()), int))
        for row, pods in rows.items():
            snapshot.name_pods(pod_class, row, pods)
    return [pod for node in nodes for pod in node.pods]


def add_unplanned(
    snapshot: Snapshot,
    expansions: Iterable[Expansion],
    nodes: Iterable[PlannedNode],
    templates: Mapping[GroupRef, Template],
) -> None:
    """Add the machines of the expansions that are none of the planned nodes."""
    planned = Counter(node.group for node in nodes)
    for expansion in expansions:
        template = templates[expansion.group]
        rows = snapshot.add_copies(template.node, expansion.added - planned[expansion.group])
        place_daemons(snapshot, template, range(rows.start, rows.stop))


class PlannedPod(NamedTuple):
    """A pod that is planned on the node of a row."""

    pod_class: PodClass
    row: int
    pod: Pod


def place_in_rounds(snapshot: Snapshot, pods: Iterable[PlannedPod]) -> tuple[list[PlannedPod], list[PlannedPod]]:
    """Place pods on their rows where filters allow it, in rounds until one places none; return the placed and the others."""
    placed, waiting = list[PlannedPod](), list(pods)
    before = -1
    while len(placed) > before:
        before, held, waiting = len(placed), waiting, []
        for one in held:
            if feasible(snapshot, one.pod_class, slice(one.row, one.row + 1))[0]:
                snapshot.place(one.pod_class, one.row)
                placed.append(one)
            else:
                waiting.append(one)
    return placed, waiting


def add_planned(snapshot: Snapshot, nodes: Sequence[PlannedNode], templates: Mapping[GroupRef, Template]) -> list[int]:
    """Add planned nodes without their pods; return the row of each."""
    free: dict[GroupRef, Iterator[int]] = {}
    for ref, count in Counter(node.group for node in nodes).items():
        added = snapshot.add_copies(templates[ref].node, count)
        rows = range(added.start, added.stop)
        place_daemons(snapshot, templates[ref], rows)
        free[ref] = iter(rows)
    return [next(free[node.group]) for node in nodes]
