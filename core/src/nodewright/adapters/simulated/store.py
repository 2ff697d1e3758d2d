"""Where a simulated engine keeps its memory."""

from nodewright.adapters.simulated.crash import SAVE, Tripwire
from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.engine.ports import Loaded, Pause
from nodewright.model.errors import NodewrightError
from nodewright.registry.state import Memory


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
        self._pause: Pause | None = None

    def load(self) -> Loaded:
        return Loaded() if self._saved is None else Loaded(memory=decode_memory(self._saved))

    def save_if_changed(self, memory: Memory) -> None:
        if self.fail:
            raise NodewrightError("the store cannot be reached")
        encoded = encode_memory(memory)
        if encoded != self._saved:
            self._wire.cross(SAVE, self._keep, encoded)

    def _keep(self, encoded: bytes) -> None:
        self._saved = encoded

    def load_pause(self) -> Pause | None:
        if self.unreadable:
            raise NodewrightError("the store cannot be reached")
        return self._pause

    def save_pause(self, pause: Pause | None) -> None:
        self._pause = pause

    def lose(self) -> None:
        """Forget everything, as if the store had been deleted."""
        self._saved = None
        self._pause = None
