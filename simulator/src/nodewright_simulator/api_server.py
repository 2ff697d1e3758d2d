"""The API server of a simulated cluster: what the engine reads of it, and what it may change."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from nodewright.adapters.server_time import FutureTimes
from nodewright.engine.ports import ClusterObservation, Eviction, EvictionAnswer, GangView, NodeView
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.clock import Clock
from nodewright.model.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from nodewright.model.errors import KubeApiError
from nodewright.model.meta import Condition, LabelSelector, ObjectMeta
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.predicates.selectors import parse_selector
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.snapshot import Snapshot
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.cluster import SimulatedCluster, SimulatedPod
from nodewright_simulator.controllers import start_daemons
from nodewright_simulator.crash import Tripwire
from nodewright_simulator.custom_resources import CapacityBuffers, PodTemplates, Quotas, Requests

NO_PODS, HALF_OF_THE_PODS, STALE, STALE_NODES = "no_pods", "half_of_the_pods", "stale", "stale_nodes"
EMPTY_NODES, FEW_PODS = "empty_nodes", "few_pods"
# Of FEW_PODS one in so many is not shown.
_FEW = 10
# About one of so many nodes seems empty, always the same ones.
_EMPTY_EVERY = 3


class Misreads:
    """Changes observations as a broken API server would. With ``is_direct`` it changes direct reads of pods, past the caches, too."""

    def __init__(self) -> None:
        self._shows = ""
        self._until = 0.0
        self._is_direct = False
        self._held: ClusterObservation | None = None
        # The pods that the present engine knows from before, by uid.
        self._known = frozenset[str]()
        # Those of FEW_PODS that are not shown, by uid.
        self._hidden: frozenset[str] | None = None

    def begin(self, shows: str, until: float, *, is_direct: bool = False) -> None:
        """Show a wrong list of the cluster ``until`` this time (epoch seconds). ``is_direct``: direct reads are wrong, too."""
        self._shows, self._until, self._is_direct, self._held = shows, until, is_direct, None
        self._hidden = None

    def remember(self, uids: Iterable[str]) -> None:
        """Note which pods the engine has seen before the misreads begin: it can read them by name."""
        self._known = frozenset(uids)

    def knows(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._known

    def changes_direct_reads(self, now: float) -> bool:
        """Return whether direct reads of pods show the same as the list."""
        return self._is_direct and now < self._until

    def apply(self, observation: ClusterObservation, now: float) -> ClusterObservation:
        if now >= self._until:
            return observation
        if self._shows in (STALE, STALE_NODES):
            self._held = self._held or observation
            return self._held if self._shows == STALE else _with_nodes_of(self._held, observation)
        if self._shows == EMPTY_NODES:
            names = (node.name for _, node in observation.snapshot.nodes())
            empty = {name for name in names if not crc32(name.encode()) % _EMPTY_EVERY}
            return replace(_without(observation, every=1, only=empty), pending=observation.pending)
        if self._shows == FEW_PODS:
            if self._hidden is None:
                self._hidden = frozenset(self._choose_few(observation.snapshot))
            return _without_these(observation, self._hidden)
        return _without(observation, every=1 if self._shows == NO_PODS else 2)

    def _choose_few(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield one in ten of the pods that the engine knows, of the nodes with the fewest pods."""
        on_nodes = sorted((snapshot.pods(row) for row, _ in snapshot.nodes()), key=len)
        left = sum(map(len, on_nodes)) // _FEW
        for pods in on_nodes:
            if all(map(self.knows, pods)) and len(pods) <= left:
                left -= len(pods)
                yield from (pod.metadata.uid for pod in pods)


def _without_these(observation: ClusterObservation, uids: Container[str]) -> ClusterObservation:
    snapshot = observation.snapshot.fork()
    for row, _ in list(snapshot.nodes()):
        for pod in snapshot.pods(row):
            if pod.metadata.uid in uids:
                snapshot.unplace(snapshot.class_of(pod, placed=True), row, pod=pod)
    return replace(observation, snapshot=snapshot)


def _without(observation: ClusterObservation, *, every: int, only: Container[str] | None = None) -> ClusterObservation:
    """Return the observation without every ``every``-th pod (1: without all pods), of the nodes in ``only`` if it is given."""
    snapshot, number = observation.snapshot.fork(), 0
    for row in [row for row, node in snapshot.nodes() if only is None or node.name in only]:
        for pod in snapshot.pods(row):
            number += 1
            if number % every == 0:
                snapshot.unplace(snapshot.class_of(pod, placed=True), row, pod=pod)
    pending = tuple(pod for place, pod in enumerate(observation.pending, 1) if place % every)
    return replace(observation, snapshot=snapshot, pending=pending)


def _with_nodes_of(held: ClusterObservation, observation: ClusterObservation) -> ClusterObservation:
    """Return the observation with the nodes of an earlier one, so that pods on newer nodes are missing."""
    now, snapshot = observation.snapshot, held.snapshot.sibling()
    snapshot.context = now.context
    nodes = [node for _, node in held.snapshot.nodes()]
    first = snapshot.add_nodes(nodes).start
    rows = ((first + number, now.find_row(node.name)) for number, node in enumerate(nodes))
    snapshot.place_pods((row, now.pods(there)) for row, there in rows if there is not None)
    return replace(observation, snapshot=snapshot)


IntOrPercent = int | str


@dataclass(frozen=True, kw_only=True)
class BudgetRule:
    """One budget: of ``min_available`` and ``max_unavailable`` (pods, or text like ``25%``) exactly one is given."""

    name: str
    namespace: str = "default"
    selector: LabelSelector
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None

    def covers(self, pod: Pod) -> bool:
        if pod.metadata.namespace != self.namespace:
            return False
        selector = parse_selector(self.selector)
        return selector is not None and selector.matches(pod.metadata.labels)


def as_object(rule: BudgetRule, pods: Iterable[SimulatedPod]) -> PodDisruptionBudget:
    """Return the budget with what it allows now, given all pods. A terminating pod does not count."""
    covered = [held for held in pods if not held.is_ending and rule.covers(held.pod)]
    healthy = sum(bool(held.node) for held in covered)
    if rule.min_available is not None:
        wanted = _count(rule.min_available, len(covered))
    else:
        wanted = len(covered) - _count(rule.max_unavailable or 0, len(covered))
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=rule.name, namespace=rule.namespace),
        spec=PodDisruptionBudgetSpec(selector=rule.selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=max(0, healthy - wanted)),
    )


def _count(amount: IntOrPercent, expected: int) -> int:
    """Return a number of pods; a share is rounded up, as Kubernetes does in both directions."""
    return amount if isinstance(amount, int) else -(-expected * int(amount.removesuffix("%")) // 100)


EDIT, EVICT, LIST = "edit_node", "evict", "list_nodes"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The API server refuses one kind of call between ``start`` and ``end`` (epoch seconds).

    ``what`` is ``evict``, ``edit_node`` or ``list_nodes``. ``of`` is the namespace of the pods or the name of the node;
    empty: all. ``takes_effect``: the edit is carried out, and only its result is lost.
    """

    start: float
    end: float
    what: str = EVICT
    of: str = ""
    takes_effect: bool = False

    def meets(self, what: str, of: str, now: float) -> bool:
        return self.what == what and self.of in ("", of) and self.start <= now < self.end


class ApiServer:
    """Implements ClusterPort. The engine may die at each write: ``wire``."""

    def __init__(self, cluster: SimulatedCluster, agenda: Agenda, clock: Clock, wire: Tripwire) -> None:
        self.budgets: tuple[BudgetRule, ...] = ()
        self.refusals: list[Refusal] = []
        self.misreads = Misreads()
        self._times = FutureTimes()
        self._cluster = cluster
        self._agenda = agenda
        self._clock = clock
        self._wire = wire
        self.templates = PodTemplates()
        self.requests = Requests(wire, self.templates)
        self.quotas = Quotas(wire)
        self.buffers = CapacityBuffers(wire, self.templates)

    def read(self, now: float) -> ClusterObservation:
        return replace(
            self._dated(self.misreads.apply(self._cluster.read(now), self._clock.now()), now),
            workloads=self._workloads(),
            provisioning=self.requests.read(),
            quotas=self.quotas.read(),
            buffers=self.buffers.read(self._cluster.deployments),
        )

    def get_node_view(self, node: str) -> NodeView:
        row = self._cluster.live.find_row(node)
        if row is None:
            return NodeView(node=None)
        pods, now = tuple(held.pod for held in self._cluster.pods_on(node)), self._clock.now()
        if self.misreads.changes_direct_reads(now):
            seen = self.misreads.apply(self._cluster.read(now), now).snapshot
            there = seen.find_row(node)
            pods = seen.pods(there) if there is not None else ()
        return NodeView(node=self._cluster.live.node(row), pods=pods, workloads=self._workloads())

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        """Return the pods on the node that misreads hide and that the engine has seen before: reads by name find them."""
        if not self.misreads.changes_direct_reads(self._clock.now()) or self._cluster.live.find_row(node) is None:
            return ()
        shown = {pod.metadata.uid for pod in self.get_node_view(node).pods}
        held = (one.pod for one in self._cluster.pods_on(node))
        return tuple(pod for pod in held if pod.metadata.uid not in shown and self.misreads.knows(pod))

    def get_gang_view(self, namespace: str) -> GangView:
        now = self._clock.now()
        seen = self._cluster.read(now)
        if self.misreads.changes_direct_reads(now):
            seen = self.misreads.apply(seen, now)
        placed = (pod for row, _ in seen.snapshot.nodes() for pod in seen.snapshot.pods(row))
        pods = tuple(pod for pod in (*placed, *seen.pending) if pod.metadata.namespace == namespace)
        return GangView(pods=pods, groups=seen.pod_groups)

    def list_nodes(self) -> Iterator[Node]:
        if self._find_refusal(LIST, "") is not None:
            raise KubeApiError("the nodes cannot be listed: the server is busy", retryable=True)
        yield from [node for _, node in self._cluster.live.nodes()]

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        refusal = self._find_refusal(EDIT, name)
        if refusal is not None and not refusal.takes_effect:
            raise _busy(name)
        row = self._cluster.live.find_row(name)
        if row is None:
            return None
        before = self._cluster.live.node(row)
        after = edit(before)
        if after != before:
            self._wire.cross(EDIT, self._write, after)
        if refusal is not None:
            raise _busy(name)
        return before

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        held = self._find(pod)
        if held is None:
            return Eviction(answer=EvictionAnswer.GONE)
        if held.is_ending:
            return Eviction(answer=EvictionAnswer.ACCEPTED)
        problem = self._why_not(held.pod)
        if problem:
            return Eviction(answer=EvictionAnswer.REFUSED, message=problem)
        self._wire.cross(EVICT, self._end, held, grace_seconds)
        return Eviction(answer=EvictionAnswer.ACCEPTED)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        held = self._find(pod)
        if held is None:
            return Eviction(answer=EvictionAnswer.GONE)
        if not held.is_ending:
            self._wire.cross(EVICT, self._end, held, grace_seconds)
        return Eviction(answer=EvictionAnswer.ACCEPTED)

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        self.requests.write_conditions(request, conditions, is_apply=is_apply, now=self._clock.now())

    def delete_request(self, request: ProvisioningRequest) -> None:
        self.requests.delete_request(request)

    def write_quota_status(self, quota: CapacityQuota) -> None:
        self.quotas.write_status(quota)

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        self.buffers.write_status(buffer)

    def _dated(self, observation: ClusterObservation, now: float) -> ClusterObservation:
        """Return the observation as an engine sees it whose clock is behind the cluster's clock."""
        if now >= self._clock.now():
            return observation
        snapshot = observation.snapshot.fork()
        for row, node in list(snapshot.nodes()):
            dated = self._times.clamp(node, now)
            if dated is not node:
                pods = snapshot.pods(row)
                snapshot.remove_node(row)
                snapshot.place_pods([(snapshot.add_node(dated), pods)])
        return replace(observation, snapshot=snapshot)

    def _write(self, node: Node) -> None:
        self._cluster.change_node(node)
        start_daemons(self._cluster, node.name, self._clock.now())

    def _end(self, held: SimulatedPod, grace_seconds: int) -> None:
        now = self._clock.now()
        self._cluster.terminate(held, now, grace_seconds)
        self._agenda.at(now + grace_seconds, lambda due: self._cluster.delete(held, due))

    def _find(self, pod: Pod) -> SimulatedPod | None:
        for held in self._cluster.pods_on(pod.spec.node_name):
            if held.key == pod.key and held.pod.metadata.uid == pod.metadata.uid:
                return held
        return None

    def _why_not(self, pod: Pod) -> str:
        if self._find_refusal(EVICT, pod.metadata.namespace) is not None:
            return "too many requests"
        covering = [rule for rule in self.budgets if rule.covers(pod)]
        if len(covering) > 1:
            return "this pod has more than one disruption budget, which eviction does not support"
        if any(not as_object(rule, self._cluster.pods()).status.disruptions_allowed for rule in covering):
            return f"it would violate the disruption budget {covering[0].name}"
        return ""

    def _find_refusal(self, what: str, of: str) -> Refusal | None:
        now = self._clock.now()
        return next((refusal for refusal in self.refusals if refusal.meets(what, of, now)), None)

    def _workloads(self) -> Workloads:
        pods = self._cluster.pods() if self.budgets else ()
        return Workloads(
            controllers=self._cluster.controllers, budgets=tuple(as_object(rule, pods) for rule in self.budgets)
        )


def _busy(name: str) -> KubeApiError:
    return KubeApiError(f"node {name} cannot be written: the server is busy", retryable=True)
