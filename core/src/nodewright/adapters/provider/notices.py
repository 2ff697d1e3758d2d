"""Waits for notices of interruptions, in a thread for each provider, so that a loop starts as soon as one comes."""

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from nodewright.model.errors import ProviderError

# Seconds for which one call waits, and after which the next one is made if a call failed.
_WAIT_SECONDS = 20.0
_PAUSE_SECONDS = 30.0


class WaitsForNotices(Protocol):
    """The part of ProviderClient that is used here."""

    @property
    def name(self) -> str: ...
    def await_interruption(self, timeout: float) -> bool | None: ...


class NoticeWatch:
    """Calls ``ring`` when a provider has a new notice, from a thread of its own."""

    def __init__(
        self, providers: Iterable[WaitsForNotices], ring: Callable[[], None], say: Callable[[str, str], object]
    ) -> None:
        """Call ``say`` with the name of a provider, and with its problem (empty: it has none)."""
        self._providers = tuple(providers)
        self._ring = ring
        self._say = say
        self._stopped = threading.Event()

    def start(self) -> None:
        for provider in self._providers:
            name = f"notices-{provider.name}"
            threading.Thread(target=self._watch, args=(provider,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Let the threads end with their calls at hand."""
        self._stopped.set()

    def _watch(self, provider: WaitsForNotices) -> None:
        while not self._stopped.is_set():
            try:
                came = provider.await_interruption(_WAIT_SECONDS)
            except ProviderError as error:
                self._say(provider.name, f"{error.code}: {error}")
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            if came is None:
                return
            self._say(provider.name, "")
            if came:
                self._ring()
