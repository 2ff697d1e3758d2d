"""Where a simulated engine keeps its memory."""

from collections import deque
from contextlib import suppress
from typing import Any

import msgspec

from nodewright.adapters.store.codec import UnreadableState, decode_memory, encode_memory
from nodewright.clusterstate.memory import Memory
from nodewright.engine.ports import Loaded, Pause
from nodewright.model.errors import NodewrightError
from nodewright_simulator.crash import SAVE, Tripwire

# As many saves lie between the last one and an old one.
_SAVES_KEPT = 10


class MemoryStore:
    """Implements StateStore with the bytes that a file would hold: each restart goes through them.

    ``fail`` makes every save fail, as a lost API server does, ``unreadable`` hides whether there is a pause. The engine
    may die at each write: ``wire``.
    """

    def __init__(self, wire: Tripwire | None = None) -> None:
        self._wire = wire or Tripwire()
        self.fail = False
        self.unreadable = False
        self._saved: bytes | None = None
        self._before: deque[bytes] = deque(maxlen=_SAVES_KEPT)
        self._pause: Pause | None = None

    def load(self) -> Loaded:
        if self._saved is None:
            return Loaded()
        try:
            return Loaded(memory=decode_memory(self._saved))
        except UnreadableState as error:
            self._saved = None
            return Loaded(warning=f"saved state is not used: {error}")

    def save_if_changed(self, memory: Memory) -> None:
        if self.fail:
            raise NodewrightError("the store cannot be reached")
        encoded = encode_memory(memory)
        if encoded != self._saved:
            self._wire.cross(SAVE, self._keep, encoded)

    def _keep(self, encoded: bytes) -> None:
        if self._saved is not None:
            self._before.append(self._saved)
        self._saved = encoded

    def load_pause(self) -> Pause | None:
        if self.unreadable:
            raise NodewrightError("the store cannot be reached")
        return self._pause

    def save_pause(self, pause: Pause | None) -> None:
        self._pause = pause

    def damage(self, how: str) -> None:
        """Damage what is saved.

        ``how`` is ``missing``, ``old``, ``truncated``, ``foreign`` (of another cluster) or ``newer`` (of a later version).
        """
        if self._saved is None:
            return
        match how:
            case "missing":
                self._saved = None
            case "old":
                self._saved = self._before[0] if self._before else None
            case "truncated":
                self._saved = self._saved[: len(self._saved) // 2]
            case "foreign" | "newer":
                with suppress(msgspec.DecodeError):  # it was truncated before
                    self._saved = msgspec.json.encode(_damaged(msgspec.json.decode(self._saved), how))

    def lose(self) -> None:
        """Forget everything, as if the store had been deleted."""
        self._saved = None
        self._pause = None


def _damaged(document: dict[str, Any], how: str) -> dict[str, Any]:
    if how == "newer":
        return {**document, "schema": document["schema"] + 1}
    return {**document, "groups": [{**group, "id": f"elsewhere-{group['id']}"} for group in document.get("groups", ())]}
