"""Everything that happened in a simulated world, as plain facts to check and to draw from."""

from enum import StrEnum
from typing import NamedTuple


class What(StrEnum):
    """Kinds of facts."""

    POD_ARRIVED = "pod arrived"
    POD_STARTED = "pod started"
    POD_EVICTED = "pod evicted"
    POD_ENDED = "pod ended"
    POD_LOST = "pod lost"
    MACHINE_STARTED = "machine started"
    MACHINE_GONE = "machine gone"
    NODE_ADDED = "node added"
    NODE_READY = "node ready"
    NODE_REMOVED = "node removed"
    ENGINE_CRASHED = "engine crashed"
    ENGINE_STOPPED = "engine stopped"
    ENGINE_STARTED = "engine started"
    PAUSED = "writes paused"
    RESUMED = "writes resumed"


class Fact(NamedTuple):
    """``name`` is the pod (``namespace/name``), machine or node.

    ``where`` is a pod's node (the kind of its owner when it arrives), a machine's or node's group.
    """

    at: float
    what: What
    name: str
    where: str = ""


class Journal:
    """Facts in the order of time."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []

    def note(self, at: float, what: What, name: str, where: str = "") -> None:
        self._facts.append(Fact(at, what, name, where))

    def facts(self) -> tuple[Fact, ...]:
        return tuple(self._facts)
