"""The threads that keep the caches up to date, together."""

import threading
from contextlib import AbstractContextManager
from random import Random

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.kube.api import ApiError, Lines, Request
from nodewright.adapters.kube.caches import CacheOptions, Caches


class SilentServer:
    """Implements Api: takes every request and answers none, until ``over``."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def send(self, request: Request) -> bytes:
        self.over.wait()
        raise ApiError(f"{request}: no answer")

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        raise ApiError(f"{request}: no answer")


def test_the_end_does_not_wait_for_every_answer_in_turn() -> None:
    """A pod has 30 s to end, and each list may wait for a minute."""
    server = SilentServer()
    caches = Caches(server, SystemClock(), Random(1), CacheOptions())
    caches.start()
    ending = threading.Thread(target=caches.stop, args=(0.5,), daemon=True)
    ending.start()
    ending.join(3)
    was_late = ending.is_alive()
    server.over.set()
    assert not was_late
