"""Runners, which make the calls to a provider and abandon calls that do not return in time."""

import io
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TextIO, TypeVar
from weakref import WeakSet

from nodewright.adapters.clocks import DeadlinePassed, VirtualClock
from nodewright.model.errors import ProviderUnavailable

T = TypeVar("T")


class CallTimedOut(Exception):
    """The call did not return by its deadline: it may still take effect."""


class NotStarted(ProviderUnavailable):
    """The call was never made, so it had no effect: earlier calls still hang or hold every worker."""


class CallRunner(Protocol):
    """Runs one provider's calls under a deadline."""

    def run(self, call: Callable[[], T], deadline_seconds: float) -> T:
        """Return the call's result or raise its exception; raise CallTimedOut, or NotStarted if it was never made."""


class InlineRunner:
    """Runs calls in place, on virtual time: a slow provider sleeps on the same clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def run(self, call: Callable[[], T], deadline_seconds: float) -> T:
        deadline = self._clock.now() + deadline_seconds
        try:
            with self._clock.deadline(deadline):
                return call()
        except DeadlinePassed as error:
            if self._clock.now() < deadline:  # it was the deadline of an outer call
                raise
            raise CallTimedOut(f"no answer within {deadline_seconds:g} s") from error


@io.TextIOBase.register
class _PluginsToStderr:
    """Replaces ``sys.stdout``: the prints of plugins go to stderr, since they must not get into a command's JSON.

    The threads that run providers' calls are redirected at any time; while a call is awaited, so are all threads but the main
    one, since a plugin may start threads. What such a thread prints between calls is not redirected. This object is never
    removed; other code may replace ``sys.stdout`` temporarily.
    """

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def write(self, text: str) -> int:
        return self._present().write(text)

    def __getattr__(self, name: str) -> Any:
        if name == "_stdout":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._present(), name)

    def _present(self) -> TextIO:
        thread = threading.current_thread()
        if thread is threading.main_thread() or not (_awaited.calls or thread in _workers):
            return self._stdout
        # sys.stderr may be this object, within ``redirect_stderr(sys.stdout)``.
        return self._stdout if sys.stderr is self else sys.stderr


class _AwaitedCalls:
    """Counts the calls of all runners that are awaited. The first one replaces ``sys.stdout``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = 0

    def __enter__(self) -> None:
        with self._lock:
            self.calls += 1
            if sys.stdout is not None and not isinstance(sys.stdout, _PluginsToStderr):
                sys.stdout = _PluginsToStderr(sys.stdout)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.calls -= 1


_awaited = _AwaitedCalls()
# The threads that make providers' calls, also those whose call was abandoned.
_workers: WeakSet[threading.Thread] = WeakSet()


class ThreadRunner:
    """Runs calls on a bounded number of daemon threads and abandons those that hang.

    Calls never overlap when ``workers`` is 1, except with abandoned ones. With ``max_abandoned`` calls
    hanging, every further call raises NotStarted at once until one of them returns. Time spent waiting for
    a free worker counts towards the deadline.
    """

    def __init__(self, name: str, *, workers: int = 1, max_abandoned: int = 3) -> None:
        self._name = name
        self._max_abandoned = max_abandoned
        self._free = threading.Semaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._abandoned = 0

    def run(self, call: Callable[[], T], deadline_seconds: float) -> T:
        deadline = time.monotonic() + deadline_seconds
        self._refuse_if_hanging()
        if not self._free.acquire(timeout=deadline_seconds):
            raise NotStarted(f"{self._name} was busy for {deadline_seconds:g} s", provider=self._name)
        answer: list[T] = []
        job = _PendingCall(lambda: answer.append(call()))
        worker: _Worker | None = None
        try:
            self._refuse_if_hanging()
            worker = self._take_worker()
            with _awaited:
                worker.submit(job)
                is_done = job.done.wait(deadline - time.monotonic())
            if not is_done and self._abandon(job):
                worker = None
                raise CallTimedOut(f"no answer within {deadline_seconds:g} s")
        finally:
            if worker is not None and job.done.is_set():
                self._give_back(worker)
            self._free.release()
        if job.error is not None:
            raise job.error
        return answer[0]

    def close(self) -> None:
        """End the idle threads; a hanging one ends with its call or with the process."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.stop()

    def _refuse_if_hanging(self) -> None:
        with self._lock:
            hanging = self._abandoned
        if hanging >= self._max_abandoned:
            raise NotStarted(f"{hanging} calls to {self._name} hang; no more are made", provider=self._name)

    def _take_worker(self) -> "_Worker":
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = _Worker()
        worker.start(self._name)
        return worker

    def _give_back(self, worker: "_Worker") -> None:
        with self._lock:
            self._idle.append(worker)

    def _abandon(self, job: "_PendingCall") -> bool:
        """Abandon the job; return False if it has just finished."""
        with self._lock:
            if not job.abandon(self._returned):
                return False
            self._abandoned += 1
            return True

    def _returned(self) -> None:
        with self._lock:
            self._abandoned -= 1


class _PendingCall:
    def __init__(self, call: Callable[[], None]) -> None:
        self.done = threading.Event()
        self.error: BaseException | None = None
        self._call = call
        self._lock = threading.Lock()
        self._on_late_return: Callable[[], None] | None = None

    @property
    def is_abandoned(self) -> bool:
        return self._on_late_return is not None

    def work(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the answer is awaited
            self.error = error
        with self._lock:
            self.done.set()
            late = self._on_late_return
        if late is not None:
            late()

    def abandon(self, on_late_return: Callable[[], None]) -> bool:
        with self._lock:
            if self.done.is_set():
                return False
            self._on_late_return = on_late_return
            return True


class _Worker:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[_PendingCall | None] = SimpleQueue()

    def start(self, name: str) -> None:
        thread = threading.Thread(target=self._loop, name=f"provider-{name}", daemon=True)
        _workers.add(thread)
        thread.start()

    def submit(self, job: _PendingCall) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        self._jobs.put(None)

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.work()
            if job.is_abandoned:
                return
