"""Nodes on their way out: what was planned, how far it has come, how it ended (behaviour/down.md A12 to A15)."""

from enum import StrEnum

import msgspec

from nodewright.model.group import GroupRef


class RemovalReason(StrEnum):
    """Why a node goes; the values are those of CA's metric ``scaled_down_nodes_total``."""

    EMPTY = "empty"
    UNDERUTILIZED = "underutilized"
    UNREADY = "unready"


class NodeRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A planned removal of one node.

    ``pods`` (``namespace/name``) are to be moved elsewhere first; without any the node counts as empty. ``owners``
    are the keys of their controllers, in the same order, empty for a pod without one. ``places`` are the nodes to which
    they are to go, in the same order, empty for a pod that needs none; no places at all: nobody is to look at them again.
    ``batch`` is how many nodes of the group must go in one call (zero-or-max groups), 1 for every other group.
    ``utilization`` is the ratio that made it a candidate, ``unneeded_since`` in epoch seconds.
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

    @property
    def drains(self) -> bool:
        return bool(self.pods)


class RemovalStage(StrEnum):
    """How far a removal has come."""

    TAINTED = "tainted"
    DRAINING = "draining"
    READY = "ready"
    DELETING = "deleting"


class Removing(msgspec.Struct, frozen=True, kw_only=True):
    """A removal under way; ``started`` in epoch seconds."""

    removal: NodeRemoval
    stage: RemovalStage
    started: float


class RemovalResult(StrEnum):
    """How a removal ended; the names are CA's."""

    OK = "Ok"
    FAILED_TO_MARK = "FailedToMarkToBeDeleted"
    FAILED_TO_EVICT = "FailedToEvictPods"
    FAILED_TO_DELETE = "FailedToDelete"
    INTERNAL = "Internal"


class RemovalEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A removal is over; it went from ``started`` to ``at`` (epoch seconds), ``evicted`` are pods that left
    (``namespace/name``).
    """

    removal: NodeRemoval
    at: float
    started: float = 0.0
    result: RemovalResult
    message: str = ""
    evicted: tuple[str, ...] = ()
