"""A last look at the nodes right before machines are deleted without a drain (docs/adr/0023-evidence-for-deletions.md)."""

from nodewright.model.action import DeleteInstances
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError
from nodewright.observe.ports import ClusterPicture, ClusterReader
from nodewright.planner.plan import HeldBack
from nodewright.validate import NodesOfMachines

# One picture serves all deletions within so many seconds.
_FRESH_SECONDS = 1.0


class LastLook:
    """Withholds deletions that the nodes contradict by now; ``withheld`` are those of this loop.

    The cluster is read before the clouds, whose answers may take minutes, and calls before this one may have hung: a
    machine may have become a node since.
    """

    def __init__(self, cluster: ClusterReader, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._seen: tuple[ClusterPicture, NodesOfMachines] | None = None
        self._taken_at = 0.0
        self.withheld: list[HeldBack] = []

    def allows(self, action: DeleteInstances) -> bool:
        """Return whether the deletion may go on; one that may not waits for the next loop, which knows what is new."""
        why = self._contradiction(action)
        if why:
            self.withheld.append(HeldBack(action=action, reason=why, until=self._clock.now()))
        return not why

    def _contradiction(self, action: DeleteInstances) -> str:
        try:
            picture, nodes = self._look()
        except KubeApiError as error:
            return f"the nodes could not be looked at once more: {error}"
        return picture.problem or "; ".join(nodes.broken_by(action))

    def _look(self) -> tuple[ClusterPicture, NodesOfMachines]:
        now = self._clock.now()
        if self._seen is None or not 0 <= now - self._taken_at <= _FRESH_SECONDS:
            picture = self._cluster.read(now)
            self._seen, self._taken_at = (picture, NodesOfMachines(picture.snapshot)), now
        return self._seen
