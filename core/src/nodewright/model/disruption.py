"""Disruption budgets and schedules: the file of ``--disruption-config`` as it is written, and when its windows are open."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim
from msgspec import Meta

from nodewright.model.duration import parse_duration
from nodewright.model.group import GroupRef
from nodewright.model.settings_base import Help

# No change of daylight saving time moves clocks by more, in seconds.
_CLOCK_CHANGE = 3 * 3600.0
# How many fires of a cron expression in a row without a gap make a window count as open forever.
_MOST_FIRES = 1000


class DisruptionReason(StrEnum):
    """The reason for which a node is given up.

    ``EMPTY``: it has no pods to move. ``UNDERUSED``: its pods fit on existing nodes. ``REPLACED``: its pods cost less on
    new nodes. ``INTERRUPTED``: the cloud takes its machine. ``EXPIRED``: it is too old. ``DRIFTED``: new nodes of its group differ
    from it. ``PREFERRED``: a group that is preferred to its own takes its pods again.
    """

    UNDERUSED = "underused"
    EMPTY = "empty"
    REPLACED = "replaced"
    INTERRUPTED = "interrupted"
    EXPIRED = "expired"
    DRIFTED = "drifted"
    PREFERRED = "preferred"

    @property
    def is_renewal(self) -> bool:
        """Return whether a node is replaced for its age or drift, even if its pods cost no less elsewhere."""
        return self in (DisruptionReason.EXPIRED, DisruptionReason.DRIFTED)

    @property
    def has_score(self) -> bool:
        """Return whether a node is given up because its pods cost less elsewhere: such a move has a score."""
        return self in (DisruptionReason.UNDERUSED, DisruptionReason.REPLACED)


# An interruption is not the operator's choice: a budget applies to it only if it names this reason.
VOLUNTARY = frozenset(DisruptionReason) - {DisruptionReason.INTERRUPTED}

_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]


class _FileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Match(_FileEntry, frozen=True, kw_only=True):
    """The node groups and nodes that an entry is about. Without groups and labels it is about all."""

    groups: Annotated[
        tuple[str, ...], Help("Ids of node groups, or provider/id; * and ? stand for any characters, such as batch-*.")
    ] = ()
    labels: Annotated[
        dict[str, str], Help("Labels that a node has, all of them; for schedules, the nodes of the group.")
    ] = {}

    def covers(self, ref: GroupRef, labels: Mapping[str, str]) -> bool:
        """Return whether the entry is about a node of the group that has these labels."""
        if not all(labels.get(key) == value for key, value in self.labels.items()):
            return False
        names = (ref.group_id, str(ref))
        return not self.groups or any(fnmatchcase(name, pattern) for pattern in self.groups for name in names)


class Window(_FileEntry, frozen=True, kw_only=True):
    """Times in which an entry holds: for a while from each time of the cron expression on."""

    cron: Annotated[
        str,
        Help("Five fields: minute, hour, day of the month, month, day of the week. 0 8 * * 1-5 is 08:00 on workdays."),
    ]
    length: Annotated[
        str, Help("How long it holds each time, such as 10h or 1h30m. It is counted in time that passes.")
    ] = msgspec.field(name="for")
    timezone: Annotated[
        str, Help("The time zone of the expression, such as Europe/Berlin. The times of a clock change are as in cron.")
    ] = "UTC"

    @property
    def seconds(self) -> float:
        """Return how long the window is open each time."""
        return parse_duration(self.length)


class Budget(_FileEntry, frozen=True, kw_only=True):
    """The most nodes that are given up at the same time. Of all budgets that hold for a node, each must allow it."""

    match: Annotated[Match, Help("The nodes that it counts. Without it, all.")] = Match()
    reasons: Annotated[
        tuple[DisruptionReason, ...],
        Help("For which reasons it holds. Without it, for all but interrupted."),
    ] = ()
    nodes: Annotated[
        _Count | Annotated[str, Meta(pattern="^([0-9]|[1-9][0-9]|100)%$")],
        Help(
            "How many of the nodes may be going at the same time: a number, or a share such as 10%, which is rounded up. Nodes "
            "count, also if they go for another reason. 0: none goes."
        ),
    ]
    when: Annotated[Window | None, Help("Only in these times. Without it, always.")] = None

    def holds_for(self, reason: DisruptionReason) -> bool:
        return reason in (self.reasons or VOLUNTARY)

    def allowed(self, nodes: int) -> int:
        """Return how many of the matching nodes may be going at the same time."""
        if isinstance(self.nodes, int):
            return self.nodes
        return -(-nodes * int(self.nodes.rstrip("%")) // 100)


class GroupChanges(_FileEntry, frozen=True, kw_only=True):
    """The settings of a schedule while its window is open. A setting that it leaves out stays as it is."""

    min: Annotated[
        _Count | None,
        Help("The minimum size. The group grows to it at once, also without --enforce-node-group-min-size."),
    ] = None
    max: Annotated[
        _Count | None, Help("The maximum size, at most that of the provider. Nodes beyond it stay; none is added.")
    ] = None
    max_node_provision_seconds: Annotated[_Seconds | None, Help("See --max-node-provision-time.")] = None
    max_node_startup_seconds: Annotated[_Seconds | None, Help("See --max-node-startup-time.")] = None
    scale_down_unneeded_seconds: Annotated[_Seconds | None, Help("See --scale-down-unneeded-time.")] = None
    scale_down_unready_seconds: Annotated[_Seconds | None, Help("See --scale-down-unready-time.")] = None
    scale_down_utilization_threshold: Annotated[_Share | None, Help("See --scale-down-utilization-threshold.")] = None
    scale_down_gpu_utilization_threshold: Annotated[
        _Share | None, Help("See --scale-down-gpu-utilization-threshold.")
    ] = None
    ignore_daemonsets_utilization: Annotated[bool | None, Help("See --ignore-daemonsets-utilization.")] = None
    consolidation: Annotated[
        bool | None,
        Help("false: no node of the group is given up because its pods cost less elsewhere (--consolidation-policy)."),
    ] = None

    def given(self) -> dict[str, float | bool]:
        """Return what is set, by the name of its field."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Schedule(_FileEntry, frozen=True, kw_only=True):
    """Options of node groups that differ while a window is open. Of several schedules the last one in the file counts."""

    match: Annotated[Match, Help("The node groups. Without it, all.")] = Match()
    when: Annotated[Window, Help("The times in which it holds.")]
    set: Annotated[GroupChanges, Help("What differs in these times.")]
    lead: Annotated[
        str,
        Help(
            "How long before the window opens the minimum is raised, so that the nodes are ready by then: a duration such as 5m, or "
            "auto for the time that machines of the group usually take."
        ),
    ] = ""


class DisruptionConfig(_FileEntry, frozen=True, kw_only=True):
    """The file of --disruption-config: how many nodes may be given up when, and options of groups that change with time."""

    disruption: Annotated[tuple[Budget, ...], Help("Budgets of nodes that are given up.")] = ()
    schedules: Annotated[tuple[Schedule, ...], Help("Options of node groups by time.")] = ()


NO_DISRUPTION_CONFIG = DisruptionConfig()


class Opening(NamedTuple):
    """The state of a window (open or not), and the time of its next change (epoch seconds; inf: never)."""

    is_open: bool
    until: float


def opening(window: Window | None, now: float) -> Opening:
    """Return whether a window is open at ``now`` (epoch seconds); without a window it always is."""
    if window is None:
        return Opening(is_open=True, until=math.inf)
    last, coming = _fires(window.cron, window.timezone, math.floor(now / 60))
    if now >= last + window.seconds:
        return Opening(is_open=False, until=coming)
    return Opening(is_open=True, until=_end(window, last, window.seconds))


def next_opening(window: Window, now: float) -> float:
    """Return when the cron expression fires next after ``now`` (epoch seconds; inf: never)."""
    return _fires(window.cron, window.timezone, math.floor(now / 60))[1]


def next_edge(windows: Iterable[Window | None], now: float) -> float:
    """Return when the first of the windows opens or closes after ``now`` (epoch seconds; inf: none does)."""
    return min((opening(window, now).until for window in windows), default=math.inf)


@lru_cache(maxsize=4096)
def _fires(cron: str, timezone: str, minute: int) -> tuple[float, float]:
    """Return the last time at or before a minute since the epoch at which the expression fires, and the next one.

    cronsim counts in the time on the clock. Around a clock change it may start on the wrong side of the moment, so that the
    search begins some hours away.
    """
    zone, moment = ZoneInfo(timezone), minute * 60.0
    before = CronSim(cron, datetime.fromtimestamp(moment + _CLOCK_CHANGE, UTC).astimezone(zone), reverse=True)
    after = CronSim(cron, datetime.fromtimestamp(moment - _CLOCK_CHANGE, UTC).astimezone(zone))
    last = next((fire for one in before if (fire := one.timestamp()) <= moment), -math.inf)
    coming = next((fire for one in after if (fire := one.timestamp()) > moment), math.inf)
    return last, coming


@lru_cache(maxsize=1024)
def _end(window: Window, opened: float, seconds: float) -> float:
    """Return when a window that opened then closes (epoch seconds); inf: each time it opens again before it closes."""
    begin = datetime.fromtimestamp(opened - _CLOCK_CHANGE, UTC).astimezone(ZoneInfo(window.timezone))
    end = opened + seconds
    for fire in islice(CronSim(window.cron, begin), _MOST_FIRES):
        if fire.timestamp() > end:
            return end
        end = max(end, fire.timestamp() + seconds)
    return math.inf
