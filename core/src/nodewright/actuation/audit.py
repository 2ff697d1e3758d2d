"""What was asked of a cloud, by whom and why: one record for each write."""

from typing import Protocol

import msgspec

from nodewright.model.action import (
    CreateNodeGroup,
    DeleteInstances,
    DeleteNodeGroup,
    Done,
    Failed,
    GroupWrite,
    IncreaseSize,
    Outcome,
    SizeWrite,
)
from nodewright.model.condition import Condition
from nodewright.model.provisioning_request import PROVISIONED
from nodewright.planner.provisioning_requests.docket import ProviderCall

Write = SizeWrite | GroupWrite

ASKED = "asked"
SERVE = "Provision"


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One cloud write. ``time`` in epoch seconds; sizes count machines, and pods where a provider is asked to serve a
    request (``Provision``; ``group`` is then the provider). A group that is made or deleted has none.

    A write is recorded twice under the same ``request``: before the call with the outcome ``asked``, and with what
    became of it: ``done``, ``partial``, ``refused`` or ``unknown``. One that stays ``asked`` was the last that its
    engine did.
    """

    time: float
    loop: str
    request: str
    action: str
    group: str
    expected_target: int
    target: int
    reason: str
    outcome: str = ASKED
    instance_ids: tuple[str, ...] = ()
    accepted: int = 0
    message: str = ""


class AuditSink(Protocol):
    """Where records go. Raises NodewrightError when one cannot be kept: then the write is not made."""

    def record(self, record: AuditRecord) -> None: ...


class AuditLog:
    """Keeps the last record of each write in memory."""

    def __init__(self) -> None:
        self._records: list[AuditRecord] = []

    def record(self, record: AuditRecord) -> None:
        if self._records and self._records[-1].request == record.request and record.outcome != ASKED:
            self._records.pop()
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> tuple[AuditRecord, ...]:
        return tuple(self._records)


def asked(action: Write, *, time: float, loop: str, request: str) -> AuditRecord:
    """The record of a write that is about to be made."""
    match action:
        case DeleteInstances():
            ids, target = action.instance_ids, action.expected_target - len(action.instance_ids)
        case CreateNodeGroup() | DeleteNodeGroup():
            ids, target = (), 0
        case _:
            ids, target = (), action.target
    return AuditRecord(
        time=time,
        loop=loop,
        request=request,
        action=type(action).__name__,
        group=str(action.group),
        expected_target=action.expected_target,
        target=target,
        reason=_for_pods(action) if isinstance(action, IncreaseSize) else action.reason,
        instance_ids=ids,
    )


def asked_to_serve(question: ProviderCall, *, time: float, loop: str) -> AuditRecord:
    """The record of a request that a provider is about to be handed."""
    request = question.request
    return AuditRecord(
        time=time,
        loop=loop,
        request=f"{loop}/{request.id}",
        action=SERVE,
        group=question.provider,
        expected_target=0,
        target=request.pod_count,
        reason=f"ProvisioningRequest {request.key} of class {request.spec.provisioning_class_name}",
    )


def answered(record: AuditRecord, outcome: Outcome, time: float) -> AuditRecord:
    """The record with what became of the write."""
    size = 1 if isinstance(outcome.action, GroupWrite) else abs(record.target - record.expected_target)
    match outcome:
        case Done():
            became, accepted, message = ("done" if outcome.accepted == size else "partial"), outcome.accepted, ""
        case Failed():
            became, accepted, message = "refused", 0, f"{outcome.code}: {outcome.message}"
        case _:
            became, accepted, message = "unknown", 0, getattr(outcome, "message", "")
    return msgspec.structs.replace(record, time=time, outcome=became, accepted=accepted, message=message)


def heard(record: AuditRecord, answer: Condition | None, time: float) -> AuditRecord:
    """The record with what the provider said; None: a dry run kept the request from it."""
    became = "unknown" if answer is None else "done" if answer.type == PROVISIONED and answer.is_true else "refused"
    accepted = record.target if became == "done" else 0
    message = f"{answer.reason}: {answer.message}" if answer is not None else "not sent: a dry run"
    return msgspec.structs.replace(record, time=time, outcome=became, accepted=accepted, message=message)


def _for_pods(action: IncreaseSize) -> str:
    if not action.pods:
        return "enforced minimum size"
    left = action.pod_count - len(action.pods)
    hedged = f"; {action.hedged} of the nodes {action.reason}" if action.hedged else ""
    return f"pending pods {', '.join(action.pods)}{f' and {left} more' if left > 0 else ''}{hedged}"
