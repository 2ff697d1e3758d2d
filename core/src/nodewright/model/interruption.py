"""Notices of clouds that a machine is about to be taken, moved or replaced."""

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.group import FailureScope, Value
from nodewright.model.node import Node
from nodewright.model.printable import printable


class InterruptionKind(StrEnum):
    """The meaning of a notice for the machine.

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


class NodeSignal(NamedTuple):
    """A taint, or a condition with the status True, by which an agent on a node says that the machine is about to go.

    ``seconds`` is how long the machine still runs; None: not known.
    """

    source: str
    key: str
    kind: InterruptionKind
    seconds: float | None = None

    def is_on(self, node: Node) -> bool:
        """Return whether the node has the taint or the condition."""
        if self.source == "taint":
            return any(taint.key == self.key for taint in node.spec.taints)
        return any(held.type == self.key and held.status == "True" for held in node.status.conditions)


def parse_signals(texts: Iterable[str]) -> tuple[NodeSignal, ...]:
    """Return the signals of texts such as ``taint:KEY=reclaim:2m`` and ``condition:TYPE=unhealthy``. Raise ConfigError."""
    return _parse_all(tuple(texts))


def signals_newly(known: Node | None, node: Node, texts: tuple[str, ...]) -> bool:
    """Return whether a node tells of an interruption, and did not when it was ``known``. Raise ConfigError."""
    return any(one.is_on(node) and (known is None or not one.is_on(known)) for one in parse_signals(texts))


@cache
def _parse_all(texts: tuple[str, ...]) -> tuple[NodeSignal, ...]:
    return tuple(_parse_signal(text) for text in texts)


def _parse_signal(text: str) -> NodeSignal:
    source, _, rest = text.partition(":")
    key, _, meaning = rest.rpartition("=")
    kind, _, time = meaning.partition(":")
    if source not in ("taint", "condition") or not key or kind not in set(InterruptionKind):
        kinds = ", ".join(InterruptionKind)
        raise ConfigError(f"'{printable(text)}' is not taint:KEY=KIND or condition:TYPE=KIND; kinds are {kinds}")
    try:
        return NodeSignal(source, key, InterruptionKind(kind), parse_duration(time) if time else None)
    except ValueError as error:
        raise ConfigError(f"'{printable(text)}': {error}") from error
