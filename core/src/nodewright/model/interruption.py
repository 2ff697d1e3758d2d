"""Notices of clouds that a machine is about to be taken, moved or replaced."""

from enum import StrEnum

from nodewright.model.group import FailureScope, Value


class InterruptionKind(StrEnum):
    """What the notice says about the machine.

    ``RECLAIM``: the cloud takes it at the deadline. ``REBALANCE``: the cloud may take it soon, and says no more.
    ``MAINTENANCE``: the cloud stops or moves it for work on its host. ``UNHEALTHY``: it or its host is broken.
    """

    RECLAIM = "reclaim"
    REBALANCE = "rebalance"
    MAINTENANCE = "maintenance"
    UNHEALTHY = "unhealthy"


class Interruption(Value, frozen=True, kw_only=True):
    """One notice about one machine.

    ``id`` is unique over time. ``deadline`` is when the machine stops at the earliest, in seconds since the epoch; None: not
    known. ``scope`` says which groups lack capacity for the same reason; None: the notice is about this machine alone.
    """

    id: str
    instance_id: str
    kind: InterruptionKind
    deadline: float | None = None
    scope: FailureScope | None = None
