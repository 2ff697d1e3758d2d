"""Where the pods of a simulation are, were to go before, and go."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import repeat

from nodewright.planner.scale_down.load import Load, PodIndex
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.roll import NodePods, find_rolls
from nodewright.snapshot.snapshot import Snapshot

# Numbers of pods, and the row of each.
Moves = tuple[Sequence[int], Sequence[int]]


class PodPlacements:
    """Pods by number, and their rows; ``hints`` are the names of nodes to which they were to go before.

    What is kept says nothing of the rows that are gone: whoever asks knows which are open.
    """

    def __init__(self, board: Snapshot, hints: PodPlaces) -> None:
        self.roster = PodIndex()
        self._hints = hints
        self._names = [board.name(row) for row in range(len(board))]
        self._rows = {name: row for row, name in enumerate(self._names)}
        # By number: the row to which a pod was to go before, and that to which it went last; negative: none.
        self._before: list[int] = []
        self._places: list[int] = []
        self._own: dict[int, Load] = {}
        # What nodes took over from those that could go; the board counts these pods, and does not know them.
        self._arrived: defaultdict[int, list[int]] = defaultdict(list)
        # Rows that could not be emptied.
        self._stuck: set[int] = set()

    def load(self, board: Snapshot, row: int) -> Load:
        """The pods of a node by now."""
        own = self._own.get(row)
        if own is None:
            (roll,) = find_rolls(board, (row,))
            own = self._own[row] = self.roster.add(roll)
            self._places += repeat(-1, len(own))
            self._before += self._rows_before(roll)
        arrived = self._arrived.get(row)
        return own.with_others(arrived) if arrived is not None else own

    def _rows_before(self, roll: NodePods) -> Iterable[int]:
        if not self._hints:
            return repeat(-1, len(roll.pods))
        row = self._rows.get
        return [row(name, -1) for name in self._hints.of(roll)]

    def are_hinted(self, row: int) -> bool:
        """Pods that came to a node were to go there: only its own have other hints, from before or from a try that failed."""
        return bool(self._hints) or row in self._stuck

    def hinted(self, numbers: Iterable[int]) -> list[int]:
        """The row to which each was to go last; negative: none."""
        places, before = self._places, self._before
        return [places[number] if places[number] >= 0 else before[number] for number in numbers]

    def keep(self, row: int, moves: Iterable[Moves]) -> None:
        """The node of the row is gone, and its pods are where they went."""
        self._arrived.pop(row, None)
        places, arrived = self._places, self._arrived
        for numbers, rows in moves:
            for number, place in zip(numbers, rows, strict=True):
                places[number] = place
                arrived[place].append(number)

    def give_up(self, row: int, moves: Iterable[Moves]) -> None:
        """The node stays. Of its own pods it is noted where there was room; others stay where they came to."""
        self._stuck.add(row)
        own = self._own[row].numbers
        for numbers, rows in moves:
            for number, place in zip(numbers, rows, strict=True):
                if number in own:
                    self._places[number] = place

    def conclude(self) -> PodPlaces:
        """Tell the roster where its pods have gone; the answer is the same as hints."""
        names = self._names
        self.roster.places = ["" if row < 0 else names[row] for row in self._places]
        return self.roster.places_by_roll()
