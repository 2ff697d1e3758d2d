"""The requests of one loop, as this plan leaves them: what is to be written about each, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from nodewright.clusterstate.memory import ProvisioningMemory, Retry
from nodewright.clusterstate.state import ClusterState
from nodewright.model.condition import Condition, as_of
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod, PodSpec
from nodewright.model.provisioning_request import NODES_DETAIL, PodTemplate, ProvisioningRequest
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings
from nodewright.planner.provisioning_requests.class_rules import ClassRules
from nodewright.planner.provisioning_requests.classes import Mode, Terms, find_mode, is_of_the_core


@dataclass(frozen=True, kw_only=True)
class StatusWrite:
    """Conditions to be written to a request. ``is_apply``: by server-side apply, beside those of others; else its whole
    status is written, as CA does.

    ``groups`` must have grown, each of them, for it to be true; if one has not, ``otherwise`` is written. What follows
    an acceptance that could not be written is not done: ``opens`` marks that one.
    """

    request: ProvisioningRequest
    conditions: tuple[Condition, ...]
    is_apply: bool = True
    opens: bool = False
    groups: tuple[GroupRef, ...] = ()
    otherwise: tuple[Condition, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PendingEvent:
    """An event to be: of a request or, where ``pod`` is given, of that pod."""

    request: str
    reason: str
    message: str
    pod: Pod | None = None
    is_warning: bool = False


@dataclass(frozen=True, kw_only=True)
class ProviderCall:
    """A request that ``provider`` is asked to serve, ``resources`` for all of its pods together.

    One of the conditions is written, in the provider's words: ``met`` where the room is there, else ``unmet``;
    ``waiting`` where there is no answer. ``retry`` is remembered, unless nothing is asked.
    """

    request: ProvisioningRequest
    provider: str
    terms: Terms
    resources: Mapping[str, Quantity]
    met: Condition
    unmet: Condition
    waiting: Condition
    retry: Retry


@dataclass(frozen=True, kw_only=True)
class ProvisioningReport:
    """What was decided about requests.

    ``writes`` come before anything is asked of a cloud, ``questions`` and ``verdicts`` after; ``expired`` are requests to
    be deleted.
    ``consumers`` are pods that wait for what their request provides. ``booked`` says for how many pods of each request
    room is held, ``reservation_seconds`` for how long it is held at most. ``examined``: some request was looked at. ``memory`` is for the next loop (None: it stays as it was),
    ``next_change`` when time alone changes what is decided (epoch seconds).
    """

    writes: tuple[StatusWrite, ...] = ()
    verdicts: tuple[StatusWrite, ...] = ()
    questions: tuple[ProviderCall, ...] = ()
    expired: tuple[ProvisioningRequest, ...] = ()
    consumers: tuple[Pod, ...] = ()
    notes: tuple[PendingEvent, ...] = ()
    booked: dict[str, int] = field(default_factory=dict)
    reservation_seconds: float | None = None
    examined: bool = False
    memory: ProvisioningMemory | None = None
    next_change: float = float("inf")

    @property
    def has_writes(self) -> bool:
        return bool(self.writes or self.verdicts or self.questions or self.expired)

    def when_asked(self) -> ProvisioningMemory | None:
        """The memory once the questions are asked."""
        if not self.questions or self.memory is None:
            return self.memory
        retries = {question.request.id: question.retry for question in self.questions}
        return replace(self.memory, retries={**self.memory.retries, **retries})


class ProvisioningRequestState:
    """Requests by key, each with the conditions that it will have; changes are collected as writes."""

    def __init__(self, state: ClusterState, settings: Settings) -> None:
        seen = state.observation.provisioning
        self.is_enabled = settings.provisioning.enable_provisioning_requests
        self.settings = settings
        self.now = state.now
        self.templates: dict[str, PodTemplate] = dict(seen.templates)
        held = state.memory.provisioning
        self.prefers_requests = held.prefers_requests
        self.retries = dict(held.retries)
        self.homeless_since = dict(held.homeless_since)
        self.grants = held.reservations
        self.writes: list[StatusWrite] = []
        self.verdicts: list[StatusWrite] = []
        self.questions: list[ProviderCall] = []
        self.expired: list[ProvisioningRequest] = []
        self.consumers: list[Pod] = []
        self.notes: list[PendingEvent] = []
        self.booked: dict[str, int] = {}
        self.examined = False
        self.next_change = float("inf")
        self.classes = ClassRules(state.observation, settings)
        self._servers = self._find_servers(state)
        self._held = {request.key: request for request in seen.requests if self._counts(request)}

    @property
    def treats_fairly(self) -> bool:
        """Are requests served as we do it, and not as CA?"""
        return self.is_enabled and self.settings.policy.shares_capacity_fairly

    def __iter__(self) -> Iterator[ProvisioningRequest]:
        """Every request, as it will be."""
        return iter(tuple(self._held.values()))

    def get(self, key: str) -> ProvisioningRequest | None:
        return self._held.get(key)

    def mode(self, request: ProvisioningRequest) -> Mode | None:
        """None: it is somebody else's, or nobody's."""
        own = find_mode(self.terms(request), self.settings)
        return Mode.PROVIDER if own is None and self.server_of(request) else own

    def specs_of_wholes(self) -> Iterator[PodSpec]:
        """The pods, one of each kind, for which machines may be asked for all at once."""
        for request in self:
            if self.mode(request) == Mode.ATOMIC:
                names = (pod_set.pod_template_ref.name for pod_set in request.spec.pod_sets)
                found = (self.templates.get(f"{request.metadata.namespace}/{name}") for name in names)
                yield from (template.template.spec for template in found if template is not None)

    def server_of(self, request: ProvisioningRequest) -> str:
        """The provider that serves the request's class itself; empty: none does."""
        return self._servers.get(self.terms(request).class_name, "")

    def terms(self, request: ProvisioningRequest) -> Terms:
        """Under which it is served."""
        return self.classes.terms(request)

    def condition(self, request: ProvisioningRequest, what: tuple[str, str], reason: str, message: str) -> Condition:
        """A condition as of now; ``what`` is its type and status.

        CA dates every write anew; elsewhere a condition is as old as its status.
        """
        kind, status = what
        generation = request.metadata.generation
        fresh = Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
        return as_of(self.now, fresh, request.condition(kind) if self.settings.policy.keeps_condition_times else None)

    def mark(self, request: ProvisioningRequest, *conditions: Condition, opens: bool = False) -> ProvisioningRequest:
        """Have conditions written before anything else happens; answers the request with them."""
        fresh = self._with(request, conditions)
        if fresh is not request:
            is_apply = self.settings.policy.applies_conditions
            self.writes.append(StatusWrite(request=fresh, conditions=conditions, is_apply=is_apply, opens=opens))
        return fresh

    def noting(self, request: ProvisioningRequest, nodes: int) -> ProvisioningRequest:
        """The request, saying how many nodes are made for it: its class limits them, or may from tomorrow on."""
        is_limited = self.classes.get(request) is not None
        return request.with_details(**{NODES_DETAIL: str(nodes)}) if is_limited else request

    def judge(self, write: StatusWrite) -> None:
        """Have conditions written after the cloud was asked."""
        self.verdicts.append(replace(write, request=self._with(write.request, write.conditions)))

    def delete(self, request: ProvisioningRequest) -> None:
        """Its time is over."""
        self.expired.append(request)
        self._held.pop(request.key, None)

    def wake(self, at: float) -> None:
        """Something may be decided anew after that moment."""
        if at >= self.now:
            self.next_change = min(self.next_change, at)

    def report(self) -> ProvisioningReport:
        return ProvisioningReport(
            writes=tuple(self.writes),
            verdicts=tuple(self.verdicts),
            questions=tuple(self.questions),
            expired=tuple(self.expired),
            consumers=tuple(self.consumers),
            notes=tuple(self.notes),
            booked=self.booked,
            reservation_seconds=self.settings.reservation_seconds,
            examined=self.examined,
            memory=self._memory(),
            next_change=self.next_change,
        )

    def _counts(self, request: ProvisioningRequest) -> bool:
        """Deletion cancels at once, also where somebody's finalizer keeps the object; CA does not look."""
        return self.is_enabled and (
            not self.settings.policy.cancels_deleted_requests or request.metadata.deletion_timestamp is None
        )

    def _find_servers(self, state: ClusterState) -> dict[str, str]:
        """Provider by class. The core's own names stay its own, and the first of several providers serves. CA knows no
        such classes, and a process for check-capacity alone serves no others.
        """
        if not self.treats_fairly or self.settings.provisioning.check_capacity_processor_instance:
            return {}
        seen = reversed(tuple(state.observation.providers.values()))
        return {
            name: provider.name
            for provider in seen
            for name in provider.provisioning_classes
            if not is_of_the_core(name)
        }

    def _memory(self) -> ProvisioningMemory:
        """What is remembered of requests that there still are."""
        ids = {request.id for request in self}
        return ProvisioningMemory(
            prefers_requests=self.prefers_requests,
            retries={name: retry for name, retry in self.retries.items() if name in ids},
            homeless_since={name: at for name, at in self.homeless_since.items() if name in ids},
            reservations=self.grants,
        )

    def _with(self, request: ProvisioningRequest, conditions: tuple[Condition, ...]) -> ProvisioningRequest:
        """The request with conditions; itself if it has them, so that nothing is written twice."""
        fresh = request
        for condition in conditions:
            if request.condition(condition.type) != condition:
                fresh = fresh.with_condition(condition)
        if fresh is not request:
            fresh = self.classes.noted(fresh)
        self._held[request.key] = fresh
        return fresh
