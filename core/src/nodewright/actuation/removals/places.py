"""Are the places of pods that are to be moved still theirs? Some seconds pass between the plan and the first eviction."""

from collections.abc import Iterable

from nodewright.actuation.ports import ClusterWrites
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.kinds import kind_of
from nodewright.validate.room import Room


class PlacementRecheck:
    """Nodes as the API server shows them now, each looked at once, and filled with what is to be moved there.

    For one round of steps: later the pods that moved are there themselves.
    """

    def __init__(self, cluster: ClusterWrites, settings: Settings) -> None:
        self._cluster = cluster
        self._seen: set[str] = set()
        self._snapshot = Snapshot()
        self._room = Room(self._snapshot, (), settings.pods.expendable_pods_priority_cutoff)

    def take(self, removal: NodeRemoval, pods: Iterable[Pod]) -> str:
        """Give the pods that run on a node their places; why one has none any more, empty: all have. Raises
        KubeApiError.
        """
        wanted = dict(zip(removal.pods, removal.places, strict=False))
        for pod in pods:
            place = wanted.get(pod.key)
            if not place or pod.metadata.deletion_timestamp is not None:
                continue
            self._look_at(place)
            why = self._room.take(kind_of(self._snapshot, pod), place)
            if why:
                return f"pod {pod.key} has no place any more: {why}"
        return ""

    def _look_at(self, name: str) -> None:
        if name in self._seen:
            return
        sight = self._cluster.look(name)
        self._seen.add(name)
        if sight.node is not None:
            self._add(sight.node, sight.pods)

    def _add(self, node: Node, pods: Iterable[Pod]) -> None:
        row = self._snapshot.add_node(node)
        for pod in pods:
            self._snapshot.place(self._snapshot.class_of(pod, placed=True), row, pod=pod)
