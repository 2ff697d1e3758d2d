"""The reasons for which something was not done, as values. Texts, events and metrics are made from them."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A real or simulated node does not take a pod: the filter that refused, and kube-scheduler's texts.

    ``reasons`` is empty if kube-scheduler gives none (a node outside the pod's list of names).
    """

    predicate: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.reasons) or f"excluded by {self.predicate}"


class SkipCode(StrEnum):
    """The reason for which a group was not considered for a scale-up, or not chosen."""

    UNKNOWN = "unknown"
    UNHEALTHY = "unhealthy"
    BACKOFF = "backoff"
    DEFERRED = "deferred"
    CORRECTED = "corrected"
    PROBATION = "probation"
    SILENT = "silent"
    MISFIT = "misfit"
    MAX_SIZE = "max_size"
    NODE_LIMIT = "node_limit"
    RESOURCE_LIMIT = "resource_limit"
    GROUP_LIMIT = "group_limit"
    NO_TEMPLATE = "no_template"
    NOT_CHOSEN = "not_chosen"
    WAITING = "waiting"
    NO_ROOM = "no_room"
    NO_TIME = "no_time"
    GANG = "gang"


class SkipReason(msgspec.Struct, frozen=True, kw_only=True):
    """A group was left out of a scale-up for all pods; ``message`` is the text for operators.

    ``resources`` are the resources that a limit leaves too little of.
    """

    code: SkipCode
    message: str
    resources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message


GroupReasons = Mapping[GroupRef, Rejection | SkipReason]


class Unhelped(msgspec.Struct, frozen=True, kw_only=True):
    """A pending pod that no group can help now, with a reason for every group."""

    pod: Pod
    reasons: GroupReasons


class ScaleUpResult(StrEnum):
    """The result of scale-up planning; the names are CA's."""

    SUCCESSFUL = "ScaleUpSuccessful"
    NOT_NEEDED = "ScaleUpNotNeeded"
    NOT_TRIED = "ScaleUpNotTried"
    NO_OPTIONS = "ScaleUpNoOptionsAvailable"
    NODE_LIMIT = "ScaleUpLimitedByMaxNodesTotal"
    IN_COOLDOWN = "ScaleUpInCooldown"


class UnremovableCode(StrEnum):
    """The reason for which a node is not removed. The names are CA's; those from ``FLAPPING`` on are nodewright's own."""

    SCALE_DOWN_DISABLED = "ScaleDownDisabledAnnotation"
    UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_AUTOSCALED = "NotAutoscaled"
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    MIN_SIZE_REACHED = "NodeGroupMinSizeReached"
    ATOMIC_FAILED = "AtomicScaleDownFailed"
    MINIMAL_RESOURCES = "MinimalResourceLimitExceeded"
    BEING_DELETED = "CurrentlyBeingDeleted"
    NOT_UNDERUTILIZED = "NotUnderutilized"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
    NO_PLACE = "NoPlaceToMovePods"
    BLOCKED_BY_POD = "BlockedByPod"
    ON_COMPLETION = "BlockedByOnCompletionPod"
    UNEXPECTED = "UnexpectedError"
    NO_NODE_INFO = "NoNodeInfo"
    FLAPPING = "Flapping"
    QUARANTINED = "Quarantined"
    UNHEALTHY_GROUP = "UnhealthyGroup"
    FAILED_LATELY = "RemovalFailedLately"
    IN_COOLDOWN = "InCooldown"
    NOT_EXAMINED = "NotExaminedYet"
    AWAITS_TURN = "AwaitsItsTurn"
    SWITCHED_OFF = "SwitchedOff"
    IN_MOVE = "InMove"
    DISRUPTION_BUDGET = "DisruptionBudget"
    PODS_MISSING = "PodsMissing"


class BlockingCode(StrEnum):
    """The reason for which a pod prevents the removal of its node; the names are CA's, except ``GANG_MINIMUM``."""

    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS_REACHED = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    LOCAL_STORAGE = "LocalStorageRequested"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation"
    UNMOVABLE_SYSTEM_POD = "UnmovableKubeSystemPod"
    NOT_ENOUGH_PDB = "NotEnoughPdb"
    GANG_MINIMUM = "GangMinimum"
    UNEXPECTED = "UnexpectedError"


class Unremovable(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for which a node is not removed, with a text for operators and the pod (``namespace/name``) that prevents it, if any.

    ``found``: why the last simulation failed, if ``code`` only says that it did (RECENTLY_UNREMOVABLE).
    """

    code: UnremovableCode
    message: str = ""
    pod: str = ""
    pod_code: BlockingCode | None = None
    found: UnremovableCode | None = None

    def __str__(self) -> str:
        return self.message or self.code.value

    def describe(self) -> str:
        """Return the code, the pod that blocks the removal if there is one, and the message."""
        pod = f"pod {self.pod} ({self.pod_code}): " if self.pod_code is not None else ""
        return f"{self.code}: {pod}{self}" if self.message else self.code.value


class ScaleDownResult(StrEnum):
    """The result of scale-down planning; the names are CA's."""

    NO_NODE_DELETED = "ScaleDownNoNodeDeleted"
    STARTED = "ScaleDownNodeDeleteStarted"
    NOT_TRIED = "ScaleDownNotTried"
    IN_COOLDOWN = "ScaleDownInCooldown"
    NO_CANDIDATES = "ScaleDownNoCandidates"
