"""What is said of a node, as values that are written as JSON and read back without loss."""

from enum import StrEnum

import msgspec

from nodewright.model.group import GroupRef
from nodewright.model.reason import BlockingCode, Unremovable
from nodewright.model.removal import NodeRemoval, RemovalStage
from nodewright.planner.scale_down.drainability import DrainOutcome


class NodeFate(StrEnum):
    """What becomes of a node."""

    GOING = "going"
    GOES = "goes"
    UNNEEDED = "unneeded"
    STAYS = "stays"
    UNJUDGED = "unjudged"


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The group of a node in numbers of machines; ``target`` is None where it is not known."""

    ref: GroupRef
    min_size: int
    max_size: int
    target: int | None
    ready: int
    whole: bool


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a node is asked for: the share of its scarcest resource, and with how much it counts as used little.

    ``ratio`` is None where it is no number (something is asked of what offers nothing) or where there is a ``problem``.
    """

    ratio: float | None
    resource: str
    threshold: float
    problem: str = ""


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """Moments in epoch seconds, None where there is none.

    The node has been unneeded since ``unneeded_since``, which is long enough once ``removable_at`` is past. No removal
    begins anywhere before ``cooldown_until``. A node that could not be emptied is looked at again at ``recheck_at``.
    ``given_back_at`` is when the last attempt to remove it failed. A node that never became ready may do so until
    ``never_ready_until``; then its machine is deleted.
    """

    unneeded_since: float | None = None
    removable_at: float | None = None
    cooldown_until: float | None = None
    recheck_at: float | None = None
    given_back_at: float | None = None
    never_ready_until: float | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """So many nodes do not take a pod, for one reason; ``nodes`` names the first few."""

    reason: str
    count: int
    nodes: tuple[str, ...]


class PodOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of a pod if its node went: the drain rule that says so, and where it blocks what would help.

    Of a pod to be moved, ``place`` is the node that it would move to and ``choices`` how many would take it;
    ``refusals`` are why not one does. ``arrives``: it is not there yet: it waits and has room
    there, or comes from a node that could go before this one.
    """

    pod: str
    fate: DrainOutcome
    arrives: bool = False
    rule: str = ""
    code: BlockingCode | None = None
    message: str = ""
    place: str = ""
    choices: int = 0
    refusals: tuple[Refusal, ...] = ()


class NodeExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node is still there, as the plan made at ``now`` (epoch seconds) has it.

    ``reason`` is the one reason for which it stays or waits. ``removal`` is how it goes, ``stage`` how far that has
    come. ``setback`` is why the last attempt failed, ``disputed`` why the cloud calls its machine a failed creation
    although it ran. ``note`` is what is to be said where there is neither, or what a
    node that is looked at later would be kept by now.
    """

    node: str
    now: float
    fate: NodeFate
    is_ready: bool
    reason: Unremovable | None = None
    note: str = ""
    removal: NodeRemoval | None = None
    stage: RemovalStage | None = None
    group: GroupFacts | None = None
    usage: Usage | None = None
    timers: Timers = Timers()
    setback: str = ""
    disputed: str = ""
    pods: tuple[PodOutlook, ...] = ()
