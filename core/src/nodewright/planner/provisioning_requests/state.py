"""The ProvisioningRequests of one loop, as they will be after the decisions made so far.

Each planning step returns its decisions as ``RequestChanges``; only ``ProvisioningRequestState.apply`` carries them out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from nodewright.clusterstate.memory import ProvisioningMemory, Reservation
from nodewright.clusterstate.state import ClusterState
from nodewright.model.gang import is_gang_id
from nodewright.model.meta import Condition, as_of
from nodewright.model.plan import PendingEvent, ProviderCall, ProvisioningReport, StatusWrite
from nodewright.model.pod import Pod, PodSpec
from nodewright.model.provisioning_request import (
    ACCEPTED,
    BOOKING_EXPIRED,
    FAILED,
    NO_RETRY,
    NODES_DETAIL,
    TERMINAL,
    PodTemplate,
    ProvisioningRequest,
    Retry,
)
from nodewright.model.settings import RequestSettings
from nodewright.planner.provisioning_requests.classes import ClassRules, ClassUsage, Mode, find_mode, is_core_class

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RequestChanges:
    """Decisions of a planning step about requests.

    ``requests`` are requests as they will be, in the order of the decisions. ``writes`` to ``expired`` are as in
    ProvisioningReport. By the request's key (``reserved``) or id (the others), None means: there is none any more.
    ``call_retries`` hold only if the provider is called. ``missing_since`` says since when room that is reserved has not
    all been there. ``reservations`` replaces all reservations (None: they stay). ``usage`` replaces the class usage,
    ``prefers_requests`` that of the memory (None: it stays). Something may be decided again after ``next_change``.
    """

    requests: tuple[ProvisioningRequest, ...] = ()
    writes: tuple[StatusWrite, ...] = ()
    results: tuple[StatusWrite, ...] = ()
    calls: tuple[ProviderCall, ...] = ()
    expired: tuple[ProvisioningRequest, ...] = ()
    consumers: tuple[Pod, ...] = ()
    events: tuple[PendingEvent, ...] = ()
    reserved: Mapping[str, int | None] = field(default_factory=dict)
    retries: Mapping[str, Retry | None] = field(default_factory=dict)
    call_retries: Mapping[str, Retry] = field(default_factory=dict)
    missing_since: Mapping[str, float | None] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] | None = None
    usage: ClassUsage | None = None
    prefers_requests: bool | None = None
    examined: bool = False
    next_change: float = math.inf


NO_CHANGES = RequestChanges()


def join_changes(parts: Iterable[RequestChanges]) -> RequestChanges:
    """Return one value with the changes of all parts, in their order."""
    found = list(parts)
    return RequestChanges(
        requests=tuple(one for part in found for one in part.requests),
        writes=tuple(one for part in found for one in part.writes),
        results=tuple(one for part in found for one in part.results),
        calls=tuple(one for part in found for one in part.calls),
        expired=tuple(one for part in found for one in part.expired),
        consumers=tuple(one for part in found for one in part.consumers),
        events=tuple(one for part in found for one in part.events),
        reserved={name: count for part in found for name, count in part.reserved.items()},
        retries={name: retry for part in found for name, retry in part.retries.items()},
        call_retries={name: retry for part in found for name, retry in part.call_retries.items()},
        missing_since={name: since for part in found for name, since in part.missing_since.items()},
        reservations=_last(part.reservations for part in found),
        usage=_last(part.usage for part in found),
        prefers_requests=_last(part.prefers_requests for part in found),
        examined=any(part.examined for part in found),
        next_change=min((part.next_change for part in found), default=math.inf),
    )


@dataclass(frozen=True, kw_only=True)
class ProvisioningRequestState:
    """All requests by key (``namespace/name``), each with the conditions that it will have.

    ``memory`` is what the next loop remembers. ``providers`` are the providers that serve classes of their own, by class.
    ``usage`` is what open requests reserve of their classes (None: not counted yet in this loop). ``decided`` are all
    changes applied so far.
    """

    settings: RequestSettings
    now: float
    is_enabled: bool
    classes: ClassRules
    templates: Mapping[str, PodTemplate]
    providers: Mapping[str, str]
    requests: Mapping[str, ProvisioningRequest]
    memory: ProvisioningMemory
    usage: ClassUsage | None = None
    decided: RequestChanges = NO_CHANGES

    @classmethod
    def of(cls, state: ClusterState, settings: RequestSettings) -> "ProvisioningRequestState":
        """Return the requests as the API server has them; none if requests are switched off.

        Deleting a request cancels it at once, even if a finalizer keeps the object. CA ignores the deletion.
        """
        seen, is_enabled = state.observation.provisioning, settings.provisioning.enable_provisioning_requests
        cancels = settings.policy.cancels_deleted_requests
        open_requests = (one for one in seen.requests if not (cancels and one.metadata.deletion_timestamp is not None))
        return cls(
            settings=settings,
            now=state.now,
            is_enabled=is_enabled,
            classes=ClassRules(state.observation, settings.policy),
            templates=seen.templates,
            providers=_providers_by_class(state, settings) if is_enabled else {},
            requests={request.key: request for request in open_requests} if is_enabled else {},
            memory=state.memory.provisioning,
        )

    @property
    def arbitrates(self) -> bool:
        """Return whether requests are served as nodewright does it (``arbitration``), and not as CA does it (``ca``)."""
        return self.is_enabled and self.settings.policy.shares_capacity_fairly

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """Return the nodes that are being added for requests, by the request's id (broken ones by another name)."""
        return self.memory.reservations

    def __iter__(self) -> Iterator[ProvisioningRequest]:
        """Iterate over all requests."""
        return iter(self.requests.values())

    # Questions about a request

    def mode(self, request: ProvisioningRequest) -> Mode | None:
        """Return how this process serves the request; None: it does not."""
        own = find_mode(self.classes.class_of(request), self.settings.provisioning, self.settings.policy)
        return Mode.PROVIDER if own is None and self.provider_of(request) else own

    def provider_of(self, request: ProvisioningRequest) -> str:
        """Return the provider that serves the request's class itself; empty: none does."""
        return self.providers.get(self.classes.class_of(request).class_name, "")

    def is_over(self, request: ProvisioningRequest) -> bool:
        """Return whether the request has ended. CA has no condition for revoked capacity."""
        ends = TERMINAL if self.settings.policy.knows_revoked_capacity else (BOOKING_EXPIRED, FAILED)
        return any(request.has(end) for end in ends)

    def fails_at_once(self, request: ProvisioningRequest) -> bool:
        """Return whether the request fails if no capacity is found at the first try."""
        return self.classes.class_of(request).parameters.get(NO_RETRY) == "true"

    def next_retry(self, request_id: str) -> Retry:
        """Return when the request is tried again: after twice its last wait, counted from now."""
        settings, held = self.settings.provisioning, self.memory.retries.get(request_id)
        wait = settings.provisioning_request_initial_backoff_time if held is None else 2 * held.wait
        return Retry(at=self.now, wait=min(wait, settings.provisioning_request_max_backoff_time))

    def next_change_at(self, *times: float) -> float:
        """Return the first of these times that is not past yet; inf: there is none."""
        return min((at for at in times if at >= self.now), default=math.inf)

    def atomic_specs(self) -> Iterator[PodSpec]:
        """Yield the pod specs, one of each set, of all requests for which nodes may be added."""
        for request in self:
            if self.mode(request) == Mode.ATOMIC:
                names = (pod_set.pod_template_ref.name for pod_set in request.spec.pod_sets)
                found = (self.templates.get(f"{request.metadata.namespace}/{name}") for name in names)
                yield from (template.template.spec for template in found if template is not None)

    # Changes to a request

    def condition(self, request: ProvisioningRequest, what: tuple[str, str], reason: str, message: str) -> Condition:
        """Return a condition as of now; ``what`` is its type and status.

        Its time is that of the last change of its status. CA sets the time at each write.
        """
        kind, status = what
        generation = request.metadata.generation
        fresh = Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
        return as_of(self.now, fresh, request.condition(kind) if self.settings.policy.keeps_condition_times else None)

    def accepted(self, request: ProvisioningRequest) -> Condition:
        """Return the condition Accepted."""
        return self.condition(
            request, (ACCEPTED, "True"), "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"
        )

    def with_conditions(self, request: ProvisioningRequest, *conditions: Condition) -> ProvisioningRequest:
        """Return the request with these conditions; the same object if it has them already."""
        fresh = request
        for condition in conditions:
            if request.condition(condition.type) != condition:
                fresh = fresh.with_condition(condition)
        return self.classes.with_provisioner(fresh) if fresh is not request else request

    def with_nodes(self, request: ProvisioningRequest, nodes: int) -> ProvisioningRequest:
        """Return the request with the number of nodes added for it, which its ProvisioningClass may limit."""
        is_limited = self.classes.get(request) is not None
        return request.with_details(**{NODES_DETAIL: str(nodes)}) if is_limited else request

    def write(
        self, request: ProvisioningRequest, *conditions: Condition, is_acceptance: bool = False
    ) -> RequestChanges:
        """Return changes that write the conditions before a cloud is called; nothing is written if they are there."""
        fresh = self.with_conditions(request, *conditions)
        if fresh is request:
            return RequestChanges(requests=(request,))
        is_apply = self.settings.policy.applies_conditions
        write = StatusWrite(request=fresh, conditions=conditions, is_apply=is_apply, is_acceptance=is_acceptance)
        return RequestChanges(requests=(fresh,), writes=(write,))

    def write_result(self, write: StatusWrite) -> RequestChanges:
        """Return changes that write the conditions after the cloud was called."""
        fresh = self.with_conditions(write.request, *write.conditions)
        return RequestChanges(requests=(fresh,), results=(replace(write, request=fresh),))

    # The state after changes

    def apply(self, *changes: RequestChanges) -> "ProvisioningRequestState":
        """Return the state after these changes."""
        new, memory = join_changes(changes), self.memory
        if new == NO_CHANGES:
            return self
        gone = {request.key for request in new.expired}
        requests = {**self.requests, **{request.key: request for request in new.requests}}
        return replace(
            self,
            requests={key: request for key, request in requests.items() if key not in gone} if gone else requests,
            memory=replace(
                memory,
                prefers_requests=memory.prefers_requests if new.prefers_requests is None else new.prefers_requests,
                retries=_updated(memory.retries, new.retries),
                homeless_since=_updated(memory.homeless_since, new.missing_since),
                reservations=memory.reservations if new.reservations is None else new.reservations,
            ),
            usage=self.usage if new.usage is None else new.usage,
            decided=join_changes([self.decided, new]),
        )

    def report(self) -> ProvisioningReport:
        """Return the report of all decisions."""
        decided = self.decided
        return ProvisioningReport(
            writes=decided.writes,
            results=decided.results,
            calls=decided.calls,
            expired=decided.expired,
            consumers=decided.consumers,
            events=decided.events,
            reserved=_updated({}, decided.reserved),
            reservation_seconds=self.settings.reservation,
            examined=decided.examined,
            next_change=decided.next_change,
        )

    def next_memory(self) -> ProvisioningMemory:
        """Return what the next loop remembers: nothing of requests that are gone."""
        memory = self.memory
        ids = {*(request.id for request in self), *filter(is_gang_id, memory.retries)}
        return replace(
            memory,
            retries={name: retry for name, retry in memory.retries.items() if name in ids},
            homeless_since={name: at for name, at in memory.homeless_since.items() if name in ids},
        )


def _providers_by_class(state: ClusterState, settings: RequestSettings) -> dict[str, str]:
    """Return the provider of each class that providers serve themselves. Of several the first is used; core classes have none.

    A process that serves only check-capacity requests of one instance serves no such classes.
    """
    if not settings.policy.shares_capacity_fairly or settings.provisioning.check_capacity_processor_instance:
        return {}
    seen = reversed(tuple(state.observation.providers.values()))
    return {
        name: provider.name for provider in seen for name in provider.provisioning_classes if not is_core_class(name)
    }


def _updated(before: Mapping[str, T], changes: Mapping[str, T | None]) -> Mapping[str, T]:
    """Return the mapping after the changes; a key whose change is None is removed."""
    if not changes:
        return before
    merged = {**before, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _last(values: Iterable[T | None]) -> T | None:
    """Return the last value that is not None."""
    return next((value for value in reversed(list(values)) if value is not None), None)
