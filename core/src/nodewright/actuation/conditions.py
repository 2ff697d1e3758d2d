"""Writes what was decided about requests for capacity into their status; a write that fails is told, and made again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from nodewright import spec
from nodewright.actuation.actor import Ended
from nodewright.actuation.audit import AuditSink, asked_to_serve, heard
from nodewright.actuation.ports import WARNING, ClusterWrites, Event, ServesRequests, status_not_written
from nodewright.model.action import IncreaseSize, grown_groups
from nodewright.model.clock import Clock
from nodewright.model.condition import MOST_TEXT, Condition
from nodewright.model.errors import KubeApiError, ProviderError
from nodewright.model.provisioning_request import CAPACITY_REVOKED, FAILED, ProvisioningRequest
from nodewright.planner.plan import Plan, PlannedAction
from nodewright.planner.provisioning_requests.docket import PendingEvent, ProviderCall, ProvisioningReport

_KIND = "ProvisioningRequest"
# Conditions that are no good news when they are true.
_BAD = (FAILED, CAPACITY_REVOKED)


class StatusWriter:
    """What is not written is decided anew in the next loop, from what the API server says by then."""

    def __init__(
        self, cluster: ClusterWrites, providers: Iterable[ServesRequests], clock: Clock, audit: AuditSink
    ) -> None:
        self._cluster = cluster
        self._providers = {provider.name: provider for provider in providers}
        self._clock = clock
        self._audit = audit
        self._events: list[Event] = []

    def open(self, plan: Plan) -> Plan:
        """Everything that is written before a cloud is asked. Of a request whose acceptance could not be written
        nothing more is done.
        """
        report = plan.provisioning
        self._events += map(_event_of, report.notes)
        unopened = set()
        for write in report.writes:
            if plan.paused and write.opens and write.is_apply:
                continue  # nothing is asked of a cloud now, so that nothing is under way
            if not self._write(write.request, write.conditions, is_apply=write.is_apply) and write.opens:
                unopened.add(write.request.id)
        for request in report.expired:
            self._delete(request)
        if not unopened:
            return plan
        verdicts = tuple(verdict for verdict in report.verdicts if verdict.request.id not in unopened)
        actions = tuple(action for action in plan.actions if _request_of(action) not in unopened)
        questions = tuple(question for question in report.questions if question.request.id not in unopened)
        return replace(plan, actions=actions, provisioning=replace(report, verdicts=verdicts, questions=questions))

    def ask(self, report: ProvisioningReport, loop: str) -> None:
        """Have providers serve the requests of their classes, and write what they say; ``loop`` is for the audit."""
        for question in report.questions:
            record = asked_to_serve(question, time=self._clock.now(), loop=loop)
            self._audit.record(record)
            answer = self._answer(question)
            self._audit.record(heard(record, answer, self._clock.now()))
            request = question.request
            if answer is not None and request.condition(answer.type) != answer:
                self._write(request.with_condition(answer), (answer,))

    def close(self, report: ProvisioningReport, outcomes: Sequence[Ended]) -> None:
        """What became of each request that was examined, now that the cloud has answered."""
        grown = grown_groups(outcomes)
        for verdict in report.verdicts:
            if all(group in grown for group in verdict.groups):
                self._write(verdict.request, verdict.conditions, is_apply=verdict.is_apply)
            else:
                before = verdict.request
                for condition in verdict.otherwise:
                    before = before.with_condition(condition)
                self._write(before, verdict.otherwise, is_apply=verdict.is_apply)

    def take_events(self) -> list[Event]:
        """What there is to tell since they were last taken."""
        events, self._events = self._events, []
        return events

    def _answer(self, question: ProviderCall) -> Condition | None:
        """None: the question was kept from the cloud."""
        request = question.request
        asked = spec.ProvisioningRequest(
            key=request.id,
            class_name=question.terms.class_name,
            pod_count=request.pod_count,
            parameters=question.terms.parameters,
            resources=question.resources,
        )
        try:
            verdict = self._providers[question.provider].provision(asked)
        except ProviderError as error:
            return changed(question.waiting, reason="ProviderFailed", message=str(error)[:MOST_TEXT])
        if verdict is None:
            return None
        held = question.met if verdict.accepted else question.unmet
        return changed(held, reason=verdict.reason, message=verdict.message[:MOST_TEXT])

    def _write(self, request: ProvisioningRequest, conditions: tuple[Condition, ...], *, is_apply: bool = True) -> bool:
        try:
            self._cluster.write_conditions(request, conditions, is_apply=is_apply)
        except KubeApiError as error:
            self._events.append(status_not_written(_KIND, request.key, error))
            return False
        for condition in conditions:
            kind = "Normal" if condition.is_true == (condition.type not in _BAD) else WARNING
            self._tell(request, condition.reason, f"{condition.type}={condition.status}: {condition.message}", kind)
        return True

    def _delete(self, request: ProvisioningRequest) -> None:
        try:
            self._cluster.delete_request(request)
        except KubeApiError as error:
            self._tell(request, "NotDeleted", f"It is over and could not be deleted: {error}", WARNING)

    def _tell(self, request: ProvisioningRequest, reason: str, message: str, kind: str) -> None:
        self._events.append(Event(kind=_KIND, name=request.key, reason=reason, message=message, type=kind))


def _request_of(action: PlannedAction) -> str:
    """The id of the request that an action is for; empty where it is for none."""
    return action.request.id if isinstance(action, IncreaseSize) and action.request is not None else ""


def _event_of(note: PendingEvent) -> Event:
    kind = WARNING if note.is_warning else "Normal"
    if note.pod is not None:
        return Event(kind="Pod", name=note.pod.key, reason=note.reason, message=note.message, type=kind)
    return Event(kind=_KIND, name=note.request, reason=note.reason, message=note.message, type=kind)
