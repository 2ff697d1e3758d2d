"""Make a plan's calls to clouds, and keep their outcomes for the next loop.

A cloud's refusal is returned as an outcome, never raised.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from nodewright.actuation.audit import AuditSink, Write, request_record, with_outcome
from nodewright.actuation.ports import ProviderWrites
from nodewright.model.action import (
    Action,
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    Done,
    Failed,
    IncreaseSize,
    Outcome,
    Unknown,
)
from nodewright.model.clock import Clock
from nodewright.model.errors import (
    CloudBusy,
    OutcomeUnknown,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Shortage,
    TargetChanged,
)
from nodewright.model.group import ErrorClass, FailureScope, GroupRef
from nodewright.model.removal import RemovalEnded


class Inbox:
    """Outcomes of cloud calls and ended removals, in order of arrival. Other threads may post to it."""

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque()
        self._ended: deque[RemovalEnded] = deque()

    def post(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)

    def drain(self) -> tuple[Outcome, ...]:
        """Take out and return all outcomes."""
        taken = []
        while self._outcomes:
            taken.append(self._outcomes.popleft())
        return tuple(taken)

    def post_ended(self, over: RemovalEnded) -> None:
        self._ended.append(over)

    @property
    def ended(self) -> tuple[RemovalEnded, ...]:
        """Return the ended removals that no loop has taken yet."""
        return tuple(self._ended)

    def drain_ended(self) -> tuple[RemovalEnded, ...]:
        """Take out and return all ended removals."""
        taken = []
        while self._ended:
            taken.append(self._ended.popleft())
        return tuple(taken)


WriteOutcome = Done | Failed | Unknown


class CloudWriteRules(NamedTuple):
    """Rules in which the profiles differ.

    ``stops_at_refusal``: after a refused increase no other group grows for the same pods, as in cluster-autoscaler.
    ``defers_busy``: after a refusal because the cloud is busy, the call is made again later. If false, it is a refusal
    like any other, as in cluster-autoscaler.
    """

    stops_at_refusal: bool = False
    defers_busy: bool = True


_USUAL = CloudWriteRules()


def _all(action: DeleteInstances) -> DeleteInstances:
    return action


class CloudWriter:
    """Makes calls to clouds one after the other, records each in the audit and posts its outcome to the inbox.

    ``cover`` saves, before each call, that the write is about to be made. If it raises NodewrightError, the write is
    not made.
    """

    def __init__(
        self,
        providers: Iterable[ProviderWrites],
        clock: Clock,
        inbox: Inbox,
        audit: AuditSink,
        *,
        rules: CloudWriteRules = _USUAL,
        cover: Callable[[Write], None] = lambda _: None,
    ) -> None:
        self._providers: Mapping[str, ProviderWrites] = {provider.name: provider for provider in providers}
        self._clock = clock
        self._inbox = inbox
        self._audit = audit
        self._stops_at_refusal = rules.stops_at_refusal
        self._defers_busy = rules.defers_busy
        self._cover = cover

    def act(
        self,
        actions: Sequence[Write],
        loop: str = "",
        permit: Callable[[DeleteInstances], DeleteInstances | None] = _all,
    ) -> tuple[WriteOutcome, ...]:
        """Carry out the actions in order; return the outcomes of the calls that were made.

        ``loop`` names this loop in the audit. ``permit`` is called right before each deletion and returns the part of it
        that may be made (None: no part). After a call that was not made or did not succeed in full, later actions of its
        group are skipped: they were planned for a target that the group does not have. A refused decrease leaves the
        target as it was, so later actions that were planned for this target are made. A group is created only if an
        action increases it.
        """
        growing = {action.group for action in actions if isinstance(action, IncreaseSize)}
        outcomes: list[WriteOutcome] = []
        targets: dict[GroupRef, int | None] = {}
        refused: set[tuple[tuple[str, ...], int]] = set()
        for number, planned in enumerate(actions, start=1):
            group = planned.group
            if targets.get(group, planned.expected_target) != planned.expected_target:
                continue
            if isinstance(planned, IncreaseSize) and (planned.pods, planned.pod_count) in refused:
                continue
            if isinstance(planned, CreateNodeGroup) and group not in growing:
                continue
            action = permit(planned) if isinstance(planned, DeleteInstances) else planned
            targets |= {group: None} if action != planned else {}
            if action is None:
                continue
            self._cover(action)
            record = request_record(action, time=self._clock.now(), loop=loop, request=f"{loop}/{number}")
            self._audit.record(record)
            outcome = self._attempt(action)
            if not isinstance(outcome, Done) or (isinstance(action, CreateNodeGroup) and not outcome.accepted):
                targets[group] = _unchanged_target(outcome)
                if self._stops_at_refusal and isinstance(action, IncreaseSize):
                    refused.add((action.pods, action.pod_count))
            elif isinstance(action, IncreaseSize):
                targets[group] = action.expected_target + outcome.accepted
            self._inbox.post(outcome)
            outcomes.append(outcome)
            self._audit.record(with_outcome(record, outcome, self._clock.now()))
        return tuple(outcomes)

    def _attempt(self, action: Write) -> WriteOutcome:
        started = self._clock.now()
        try:
            return Done(action=action, started=started, accepted=self._call(action))
        except OutcomeUnknown as error:
            return Unknown(action=action, started=started, message=str(error))
        except ProviderError as error:
            error_class, scope = classify(error)
            return Failed(
                action=action,
                started=started,
                code=error.code,
                message=str(error),
                error_class=error_class,
                scope=scope,
                bucket=error.bucket if isinstance(error, Shortage) else "",
                retry_after=error.retry_after if isinstance(error, CloudBusy) and self._defers_busy else None,
            )

    def _call(self, action: Write) -> int:
        provider, group_id = self._provider(action), action.group.group_id
        match action:
            case IncreaseSize(atomic=True):
                return provider.atomic_increase_size(group_id, action.expected_target, action.target)
            case IncreaseSize():
                return provider.increase_size(group_id, action.expected_target, action.target)
            case DecreaseTargetSize():
                return provider.decrease_target_size(group_id, action.expected_target, action.target)
            case DeleteInstances():
                delete = provider.force_delete_instances if action.force else provider.delete_instances
                return len(delete(group_id, action.instance_ids, action.expected_target))
            case CreateNodeGroup():
                return int(provider.create_node_group(action.spec) is not None)
            case DeleteNodeGroup():
                return int(provider.delete_node_group(group_id))

    def _provider(self, action: Action) -> ProviderWrites:
        try:
            return self._providers[action.group.provider]
        except KeyError:
            name = action.group.provider
            raise ProviderError(f"no provider {name} is loaded", provider=name, code="unknownProvider") from None


def _unchanged_target(outcome: WriteOutcome) -> int | None:
    """Return the target after a refused decrease; None if the target is unknown or no later action was planned for it."""
    refused = isinstance(outcome, Failed) and outcome.code != TargetChanged.code
    return outcome.action.expected_target if refused and isinstance(outcome.action, DecreaseTargetSize) else None


def classify(error: ProviderError) -> tuple[ErrorClass, FailureScope]:
    """Return the error class of a refusal, and the scope that it holds for."""
    scope = error.scope if isinstance(error, Shortage) else FailureScope.GROUP
    if isinstance(error, OutOfCapacity):
        return ErrorClass.OUT_OF_RESOURCES, scope
    if isinstance(error, QuotaExceeded):
        return ErrorClass.QUOTA, scope
    return ErrorClass.OTHER, scope
