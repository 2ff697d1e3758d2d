"""The next event of each machine, in the order of time; the fake cloud carries out due events at each read and write."""

import heapq
from itertools import count

from nodewright_fake.machines import Machine


class Timeline:
    """One next event per machine; setting another one replaces it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Machine]] = []
        self._order = count()

    def set(self, machine: Machine, due: float) -> None:
        """Set the time of the machine's next event to ``due`` (epoch seconds; inf: no event)."""
        machine.due = due
        if due != float("inf"):
            heapq.heappush(self._heap, (due, next(self._order), machine))

    def next_due(self) -> float:
        """Return the time of the next event (epoch seconds; inf: none)."""
        while self._heap and self._heap[0][2].due != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")

    def pop(self, now: float) -> tuple[float, Machine] | None:
        """Remove and return the earliest event that is due by ``now``, with its time; None if there is none."""
        if self.next_due() > now:
            return None
        due, _, machine = heapq.heappop(self._heap)
        machine.due = float("inf")
        return due, machine
