"""A removal under way, as a value, and what is to be done next for it."""

import math

import msgspec

from nodewright.actuation.ports import Event
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval, RemovalResult, RemovalStage, Removing


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Pods (``namespace/name``) that are evicted together and get ``grace_seconds`` at most.

    All of ``full`` must be gone before anything goes on; ``best_effort`` (DaemonSets' pods) only gets the call.
    """

    grace_seconds: int
    full: tuple[str, ...] = ()
    best_effort: tuple[str, ...] = ()


class ActiveRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A removal under way; times in epoch seconds, pods as ``namespace/name``.

    ``waves`` are still to go, the first of them since ``began``. Of that one, evictions of ``unanswered`` were not
    accepted yet, and ``leaving`` are awaited since ``told_at``. ``holds``: somebody may delay the deletion by
    annotation, which is respected since ``began``. ``ready_at`` is when nothing but the call was left to do.
    ``next_at`` is when to look again; infinity: others decide.
    """

    removal: NodeRemoval
    stage: RemovalStage
    started: float
    next_at: float
    holds: bool = False
    waves: tuple[Wave, ...] = ()
    began: float = 0.0
    unanswered: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    told_at: float = 0.0
    refusal: str = ""
    evicted: tuple[str, ...] = ()
    ready_at: float = math.inf

    @property
    def name(self) -> str:
        return self.removal.node

    @property
    def is_ready(self) -> bool:
        """Is nothing left to do but the call?"""
        return self.stage == RemovalStage.READY and self.ready_at < math.inf

    @property
    def shown(self) -> Removing:
        return Removing(removal=self.removal, stage=self.stage, started=self.started)


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the eviction of a pod, which gets so long to end."""

    pod: Pod
    grace_seconds: int


class EmitEvent(msgspec.Struct, frozen=True, kw_only=True):
    event: Event


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The removal is over; unless it succeeded the node is given back."""

    result: RemovalResult
    message: str = ""


Step = Evict | EmitEvent | Finish
Move = tuple[ActiveRemoval, tuple[Step, ...]]
