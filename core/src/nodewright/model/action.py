"""What a plan wants done in the cloud, and how each call ended."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from nodewright.model.group import ErrorClass, FailureScope, GroupRef, NewNodeGroup


class Action(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One write to one node group; sizes count machines."""

    group: GroupRef
    expected_target: int


class ForRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for capacity (its id and ``namespace/name``) that an increase is a part of, and how many machines all
    parts have.
    """

    id: str
    key: str
    nodes: int


class IncreaseSize(Action, frozen=True, kw_only=True):
    """Raise the target. ``pods`` are the first of the pending pods (``namespace/name``) for whose sake it is done, of
    ``pod_count``. ``hedged`` of the machines are bought twice: the groups ``hedge_for`` were asked for them already and do
    not deliver, as ``reason`` says.
    """

    target: int
    atomic: bool = False
    pods: tuple[str, ...] = ()
    pod_count: int = 0
    request: ForRequest | None = None
    hedged: int = 0
    hedge_for: tuple[GroupRef, ...] = ()
    reason: str = ""


class DecreaseTargetSize(Action, frozen=True, kw_only=True):
    """Withdraw capacity that has no machine."""

    target: int
    reason: str


class DeletionCause(StrEnum):
    """Why machines are deleted, which decides the evidence that each needs (docs/adr/0023-evidence-for-deletions.md).

    ``REMOVAL`` ends a removal that drained the node; the others are not drained.
    """

    REMOVAL = "removal"
    FAILED_CREATION = "failed creation"
    UNREGISTERED = "unregistered"
    NEVER_READY = "never ready"
    RESERVATION = "reservation"


class DeleteInstances(Action, frozen=True, kw_only=True):
    """Delete machines by id; ``failure_ids`` are the failures that this cleans up.

    ``force`` asks for no minimum-size check and no waiting, where the provider can do without.
    """

    instance_ids: tuple[str, ...]
    reason: str
    failure_ids: tuple[str, ...] = ()
    cause: DeletionCause = DeletionCause.REMOVAL
    force: bool = False


class CreateNodeGroup(Action, frozen=True, kw_only=True):
    """Have a provider make a node group, empty at first; the increase that it is made for follows."""

    expected_target: int = 0
    spec: NewNodeGroup
    reason: str


class DeleteNodeGroup(Action, frozen=True, kw_only=True):
    """Delete an empty node group that was made in this way."""

    expected_target: int = 0
    reason: str


GroupWrite = CreateNodeGroup | DeleteNodeGroup
SizeWrite = IncreaseSize | DecreaseTargetSize | DeleteInstances


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How a call ended. ``started`` is when it began, epoch seconds."""

    action: SizeWrite | GroupWrite
    started: float

    @property
    def is_busy(self) -> bool:
        """Return whether the cloud was busy: the call had no effect, and nothing is wrong with the group."""
        return False


class Done(Outcome, frozen=True, kw_only=True):
    """Accepted by the cloud: how many machines of what was asked, or that one group was made or deleted."""

    accepted: int


class Failed(Outcome, frozen=True, kw_only=True):
    """Refused: nothing changed. ``retry_after`` (seconds): the cloud was only busy, and may be asked again after that."""

    code: str
    message: str
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    retry_after: float | None = None

    @property
    def is_busy(self) -> bool:
        """See Outcome."""
        return self.retry_after is not None


class Unknown(Outcome, frozen=True, kw_only=True):
    """No answer in time: the next observation decides."""

    message: str


def grown_groups(outcomes: Iterable[Outcome]) -> set[GroupRef]:
    """The groups that a cloud has agreed to grow, be it by less than was asked."""
    return {
        outcome.action.group
        for outcome in outcomes
        if isinstance(outcome.action, IncreaseSize) and isinstance(outcome, Done) and outcome.accepted
    }


def has_refused_growth(outcomes: Iterable[Outcome]) -> bool:
    """Was growth of a group refused?"""
    return any(isinstance(outcome.action, IncreaseSize) and isinstance(outcome, Failed) for outcome in outcomes)
