"""The buffers of one loop: what each stands for, what it gets, and what is written about it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from nodewright.clusterstate.state import ClusterState
from nodewright.model.capacity_buffer import (
    ACTIVE_CAPACITY,
    LIMITED,
    PROVISIONING,
    READY,
    CapacityBuffer,
)
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.condition import Condition, as_of
from nodewright.model.meta import ObjectMeta
from nodewright.model.pod import Pod, PodSpec
from nodewright.model.settings import Settings
from nodewright.planner.capacity_buffers.pods import make_pods
from nodewright.planner.capacity_buffers.quotas import QuotaLedger
from nodewright.planner.capacity_buffers.replicas import count_pods, demand_few
from nodewright.planner.capacity_buffers.shape import Families, Shape, Unresolved, find_shape, from_template
from nodewright.planner.provisioning_requests.pods import defaulted
from nodewright.planner.scale_up.pending_pods import is_expendable
from nodewright.snapshot.requests import exact_requests


@dataclass(kw_only=True)
class BufferAllocation:
    """One buffer as it will be, and its virtual pods: ``held`` of them have room on nodes that are there, ``coming`` on
    nodes on their way; of the others ``why`` says why not. ``injected``: they are planned for.
    """

    buffer: CapacityBuffer
    pods: tuple[Pod, ...] = ()
    injected: bool = False
    held: int = 0
    coming: int = 0
    why: str = ""

    @property
    def missing(self) -> int:
        return len(self.pods) - self.held - self.coming


@dataclass(frozen=True, kw_only=True)
class BufferReport:
    """What was decided about buffers: every one that is ours, and those whose status is to be written."""

    holdings: tuple[BufferAllocation, ...] = ()
    writes: tuple[CapacityBuffer, ...] = ()


@dataclass
class CapacityBufferState:
    """The buffers that this process serves, the oldest first; without either setting there are none.

    ``holdings`` by the buffers' ids.
    """

    state: ClusterState
    settings: Settings
    holdings: dict[str, BufferAllocation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options, seen = self.settings.buffers, self.state.observation.buffers
        if not options.are_read:
            return
        ledger, families = QuotaLedger(seen.quotas), Families(self.state.observation)
        for buffer in sorted(seen.buffers, key=lambda one: (one.created, one.key)):
            if options.capacity_buffer_controller_enabled and is_active(
                buffer.spec.provisioning_strategy or ACTIVE_CAPACITY
            ):
                self.holdings[buffer.id] = self._resolve(buffer, ledger, families)
            elif not options.capacity_buffer_controller_enabled and is_active(buffer.status.provisioning_strategy):
                self.holdings[buffer.id] = self._believe(buffer)

    @property
    def injects(self) -> bool:
        """Are virtual pods planned for, if there are any buffers?"""
        return bool(self.holdings) and self.settings.buffers.capacity_buffer_pod_injection_enabled

    @property
    def pods(self) -> Iterator[Pod]:
        """All virtual pods that are planned for."""
        for holding in self.holdings.values() if self.injects else ():
            yield from holding.pods

    @property
    def specs(self) -> Iterator[PodSpec]:
        """What these pods are like, one of each buffer."""
        return (holding.pods[0].spec for holding in self.holdings.values() if holding.pods and self.injects)

    def owner(self, pod: Pod) -> BufferAllocation:
        """The holding of a virtual pod."""
        controller = pod.metadata.controller
        assert controller is not None
        return self.holdings[controller.uid]

    def tell_injected(self) -> None:
        """The pods were planned for: say so of each buffer, or why it has none."""
        for holding in self.holdings.values():
            status = holding.buffer.status
            if holding.pods:
                text = f"{holding.missing} of {len(holding.pods)} pods have no room yet" if holding.missing else ""
                fresh = self._condition(holding.buffer, (PROVISIONING, "True"), "FakePodsInjected", text)
            elif status.replicas == 0 and status.has(READY):
                text = "CapacityBuffer has zero replicas"
                fresh = self._condition(holding.buffer, (PROVISIONING, "False"), "BufferIsEmpty", text)
            elif status.has(READY) and holding.why:
                fresh = self._condition(holding.buffer, (PROVISIONING, "False"), "FailedToGetPodTemplate", holding.why)
            else:
                text = "CapacityBuffer is not ready for provisioning"
                fresh = self._condition(holding.buffer, (PROVISIONING, "False"), "NotReadyForProvisioning", text)
            holding.injected = bool(holding.pods)
            holding.buffer = replace(holding.buffer, status=status.with_condition(fresh))

    def report(self) -> BufferReport:
        before = {buffer.id: buffer.status for buffer in self.state.observation.buffers.buffers}
        fresh = (holding.buffer for holding in self.holdings.values())
        writes = tuple(buffer for buffer in fresh if buffer.status != before[buffer.id])
        return BufferReport(holdings=tuple(self.holdings.values()), writes=writes)

    # The controller

    def _resolve(self, buffer: CapacityBuffer, ledger: QuotaLedger, families: Families) -> BufferAllocation:
        """What the spec amounts to now; what is wrong with it is told, and holds nothing."""
        status = replace(buffer.status, provisioning_strategy=ACTIVE_CAPACITY)
        shape: Shape | None = None
        try:
            shape = find_shape(buffer, self.state.observation, families)
            requests = _requests(shape.pod)
            self._demand_worth(shape)
            wanted = count_pods(buffer.spec, requests, shape.replicas)
        except Unresolved as error:
            status = replace(status, **_origin(shape), replicas=None)
            status = status.with_condition(self._condition(buffer, (READY, "False"), "error", str(error)))
            return BufferAllocation(buffer=replace(buffer, status=status), why=str(error))
        allowed, limiting = ledger.allow(buffer.metadata.namespace, shape.pod, requests, wanted)
        status = replace(status, **_origin(shape), replicas=allowed)
        status = status.with_condition(self._condition(buffer, (READY, "True"), "AttributesSetSuccessfully", "ready"))
        status = status.with_condition(self._limited(buffer, wanted, allowed, limiting))
        pods = tuple(make_pods(buffer, shape.pod, allowed))
        return BufferAllocation(buffer=replace(buffer, status=status), pods=pods)

    def _limited(self, buffer: CapacityBuffer, wanted: int, allowed: int, limiting: list[str]) -> Condition:
        if allowed == wanted:
            return self._condition(buffer, (LIMITED, "False"), "ResourceQuotasAllocated", "")
        text = f"Buffer replicas limited from {wanted} to {allowed} due to quotas: {', '.join(limiting)}"
        return self._condition(buffer, (LIMITED, "True"), "ResourceQuotasAllocated", text)

    def _demand_worth(self, shape: Shape) -> None:
        """Nothing is ever bought for pods that give way to anything."""
        priority, cutoff = shape.pod.spec.priority, self.settings.pods.expendable_pods_priority_cutoff
        if is_expendable(priority, self.settings.pods):
            text = f"its pods have priority {priority}, and nothing is bought for those below {cutoff}"
            raise Unresolved(f"{text} (--expendable-pods-priority-cutoff): raise it")

    # Without it

    def _believe(self, buffer: CapacityBuffer) -> BufferAllocation:
        """What another controller made of the spec; a PodTemplate that has changed since is not used."""
        status = buffer.status
        holding = BufferAllocation(buffer=buffer)
        if (
            not (status.has(READY) or status.has(PROVISIONING))
            or status.pod_template_ref is None
            or not status.replicas
        ):
            return holding
        try:
            shape = from_template(status.pod_template_ref, buffer.metadata.namespace, self.state.observation)
            demand_few(status.replicas)
        except Unresolved as error:
            holding.why = str(error)
            return holding
        if shape.generation != status.pod_template_generation:
            holding.why = f"PodTemplate {status.pod_template_ref.name} has changed since the controller looked at it"
            return holding
        holding.pods = tuple(make_pods(buffer, shape.pod, status.replicas))
        return holding

    def _condition(self, buffer: CapacityBuffer, what: tuple[str, str], reason: str, message: str) -> Condition:
        """A condition as of now; ``what`` is its type and status."""
        kind, status = what
        generation = buffer.metadata.generation
        fresh = Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
        return as_of(self.state.now, fresh, buffer.status.condition(kind))


def is_active(strategy: str | None) -> bool:
    """Is it the strategy that nodewright serves?"""
    return strategy == ACTIVE_CAPACITY


def _origin(shape: Shape | None) -> dict[str, object]:
    """What the status says of where the pods' shape comes from."""
    if shape is None:
        return {"pod_template_ref": None, "pod_template_generation": None}
    return {"pod_template_ref": shape.reference, "pod_template_generation": shape.generation}


def _requests(shape: PodTemplateSpec) -> dict[str, int]:
    """Of one pod, in nano-units."""
    return exact_requests(Pod(metadata=ObjectMeta(), spec=defaulted(shape.spec)), placed=False)
