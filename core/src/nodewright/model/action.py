"""The writes to the cloud that a plan asks for, and the outcome of each call."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from nodewright.model.group import ErrorClass, FailureScope, GroupRef, NewNodeGroup


class Action(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One write to one node group; sizes count machines."""

    group: GroupRef
    expected_target: int


class ForRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The ProvisioningRequest or gang (its id and ``namespace/name``) that an increase is a part of.

    ``nodes`` is the number of machines of all parts together.
    """

    id: str
    key: str
    nodes: int
    is_gang: bool = False


class IncreaseSize(Action, frozen=True, kw_only=True):
    """Raise the target.

    ``pods`` are the first of the ``pod_count`` pending pods (``namespace/name``) for which the group grows. ``hedged`` of
    the machines replace machines that were requested from the groups ``hedge_for`` and did not arrive; ``reason`` says
    why. ``move`` is the id of the move for which the group grows; then the pods run elsewhere (empty: for no move).
    """

    target: int
    atomic: bool = False
    pods: tuple[str, ...] = ()
    pod_count: int = 0
    request: ForRequest | None = None
    hedged: int = 0
    hedge_for: tuple[GroupRef, ...] = ()
    reason: str = ""
    move: str = ""


class DecreaseTargetSize(Action, frozen=True, kw_only=True):
    """Lower the target by requested machines that do not exist yet."""

    target: int
    reason: str


class DeletionCause(StrEnum):
    """The reason for a deletion of machines, which decides the evidence that each needs (docs/adr/0023-evidence-for-deletions.md).

    ``REMOVAL`` ends a removal that drained the node; the others are not drained.
    """

    REMOVAL = "removal"
    FAILED_CREATION = "failed creation"
    UNREGISTERED = "unregistered"
    NEVER_READY = "never ready"
    RESERVATION = "reservation"


class DeleteInstances(Action, frozen=True, kw_only=True):
    """Delete machines by id; ``failure_ids`` are the failed creations that this deletes.

    ``force`` deletes without a check of the minimum size and without waiting, if the provider supports it.
    """

    instance_ids: tuple[str, ...]
    reason: str
    failure_ids: tuple[str, ...] = ()
    cause: DeletionCause = DeletionCause.REMOVAL
    force: bool = False

    def part(self, places: Iterable[int]) -> "DeleteInstances":
        """Return the deletion of the machines at these places of ``instance_ids``, each with its failure."""
        chosen = tuple(places)
        failures = tuple(self.failure_ids[place] for place in chosen) if self.failure_ids else ()
        return replace(self, instance_ids=tuple(self.instance_ids[place] for place in chosen), failure_ids=failures)


class CreateNodeGroup(Action, frozen=True, kw_only=True):
    """Create an empty node group. The increase for which it is created follows."""

    expected_target: int = 0
    spec: NewNodeGroup
    reason: str


class DeleteNodeGroup(Action, frozen=True, kw_only=True):
    """Delete an empty node group that CreateNodeGroup created."""

    expected_target: int = 0
    reason: str


GroupWrite = CreateNodeGroup | DeleteNodeGroup
SizeWrite = IncreaseSize | DecreaseTargetSize | DeleteInstances


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The outcome of a call. ``started`` is the start of the call in seconds since the epoch."""

    action: SizeWrite | GroupWrite
    started: float

    @property
    def is_busy(self) -> bool:
        """Return whether the cloud was busy: the call had no effect, and nothing is wrong with the group."""
        return False


class Done(Outcome, frozen=True, kw_only=True):
    """The cloud accepted the call: ``accepted`` is the number of machines, or 1 for a created or deleted group."""

    accepted: int


class Failed(Outcome, frozen=True, kw_only=True):
    """The cloud refused the call and changed nothing.

    ``retry_after`` in seconds: the cloud was busy, and the call may be repeated after this time. None: it was not busy.
    """

    code: str
    message: str
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    bucket: str = ""
    retry_after: float | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether the cloud was busy; see Outcome."""
        return self.retry_after is not None


class Unknown(Outcome, frozen=True, kw_only=True):
    """The call did not return in time. The next observation shows whether it had an effect."""

    message: str


def grown_groups(outcomes: Iterable[Outcome]) -> set[GroupRef]:
    """Return the groups for which the cloud accepted an increase, in full or in part."""
    return {
        outcome.action.group
        for outcome in outcomes
        if isinstance(outcome.action, IncreaseSize) and isinstance(outcome, Done) and outcome.accepted
    }


def has_refused_growth(outcomes: Iterable[Outcome]) -> bool:
    """Return whether the cloud refused an increase of any group."""
    return any(isinstance(outcome.action, IncreaseSize) and isinstance(outcome, Failed) for outcome in outcomes)
