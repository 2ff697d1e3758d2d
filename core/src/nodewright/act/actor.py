"""Carries out a plan's actions. A refusal is an outcome, never an exception."""

from collections.abc import Iterable, Mapping

from nodewright.act.audit import AuditSink, Write, answered, asked
from nodewright.act.inbox import Inbox
from nodewright.act.ports import ProviderWrites
from nodewright.model.action import Action, DecreaseTargetSize, DeleteInstances, Done, Failed, IncreaseSize, Unknown
from nodewright.model.clock import Clock
from nodewright.model.errors import OutcomeUnknown, OutOfCapacity, ProviderError, QuotaExceeded
from nodewright.model.group import ErrorClass, FailureScope, GroupRef

Ended = Done | Failed | Unknown


class Actor:
    """Makes the calls, one after the other, records each in the audit and posts how it ended."""

    def __init__(self, providers: Iterable[ProviderWrites], clock: Clock, inbox: Inbox, audit: AuditSink) -> None:
        self._providers: Mapping[str, ProviderWrites] = {provider.name: provider for provider in providers}
        self._clock = clock
        self._inbox = inbox
        self._audit = audit

    def act(self, actions: Iterable[Write], loop: str = "") -> tuple[Ended, ...]:
        """Every action in order; ``loop`` names this loop in the audit. After one that was not done, its group is
        left alone until the next loop: what follows was planned for a target that the group does not have.
        """
        outcomes: list[Ended] = []
        stopped: set[GroupRef] = set()
        for number, action in enumerate(actions, start=1):
            if action.group in stopped:
                continue
            record = asked(action, time=self._clock.now(), loop=loop, request=f"{loop}/{number}")
            self._audit.record(record)
            outcome = self._attempt(action)
            if not isinstance(outcome, Done):
                stopped.add(action.group)
            self._inbox.post(outcome)
            outcomes.append(outcome)
            self._audit.record(answered(record, outcome, self._clock.now()))
        return tuple(outcomes)

    def _attempt(self, action: Write) -> Ended:
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
                return len(provider.delete_instances(group_id, action.instance_ids, action.expected_target))

    def _provider(self, action: Action) -> ProviderWrites:
        try:
            return self._providers[action.group.provider]
        except KeyError:
            name = action.group.provider
            raise ProviderError(f"no provider {name} is loaded", provider=name, code="unknownProvider") from None


def classify(error: ProviderError) -> tuple[ErrorClass, FailureScope]:
    """What a refusal says of the cloud, and how far it reaches."""
    if isinstance(error, OutOfCapacity):
        return ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP
    if isinstance(error, QuotaExceeded):
        return ErrorClass.QUOTA, FailureScope.ACCOUNT
    return ErrorClass.OTHER, FailureScope.GROUP
