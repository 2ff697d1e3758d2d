"""Find the gangs that wait and those that can start, and settle the machines that were asked for gangs."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from nodewright.clusterstate.memory import Reservation
from nodewright.clusterstate.state import ClusterState
from nodewright.model.gang import GangConvention, GangRef, GangTerms, find_gang, find_terms, is_gang_id
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.settings import PodSettings
from nodewright.planner.provisioning_requests.pods import consumed_request
from nodewright.planner.provisioning_requests.reservations import cancelled, has_failed, is_complete
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges, join_changes
from nodewright.planner.scale_up.pending_pods import is_expendable, split_young, unhelped_namespaces
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.pod_class import map_alike
from nodewright.snapshot.running_gangs import count_running


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A gang with pods that wait (``waiting``, in the order in which kube-scheduler takes them).

    At least ``min_count`` of its pods must run together; ``running`` of them run, and ``existing`` exist. ``topology_key``:
    all pods must be in one domain of this label (empty: anywhere). ``problem`` says why the gang cannot start even if there
    is room (empty: it can). ``is_young``: one of its pods waits for its scale-up delay.
    """

    ref: GangRef
    min_count: int
    waiting: tuple[Pod, ...]
    running: int = 0
    existing: int = 0
    topology_key: str = ""
    problem: str = ""
    is_young: bool = False

    @property
    def need(self) -> int:
        """Return how many of the waiting pods must find room."""
        return max(0, self.min_count - self.running)

    @property
    def priority(self) -> int:
        """Return the priority of the pod that kube-scheduler takes first."""
        return self.waiting[0].spec.priority or 0

    def __str__(self) -> str:
        return f"gang {self.ref.key}"


@dataclass(frozen=True, kw_only=True)
class FoundGangs:
    """The gangs with pods that wait, those of the highest priority first, and the pending pods of no gang (``others``).

    ``young``: the pods of gangs that wait for a scale-up delay.
    """

    gangs: tuple[Gang, ...] = ()
    others: tuple[Pod, ...] = ()
    young: tuple[Pod, ...] = ()


def find_gangs(seen: Observation, settings: PodSettings, policy: Policy) -> FoundGangs:
    """Return the gangs among the pending pods.

    Pods whose group sets no minimum, and pods that consume a ProvisioningRequest, are not pods of gangs.
    """
    if not policy.serves_gangs:
        return FoundGangs(others=seen.pending)
    members: dict[GangRef, list[Pod]] = {}
    others: list[Pod] = []
    for pod, ref in map_alike(seen.pending, _gang_of):
        if ref is None or find_terms(ref, pod, seen.pod_groups) is None:
            others.append(pod)
        else:
            members.setdefault(ref, []).append(pod)
    if not members:
        return FoundGangs(others=seen.pending)
    running = count_running(seen.snapshot)
    unhelped = unhelped_namespaces(seen.snapshot, policy)
    gangs = [
        _Members(ref, pods, running[ref], settings, seen).gang()
        for ref, pods in members.items()
        if ref.namespace not in unhelped
    ]
    gangs = [gang for gang in gangs if gang.waiting]
    gangs.sort(key=lambda gang: (-gang.priority, min(pod.created for pod in gang.waiting), gang.ref))
    young = tuple(pod for gang in gangs if gang.is_young for pod in gang.waiting)
    return FoundGangs(gangs=tuple(gangs), others=tuple(others), young=young)


def _gang_of(pod: Pod) -> GangRef | None:
    return find_gang(pod) if consumed_request(pod) is None else None


@dataclass
class _Members:
    """The pods of one gang that are on no node."""

    ref: GangRef
    pods: Sequence[Pod]
    running: int
    settings: PodSettings
    seen: Observation
    gated: int = field(default=0, init=False)

    def gang(self) -> Gang:
        terms = find_terms(self.ref, self.pods[0], self.seen.pod_groups)
        assert terms is not None
        existing = [pod for pod in self.pods if pod.metadata.deletion_timestamp is None and not pod.is_terminal]
        self.gated = sum(_is_gated(pod) for pod in existing)
        waiting = [pod for pod in existing if not _is_gated(pod) and self._is_served(pod)]
        waiting.sort(key=lambda pod: (-(pod.spec.priority or 0), pod.created))
        total = self.running + len(existing)
        # Kueue holds the pods of a group with gates until all exist, so pods without gates need not wait for others.
        least = min(terms.min_count, total) if self.ref.convention is GangConvention.KUEUE else terms.min_count
        _, young = split_young(waiting, self.settings, self.seen.now)
        return Gang(
            ref=self.ref,
            min_count=least,
            waiting=tuple(waiting),
            running=self.running,
            existing=total,
            topology_key=terms.topology_key,
            problem=self._find_problem(terms, waiting, total, least),
            is_young=bool(young),
        )

    def _is_served(self, pod: Pod) -> bool:
        allowed = self.settings.allowed_scheduler_names
        return not (allowed and pod.spec.scheduler_name not in allowed) and not is_expendable(
            pod.spec.priority, self.settings
        )

    def _find_problem(self, terms: GangTerms, waiting: Sequence[Pod], total: int, least: int) -> str:
        if terms.is_missing:
            return f"its PodGroup {self.ref.key} does not exist, or nodewright may not read it"
        if total < least:
            return f"{total} of {least} pods exist"
        if self.gated and self.ref.convention is GangConvention.KUBERNETES:
            return f"{self.gated} of its {total} pods are held by scheduling gates"
        if self.running + len(waiting) < least:
            return f"{self.running + len(waiting)} of {least} pods wait for room or run"
        return _find_difference(terms, waiting) if self.ref.convention is GangConvention.KUBERNETES else ""


def _find_difference(terms: GangTerms, waiting: Sequence[Pod]) -> str:
    """Return the difference among the pods because of which kube-scheduler refuses the group; empty: there is none."""
    priorities = {pod.spec.priority or 0 for pod in waiting}
    if len(priorities if terms.priority is None else {*priorities, terms.priority}) > 1:
        return "its pods and PodGroup have different priorities, which kube-scheduler refuses"
    if len({pod.spec.scheduler_name for pod in waiting}) > 1:
        return "its pods name different schedulers, which kube-scheduler refuses"
    return ""


def _is_gated(pod: Pod) -> bool:
    """Return whether scheduling gates keep the pod from being scheduled."""
    return bool(pod.spec.scheduling_gates)


def settle_gangs(state: ClusterState, requests: ProvisioningRequestState, gangs: Sequence[Gang]) -> RequestChanges:
    """End the reservations of gangs whose machines have all come, and give up those that cannot be completed.

    If a group failed to deliver, the gang tries another one at once: the group that failed is in backoff. Otherwise the gang
    waits for its next try.
    """
    waiting = {gang.ref.id for gang in gangs}
    kept = dict[str, Reservation]()
    changes: list[RequestChanges] = []
    for name, held in requests.reservations.items():
        if not is_gang_id(name):
            kept[name] = held
            continue
        fresh, known_as = held, name
        if held.broken and name in waiting:
            known_as = held.leftover_name(name)
            if not has_failed(held, state):
                retry = requests.next_retry(name)
                due = requests.next_change_at(retry.at + retry.wait)
                changes.append(RequestChanges(retries={name: retry}, next_change=due))
        elif not held.broken and is_complete(held, state):
            changes.append(RequestChanges(retries={name: None}))
            continue
        elif name not in waiting:
            fresh = cancelled(held)
        if not fresh.broken:
            times = (*(part.deadline or held.deadline for part in held.parts), held.deadline + held.patience)
            changes.append(RequestChanges(next_change=requests.next_change_at(*times)))
        if fresh.parts:
            kept[known_as] = fresh
    changes.append(_settle_retries(requests, waiting))
    return join_changes([*changes, RequestChanges(reservations=kept if kept != requests.reservations else None)])


def _settle_retries(requests: ProvisioningRequestState, waiting: Container[str]) -> RequestChanges:
    """Forget the waits of gangs that are gone, and return when the next wait is over."""
    retries = {name: retry for name, retry in requests.memory.retries.items() if is_gang_id(name)}
    gone = {name: None for name in retries if name not in waiting}
    due = requests.next_change_at(*(retry.at + retry.wait for name, retry in retries.items() if name in waiting))
    return RequestChanges(retries=gone, next_change=due)
