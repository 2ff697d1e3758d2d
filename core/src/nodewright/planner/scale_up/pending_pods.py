"""Find the pending pods, and those of them that fit on existing or upcoming nodes."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from msgspec.structs import replace

from nodewright.estimator.binpacking import share_of
from nodewright.estimator.new_nodes import dealt_in_turn, round_robin
from nodewright.model.duration import parse_duration
from nodewright.model.pod import Pod, PodSpec
from nodewright.model.policy import Policy
from nodewright.model.removal import Removing
from nodewright.model.settings import PodSettings
from nodewright.predicates import capacity, feasible, is_countable
from nodewright.snapshot.pod_class import PodClass, PodClasses, map_alike
from nodewright.snapshot.snapshot import Snapshot


@dataclass
class Hints:
    """The node where each pod was last placed: ``before`` in the last loop, ``fresh`` in this one.

    ``fresh`` is mutable and belongs to one plan, like the snapshot to plan in. ``take_fitting`` writes into both at once,
    so that each pod in the snapshot has its hint and the other way round. ``make_plan`` creates it, and passes it to
    ``PlanMemory``. Steps that only try something use ``Hints`` of their own.
    """

    before: Mapping[str, str] = field(default_factory=dict)
    fresh: dict[str, str] = field(default_factory=dict)

    @property
    def are_none(self) -> bool:
        return not self.fresh and not self.before

    def get(self, pod: Pod) -> str | None:
        key = hint_key(pod)
        return self.fresh.get(key) or self.before.get(key)

    def set(self, pod: Pod, node: str) -> None:
        self.fresh[hint_key(pod)] = node


def hint_key(pod: Pod) -> str:
    """Return the key under which the place of a pod is remembered."""
    return pod.metadata.uid or pod.key


ByClass = dict[PodClass, list[Pod]]
# A function that returns how many pods of each class go first to which rows. Its input: the classes of one priority whose
# pods still wait.
Choose = Callable[[Snapshot, Sequence[tuple[PodClass, list[Pod]]]], Mapping[PodClass, Mapping[int, int]]]


@dataclass(frozen=True)
class Bought:
    """The pods for which upcoming nodes were bought.

    ``rows`` returns the rows of nodes that were bought for pods of a class, ``planned`` how many of its pods each row was
    planned for.
    """

    rows: Callable[[PodClass], Sequence[int]]
    planned: Callable[[PodClass], Mapping[int, int]]


DELAY_ANNOTATION = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
# Seconds after the end of its grace period by which a preempted pod is expected to have ended.
_END_SECONDS = 30.0
_SOURCE_ANNOTATION = "kubernetes.io/config.source"


def is_expendable(priority: int | None, settings: PodSettings) -> bool:
    """Return whether a pod is below the priority cut-off: it neither causes growth nor holds room.

    A pod without priority is not expendable.
    """
    return priority is not None and priority < settings.expendable_pods_priority_cutoff


def drop_passed_over(snapshot: Snapshot, settings: PodSettings, policy: Policy) -> None:
    """Free the room of expendable pods.

    Under profile "ca" also free the room of running pods of other schedulers than the allowed ones: CA ignores them.
    """
    allowed = settings.allowed_scheduler_names
    _drop(snapshot, lambda spec: is_expendable(spec.priority, settings))
    if allowed and not policy.sees_pods_of_all_schedulers:
        _drop(snapshot, lambda spec: spec.scheduler_name not in allowed)


def drop_preempted(snapshot: Snapshot, now: float) -> float:
    """Free the room of pods that kube-scheduler preempted, for the pods that wait for it.

    Return when (epoch seconds) the first of them must have ended; infinity if there are none. A pod that exists half a
    minute after that keeps its room, because its end is unknown.
    """
    first = math.inf
    for pod_class, rows in [(held, list(rows)) for held, rows in snapshot.placements() if held.terminating]:
        for row in rows:
            known = zip(snapshot.pods(row), snapshot.pod_classes(row), strict=True)
            for pod in [pod for pod, its_class in known if its_class is pod_class]:
                ends = _ends_by(pod)
                if now <= ends:
                    snapshot.unplace(pod_class, row, pod=pod)
                    first = min(first, ends)
    return first


def _ends_by(pod: Pod) -> float:
    """Return when a preempted pod must have ended (epoch seconds); minus infinity if it was not preempted."""
    ends = pod.metadata.deletion_timestamp
    preempted = any(condition.is_preemption for condition in pod.status.conditions)
    return ends.timestamp() + _END_SECONDS if ends is not None and preempted else -math.inf


def _drop(snapshot: Snapshot, wanted: Callable[[PodSpec], bool]) -> None:
    held = [(pod_class, dict(rows)) for pod_class, rows in snapshot.placements() if wanted(pod_class.spec)]
    for pod_class, rows in held:
        for row, count in rows.items():
            snapshot.unplace(pod_class, row, count)
    for row in {row for _, rows in held for row in rows}:
        snapshot.forget_pods(row, lambda pod_class: wanted(pod_class.spec))


def is_pending(pod: Pod, settings: PodSettings) -> bool:
    """Return whether a pod without a node is unschedulable: kube-scheduler tried it and found no node.

    A DaemonSet pod uses existing room, and causes no growth.
    """
    if pod.metadata.deletion_timestamp is not None or pod.is_terminal:
        return False
    if settings.allowed_scheduler_names and pod.spec.scheduler_name not in settings.allowed_scheduler_names:
        return False
    if is_expendable(pod.spec.priority, settings):
        return False
    scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    if scheduled is not None and scheduled.finds_no_place:
        return True
    if scheduled is not None and scheduled.reason == "SchedulerError" and pod.spec.scheduling_group is not None:
        return True  # kube-scheduler reports this for pods with a PodGroup while the cluster has no nodes
    untried = scheduled is None or (scheduled.status == "False" and not scheduled.reason)
    return untried and pod.spec.scheduler_name in settings.bypassed_scheduler_names


def unhelped_namespaces(snapshot: Snapshot, policy: Policy) -> frozenset[str]:
    """Return the namespaces that are being deleted: their pods can never be bound. CA buys nodes for them."""
    return snapshot.context.ending_namespaces if policy.ignores_ending_namespaces else frozenset()


@dataclass(frozen=True)
class Waiting:
    """Pending pods: ``old`` ones to plan for, also by class, and ``young`` ones that are still delayed.

    ``daemons``: the pods of DaemonSets, by identity.
    """

    old: list[Pod] = field(default_factory=list)
    by_class: ByClass = field(default_factory=dict)
    young: list[Pod] = field(default_factory=list)
    daemons: set[int] = field(default_factory=set)

    def add(self, pods: Iterable[Pod], classes: PodClasses) -> None:
        """Add pods to plan for."""
        for pod in pods:
            self.old.append(pod)
            self.by_class.setdefault(classes.of(pod), []).append(pod)


def find_pending(
    pods: Iterable[Pod],
    settings: PodSettings,
    now: float,
    classes: PodClasses,
    unhelped: frozenset[str] = frozenset(),
) -> Waiting:
    """Return the pending pods, except those of the namespaces in ``unhelped``."""
    found, by_class, daemons, delays = list[Pod](), ByClass(), set[int](), set[str]()

    def sort(pod: Pod) -> tuple[list[Pod] | None, bool]:
        waits = is_pending(pod, settings) and pod.metadata.namespace not in unhelped
        alike = by_class.setdefault(classes.of(pod), []) if waits else None
        delays.update({DELAY_ANNOTATION} & pod.metadata.annotations.keys())
        return alike, pod.is_daemonset_pod

    for pod, (alike, is_daemon) in map_alike(pods, sort):
        if alike is not None:
            found.append(pod)
            alike.append(pod)
            if is_daemon:
                daemons.add(id(pod))
    if not delays and settings.new_pod_scale_up_delay <= 0:
        return Waiting(found, by_class, [], daemons)
    old, young = split_young(found, settings, now)
    return Waiting(old, classes.sort(old), young, daemons)


def find_recreated(snapshot: Snapshot, removing: Mapping[str, Removing], settings: PodSettings) -> list[Pod]:
    """Return pods that their controllers will create again once the node under them is drained."""
    rows = (snapshot.find_row(name) for name, held in removing.items() if held.removal.drains)
    pods = (pod for row in rows if row is not None for pod in snapshot.pods(row))
    leaving = [pod for pod in pods if pod.metadata.deletion_timestamp is None and returns(pod, settings)]
    return [unplaced(pod) for pod in leaving]


def unplaced(pod: Pod) -> Pod:
    """Return the pod as it is created again, on no node."""
    return replace(pod, spec=replace(pod.spec, node_name=""))


def returns(pod: Pod, settings: PodSettings) -> bool:
    """Return whether a controller may create the pod again after its eviction, so that it needs another place."""
    source = pod.metadata.annotations.get(_SOURCE_ANNOTATION)
    is_static = source is not None and source != "api"
    expendable = is_expendable(pod.spec.priority, settings)
    return not (pod.is_mirror or is_static or pod.is_daemonset_pod or expendable)


def split_young(pods: Iterable[Pod], settings: PodSettings, now: float) -> tuple[list[Pod], list[Pod]]:
    """Return the pods that are old enough to plan for, and those that are still delayed.

    A pod with a creation time in the future is not delayed.
    """
    old: list[Pod] = []
    young: list[Pod] = []
    for pod in pods:
        created, delay = pod.metadata.creation_timestamp, _delay(pod, settings)
        waits = delay > 0 and created is not None and now - delay <= created.timestamp() <= now
        (young if waits else old).append(pod)
    return old, young


def _delay(pod: Pod, settings: PodSettings) -> float:
    """Return the seconds a pod must have waited. Its annotation can only lengthen the delay."""
    least = settings.new_pod_scale_up_delay
    text = pod.metadata.annotations.get(DELAY_ANNOTATION)
    if text is None:
        return least
    try:
        return max(least, parse_duration(text))
    except ValueError:
        return least


def take_fitting(snapshot: Snapshot, pods: Iterable[Pod], hints: Hints | None = None) -> tuple[list[Pod], list[Pod]]:
    """Do as ``take_fitting_classes`` does, for pods that are not sorted by class."""
    return take_fitting_classes(snapshot, snapshot.vocabulary.classes.sort(pods), hints)


def take_fitting_classes(
    snapshot: Snapshot,
    by_class: ByClass,
    hints: Hints | None,
    bought: Bought | None = None,
    choose: Choose | None = None,
) -> tuple[list[Pod], list[Pod]]:
    """Return pods that fit now, and the others; place the first in the snapshot.

    Higher priorities go first, then pods that fit where ``hints`` say. Pods of one class go together, in the order of
    classes. With ``bought``, pods go first to rows that were bought for them, and pods that depend on others are tried
    once more after those. ``choose`` says which pods go first on the room that is left then. CA does none of this.
    """
    fitting, left = _take_fitting_once(snapshot, by_class, hints, bought, choose)
    while bought is not None:
        again = {held: alike for held, alike in snapshot.vocabulary.classes.sort(left).items() if not held.is_plain}
        more, _ = _take_fitting_once(snapshot, again, hints, bought, None) if again else ([], [])
        if not more:
            break
        placed = {id(pod) for pod in more}
        fitting, left = fitting + more, [pod for pod in left if id(pod) not in placed]
    return fitting, left


def _take_fitting_once(
    snapshot: Snapshot, by_class: ByClass, hints: Hints | None, bought: Bought | None, choose: Choose | None
) -> tuple[list[Pod], list[Pod]]:
    fitting: list[Pod] = []
    left: list[Pod] = []
    cursor = 0
    for _, classes in groupby(_by_priority(by_class), key=lambda held: held[0].spec.priority or 0):
        open_classes = list(classes)
        if hints is not None:
            open_classes = [(held, _follow(snapshot, held, alike, hints, fitting)) for held, alike in open_classes]
        if bought is not None:
            open_classes = [
                (held, _fill_planned(snapshot, held, alike, bought.planned(held) if alike else {}, fitting, None))
                for held, alike in open_classes
            ]
            open_classes = _fill_bought(snapshot, open_classes, bought, fitting)
        chosen = choose(snapshot, open_classes) if choose is not None else {}
        if chosen:
            open_classes = [
                (held, _fill_planned(snapshot, held, alike, chosen.get(held, {}), fitting, hints))
                for held, alike in open_classes
            ]
        for pod_class, alike in open_classes:
            if is_countable(snapshot, pod_class):
                rows, cursor = deal(snapshot, pod_class, alike, cursor)
            else:
                own = bought.rows(pod_class) if bought is not None else None
                rows, cursor = _place_in_turn(snapshot, pod_class, alike, cursor, own)
            if hints is not None:
                _remember(snapshot, alike, rows, hints)
            fitting += alike[: len(rows)]
            left += alike[len(rows) :]
    return fitting, left


def _by_priority(by_class: ByClass) -> list[tuple[PodClass, list[Pod]]]:
    return sorted(by_class.items(), key=lambda item: item[0].spec.priority or 0, reverse=True)


def _follow(
    snapshot: Snapshot, pod_class: PodClass, pods: Sequence[Pod], hints: Hints, fitting: list[Pod]
) -> list[Pod]:
    """Place pods of a class where they were last time, and add them to ``fitting``; return the others."""
    if hints.are_none:
        return list(pods)
    left: list[Pod] = []
    rooms: dict[int, int] = {}
    countable = is_countable(snapshot, pod_class)
    for pod in pods:
        name = hints.get(pod)
        row = snapshot.find_row(name) if name is not None else None
        if row is None:
            left.append(pod)
            continue
        if row not in rooms or not countable:
            rooms[row] = _room_at(snapshot, pod_class, row, countable=countable)
        if not rooms[row]:
            left.append(pod)
            continue
        snapshot.place(pod_class, row, pod=pod)
        rooms[row] -= 1
        fitting.append(pod)
        hints.set(pod, snapshot.name(row))
    return left


def _room_at(snapshot: Snapshot, pod_class: PodClass, row: int, *, countable: bool) -> int:
    window = slice(row, row + 1)
    return int(capacity(snapshot, pod_class, window)[0] if countable else feasible(snapshot, pod_class, window)[0])


def _remember(snapshot: Snapshot, pods: Iterable[Pod], rows: Iterable[int], hints: Hints) -> None:
    """Remember where pods were placed; upcoming nodes are left out, because their names change."""
    for pod, row in zip(pods, rows, strict=False):
        name = snapshot.name(row)
        if name in snapshot:
            hints.set(pod, name)


def _fill_planned(
    snapshot: Snapshot,
    pod_class: PodClass,
    pods: list[Pod],
    planned: Mapping[int, int],
    fitting: list[Pod],
    hints: Hints | None,
) -> list[Pod]:
    """Place pods of a class on the rows that are planned for them, and add them to ``fitting``; return the others."""
    countable = not planned or is_countable(snapshot, pod_class)
    taken = 0
    for row, wanted in planned.items():
        for _ in range(1 if countable else wanted):
            most = min(wanted if countable else 1, len(pods) - taken)
            count = (
                min(most, _room_at(snapshot, pod_class, row, countable=countable)) if snapshot.schedulable[row] else 0
            )
            if count > 0:
                arrived = pods[taken : taken + count]
                _place_on(snapshot, pod_class, arrived, [row] * count)
                if hints is not None:
                    _remember(snapshot, arrived, [row] * count, hints)
                taken += count
    fitting += pods[:taken]
    return pods[taken:]


def _fill_bought(
    snapshot: Snapshot, classes: Sequence[tuple[PodClass, list[Pod]]], bought: Bought, fitting: list[Pod]
) -> list[tuple[PodClass, list[Pod]]]:
    """Place pods for which only amounts matter on the rows bought for them; add them to ``fitting``, return the others.

    The largest go first, one row after the other, as they were packed when the machines were bought. Otherwise pods of
    one class would fill rows that were bought for another one.
    """
    own = {
        held: rows for held, alike in classes if alike and is_countable(snapshot, held) and (rows := bought.rows(held))
    }
    shares = {held: share_of(snapshot.node(rows[0]))(held) for held, rows in own.items()}
    pods = dict(classes)
    for pod_class in sorted(own, key=lambda held: shares[held], reverse=True):
        chosen, alike = np.asarray(own[pod_class]), pods[pod_class]
        room = np.where(snapshot.schedulable, capacity(snapshot, pod_class, slice(0, len(snapshot))), 0)[chosen]
        counts = np.clip(len(alike) - (np.cumsum(room) - room), 0, room)
        _place_on(snapshot, pod_class, alike, np.repeat(chosen, counts).tolist())
        placed = int(counts.sum())
        fitting += alike[:placed]
        pods[pod_class] = alike[placed:]
    return [(held, pods[held]) for held, _ in classes]


def deal(snapshot: Snapshot, pod_class: PodClass, pods: Sequence[Pod], cursor: int) -> tuple[list[int], int]:
    """Place pods for which only amounts matter, all at once; return their rows, and where the scan ended."""
    if not len(snapshot) or not pods:
        return [], cursor
    room = np.where(snapshot.schedulable, capacity(snapshot, pod_class, slice(0, len(snapshot))), 0)
    start = cursor % len(room)
    counts, cursor = round_robin(room, len(pods), start)
    rows = np.flatnonzero(counts)
    if not len(rows):
        return [], cursor
    turns = dealt_in_turn(rows, counts[rows], start, len(room))
    _place_on(snapshot, pod_class, pods, turns)
    return turns, cursor


def _place_on(snapshot: Snapshot, pod_class: PodClass, pods: Iterable[Pod], turns: Iterable[int]) -> None:
    """Place the pods of a class on the rows of ``turns``, one on each, until the pods or the rows run out."""
    by_row: dict[int, list[Pod]] = {}
    for pod, row in zip(pods, turns, strict=False):
        by_row.setdefault(row, []).append(pod)
    if by_row:
        rows = np.fromiter(by_row, int)
        snapshot.place_many(pod_class, rows, np.fromiter(map(len, by_row.values()), int))
    for row, arrived in by_row.items():
        snapshot.name_pods(pod_class, row, arrived)


def _place_in_turn(
    snapshot: Snapshot, pod_class: PodClass, pods: Sequence[Pod], cursor: int, own: Sequence[int] | None
) -> tuple[list[int], int]:
    """Place pods one by one; stop at the first pod of the class that fits nowhere.

    They go to the rows in ``own`` first, and to one row as long as it takes them, so that pods that they repel find a node
    too. If ``own`` is None, each pod goes to the next row that takes it, as in CA.
    """
    turns: list[int] = []
    for pod in pods:
        rows = np.flatnonzero(feasible(snapshot, pod_class) & snapshot.schedulable)
        if not len(rows):
            break
        rows = preferred if own and len(preferred := np.intersect1d(rows, own)) else rows
        stays = own is not None and turns and turns[-1] in rows
        row = turns[-1] if stays else int(rows[int(np.searchsorted(rows, cursor)) % len(rows)])
        snapshot.place(pod_class, row, pod=pod)
        turns.append(row)
        cursor = row + 1
    return turns, cursor
