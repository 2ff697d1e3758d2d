"""What will happen in the simulated world, in the order of time."""

import heapq
import math
from collections.abc import Callable
from itertools import count

# Called with the moment for which it was scheduled. The clock may be later: a slow call moves time on.
Happening = Callable[[float], None]


class Agenda:
    """A queue of happenings; those of one moment keep the order in which they were scheduled."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Happening]] = []
        self._order = count()

    def at(self, moment: float, happening: Happening) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), happening))

    def next_due(self) -> float:
        """Return when something happens next; infinity if nothing will."""
        return self._heap[0][0] if self._heap else math.inf

    def run_next(self) -> float:
        """Run all happenings of the next moment, and those that they schedule for the same moment; return that moment."""
        moment = self._heap[0][0]
        while self._heap and self._heap[0][0] <= moment:
            heapq.heappop(self._heap)[2](moment)
        return moment
