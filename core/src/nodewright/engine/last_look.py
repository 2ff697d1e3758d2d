"""A last look at the nodes right before machines are deleted without a drain (docs/adr/0023-evidence-for-deletions.md)."""

from collections.abc import Collection

from nodewright.actuation import NodeReader
from nodewright.model.action import Action, DeleteInstances
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError
from nodewright.model.plan import HeldBack
from nodewright.validate import NodesOfMachines

# One list serves all deletions within so many seconds; calls that take longer make it worth another.
_FRESH_SECONDS = 10.0
_EVENT = "DeletionWithheld"


class LastLook:
    """Withholds deletions that the nodes contradict by now; ``withheld`` are those of this loop.

    The cluster is read before the clouds, whose answers may take minutes, calls before this one may have hung, and a
    watch may be stuck: a machine may have become a node since. So the API server lists the nodes anew, past every cache,
    once a loop that deletes any of ``actions``' machines.
    """

    def __init__(self, cluster: NodeReader, clock: Clock, actions: Collection[Action]) -> None:
        self._cluster = cluster
        self._clock = clock
        deletions = (action for action in actions if isinstance(action, DeleteInstances))
        self._machines = frozenset(one.lower() for action in deletions for one in action.instance_ids)
        # The nodes of these machines, or why they could not be listed.
        self._seen: NodesOfMachines | str = ""
        self._taken_at: float | None = None
        self.withheld: list[HeldBack] = []

    def allows(self, action: DeleteInstances) -> bool:
        """Return whether the deletion may go on; one that may not waits for the next loop, which looks again."""
        why = self._contradiction(action)
        if why:
            self.withheld.append(HeldBack(action=action, reason=why, until=self._clock.now(), event=_EVENT))
        return not why

    def _contradiction(self, action: DeleteInstances) -> str:
        seen = self._look()
        if isinstance(seen, str):
            return f"the nodes could not be listed right before: {seen}"
        try:
            return "; ".join(seen.broken_by(action))
        except KubeApiError as error:
            return f"the pods on its nodes could not be read right before: {error}"

    def _look(self) -> NodesOfMachines | str:
        if self._taken_at is None or not 0 <= self._clock.now() - self._taken_at <= _FRESH_SECONDS:
            self._seen = self._list()
            self._taken_at = self._clock.now()
        return self._seen

    def _list(self) -> NodesOfMachines | str:
        try:
            nodes = [node for node in self._cluster.list_nodes() if node.spec.provider_id.lower() in self._machines]
        except KubeApiError as error:
            return str(error)
        return NodesOfMachines(nodes, lambda node: self._cluster.get_node_view(node.name).pods)
