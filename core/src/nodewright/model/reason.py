"""Why something was not done, as values; texts, events and metrics are drawn from them."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A node, real or imagined, does not take a pod: the filter that refused, and kube-scheduler's texts.

    ``reasons`` is empty where the scheduler gives none (a node outside the pod's list of names).
    """

    predicate: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.reasons) or f"excluded by {self.predicate}"


class SkipCode(StrEnum):
    """Why a group is not even considered for growth, or was not chosen."""

    UNKNOWN = "unknown"
    UNHEALTHY = "unhealthy"
    BACKOFF = "backoff"
    CORRECTED = "corrected"
    PROBATION = "probation"
    MAX_SIZE = "max_size"
    NODE_LIMIT = "node_limit"
    RESOURCE_LIMIT = "resource_limit"
    NO_TEMPLATE = "no_template"
    NOT_CHOSEN = "not_chosen"
    WAITING = "waiting"
    NO_ROOM = "no_room"


class SkipReason(msgspec.Struct, frozen=True, kw_only=True):
    """A group was left out of a scale-up, whatever the pod; ``message`` says it to people."""

    code: SkipCode
    message: str

    def __str__(self) -> str:
        return self.message


GroupReasons = Mapping[GroupRef, Rejection | SkipReason]


class Unhelped(msgspec.Struct, frozen=True, kw_only=True):
    """A pending pod for which nothing is done now, with a reason for every group."""

    pod: Pod
    reasons: GroupReasons


class ScaleUpResult(StrEnum):
    """How scale-up planning ended; the names are CA's."""

    SUCCESSFUL = "ScaleUpSuccessful"
    NOT_NEEDED = "ScaleUpNotNeeded"
    NOT_TRIED = "ScaleUpNotTried"
    NO_OPTIONS = "ScaleUpNoOptionsAvailable"
    NODE_LIMIT = "ScaleUpLimitedByMaxNodesTotal"
    IN_COOLDOWN = "ScaleUpInCooldown"
