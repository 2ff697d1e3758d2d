"""The turn to use the caches of pods: loops and pages share them, and a loop goes first."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class Turn:
    """A lock for one loop or one page at a time. While a loop waits for it, no page gets it.

    Pages are written outside of it, one at a time, too: so at most two pages work at a time, however many are asked for.
    """

    def __init__(self, changed: threading.Condition | None = None) -> None:
        self._changed = changed or threading.Condition()
        self._writes = threading.Lock()
        self._taken = False
        self._waiting_loops = 0

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Wait for the page that has the turn, if one has it, and take the turn."""
        with self._changed:
            self._waiting_loops += 1
            try:
                self._changed.wait_for(lambda: not self._taken)
            finally:
                self._waiting_loops -= 1
            self._taken = True
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def page(self, patience: float) -> Iterator[bool]:
        """Take the turn for a page, and give True; give False without it after ``patience`` seconds."""
        with self._changed:
            got = self._changed.wait_for(lambda: not self._taken and not self._waiting_loops, patience)
            self._taken = self._taken or got
        try:
            yield got
        finally:
            if got:
                self._release()

    def writing(self) -> AbstractContextManager[object]:
        """Wait until no other page is written; enter this without the turn."""
        return self._writes

    def _release(self) -> None:
        with self._changed:
            self._taken = False
            self._changed.notify_all()
