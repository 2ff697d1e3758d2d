"""Several processes on one virtual time: each is threads of which one runs at a time, by turns that the schedule draws."""

import heapq
import threading
from collections.abc import Callable
from itertools import count

# What a thread does that its process gets no other chance to do.
Work = Callable[[], object]


class Gone(BaseException):
    """The process of this thread was killed. Not an Exception: no code handles it."""


class Process:
    """As the machine knows it: frozen until some moment, or dead. ``freezes`` are from when until when it was frozen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen_until = 0.0
        self.freezes: list[tuple[float, float]] = []
        self.is_dead = False

    def freeze(self, now: float, seconds: float) -> None:
        self.frozen_until = now + seconds
        self.freezes.append((now, self.frozen_until))


def _closed() -> threading.Lock:
    """Return a lock that one thread waits for until another releases it: half the price of a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Actor:
    """A thread that runs only when it has its turn."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.turn = _closed()


class Stage:
    """Virtual time. ``sleep`` and ``spawn`` from within, ``run`` from outside; ``at`` from anywhere.

    ``watch`` is called after each turn.
    """

    def __init__(self, start: float, watch: Work = lambda: None) -> None:
        self._now = start
        self.watch = watch
        self._order = count()
        self._due: list[tuple[float, int, _Actor | Work]] = []
        self._is_over = _closed()
        self._mine = threading.local()
        self._problem: BaseException | None = None

    def now(self) -> float:
        return self._now

    def at(self, moment: float, happening: Work) -> None:
        self._put(moment, happening)

    def spawn(self, process: Process, work: Work) -> None:
        """A thread of the process begins now."""
        actor = _Actor(process)

        def live() -> None:
            self._mine.actor = actor
            actor.turn.acquire()
            try:
                if not process.is_dead:
                    work()
            except Gone:
                pass
            except BaseException as error:  # noqa: BLE001 - it is raised again where the stage is run
                self._problem = error
            finally:
                self._is_over.release()

        threading.Thread(target=live, name=process.name, daemon=True).start()
        self._put(self._now, actor)

    def sleep(self, seconds: float) -> None:
        """Let others have their turns; raises Gone if the process was killed meanwhile."""
        actor: _Actor = self._mine.actor
        self._put(self._now + max(0.0, seconds), actor)
        self._is_over.release()
        actor.turn.acquire()
        if actor.process.is_dead:
            raise Gone

    def run(self, until: float) -> None:
        """All turns up to then; raises what a thread raised."""
        while self._due and self._due[0][0] <= until:
            moment, _, one = heapq.heappop(self._due)
            if isinstance(one, _Actor) and not one.process.is_dead and moment < one.process.frozen_until:
                self._put(one.process.frozen_until, one)
                continue
            self._now = max(self._now, moment)
            if isinstance(one, _Actor):
                one.turn.release()
                self._is_over.acquire()
            else:
                one()
            if self._problem is not None:
                raise self._problem
            self.watch()

    def end(self) -> None:
        """Every thread ends."""
        while self._due:
            _, _, one = heapq.heappop(self._due)
            if isinstance(one, _Actor):
                one.process.is_dead = True
                one.turn.release()
                self._is_over.acquire()

    def _put(self, moment: float, one: "_Actor | Work") -> None:
        heapq.heappush(self._due, (moment, next(self._order), one))
