"""Serve requests as nodewright does: every one that is due, in each loop, beside ordinary pods.

See docs/provisioning-requests.md.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from random import Random

from nodewright.model.action import IncreaseSize
from nodewright.model.plan import PendingEvent, ProviderCall, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import (
    CAPACITY_AVAILABLE,
    FAILED,
    NODES_DETAIL,
    PROVISIONED,
    UNDER_WAY,
    ProvisioningRequest,
)
from nodewright.model.quantity import Quantity
from nodewright.planner.context import PlanningContext
from nodewright.planner.provisioning_requests.atomic import AtomicScaleUp, as_whole
from nodewright.planner.provisioning_requests.classes import ClassNodeLimit, ClassUsage, Mode, is_core_class
from nodewright.planner.provisioning_requests.pods import find_problem, make_pods_or_fail
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges, join_changes
from nodewright.planner.scale_up.pending_pods import split_young, take_fitting
from nodewright.planner.scale_up.planned_nodes import grow_in_place
from nodewright.snapshot.observation import ProviderSeen
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import exact_requests
from nodewright.snapshot.snapshot import Snapshot

FOUND = "Capacity is found in the cluster"
# Reasons of requests that wait because of their class.
_LIMIT, _WRONG_CLASS = "ClassLimitReached", "InvalidClass"
# The most groups that a condition's message names.
_MOST_REFUSALS = 5
# The most requests, and pods of them, that are examined in one loop; the others follow in the next ones.
_MOST_A_LOOP = 500
_MOST_PODS_A_LOOP = 32 * 16_384  # those of the largest possible request

# What a request asks for: the class and number of each set of pods, and how many nodes it may get.
_Demand = tuple[tuple[tuple[PodClass, int], ...], ClassNodeLimit | None]


# Which requests are due


def find_due(requests: ProvisioningRequestState) -> tuple[list[ProvisioningRequest], float]:
    """Return the requests that are due, and when the next one is.

    Due are requests that were never examined, and those whose wait since the last try is over.
    """
    due: list[ProvisioningRequest] = []
    later: list[float] = []
    for request in requests:
        if requests.mode(request) is None or requests.is_over(request) or request.has(PROVISIONED):
            continue
        if request.id in requests.reservations:
            continue
        retry = requests.memory.retries.get(request.id)
        if retry is None or retry.at + retry.wait < requests.now:
            due.append(request)
        else:
            later.append(retry.at + retry.wait)
    return due, requests.next_change_at(*later)


def in_turn(requests: ProvisioningRequestState, mode: Mode, most: int) -> tuple[list[ProvisioningRequest], float]:
    """Return at most ``most`` due requests of the mode, and when requests are due next.

    New ones come first, then those examined longest ago. Invalid requests cost nothing; the largest valid one is examined
    in a loop of its own.
    """
    found, next_change = find_due(requests)
    due = [request for request in found if requests.mode(request) == mode]
    due.sort(key=lambda one: (_examined_at(one, requests), one.created, one.key))
    pods = accumulate(0 if find_problem(request) else request.pod_count for request in due)
    taken = [request for request, so_far in zip(due[:most], pods, strict=False) if so_far <= _MOST_PODS_A_LOOP]
    return taken, min(next_change, requests.now) if len(taken) < len(due) else next_change


def _examined_at(request: ProvisioningRequest, requests: ProvisioningRequestState) -> float:
    retry = requests.memory.retries.get(request.id)
    return retry.at if retry is not None else -math.inf


# One step


class Examination:
    """Examines requests one after the other: what one reserves of its class the next one cannot have.

    ``requests`` is the state before the step; ``changes`` collects what the step decides.
    """

    def __init__(self, requests: ProvisioningRequestState) -> None:
        self.requests = requests
        self._usage = requests.usage
        self._parts: list[RequestChanges] = []

    @property
    def changes(self) -> RequestChanges:
        """Return all changes decided so far."""
        return join_changes([*self._parts, RequestChanges(usage=self._usage)])

    def add(self, *changes: RequestChanges) -> None:
        """Add decisions."""
        self._parts += changes

    def reserve(self, request: ProvisioningRequest, nodes: int) -> None:
        """Count the pods of the request and ``nodes`` nodes against its class from now on."""
        if self._usage is not None:
            self._usage = self._usage.with_reserved(request, nodes)

    def node_limit(self, request: ProvisioningRequest) -> ClassNodeLimit | None:
        """Return how many nodes the request may still get by its class; None: as many as it needs."""
        return self.requests.classes.node_limit(request, self._usage or ClassUsage())

    def pods_of(self, request: ProvisioningRequest) -> tuple[Pod, ...]:
        """Return the pods to look for capacity for; none if the request is invalid, not admitted or too young."""
        requests = self.requests
        problem = find_problem(request)
        if problem:
            self._fail(request, "InvalidRequest", problem)
            return ()
        if not self._is_admitted(request):
            return ()
        pods, failed = make_pods_or_fail(request, requests)
        if pods is None:
            self.add(failed)
            return ()
        old, _ = split_young(pods[:1], requests.settings.pods, requests.now)
        if not old:
            due = requests.next_change_at(request.created + requests.settings.pods.new_pod_scale_up_delay)
            self.add(requests.write(request, requests.accepted(request)), RequestChanges(next_change=due))
            return ()
        return pods

    def _is_admitted(self, request: ProvisioningRequest) -> bool:
        """Decide whether the class lets the request be served now. If it never does the request fails, else it waits."""
        requests, rules = self.requests, self.requests.classes
        wrong = rules.why_unusable(request, of_provider=requests.mode(request) == Mode.PROVIDER)
        if wrong:
            self._wait(request, _WRONG_CLASS, wrong)
            return False
        denied, never = rules.why_not_allowed(request), rules.why_never(request)
        if denied or never:
            self._fail(request, "ClassNotAllowed" if denied else "InvalidRequest", denied or never)
            return False
        full = rules.why_wait(request, self._count_usage())
        if full:
            self._wait(request, _LIMIT, full)
        return not full

    def _count_usage(self) -> ClassUsage:
        """Return what open requests reserve of their classes; it is counted once in a loop, with what changed so far."""
        if not self.requests.classes.are_used:
            return ClassUsage()
        if self._usage is None:
            current = self.requests.apply(*self._parts)
            self._usage = ClassUsage.of((one, _nodes_of(one, current)) for one in current if _reserves(one, current))
        return self._usage

    def _wait(self, request: ProvisioningRequest, reason: str, why: str) -> None:
        """Try the request again later, unless it is to fail at the first try."""
        requests = self.requests
        accepted = requests.accepted(request)
        if requests.fails_at_once(request):
            failed = requests.condition(request, (FAILED, "True"), reason, why)
            self.add(requests.write(request, accepted, failed))
            return
        waiting = requests.condition(request, (PROVISIONED, "False"), reason, f"{why}; it is tried again later")
        self.add(_retry_later(request, requests), requests.write(request, accepted, waiting))

    def _fail(self, request: ProvisioningRequest, reason: str, why: str) -> None:
        requests = self.requests
        self.add(requests.write(request, requests.condition(request, (FAILED, "True"), reason, why)))


def _reserves(request: ProvisioningRequest, requests: ProvisioningRequestState) -> bool:
    """Return whether capacity is reserved or being added for the request; with a provider, from its first call on."""
    mode = requests.mode(request)
    if mode is None or requests.is_over(request):
        return False
    held = request.condition(PROVISIONED)
    if request.id in requests.reservations:
        return True
    if held is None:
        return False
    was_called = mode == Mode.PROVIDER and held.reason not in (_LIMIT, _WRONG_CLASS)
    return held.is_true or held.reason == UNDER_WAY or was_called


def _nodes_of(request: ProvisioningRequest, requests: ProvisioningRequestState) -> int:
    """Return how many nodes were added, or are being added, for the request."""
    held = requests.reservations.get(request.id)
    if held is not None:
        return held.nodes
    text = request.status.provisioning_class_details.get(NODES_DETAIL, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


# Results for one request


def put_off(
    request: ProvisioningRequest, requests: ProvisioningRequestState, why: str, *, at_once: bool = False
) -> RequestChanges:
    """Return changes that say that no capacity was found: try again later or ``at_once``, or fail without retries."""
    accepted = requests.accepted(request)
    if requests.fails_at_once(request):
        text = f"CA could not find requested capacity: {why}"
        failed = requests.condition(request, (FAILED, "True"), "CapacityIsNotFound", text)
        return requests.write(request, accepted, failed)
    text = f"Capacity is not found, CA will try to find it later: {why}"
    conditions = [requests.condition(request, (PROVISIONED, "False"), "CapacityIsNotFound", text)]
    if requests.mode(request) == Mode.CHECK:
        conditions.append(requests.condition(request, (CAPACITY_AVAILABLE, "False"), "CapacityIsNotFound", text))
    written = requests.write(request, accepted, *conditions)
    return written if at_once else join_changes([_retry_later(request, requests), written])


def grant(
    request: ProvisioningRequest, requests: ProvisioningRequestState, what: tuple[str, str], nodes: int = 0
) -> RequestChanges:
    """Return changes that grant the request: all of its capacity exists, and is reserved from now on.

    ``what`` is the condition's reason and message; ``nodes`` were added for the request.
    """
    reason, text = what
    request = requests.with_nodes(request, nodes)
    conditions = [requests.condition(request, (PROVISIONED, "True"), reason, text)]
    if requests.mode(request) == Mode.CHECK:
        conditions.append(requests.condition(request, (CAPACITY_AVAILABLE, "True"), reason, text))
    settled = RequestChanges(retries={request.id: None}, reserved={request.key: request.pod_count})
    return join_changes([settled, requests.write(request, requests.accepted(request), *conditions)])


def _retry_later(request: ProvisioningRequest, requests: ProvisioningRequestState) -> RequestChanges:
    retry = requests.next_retry(request.id)
    return RequestChanges(retries={request.id: retry}, next_change=requests.next_change_at(retry.at + retry.wait))


# Serving requests


@dataclass(frozen=True, kw_only=True)
class Served:
    """The result of one loop for the requests of one mode.

    ``context`` is the context afterwards. ``held`` are pods of requests that fit on existing nodes. ``finds_room``: some
    request needs no new node.
    """

    context: PlanningContext
    changes: RequestChanges
    actions: Sequence[IncreaseSize] = ()
    reports: Sequence[ScaleUpReport] = ()
    held: Sequence[Pod] = ()
    finds_room: bool = False


def serve(context: PlanningContext, requests: ProvisioningRequestState, random: Random, mode: Mode) -> Served:
    """Look for capacity for each due request of the mode, in turn.

    CHECK places pods in the snapshot of ``context`` itself, ATOMIC in a fork of it.
    """
    if mode == Mode.ATOMIC:
        context = replace(context, snapshot=context.snapshot.fork())
    return _RequestServer(context, requests, random, mode).serve()


class _RequestServer:
    """Serves the due requests of one mode."""

    def __init__(
        self, context: PlanningContext, requests: ProvisioningRequestState, random: Random, mode: Mode
    ) -> None:
        self._context, self._requests, self._random, self._mode = context, requests, random, mode
        self._step = Examination(requests)
        self._actions: list[IncreaseSize] = []
        self._reports: list[ScaleUpReport] = []
        self._held: list[Pod] = []
        self._finds_room = False
        # Why nothing was found for a demand. That holds for the whole step: room and limits only shrink.
        self._hopeless: dict[_Demand, str] = {}

    def serve(self) -> Served:
        taken, next_change = in_turn(self._requests, self._mode, _MOST_A_LOOP)
        self._step.add(RequestChanges(next_change=next_change))
        for request in taken:
            pods = self._step.pods_of(request)
            if not pods:
                continue
            self._step.add(RequestChanges(examined=True))
            demand = _count_classes(self._context.snapshot, pods), self._step.node_limit(request)
            if demand not in self._hopeless:
                why = self._check(request, pods) if self._mode == Mode.CHECK else self._provision(request, pods)
                if not why:
                    continue
                self._hopeless[demand] = why
            self._step.add(put_off(request, self._requests, self._hopeless[demand]))
        return Served(
            context=self._context,
            changes=self._step.changes,
            actions=self._actions,
            reports=self._reports,
            held=self._held,
            finds_room=self._finds_room,
        )

    def _check(self, request: ProvisioningRequest, pods: Sequence[Pod]) -> str:
        """Grant the request if all pods fit on existing nodes; return why not, empty if it is granted."""
        fork = self._context.snapshot.fork()
        fitting, left = take_fitting(fork, pods)
        if left:
            return f"there is room for {len(fitting)} of {len(pods)} pods"
        self._grant(request, pods)
        return ""

    def _provision(self, request: ProvisioningRequest, pods: Sequence[Pod]) -> str:
        """Add nodes for all pods that do not fit, or none; return why none are added, empty if they are."""
        snapshot, requests = self._context.snapshot, self._requests
        fork = snapshot.fork()
        fitting, left = take_fitting(fork, pods)
        if not left:
            self._grant(request, pods)
            self._held += pods
            return ""
        limit = self._step.node_limit(request)
        scale_up = AtomicScaleUp(replace(self._context, snapshot=fork), left, self._random, limit)
        actions, report = scale_up.plan()
        if not actions:
            return _why_refused(scale_up, len(left), len(pods))
        take_fitting(snapshot, fitting)
        self._context = grow_in_place(self._context, report) or self._context
        self._actions += as_whole(request, actions)
        self._reports.append(report)
        self._held += fitting
        asked = ", ".join(f"{action.group} {action.expected_target}->{action.target}" for action in actions)
        nodes = sum(action.target - action.expected_target for action in actions)
        text = f"{nodes} nodes are asked for: {asked}"
        pending = requests.condition(request, (PROVISIONED, "False"), UNDER_WAY, text)
        fresh, accepted = requests.with_nodes(request, nodes), requests.accepted(request)
        self._step.add(requests.write(fresh, accepted, pending, is_acceptance=True))
        self._step.reserve(request, nodes)
        return ""

    def _grant(self, request: ProvisioningRequest, pods: Sequence[Pod]) -> None:
        take_fitting(self._context.snapshot, pods)
        self._finds_room = True
        self._step.add(grant(request, self._requests, ("CapacityIsFound", FOUND)))
        self._step.reserve(request, 0)


def _count_classes(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[tuple[PodClass, int], ...]:
    """Return how many pods there are of each class; pods of one set share their spec, and are looked up once."""
    counts: dict[PodClass, int] = {}
    for _, alike in groupby(pods, key=lambda pod: id(pod.spec)):
        held = list(alike)
        pod_class = snapshot.class_of(held[0])
        counts[pod_class] = counts.get(pod_class, 0) + len(held)
    return tuple(counts.items())


def _why_refused(scale_up: AtomicScaleUp, left: int, pods: int) -> str:
    listed = [f"{ref}: {why}" for ref, why in scale_up.refusals.items()]
    more = len(listed) - _MOST_REFUSALS
    shown = "; ".join(listed[:_MOST_REFUSALS]) + (f"; and {more} more groups" if more > 0 else "")
    return f"there is no room for {left} of {pods} pods ({shown or 'there is no node group'})"


# The most calls to providers in one loop: they run one after the other.
_MOST_CALLS = 20
# Seconds from a request's creation after which another controller that serves its class has written a condition.
_SILENCE_SECONDS = 60.0


def plan_provider_calls(requests: ProvisioningRequestState) -> RequestChanges:
    """Accept each due request, and call its provider; the provider's result is written in this loop."""
    step = Examination(requests)
    taken, next_change = in_turn(requests, Mode.PROVIDER, _MOST_CALLS)
    step.add(RequestChanges(next_change=next_change))
    for request in taken:
        pods = step.pods_of(request)
        if not pods:
            continue
        accepted, retry = requests.accepted(request), requests.next_retry(request.id)
        fresh = requests.with_conditions(request, accepted)
        waiting = requests.condition(fresh, (PROVISIONED, "False"), "", "")
        failed = requests.condition(fresh, (FAILED, "True"), "", "")
        call = ProviderCall(
            request=fresh,
            provider=requests.provider_of(request),
            request_class=requests.classes.class_of(request),
            resources=_total(pods),
            met=requests.condition(fresh, (PROVISIONED, "True"), "", ""),
            unmet=failed if requests.fails_at_once(request) else waiting,
            waiting=waiting,
        )
        due = requests.next_change_at(retry.at + retry.wait)
        step.add(requests.write(request, accepted, is_acceptance=True))
        step.add(RequestChanges(calls=(call,), call_retries={request.id: retry}, examined=True, next_change=due))
        step.reserve(request, 0)
    return step.changes


def report_unserved(requests: ProvisioningRequestState, providers: Mapping[str, ProviderSeen]) -> RequestChanges:
    """Return an event for each request without a condition of any controller: its class name may be wrong."""
    if any(provider.problem for provider in providers.values()):
        return RequestChanges()  # a provider that cannot be reached may serve the class
    known = sorted({name for provider in providers.values() for name in provider.provisioning_classes})
    events: list[PendingEvent] = []
    later: list[float] = []
    for request in requests:
        name = requests.classes.class_of(request).class_name
        if is_core_class(name) or requests.provider_of(request) or request.status.conditions:
            continue
        due = request.created + _SILENCE_SECONDS
        if requests.now < due:
            later.append(due)
            continue
        text = f"neither nodewright nor its providers serve class {name}, and no other controller has set a condition"
        text += f"; providers serve {', '.join(known)}" if known else ""
        events.append(
            PendingEvent(request=request.key, reason="ProvisioningClassNotServed", message=text, is_warning=True)
        )
    return RequestChanges(events=tuple(events), next_change=requests.next_change_at(*later))


def _total(pods: Sequence[Pod]) -> Mapping[str, Quantity]:
    """Return what all pods request together; those of one set share their spec, and are counted once."""
    nano: Counter[str] = Counter()
    for _, alike in groupby(pods, key=lambda pod: id(pod.spec)):
        held = list(alike)
        for name, amount in exact_requests(held[0], placed=False).items():
            nano[name] += amount * len(held)
    return {name: Quantity(amount) for name, amount in nano.items()}
