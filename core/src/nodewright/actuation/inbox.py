"""The inbox: outcomes since the last loop. The next loop folds them into its state."""

from collections import deque

from nodewright.model.action import Outcome
from nodewright.model.removal import RemovalEnded


class Inbox:
    """Outcomes of cloud calls and ended removals, in order of arrival. Other threads may post to it."""

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque()
        self._ended: deque[RemovalEnded] = deque()

    def post(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)

    def drain(self) -> tuple[Outcome, ...]:
        """Take out and return all outcomes."""
        taken = []
        while self._outcomes:
            taken.append(self._outcomes.popleft())
        return tuple(taken)

    def post_ended(self, over: RemovalEnded) -> None:
        self._ended.append(over)

    @property
    def ended(self) -> tuple[RemovalEnded, ...]:
        """Return the ended removals that no loop has taken yet."""
        return tuple(self._ended)

    def drain_ended(self) -> tuple[RemovalEnded, ...]:
        """Take out and return all ended removals."""
        taken = []
        while self._ended:
            taken.append(self._ended.popleft())
        return tuple(taken)
