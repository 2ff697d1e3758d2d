"""The CapacityBuffer controller of one loop: resolve buffers, find room for their virtual pods, and make their statuses."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from random import Random

from msgspec.structs import replace

from nodewright.clusterstate.state import ClusterState
from nodewright.model.capacity_buffer import (
    ACTIVE_CAPACITY,
    LIMITED,
    PROVISIONING,
    READY,
    CapacityBuffer,
    CapacityBufferStatus,
)
from nodewright.model.cluster import PodTemplateSpec, QuotaScope, ResourceQuota
from nodewright.model.meta import Condition, ObjectMeta, as_of
from nodewright.model.plan import BufferAllocation, BufferReport, ScaleUpReport
from nodewright.model.pod import Pod, PodAffinityTerm, PodSpec
from nodewright.model.settings import BufferSettings, PodSettings
from nodewright.planner.capacity_buffers.pods import (
    BufferPodTemplate,
    PodsByController,
    Unresolved,
    check_count,
    count_pods,
    find_template,
    from_pod_template,
    make_pods,
)
from nodewright.planner.growth import Growth, context_after, grow
from nodewright.planner.provisioning_requests.pods import defaulted
from nodewright.planner.scale_up.pending_pods import Hints, hint_key, is_expendable, take_fitting
from nodewright.planner.scale_up.planned_nodes import fill_machines
from nodewright.snapshot.requests import exact_requests

_PREFIX = "requests."


@dataclass(frozen=True, kw_only=True)
class CapacityBufferState:
    """The buffers that this process serves in one loop, the oldest first; none if buffers are switched off.

    ``allocations`` are by the buffers' ids. ``observed`` is the status of each as the API server has it.
    """

    allocations: Mapping[str, BufferAllocation]
    observed: Mapping[str, CapacityBufferStatus]
    now: float
    injects: bool

    @classmethod
    def of(cls, state: ClusterState, options: BufferSettings, pods: PodSettings) -> "CapacityBufferState":
        """Resolve every buffer with our strategy: as the controller, or else from the status that another one wrote."""
        buffers = state.observation.buffers.buffers
        allocations: dict[str, BufferAllocation] = {}
        if options.are_read:
            resolver = _Resolver(state, pods)
            for buffer in sorted(buffers, key=lambda one: (one.created, one.key)):
                if options.capacity_buffer_controller_enabled:
                    if is_active(buffer.spec.provisioning_strategy or ACTIVE_CAPACITY):
                        allocations[buffer.id] = resolver.resolve(buffer)
                elif is_active(buffer.status.provisioning_strategy):
                    allocations[buffer.id] = resolver.from_status(buffer)
        injects = bool(allocations) and options.capacity_buffer_pod_injection_enabled
        observed = {buffer.id: buffer.status for buffer in buffers}
        return cls(allocations=allocations, observed=observed, now=state.now, injects=injects)

    @property
    def pods(self) -> Iterator[Pod]:
        """Return all virtual pods that are planned for."""
        for allocation in self.allocations.values() if self.injects else ():
            yield from allocation.pods

    @property
    def specs(self) -> Iterator[PodSpec]:
        """Return the spec of these pods, one of each buffer."""
        return (one.pods[0].spec for one in self.allocations.values() if one.pods and self.injects)

    def with_room(
        self, held: Mapping[str, int], coming: Mapping[str, int], reasons: Mapping[str, str]
    ) -> "CapacityBufferState":
        """Return the buffers after their pods were planned for, with the condition Provisioning.

        By the buffers' ids: how many pods fit on existing nodes, how many on upcoming ones, and why others fit nowhere.
        """
        allocations = {
            name: self._injected(
                changed(one, held=held.get(name, 0), coming=coming.get(name, 0), why=reasons.get(name, one.why))
            )
            for name, one in self.allocations.items()
        }
        return changed(self, allocations=allocations)

    def report(self) -> BufferReport:
        """Return all allocations, and the buffers whose status differs from the observed one."""
        fresh = (one.buffer for one in self.allocations.values())
        writes = tuple(buffer for buffer in fresh if buffer.status != self.observed[buffer.id])
        return BufferReport(allocations=tuple(self.allocations.values()), writes=writes)

    def _injected(self, one: BufferAllocation) -> BufferAllocation:
        """Return the allocation with the condition Provisioning: its pods were planned for, or why it has none."""
        buffer, status = one.buffer, one.buffer.status
        if one.pods:
            text = f"{one.missing} of {len(one.pods)} pods have no room yet" if one.missing else ""
            fresh = _condition(buffer, (PROVISIONING, "True"), "FakePodsInjected", text, self.now)
        elif status.replicas == 0 and status.has(READY):
            text = "CapacityBuffer has zero replicas"
            fresh = _condition(buffer, (PROVISIONING, "False"), "BufferIsEmpty", text, self.now)
        elif status.has(READY) and one.why:
            fresh = _condition(buffer, (PROVISIONING, "False"), "FailedToGetPodTemplate", one.why, self.now)
        else:
            text = "CapacityBuffer is not ready for provisioning"
            fresh = _condition(buffer, (PROVISIONING, "False"), "NotReadyForProvisioning", text, self.now)
        return changed(one, injected=bool(one.pods), buffer=replace(buffer, status=status.with_condition(fresh)))


def is_active(strategy: str | None) -> bool:
    """Return whether nodewright serves this provisioning strategy."""
    return strategy == ACTIVE_CAPACITY


class _Resolver:
    """Resolves buffers one after the other: what an earlier one takes of a quota the next one cannot have."""

    def __init__(self, state: ClusterState, pods: PodSettings) -> None:
        self._seen, self._now, self._pods = state.observation, state.now, pods
        self._quotas = QuotaUsage(self._seen.buffers.quotas)
        self._controllers = PodsByController(self._seen)

    def resolve(self, buffer: CapacityBuffer) -> BufferAllocation:
        """Resolve the spec as the controller. A spec with an error gets no pods, and the condition Ready=False."""
        status = replace(buffer.status, provisioning_strategy=ACTIVE_CAPACITY)
        template: BufferPodTemplate | None = None
        try:
            template = find_template(buffer, self._seen, self._controllers)
            requests = _requests(template.pod)
            self._check_priority(template)
            wanted = count_pods(buffer.spec, requests, template.replicas)
        except Unresolved as error:
            status = replace(status, **_template_reference(template), replicas=None)
            failed = _condition(buffer, (READY, "False"), "error", str(error), self._now)
            return BufferAllocation(buffer=replace(buffer, status=status.with_condition(failed)), why=str(error))
        allowed, limiting = self._quotas.allow(buffer.metadata.namespace, template.pod, requests, wanted)
        status = replace(status, **_template_reference(template), replicas=allowed)
        ready = _condition(buffer, (READY, "True"), "AttributesSetSuccessfully", "ready", self._now)
        status = status.with_condition(ready).with_condition(self._limited(buffer, wanted, allowed, limiting))
        pods = tuple(make_pods(buffer, template.pod, allowed))
        return BufferAllocation(buffer=replace(buffer, status=status), pods=pods)

    def from_status(self, buffer: CapacityBuffer) -> BufferAllocation:
        """Use the status that another controller wrote, unless the PodTemplate has changed since."""
        status, reference = buffer.status, buffer.status.pod_template_ref
        is_resolved = status.has(READY) or status.has(PROVISIONING)
        if not is_resolved or reference is None or not status.replicas:
            return BufferAllocation(buffer=buffer)
        try:
            template = from_pod_template(reference, buffer.metadata.namespace, self._seen)
            check_count(status.replicas)
        except Unresolved as error:
            return BufferAllocation(buffer=buffer, why=str(error))
        if template.generation != status.pod_template_generation:
            why = f"PodTemplate {reference.name} has changed since the controller looked at it"
            return BufferAllocation(buffer=buffer, why=why)
        return BufferAllocation(buffer=buffer, pods=tuple(make_pods(buffer, template.pod, status.replicas)))

    def _limited(self, buffer: CapacityBuffer, wanted: int, allowed: int, limiting: list[str]) -> Condition:
        if allowed == wanted:
            return _condition(buffer, (LIMITED, "False"), "ResourceQuotasAllocated", "", self._now)
        text = f"Buffer replicas limited from {wanted} to {allowed} due to quotas: {', '.join(limiting)}"
        return _condition(buffer, (LIMITED, "True"), "ResourceQuotasAllocated", text, self._now)

    def _check_priority(self, template: BufferPodTemplate) -> None:
        """Raise Unresolved if the pods are expendable: no node is added for such pods."""
        priority, cutoff = template.pod.spec.priority, self._pods.expendable_pods_priority_cutoff
        if is_expendable(priority, self._pods):
            text = f"its pods have priority {priority}, and no node is added for pods below {cutoff}"
            raise Unresolved(f"{text} (--expendable-pods-priority-cutoff): raise it")


def _condition(buffer: CapacityBuffer, what: tuple[str, str], reason: str, message: str, now: float) -> Condition:
    """Return a condition as of now; ``what`` is its type and status."""
    kind, status = what
    generation = buffer.metadata.generation
    fresh = Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
    return as_of(now, fresh, buffer.status.condition(kind))


def _template_reference(template: BufferPodTemplate | None) -> dict[str, object]:
    """Return the fields of the status that name the PodTemplate."""
    if template is None:
        return {"pod_template_ref": None, "pod_template_generation": None}
    return {"pod_template_ref": template.reference, "pod_template_generation": template.generation}


def _requests(template: PodTemplateSpec) -> dict[str, int]:
    """Return the requests of one pod, in nano-units."""
    return exact_requests(Pod(metadata=ObjectMeta(), spec=defaulted(template.spec)), placed=False)


class QuotaUsage:
    """The rest of each ResourceQuota after the buffers resolved so far."""

    def __init__(self, quotas: Iterable[ResourceQuota]) -> None:
        self._quotas = tuple(quotas)
        self._reserved: dict[str, Counter[str]] = {quota.key: Counter() for quota in self._quotas}

    def allow(
        self, namespace: str, pod: PodTemplateSpec, requests: Mapping[str, int], wanted: int
    ) -> tuple[int, list[str]]:
        """Return how many of the wanted pods the quotas allow, and the names of the quotas that allow fewer.

        The allowed pods count against the quotas from now on. ``requests`` are those of one pod, in nano-units.
        """
        asked = {name: amount for name, amount in requests.items() if amount > 0}
        asked |= {f"{_PREFIX}{name}": amount for name, amount in asked.items()}
        ours = [one for one in self._quotas if one.metadata.namespace == namespace and _covers(one, pod.spec, requests)]
        room = {quota.name: self._room(quota, asked) for quota in ours}
        allowed = min([wanted, *(left for left in room.values() if left is not None)])
        for quota in ours:
            for name in asked.keys() & quota.status.hard.keys():
                self._reserved[quota.key][name] += allowed * asked[name]
        return allowed, [name for name, left in room.items() if left is not None and left < wanted]

    def _room(self, quota: ResourceQuota, asked: Mapping[str, int]) -> int | None:
        """Return how many such pods a quota still allows; None: it limits nothing that they request."""
        status, reserved = quota.status, self._reserved[quota.key]
        counts = []
        for name in asked.keys() & status.hard.keys():
            used = status.used[name].nano if name in status.used else 0
            left = status.hard[name].nano - used - reserved[name]
            counts.append(max(0, left) // asked[name])
        return min(counts, default=None)


def _covers(quota: ResourceQuota, spec: PodSpec, requests: Mapping[str, int]) -> bool:
    """Return whether a quota's scopes select the pod, for a pod without a deadline, as the API server decides it."""
    selector = quota.spec.scope_selector
    scopes = [QuotaScope(scope_name=name, operator="Exists") for name in quota.spec.scopes]
    scopes += selector.match_expressions if selector is not None else ()
    return all(_is_in_scope(scope, spec, requests) for scope in scopes)


def _is_in_scope(scope: QuotaScope, spec: PodSpec, requests: Mapping[str, int]) -> bool:
    is_best_effort = not any(requests.get(name, 0) for name in ("cpu", "memory"))
    match scope.scope_name:
        case "NotTerminating":
            return True
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "PriorityClass":
            return _has_priority_class(scope, spec.priority_class_name)
        case "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(spec))
        case _:  # Terminating, and unknown scopes
            return False


def _has_priority_class(scope: QuotaScope, name: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case _:
            return False


def _affinity_terms(spec: PodSpec) -> Iterable[PodAffinityTerm]:
    if spec.affinity is None:
        return
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        yield from affinity.required if affinity is not None else ()


_NOT_YET = "pods or requests that wait for machines come first"
_CUT = "the groups that would help may not grow by enough now"
_MOST_REASONS = 5


def fill_buffers(
    growth: Growth, buffers: CapacityBufferState, hints: Hints, random: Random
) -> tuple[Growth, CapacityBufferState]:
    """Place virtual pods in the snapshot in which removals are planned, and plan nodes for those without room.

    Pending pods and requests are in that snapshot already, so buffers take no room from them. Return the growth for
    buffers, and the buffers with their room.
    """
    nothing = Growth(context=growth.context, reports=[])
    if not buffers.injects:
        return nothing, buffers
    pods = list(buffers.pods)
    after = context_after(growth)
    fitting, left = take_fitting(growth.context.snapshot, pods, hints)
    spare, placed = None, list(fitting)
    if left and after is not None:
        fits, rest = take_fitting(after.snapshot, pods, Hints(before=hints.fresh))
        spare = grow(after, rest, random)
        # Limits may allow fewer nodes than the pods need for which groups grow.
        placed += [*fits, *(pod for report in spare.reports for pod in fill_machines(after, report)[0])]
    held, coming = Counter[str](), Counter[str]()
    for pod in {id(pod): pod for pod in placed}.values():
        (held if hint_key(pod) in hints.fresh else coming)[_owner(pod)] += 1
    missing = [name for name, one in buffers.allocations.items() if len(one.pods) > held[name] + coming[name]]
    return spare or nothing, buffers.with_room(held, coming, _reasons(missing, spare))


def _reasons(missing: Iterable[str], spare: Growth | None) -> dict[str, str]:
    """Return, by the buffer's id, why no node is added for pods that have no room."""
    reasons = dict.fromkeys(missing, _NOT_YET if spare is None else _CUT)
    for report in spare.reports if spare is not None else ():
        for pod in report.awaiting:
            reasons[_owner(pod)] = "another group was chosen in this loop"
        for unhelped in report.unhelped:
            reasons[_owner(unhelped.pod)] = _listed(unhelped.reasons.values(), report)
    return reasons


def _owner(pod: Pod) -> str:
    """Return the id of a virtual pod's buffer."""
    controller = pod.metadata.controller
    assert controller is not None
    return controller.uid


def _listed(reasons: Iterable[object], report: ScaleUpReport) -> str:
    """Return the reasons of all groups, equal ones counted together."""
    counted = sorted(Counter(map(str, reasons)).items())
    more = len(counted) - _MOST_REASONS
    shown = ", ".join(f"{count} {reason}" for reason, count in counted[:_MOST_REASONS])
    return (shown + (f", and {more} more" if more > 0 else "")) or str(report.result)
