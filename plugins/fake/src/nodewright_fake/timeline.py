"""What will happen to machines, in the order of time: the fake cloud moves when it is looked at."""

import heapq
from itertools import count

from nodewright_fake.machines import Machine


class Timeline:
    """One next event per machine: setting another replaces it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Machine]] = []
        self._order = count()

    def set(self, machine: Machine, due: float) -> None:
        """The machine's next event is at ``due`` (epoch seconds); infinity: none."""
        machine.due = due
        if due != float("inf"):
            heapq.heappush(self._heap, (due, next(self._order), machine))

    def next_due(self) -> float:
        """When the next event happens; infinity if none will."""
        while self._heap and self._heap[0][2].due != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")

    def pop(self, now: float) -> tuple[float, Machine] | None:
        """The earliest event that is due by ``now``, with its time; it is taken away."""
        if self.next_due() > now:
            return None
        due, _, machine = heapq.heappop(self._heap)
        machine.due = float("inf")
        return due, machine
