"""A cluster on virtual time: nodes, pods and a scheduler, in one snapshot that each change updates."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.engine.ports import ClusterObservation
from nodewright.model.cluster import (
    DaemonSet,
    DaemonSetStatus,
    Deployment,
    Job,
    JobStatus,
    ReplicaSet,
    ReplicaSetStatus,
)
from nodewright.model.gang import GangRef, PodGroups, SchedulingPodGroup, find_gang, find_terms
from nodewright.model.node import Node
from nodewright.model.pod import Pod, PodCondition, PodStatus
from nodewright.snapshot.context import Controller
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import node_amounts, pod_requests
from nodewright.snapshot.running_gangs import count_running
from nodewright.snapshot.snapshot import Snapshot
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.scheduler import Scheduler


class Tally:
    """Pods, nodes and amounts (millicores for cpu, whole units otherwise), brought up to date change by change.

    DaemonSet pods use room, but count neither as pods nor as keeping a node busy.
    """

    def __init__(self) -> None:
        self.pods = 0
        self.used: Counter[str] = Counter()
        self.offered: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self._busy: Counter[str] = Counter()
        self._group_of: dict[str, str] = {}
        self._offers: dict[str, dict[str, int]] = {}
        self._pods_on: Counter[str] = Counter()

    def nodes(self) -> Mapping[str, int]:
        """Return the number of nodes in each group."""
        return self._nodes

    def busy(self) -> dict[str, int]:
        """Return the number of nodes with pods in each group."""
        return dict(self._busy)

    def add_node(self, node: Node, group: str) -> None:
        self._offers[node.name] = node_amounts(node.allocatable)
        self._group_of[node.name] = group
        self._nodes[group] += 1
        self.offered.update(self._offers[node.name])

    def remove_node(self, name: str) -> None:
        self._nodes[self._group_of.pop(name)] -= 1
        self.offered.subtract(self._offers.pop(name))

    def add_pod(self, pod: Pod, node: str) -> None:
        self.used.update(pod_requests(pod, placed=True))
        if not pod.is_daemonset_pod:
            self.pods += 1
            self._pods_on[node] += 1
            if self._pods_on[node] == 1:
                self._busy[self._group_of[node]] += 1

    def remove_pod(self, pod: Pod, node: str) -> None:
        self.used.subtract(pod_requests(pod, placed=True))
        if not pod.is_daemonset_pod:
            self.pods -= 1
            self._pods_on[node] -= 1
            if self._pods_on[node] == 0:
                self._busy[self._group_of[node]] -= 1


# Dead rows that a snapshot may hold before it is rebuilt.
_SLACK_ROWS = 256

Watch = Callable[["SimulatedPod", float], None]


@dataclass(eq=False)
class SimulatedPod:
    """A pod and its state; times in epoch seconds.

    ``on_start`` is called when it runs. ``on_loss`` is called once: when its node is removed, or when the pod is deleted,
    before its grace period.
    """

    pod: Pod
    arrived: float
    on_start: Watch | None = None
    on_loss: Watch | None = None
    node: str = ""
    started: float | None = None
    gone: bool = False

    @property
    def is_ending(self) -> bool:
        """Return whether the pod was deleted and only runs on for its grace period."""
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


class SimulatedCluster:
    """Implements ClusterReader. The caller gives the time of every change; nothing here reads a clock.

    ``controllers`` are the objects behind the pods, as in Workloads; ``deployments`` by ``namespace/name``.
    """

    def __init__(self, scheduler: Scheduler, journal: Journal, daemon_sets: tuple[DaemonSet, ...] = ()) -> None:
        self.daemon_sets = daemon_sets
        self._controllers: dict[tuple[str, str], Controller] = {}
        # The pods that run of each controller, and of which controllers the status is behind.
        self._ready: Counter[tuple[str, str]] = Counter()
        self._outdated: set[tuple[str, str]] = set()
        self.deployments: dict[str, Deployment] = {}
        self.priorities: str | None = None
        # By ``namespace/name``.
        self.pod_groups: dict[str, SchedulingPodGroup] = {}
        self._scheduler = scheduler
        self._journal = journal
        self._live = Snapshot()
        self._pending: dict[str, SimulatedPod] = {}
        self._on_node: dict[str, dict[str, SimulatedPod]] = {}
        self._tally = Tally()
        # Pods that have not been tried since they came; all others wait until room may have grown.
        self._untried: list[SimulatedPod] = []
        self._room_grew = False
        # How many pods the scheduler has found no place for so far.
        self.found_no_place = 0
        # Called with what a node was before (None: it is new), and with the node.
        self.on_node: Callable[[Node | None, Node], None] = lambda _, __: None

    # What is there

    def read(self, now: float) -> ClusterObservation:  # noqa: ARG002 - the snapshot is always current
        pending = tuple(waiting.pod for waiting in self._pending.values())
        snapshot = self._live.fork()
        return ClusterObservation(
            snapshot=snapshot,
            pending=pending,
            daemon_sets=self.daemon_sets,
            priorities=self.priorities,
            pod_groups=PodGroups(kubernetes=self.pod_groups),
        )

    @property
    def live(self) -> Snapshot:
        """Return the current snapshot. The caller must not change it."""
        return self._live

    def pending(self) -> tuple[SimulatedPod, ...]:
        """Return the pods without a node, in arrival order."""
        return tuple(self._pending.values())

    @property
    def tally(self) -> Tally:
        """Counts of what is there, to be read only."""
        return self._tally

    @property
    def controllers(self) -> Mapping[tuple[str, str], Controller]:
        """Every controller that has been declared, with its status; the same mapping until that changes."""
        found = self._controllers
        missing = {("DaemonSet", one.key): one for one in self.daemon_sets if ("DaemonSet", one.key) not in found}
        if missing or self._outdated:
            found = {**found, **missing}
            for key in (self._outdated | missing.keys()) & found.keys():
                found[key] = _with_ready(found[key], self._ready[key])
            self._controllers, self._outdated = found, set()
        return found

    def declare(self, controller: Controller) -> None:
        """Add or replace a controller."""
        key = type(controller).__name__, controller.key
        self._controllers = {**self._controllers, key: controller}
        self._outdated.add(key)

    def _count(self, held: SimulatedPod, change: int) -> None:
        """Count the pod for its controller, or no longer."""
        owner = held.pod.metadata.controller
        if owner is not None:
            key = owner.kind, f"{held.pod.metadata.namespace}/{owner.name}"
            self._ready[key] += change
            self._outdated.add(key)

    @property
    def has_news(self) -> bool:
        """Return whether anything changed that the scheduler has not seen yet."""
        return self._room_grew or bool(self._untried)

    def pods(self) -> tuple[SimulatedPod, ...]:
        """Return all pods, those without a node first."""
        return (*self._pending.values(), *(held for pods in self._on_node.values() for held in pods.values()))

    def count_pending(self) -> int:
        return len(self._pending)

    def pods_on(self, node: str) -> tuple[SimulatedPod, ...]:
        return tuple(self._on_node.get(node, {}).values())

    # Nodes

    def add_node(self, node: Node, at: float, group: str = "") -> None:
        self._live.add_node(node)
        self._on_node[node.name] = {}
        self._tally.add_node(node, group)
        self._room_grew = True
        self._journal.note(at, What.NODE_ADDED, node.name, group)
        self.on_node(None, node)

    def change_node(self, node: Node) -> None:
        """Replace the node of that name; its pods stay."""
        pods, known = self.pods_on(node.name), self._live.node(self._live.row(node.name))
        self._live.remove_node(self._live.row(node.name))
        row = self._live.add_node(node)
        for held in pods:
            self._live.place(self._class_of(held), row, pod=held.pod)
        self._room_grew = True
        self._tidy()
        self.on_node(known, node)

    def remove_node(self, name: str, at: float) -> None:
        """Remove the node and its pods."""
        lost = self._on_node.pop(name)
        self._live.remove_node(self._live.row(name))
        self._journal.note(at, What.NODE_REMOVED, name)
        for held in lost.values():
            self._tally.remove_pod(held.pod, name)
            if not held.is_ending:
                self._count(held, -1)
            self._lose(held, at)
        self._tally.remove_node(name)
        self._tidy()

    # Pods

    def submit(self, submitted: SimulatedPod) -> None:
        """Create a pod; it waits for the scheduler, or runs on the node in its spec."""
        owner = submitted.pod.metadata.controller
        self._journal.note(submitted.arrived, What.POD_ARRIVED, submitted.key, owner.kind if owner else "")
        node = submitted.pod.spec.node_name
        if node in self._on_node:
            self._start(submitted, self._live.row(node), submitted.arrived)
            return
        self._pending[submitted.key] = submitted
        self._untried.append(submitted)

    def end(self, ended: SimulatedPod, at: float) -> None:
        """End a running pod that is done; its owner is not told. A terminating pod is deleted."""
        if ended.is_ending:
            self.delete(ended, at)
        elif not ended.gone:
            self._journal.note(at, What.POD_ENDED, ended.key, ended.node)
            self._leave(ended)

    def delete(self, deleted: SimulatedPod, at: float) -> None:
        """Delete the pod and tell its owner."""
        if not deleted.gone:
            self._leave(deleted)
            self._lose(deleted, at)

    def terminate(self, going: SimulatedPod, at: float, grace_seconds: float) -> None:
        """Delete the pod, which runs on for its grace period; its owner is told at once."""
        self._journal.note(at, What.POD_EVICTED, going.key, going.node)
        row = self._live.row(going.node)
        self._live.unplace(self._class_of(going), row, pod=going.pod)
        self._count(going, -1)
        ends = datetime.fromtimestamp(at + grace_seconds, tz=UTC)
        going.pod = replace(going.pod, metadata=replace(going.pod.metadata, deletion_timestamp=ends))
        self._live.place(self._class_of(going), row, pod=going.pod)
        on_loss, going.on_loss = going.on_loss, None
        if on_loss is not None:
            on_loss(going, at)

    def schedule(self, at: float) -> None:
        """Give every pod that may fit now a node: higher priorities first, then in order of arrival."""
        candidates = list(self._pending.values()) if self._room_grew else self._retriable()
        self._untried, self._room_grew = [], False
        candidates.sort(key=lambda waiting: -(waiting.pod.spec.priority or 0))
        candidates = self._schedule_gangs(candidates, at)
        progress = True
        while progress and candidates:
            progress, candidates = self._pass(candidates, at)

    def _retriable(self) -> list[SimulatedPod]:
        """Return what may fit although no room grew: new pods, and pods whose node depends on other pods."""
        new = [waiting for waiting in self._untried if not waiting.gone]
        if not new:
            return []
        fresh = {id(waiting) for waiting in new}
        dependent = (w for w in self._pending.values() if not self._class_of(w).is_plain)
        return [w for w in dependent if id(w) not in fresh] + new

    def _schedule_gangs(self, candidates: list[SimulatedPod], at: float) -> list[SimulatedPod]:
        """Start each gang of the candidates whole or not at all; return the candidates that belong to no gang."""
        others, refs = list[SimulatedPod](), dict[GangRef, None]()
        for waiting in candidates:
            ref = find_gang(waiting.pod)
            terms = find_terms(ref, waiting.pod, PodGroups(kubernetes=self.pod_groups)) if ref is not None else None
            if ref is None or terms is None:
                others.append(waiting)
            else:
                refs[ref] = None
        for ref in refs:
            self._schedule_gang(ref, at)
        return others

    def _schedule_gang(self, ref: GangRef, at: float) -> None:
        """Start the gang if its minimum of pods has room, one pod after the other, as kube-scheduler does."""
        members = [waiting for waiting in self._pending.values() if find_gang(waiting.pod) == ref]
        terms = find_terms(ref, members[0].pod, PodGroups(kubernetes=self.pod_groups)) if members else None
        running = count_running(self._live)[ref]
        if terms is None or terms.is_missing or running + len(members) < terms.min_count:
            return  # they wait outside the queue, without a condition
        trial, chosen = self._live.fork(), list[tuple[SimulatedPod, int]]()
        for waiting in members:
            row = self._scheduler.choose(trial, trial.class_of(waiting.pod))
            if row is not None:
                trial.place(trial.class_of(waiting.pod), row)
                chosen.append((waiting, row))
        starts = running + len(chosen) >= terms.min_count
        for waiting, row in chosen if starts else ():
            self._start(waiting, row, at)
        for waiting in members:
            if not waiting.node:
                self._mark_unschedulable(waiting, at)

    def _pass(self, candidates: list[SimulatedPod], at: float) -> tuple[bool, list[SimulatedPod]]:
        """Try each pod once; return whether another pass may place more, and which pods it should try."""
        hopeless: set[PodClass] = set()
        left: list[SimulatedPod] = []
        placed = False
        for waiting in candidates:
            pod_class = self._class_of(waiting)
            row = None if pod_class in hopeless else self._scheduler.choose(self._live, pod_class)
            if row is not None:
                self._start(waiting, row, at)
                placed = True
                continue
            hopeless.add(pod_class)
            self._mark_unschedulable(waiting, at)
            if not pod_class.is_plain:
                left.append(waiting)
        return placed, left

    def _start(self, started: SimulatedPod, row: int, at: float) -> None:
        node = self._live.name(row)
        self._pending.pop(started.key, None)
        spec = replace(started.pod.spec, node_name=node)
        started.pod = replace(started.pod, spec=spec, status=PodStatus(phase="Running"))
        started.node, started.started = node, at
        self._live.place(self._class_of(started), row, pod=started.pod)
        self._on_node[node][started.key] = started
        self._count(started, 1)
        self._tally.add_pod(started.pod, node)
        self._journal.note(at, What.POD_STARTED, started.key, node)
        if started.on_start is not None:
            started.on_start(started, at)

    def _leave(self, leaving: SimulatedPod) -> None:
        """Remove the pod from the snapshot."""
        leaving.gone = True
        if leaving.node:
            del self._on_node[leaving.node][leaving.key]
            if not leaving.is_ending:
                self._count(leaving, -1)
            self._tally.remove_pod(leaving.pod, leaving.node)
            self._live.unplace(self._class_of(leaving), self._live.row(leaving.node), pod=leaving.pod)
            self._room_grew = True
        else:
            self._pending.pop(leaving.key, None)
        self._live.vocabulary.classes.forget(leaving.pod.metadata.uid)

    def _lose(self, lost: SimulatedPod, at: float) -> None:
        lost.gone = True
        self._live.vocabulary.classes.forget(lost.pod.metadata.uid)
        self._journal.note(at, What.POD_LOST, lost.key, lost.node)
        if lost.on_loss is not None:
            lost.on_loss(lost, at)

    def _class_of(self, held: SimulatedPod) -> PodClass:
        return self._live.class_of(held.pod, placed=bool(held.node))

    def _mark_unschedulable(self, waiting: SimulatedPod, at: float) -> None:
        if waiting.pod.status.conditions:
            return
        moment = datetime.fromtimestamp(at, tz=UTC)
        condition = PodCondition(
            type="PodScheduled", status="False", reason="Unschedulable", last_transition_time=moment
        )
        waiting.pod = replace(waiting.pod, status=PodStatus(phase="Pending", conditions=(condition,)))
        self.found_no_place += 1

    def _tidy(self) -> None:
        """Rebuild the snapshot when most of its rows are dead."""
        if len(self._live) < 2 * len(self._on_node) + _SLACK_ROWS:
            return
        fresh = self._live.sibling()
        fresh.add_nodes([node for _, node in self._live.nodes()])
        theirs = self._on_node.items()
        fresh.place_pods((fresh.row(name), [held.pod for held in pods.values()]) for name, pods in theirs)
        self._live = fresh


def _with_ready(controller: Controller, ready: int) -> Controller:
    """Return the controller with a status that counts so many ready pods."""
    match controller:
        case ReplicaSet():
            return replace(controller, status=ReplicaSetStatus(ready_replicas=ready))
        case DaemonSet():
            return replace(controller, status=DaemonSetStatus(number_ready=ready))
        case Job():
            return replace(controller, status=JobStatus(ready=ready))
    return controller
