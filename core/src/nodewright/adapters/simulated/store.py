"""Where a simulated engine keeps its memory."""

from nodewright.model.errors import NodewrightError
from nodewright.planner.plan import Plan
from nodewright.registry.state import Memory


class MemoryStore:
    """Keeps the last memory saved. ``fail`` makes every save fail, as a lost API server does."""

    def __init__(self) -> None:
        self.fail = False
        self._saved: Memory | None = None

    def load(self) -> Memory | None:
        return self._saved

    def save(self, memory: Memory, plan: Plan) -> None:  # noqa: ARG002 - the port hands over both
        if self.fail:
            raise NodewrightError("the store cannot be reached")
        self._saved = memory

    def lose(self) -> None:
        """Forget everything, as if the store had been deleted."""
        self._saved = None
