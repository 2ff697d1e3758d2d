"""How outcomes come back: what ended since the last loop, for the next fold."""

from collections import deque

from nodewright.model.action import Outcome
from nodewright.model.removal import RemovalEnded


class Inbox:
    """Outcomes, and removals that are over, in the order in which they came; safe to post to from other threads."""

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque()
        self._ended: deque[RemovalEnded] = deque()

    def post(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)

    def drain(self) -> tuple[Outcome, ...]:
        """Everything posted so far; it is taken out."""
        taken = []
        while self._outcomes:
            taken.append(self._outcomes.popleft())
        return tuple(taken)

    def post_ended(self, over: RemovalEnded) -> None:
        self._ended.append(over)

    @property
    def ended(self) -> tuple[RemovalEnded, ...]:
        """Removals that are over of which no loop knows yet."""
        return tuple(self._ended)

    def drain_ended(self) -> tuple[RemovalEnded, ...]:
        """Every removal that is over; it is taken out."""
        taken = []
        while self._ended:
            taken.append(self._ended.popleft())
        return tuple(taken)
