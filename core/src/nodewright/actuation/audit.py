"""The audit log: a record of each write to a cloud, with the loop that made it and the reason."""

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
from nodewright.model.meta import Condition
from nodewright.model.plan import ProviderCall
from nodewright.model.provisioning_request import PROVISIONED

Write = SizeWrite | GroupWrite

ASKED = "asked"
SERVE = "Provision"


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One cloud write. ``time`` in epoch seconds.

    Sizes count machines. If a provider serves a ProvisioningRequest (``action`` is ``Provision``), sizes count pods and
    ``group`` is the name of the provider. They are 0 if a group is created or deleted.

    A write is recorded twice under the same ``request``: before the call with the outcome ``asked``, and afterwards
    with its result: ``done``, ``partial``, ``refused`` or ``unknown``. A record that stays ``asked`` means that the
    process ended during the call.
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
    """Stores audit records. ``record`` raises NodewrightError if a record cannot be stored; then the write is not made."""

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


def request_record(action: Write, *, time: float, loop: str, request: str) -> AuditRecord:
    """Return the record of a write that is about to be made."""
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


def provision_record(call: ProviderCall, *, time: float, loop: str) -> AuditRecord:
    """Return the record of a ProvisioningRequest that a provider is about to be asked to serve."""
    request = call.request
    return AuditRecord(
        time=time,
        loop=loop,
        request=f"{loop}/{request.id}",
        action=SERVE,
        group=call.provider,
        expected_target=0,
        target=request.pod_count,
        reason=f"ProvisioningRequest {request.key} of class {request.spec.provisioning_class_name}",
    )


def with_outcome(record: AuditRecord, outcome: Outcome, time: float) -> AuditRecord:
    """Return the record with the outcome of the write."""
    size = 1 if isinstance(outcome.action, GroupWrite) else abs(record.target - record.expected_target)
    match outcome:
        case Done():
            became, accepted, message = ("done" if outcome.accepted == size else "partial"), outcome.accepted, ""
        case Failed():
            became, accepted, message = "refused", 0, f"{outcome.code}: {outcome.message}"
        case _:
            became, accepted, message = "unknown", 0, getattr(outcome, "message", "")
    return msgspec.structs.replace(record, time=time, outcome=became, accepted=accepted, message=message)


def with_provider_result(record: AuditRecord, answer: Condition | None, time: float) -> AuditRecord:
    """Return the record with the provider's answer; an ``answer`` of None: a dry run did not call the provider."""
    became = "unknown" if answer is None else "done" if answer.type == PROVISIONED and answer.is_true else "refused"
    accepted = record.target if became == "done" else 0
    message = f"{answer.reason}: {answer.message}" if answer is not None else "not sent: a dry run"
    return msgspec.structs.replace(record, time=time, outcome=became, accepted=accepted, message=message)


def _for_pods(action: IncreaseSize) -> str:
    if action.move:
        return f"move {action.move}"
    if not action.pods:
        return "enforced minimum size"
    left = action.pod_count - len(action.pods)
    hedged = f"; {action.hedged} of the nodes {action.reason}" if action.hedged else ""
    return f"pending pods {', '.join(action.pods)}{f' and {left} more' if left > 0 else ''}{hedged}"
