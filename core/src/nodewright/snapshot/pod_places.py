"""The nodes to which pods could move, computed again in every loop."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from nodewright.snapshot.node_pods import NodePods


class PodPlaces(Mapping[str, str]):
    """The name of a node for each pod (its uid, or ``namespace/name``).

    Stored per NodePods, in the order of its pods (empty: no place), so that unchanged nodes need no pass over their pods.
    """

    def __init__(self, places: Mapping[NodePods, Sequence[str]] | None = None) -> None:
        self._by_node = places or {}

    def __bool__(self) -> bool:
        return any(any(places) for places in self._by_node.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __getitem__(self, known_as: str) -> str:
        return self._by_id[known_as]

    def of(self, node_pods: NodePods) -> Sequence[str]:
        """Return the place of each pod of a node; empty: no place."""
        found = self._by_node.get(node_pods)
        return found if found is not None else [self._by_id.get(known_as, "") for known_as in node_pods.ids]

    def updated(self, later: "PodPlaces") -> "PodPlaces":
        """Return these places, updated with later ones."""
        both = {
            node_pods: [new or old for new, old in zip(later.of(node_pods), self.of(node_pods), strict=True)]
            for node_pods in self._by_node
        }
        return PodPlaces({**later._by_node, **both})

    @cached_property
    def _by_id(self) -> dict[str, str]:
        return {
            known_as: place
            for node_pods, places in self._by_node.items()
            for known_as, place in zip(node_pods.ids, places, strict=True)
            if place
        }
