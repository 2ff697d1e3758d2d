"""What must remain: the least sizes of groups, the least cores, memory and GPUs (behaviour/down.md A9)."""

from collections.abc import Mapping

from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.limits import ResourceLimits
from nodewright.model.node import Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.planner.quota import CountsDevices, amount_of, totals
from nodewright.snapshot.snapshot import Snapshot


class Minima:
    """Room above the least sizes and amounts, used up as nodes are chosen.

    ``snapshot`` is the picture of the nodes that count. Those on their way out do not, unless ``counts_leaving``.
    """

    def __init__(
        self,
        state: ClusterState,
        snapshot: Snapshot,
        limits: ResourceLimits,
        accelerators: CountsDevices,
        *,
        counts_leaving: bool,
    ) -> None:
        self._state = state
        self._accelerators = accelerators
        self._going: dict[GroupRef, int] = {}
        for removing in state.observation.removing.values():
            self._going[removing.removal.group] = self._going.get(removing.removal.group, 0) + 1
        least = {"cpu": limits.min_cores, "memory": limits.min_memory_bytes, **limits.min_gpu}
        used = totals(snapshot, least, accelerators)
        self._left = {name: used[name] - amount for name, amount in least.items()}
        if not counts_leaving:
            self._take_leaving(snapshot)

    def _take_leaving(self, snapshot: Snapshot) -> None:
        for name in self._state.observation.removing:
            row = snapshot.find_row(name)
            if row is not None:
                for resource, amount in self._amounts(snapshot.node(row)).items():
                    self._left[resource] -= amount

    def take(self, ref: GroupRef, node: Node) -> Unremovable | None:
        """Count a node as gone; answers why it must stay instead, if it must.

        The cloud has already taken nodes under deletion off the target, and they are counted once more, as CA does.
        """
        seen = self._state.groups[ref].seen
        target = (seen.target or 0) - self._going.get(ref, 0)
        if target <= seen.group.min_size:
            text = f"group {ref} would have less than its least size of {seen.group.min_size}"
            return Unremovable(code=UnremovableCode.MIN_SIZE_REACHED, message=text)
        amounts = {name: amount for name, amount in self._amounts(node).items() if amount > 0}
        short = [name for name, amount in amounts.items() if self._left[name] < amount]
        if short:
            text = f"the cluster would have less than its least {', '.join(short)}"
            return Unremovable(code=UnremovableCode.MINIMAL_RESOURCES, message=text)
        for name, amount in amounts.items():
            self._left[name] -= amount
        self._going[ref] = self._going.get(ref, 0) + 1
        return None

    def _amounts(self, node: Node) -> Mapping[str, int]:
        return {name: amount_of(node, name, self._accelerators) for name in self._left}
