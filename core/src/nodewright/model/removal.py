"""Removals of nodes: the plan, the stage and the result of each."""

from enum import StrEnum

import msgspec

from nodewright.model.group import GroupRef


class RemovalReason(StrEnum):
    """The reason for a node's removal; the values are those of CA's metric ``scaled_down_nodes_total``."""

    EMPTY = "empty"
    UNDERUTILIZED = "underutilized"
    UNREADY = "unready"
    INTERRUPTED = "interrupted"
    REPLACED = "replaced"
    EXPIRED = "expired"
    DRIFTED = "drifted"
    PREFERRED = "preferred"


# Seconds before the deadline of an interruption by which pods have ended and the machine is deleted.
LAST_SECONDS = 5.0


class NodeRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A planned removal of one node.

    ``pods`` (``namespace/name``) must be evicted first; a node without such pods counts as empty. ``owners`` are the keys
    of their controllers, in the same order; empty: no controller. ``places`` are the nodes that the pods can move to, in
    the same order; empty: the pod needs no place. Without ``places``, the places are not checked again. ``batch`` is the
    number of nodes that must be deleted in one call (zero-or-max groups); it is 1 for other groups. ``utilization`` is
    the ratio that made the node a candidate; ``unneeded_since`` is in seconds since the epoch.

    If the cloud takes the machine at a ``deadline`` (None: it does not), the drain is forced: no pod keeps the node, and
    from ``drain_by`` on no disruption budget does. Both are in seconds since the epoch. ``deletes`` is false if only the
    drain is ours, since the group must not become smaller.
    """

    node: str
    group: GroupRef
    instance_id: str
    reason: RemovalReason
    pods: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    batch: int = 1
    utilization: float = 0.0
    unneeded_since: float = 0.0
    deadline: float | None = None
    drain_by: float = 0.0
    deletes: bool = True

    @property
    def is_forced(self) -> bool:
        return self.deadline is not None

    @property
    def drains(self) -> bool:
        return bool(self.pods)


class RemovalStage(StrEnum):
    """The stage that a removal has reached."""

    TAINTED = "tainted"
    DRAINING = "draining"
    READY = "ready"
    DELETING = "deleting"


class Removing(msgspec.Struct, frozen=True, kw_only=True):
    """A removal in progress; ``started`` is in seconds since the epoch."""

    removal: NodeRemoval
    stage: RemovalStage
    started: float


class RemovalResult(StrEnum):
    """The result of a removal; the names are CA's."""

    OK = "Ok"
    FAILED_TO_MARK = "FailedToMarkToBeDeleted"
    FAILED_TO_EVICT = "FailedToEvictPods"
    FAILED_TO_DELETE = "FailedToDelete"
    INTERNAL = "Internal"


class RemovalEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A removal that ended. It lasted from ``started`` to ``at`` (seconds since the epoch).

    ``evicted`` are the pods (``namespace/name``) that were evicted.
    """

    removal: NodeRemoval
    at: float
    started: float = 0.0
    result: RemovalResult
    message: str = ""
    evicted: tuple[str, ...] = ()
