"""The shape of saved memory: a versioned JSON document, one record for each node group.

Fields are only ever added, each with a default that stands for its absence, and unknown ones are passed over: so
the previous version reads what this one wrote. A change that it could not read raises ``SCHEMA``.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.clusterstate.memory import (
    ArrivalHistory,
    Backoff,
    Deferral,
    Flapping,
    IncorrectSize,
    Moves,
    Purchase,
    Reservation,
    Retry,
    ScaleUpRequest,
    Setback,
    UnhealthyCluster,
    WriteInFlight,
)
from nodewright.model.group import FailedInstance, GroupOptions, Instance
from nodewright.model.node import Node

KIND = "nodewright-state"
SCHEMA = 1

Moment = float
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what is saved: what is empty takes no room."""


class SavedFlight(Record, frozen=True, kw_only=True):
    """The machines of a group whose memory is about them, so that they still count while it cannot be read."""

    instances: tuple[Instance, ...] = ()
    failed: tuple[FailedInstance, ...] | None = None
    template: Node | None = None


class SavedGroup(Record, GroupOptions, frozen=True, kw_only=True):
    """One node group: how it was last seen, then what is remembered of it. Times in epoch seconds.

    ``target`` is None for a group that was never seen. ``in_flight`` is there when anything is remembered of its
    machines. ``departed`` are providerIDs whose instance is gone.
    """

    provider: str
    id: str
    min_size: int = 0
    max_size: int = 0
    target: int | None = None
    capabilities: tuple[str, ...] = ()
    switched_off: dict[str, str] = {}
    autoprovisioned: str = ""
    in_flight: SavedFlight | None = None
    requests: tuple[ScaleUpRequest, ...] = ()
    backoff: Backoff | None = None
    deferral: Deferral | None = None
    given_up: Count = 0
    withdrawn_at: Moment = 0
    size_gap: IncorrectSize | None = None
    arrivals: ArrivalHistory | None = None
    unregistered: dict[str, Moment] = {}
    late: tuple[str, ...] = ()
    seen_failures: tuple[str, ...] = ()
    never_ran: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    deletions: dict[str, Moment] = {}
    empty_deletions: dict[str, Moment] = {}
    deletion_tried: dict[str, Moment] = {}
    never_up: dict[str, Moment] = {}
    departed: tuple[str, ...] = ()
    grown_at: Moment = 0
    shrunk_at: Moment = 0
    failed_at: Moment = 0
    quarantined_until: Moment = 0
    flapping: Flapping | None = None
    write_in_flight: WriteInFlight | None = None
    purchases: dict[str, Purchase] = {}


class SavedScaleDown(Record, frozen=True, kw_only=True):
    """What scale-down knows of no group in particular; times in epoch seconds.

    ``unneeded`` and ``setbacks`` are by node, ``moves`` by the key of the pods' controller.
    """

    unneeded: dict[str, Moment] = {}
    moves: dict[str, tuple[Moves, ...]] = {}
    setbacks: dict[str, Setback] = {}
    removal_started_at: Moment | None = None
    marking_failed_at: Moment | None = None


class SavedProvisioning(Record, frozen=True, kw_only=True):
    """What is known of requests for capacity, by their ids; times in epoch seconds."""

    retries: dict[str, Retry] = {}
    homeless: dict[str, Moment] = {}
    grants: dict[str, Reservation] = {}


class Document(Record, frozen=True, kw_only=True):
    """The whole of it; the windows in seconds."""

    kind: str = ""
    schema: int = 0
    groups: tuple[SavedGroup, ...] = ()
    deletion_window: Seconds | None = None
    empty_deletion_window: Seconds | None = None
    scale_down: SavedScaleDown | None = None
    provisioning: SavedProvisioning | None = None
    unhealthy: UnhealthyCluster | None = None
