"""A last look at the nodes right before machines are deleted without a drain (docs/adr/0023-evidence-for-deletions.md)."""

from collections.abc import Collection

from nodewright.actuation import NodeReader
from nodewright.model.action import Action, DeleteInstances
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError
from nodewright.model.plan import HeldBack
from nodewright.validate import NodesOfMachines

# Seconds for which one list serves all deletions; calls that take longer make it worth another.
_FRESH_SECONDS = 10.0
_EVENT = "DeletionWithheld"


class LastLook:
    """Withholds the deletion of machines that the nodes contradict by now; ``withheld`` are those of this loop.

    The cluster is read before the clouds, whose answers may take minutes, calls before this one may have hung, and a
    watch may be stuck: a machine may have become a node since. So the API server lists the nodes again, past every cache,
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

    def permit(self, action: DeleteInstances) -> DeleteInstances | None:
        """Return the part of the deletion that may go on (None: no part). The rest waits: the next loop looks again."""
        why = self._contradictions(action)
        if not why:
            return action
        reason = "; ".join(dict.fromkeys(why.values()))
        part = action.part(why)
        self.withheld.append(HeldBack(action=part, reason=reason, until=self._clock.now(), event=_EVENT))
        rest = [place for place in range(len(action.instance_ids)) if place not in why]
        return action.part(rest) if rest else None

    def _contradictions(self, action: DeleteInstances) -> dict[int, str]:
        """Return why machines must stay, by their place in the deletion.

        Where the API server fails, it is not asked about the machines that follow: each attempt may take long.
        """
        seen, places = self._look(), range(len(action.instance_ids))
        if isinstance(seen, str):
            return dict.fromkeys(places, f"the nodes could not be listed right before: {seen}")
        found: dict[int, str] = {}
        for place in places:
            try:
                why = "; ".join(seen.broken_by(action.part((place,))))
            except KubeApiError as error:
                why = f"the pods on its nodes could not be read right before: {error}"
                return {**found, **dict.fromkeys(places[place:], why)}
            if why:
                found[place] = why
        return found

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
