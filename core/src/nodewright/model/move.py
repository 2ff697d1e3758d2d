"""Moves: nodes that are given up for others, from the decision to its end."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef


class MoveStage(StrEnum):
    """The stage that a move has reached.

    ``LAUNCHING``: its new nodes are asked for. ``READY``: all pods have places on nodes that are ready. ``DRAINING``: the
    first of its sources is being removed.
    """

    PROPOSED = "proposed"
    LAUNCHING = "launching"
    READY = "ready"
    DRAINING = "draining"
    DONE = "done"
    ABANDONED = "abandoned"

    @property
    def is_over(self) -> bool:
        return self in (MoveStage.DONE, MoveStage.ABANDONED)


class Addition(msgspec.Struct, frozen=True, kw_only=True):
    """New nodes of a group, and how many."""

    group: GroupRef
    nodes: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to give up the nodes in ``sources`` once the new nodes of ``added`` are ready; times in epoch seconds.

    ``removed`` are the sources that are gone. If not all pods have places on ready nodes by ``deadline``, the move is
    abandoned; ``why`` says why it was. ``savings`` are in USD an hour, ``disruption`` in evictions of ordinary pods, ``score``
    is the share of the savings over that of the disruption.
    """

    id: str
    reason: DisruptionReason
    stage: MoveStage = MoveStage.PROPOSED
    sources: tuple[str, ...]
    removed: tuple[str, ...] = ()
    added: tuple[Addition, ...] = ()
    started: float
    deadline: float
    savings: float = 0.0
    disruption: float = 0.0
    score: float = 0.0
    why: str = ""

    @property
    def left(self) -> tuple[str, ...]:
        """Return the sources that are not gone."""
        return tuple(name for name in self.sources if name not in self.removed)

    @property
    def nodes(self) -> str:
        """Return the names of the sources, as text for people."""
        return name_nodes(self.sources)

    @property
    def exchange(self) -> str:
        """Return which nodes the move exchanges for which."""
        new = ", ".join(f"{one.nodes} of group {one.group}" for one in self.added)
        return f"gives up {self.nodes} {f'for new nodes ({new})' if new else 'for room on other nodes'}"

    def describe(self) -> str:
        """Return which nodes the move exchanges for which, its stage, and its purpose."""
        saves = f"saves ${self.savings:.4f} an hour, score {self.score:.2f}"
        return f"Move {self.id} ({self.stage}) {self.exchange}: {saves if self.reason.has_score else self.reason}"


class RejectedMove(msgspec.Struct, frozen=True, kw_only=True):
    """The best move that was found, and that does not pay: ``why``. ``savings`` are in USD an hour."""

    sources: tuple[str, ...]
    savings: float
    why: str


def name_nodes(names: Sequence[str]) -> str:
    """Return the names of nodes, as text for people."""
    return f"{len(names)} nodes" if len(names) > 1 else f"node {names[0]}"


# The longest pause of a node, in seconds.
LONGEST_PAUSE = 86400.0


class MovePause(msgspec.Struct, frozen=True, kw_only=True):
    """A node that no new move gives up before ``until`` (epoch seconds); ``times`` it was in an abandoned move in a row."""

    until: float
    times: int = 0
    why: str = ""
