"""Among equally good candidates of similar groups, the node of the larger group goes (``--balance-scale-down``)."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from nodewright.model.group import GroupRef
from nodewright.planner.candidates import ScaleUpContext, is_similar


class Balance:
    """Groups of one kind, and how many nodes each of them has or will have."""

    def __init__(self, ground: ScaleUpContext, refs: Iterable[GroupRef]) -> None:
        self._state = ground.state
        self._kinds: dict[GroupRef, GroupRef] = {}
        for ref in dict.fromkeys(refs):
            known = dict.fromkeys(self._kinds.values())
            alike = (kind for kind in known if _are_alike(ground, kind, ref))
            self._kinds[ref] = next(alike, ref)

    def ordered(self, names: Sequence[str]) -> list[str]:
        """The names in an order in which the largest of similar groups loses a node first, then the next largest.

        Every kind of group keeps its places among the others.
        """
        left = self._sizes()
        queues: dict[GroupRef, dict[GroupRef, deque[str]]] = {}
        for name in names:
            ref = self._state.group_of_node[name]
            queues.setdefault(self._kinds[ref], {}).setdefault(ref, deque()).append(name)
        found: list[str] = []
        for name in names:
            alike = queues[self._kinds[self._state.group_of_node[name]]]
            largest = max((ref for ref in alike if alike[ref]), key=left.__getitem__)
            found.append(alike[largest].popleft())
            left[largest] -= 1
        return found

    def _sizes(self) -> dict[GroupRef, int]:
        going = Counter(removing.removal.group for removing in self._state.observation.removing.values())
        return {ref: max(0, (self._state.groups[ref].seen.target or 0) - going[ref]) for ref in self._kinds}


def _are_alike(ground: ScaleUpContext, one: GroupRef, other: GroupRef) -> bool:
    return one in ground.templates and other in ground.templates and is_similar(ground, one, other)
