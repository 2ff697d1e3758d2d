"""Write the status of custom resources: ProvisioningRequests, CapacityQuotas and CapacityBuffers.

A write that fails is reported as an event. The next loop decides again, from the objects that it reads then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from nodewright import spec
from nodewright.actuation.audit import AuditSink, provision_record, with_provider_result
from nodewright.actuation.cloud_writes import WriteOutcome
from nodewright.actuation.ports import (
    NORMAL,
    POD_KIND,
    WARNING,
    ClusterWrites,
    Event,
    ServesRequests,
    status_not_written,
)
from nodewright.model.action import IncreaseSize, grown_groups
from nodewright.model.capacity_buffer import KIND as BUFFER_KIND
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import QUOTA_VALID, CapacityQuota
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError, ProviderError
from nodewright.model.meta import MOST_TEXT, Condition
from nodewright.model.plan import PendingEvent, Plan, PlannedAction, ProviderCall, ProvisioningReport
from nodewright.model.provisioning_request import CAPACITY_REVOKED, FAILED, ProvisioningRequest

_REQUEST_KIND = "ProvisioningRequest"
_QUOTA_KIND = "CapacityQuota"
# Conditions whose event is a warning when they are true.
_BAD = (FAILED, CAPACITY_REVOKED)


class StatusWriter:
    """Writes a plan's status changes, and calls providers that serve requests of their own classes."""

    def __init__(
        self, cluster: ClusterWrites, providers: Iterable[ServesRequests], clock: Clock, audit: AuditSink
    ) -> None:
        self._cluster = cluster
        self._providers = {provider.name: provider for provider in providers}
        self._clock = clock
        self._audit = audit
        self._events: list[Event] = []
        self._buffer_and_quota_events: list[Event] = []

    def write_pending(self, plan: Plan) -> Plan:
        """Write every status that must be written before a cloud is called.

        Return the plan without the actions and provider calls of requests whose acceptance could not be written.
        """
        report = plan.provisioning
        self._events += map(_event_of, report.events)
        failed_requests = set()
        for write in report.writes:
            if plan.paused and write.is_acceptance and write.is_apply:
                continue  # no cloud is called during a pause, so the request is not accepted yet
            if not self._write(write.request, write.conditions, is_apply=write.is_apply) and write.is_acceptance:
                failed_requests.add(write.request.id)
        for request in report.expired:
            self._delete(request)
        self._buffer_and_quota_events = [
            *_write_quotas(self._cluster, plan.quotas),
            *_write_buffers(self._cluster, plan.buffers.writes),
        ]
        if not failed_requests:
            return plan
        results = tuple(result for result in report.results if result.request.id not in failed_requests)
        actions = tuple(action for action in plan.actions if _request_id(action) not in failed_requests)
        calls = tuple(call for call in report.calls if call.request.id not in failed_requests)
        return replace(plan, actions=actions, provisioning=replace(report, results=results, calls=calls))

    def call_providers(self, report: ProvisioningReport, loop: str) -> None:
        """Call the providers that serve requests of their own classes, and write their answers.

        ``loop`` names the loop in the audit.
        """
        for call in report.calls:
            record = provision_record(call, time=self._clock.now(), loop=loop)
            self._audit.record(record)
            condition = self._call_provider(call)
            self._audit.record(with_provider_result(record, condition, self._clock.now()))
            request = call.request
            if condition is not None and request.condition(condition.type) != condition:
                self._write(request.with_condition(condition), (condition,))

    def write_results(self, report: ProvisioningReport, outcomes: Sequence[WriteOutcome]) -> None:
        """Write the result of each examined request, now that the outcomes of the cloud calls are known."""
        grown = grown_groups(outcomes)
        for result in report.results:
            if all(group in grown for group in result.groups):
                self._write(result.request, result.conditions, is_apply=result.is_apply)
            else:
                before = result.request
                for condition in result.otherwise:
                    before = before.with_condition(condition)
                self._write(before, result.otherwise, is_apply=result.is_apply)

    def take_events(self) -> list[Event]:
        """Return the events since the last call, those of quotas and buffers last."""
        events = [*self._events, *self._buffer_and_quota_events]
        self._events, self._buffer_and_quota_events = [], []
        return events

    def _call_provider(self, call: ProviderCall) -> Condition | None:
        """Return the condition for the provider's answer; None in a dry run, which does not call the cloud."""
        request = call.request
        asked = spec.CloudProvisioningRequest(
            key=request.id,
            class_name=call.request_class.class_name,
            pod_count=request.pod_count,
            parameters=call.request_class.parameters,
            resources=call.resources,
        )
        try:
            result = self._providers[call.provider].provision(asked)
        except ProviderError as error:
            return changed(call.waiting, reason="ProviderFailed", message=str(error)[:MOST_TEXT])
        if result is None:
            return None
        held = call.met if result.accepted else call.unmet
        return changed(held, reason=result.reason, message=result.message[:MOST_TEXT])

    def _write(self, request: ProvisioningRequest, conditions: tuple[Condition, ...], *, is_apply: bool = True) -> bool:
        try:
            self._cluster.write_conditions(request, conditions, is_apply=is_apply)
        except KubeApiError as error:
            self._events.append(status_not_written(_REQUEST_KIND, request.key, error))
            return False
        for condition in conditions:
            kind = NORMAL if condition.is_true == (condition.type not in _BAD) else WARNING
            self._record_event(
                request, condition.reason, f"{condition.type}={condition.status}: {condition.message}", kind
            )
        return True

    def _delete(self, request: ProvisioningRequest) -> None:
        try:
            self._cluster.delete_request(request)
        except KubeApiError as error:
            self._record_event(
                request, "NotDeleted", f"The request has expired and could not be deleted: {error}", WARNING
            )

    def _record_event(self, request: ProvisioningRequest, reason: str, message: str, kind: str) -> None:
        self._events.append(Event(kind=_REQUEST_KIND, name=request.key, reason=reason, message=message, type=kind))


def _request_id(action: PlannedAction) -> str:
    """Return the id of the request that an action is for; empty if it is for none."""
    return action.request.id if isinstance(action, IncreaseSize) and action.request is not None else ""


def _event_of(note: PendingEvent) -> Event:
    kind = WARNING if note.is_warning else NORMAL
    if note.pod is not None:
        return Event(
            kind=POD_KIND,
            name=note.pod.key,
            reason=note.reason,
            message=note.message,
            type=kind,
            controller=note.pod.metadata.controller,
        )
    return Event(kind=_REQUEST_KIND, name=note.request, reason=note.reason, message=note.message, type=kind)


def _write_buffers(cluster: ClusterWrites, buffers: Iterable[CapacityBuffer]) -> list[Event]:
    """Write the status of buffers; return an event for each write that failed."""
    events: list[Event] = []
    for buffer in buffers:
        try:
            cluster.write_buffer_status(buffer)
        except KubeApiError as error:
            events.append(status_not_written(BUFFER_KIND, buffer.key, error))
    return events


def _write_quotas(cluster: ClusterWrites, quotas: Iterable[CapacityQuota]) -> list[Event]:
    """Write the status of quotas; return events for changed validity and for writes that failed."""
    events: list[Event] = []
    for quota in quotas:
        try:
            cluster.write_quota_status(quota)
        except KubeApiError as error:
            events.append(status_not_written(_QUOTA_KIND, quota.name, error))
            continue
        valid = quota.condition(QUOTA_VALID)
        if valid is not None:
            kind, text = (
                (NORMAL, "The quota is enforced")
                if valid.is_true
                else (WARNING, f"The quota is not enforced: {valid.message}")
            )
            reason = f"CapacityQuota{valid.reason}"
            events.append(Event(kind=_QUOTA_KIND, name=quota.name, reason=reason, message=text, type=kind))
    return events
