"""Re-checks planned removals of nodes (design.md §7): sizes, minima, budgets, unmovable pods, and a place for each pod.

Written from the rules alone, over plain nodes and pods. Where the plan says a pod could go is a claim, checked here.
Volumes, topology spread, pod affinity and devices that are claimed are the planner's affair alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.validate.check import Violation
from nodewright.validate.minima import Minima
from nodewright.validate.movable import matches, why_immovable
from nodewright.validate.neighbours import Arrival, Neighbours
from nodewright.validate.room import Room

_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def check_removals(
    seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
) -> tuple[Violation, ...]:
    """Every violation; none for sound removals. ``places`` is the node that takes each moved pod, by the pod's uid or
    else its ``namespace/name``.
    """
    course = _Course(seen, removals, places, settings)
    found = [(removal, rule) for removal in removals for rule in course.follow(removal)]
    found += course.neighbours_broken(removals)
    return tuple(Violation(removal, rule) for removal, rule in found)


class _Course:
    """Sizes, budgets and room as one removal after the other leaves them."""

    def __init__(
        self, seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
    ) -> None:
        self._seen = seen
        self._settings = settings
        self._places = places
        self._nodes = {node.name: node for _, node in seen.snapshot.nodes()}
        going = {removal.node for removal in removals} | seen.removing.keys()
        self._room = Room(seen.snapshot, going, settings.pods.expendable_pods_priority_cutoff)
        self._leaving: Counter[GroupRef] = Counter(_still_counted(seen))
        self._spent: Counter[str] = Counter()
        self._begun: set[str] = set(seen.removing)
        self._minima = Minima(seen, settings.limits, self._begun)
        self._arrivals: list[Arrival] = []
        self._machines: dict[GroupRef, frozenset[str]] = {}

    def follow(self, removal: NodeRemoval) -> list[str]:
        """The rules that a removal breaks; it counts as done for those after it."""
        node = self._nodes.get(removal.node)
        if node is None:
            return [f"there is no node {removal.node}"]
        broken = [*self._broken_by_node(removal, node), *self._broken_by_pods(removal)]
        if not self._settings.is_ca:  # it counts machines on their way as if they were there
            broken += self._minima.take(node)
        self._begun.add(removal.node)
        self._leaving[removal.group] += 1
        return broken

    def _broken_by_node(self, removal: NodeRemoval, node: Node) -> Iterator[str]:
        group = self._seen.groups.get(removal.group)
        if group is None or group.target is None or group.instances is None:
            yield f"the size of group {removal.group} is unknown"
            return
        if node.spec.provider_id != removal.instance_id:
            yield f"node {node.name} is machine {node.spec.provider_id}, not {removal.instance_id}"
        if removal.group not in self._machines:
            self._machines[removal.group] = frozenset(instance.id.lower() for instance in group.instances)
        if removal.instance_id.lower() not in self._machines[removal.group]:
            yield f"machine {removal.instance_id} is none of group {removal.group}"
        if node.name in self._begun:
            yield f"node {node.name} is being removed already"
        if node.metadata.annotations.get(_DISABLED) == "true":
            yield f"node {node.name} is annotated to stay"
        if group.target - self._leaving[removal.group] - 1 < group.group.min_size:
            yield f"group {removal.group} would fall below its minimum of {group.group.min_size}"

    def _broken_by_pods(self, removal: NodeRemoval) -> Iterator[str]:
        """The pods of the node are those that were planned for, may move, and have a place."""
        row = self._seen.snapshot.row(removal.node)
        budgets, drain = self._seen.workloads.budgets, self._settings.drain
        moving = []
        for pod in self._seen.snapshot.pods(row):
            if self._room.is_void(pod):
                continue
            why = why_immovable(pod, budgets, drain, self._seen.now)
            if why is None:
                moving.append(pod)
            elif why:
                yield f"pod {pod.key} may not be moved: {why}"
        unplanned = {pod.key for pod in moving} - set(removal.pods)
        if unplanned:
            yield f"pods run on it that were not planned for: {', '.join(sorted(unplanned))}"
        yield from self._broken_budgets(moving)
        for pod in moving:
            if not self._settings.is_ca and sum(matches(budget, pod) for budget in budgets) > 1:
                yield f"pod {pod.key} may not be moved: more than one disruption budget is about it"
        yield from self._without_place(moving)

    def _broken_budgets(self, moving: Sequence[Pod]) -> Iterator[str]:
        """Each budget must allow at least one more disruption when a node's turn comes; the API server counts on."""
        touched: Counter[str] = Counter()
        for budget in self._seen.workloads.budgets:
            mine = [pod for pod in moving if matches(budget, pod) and not _is_waived(pod) and not self._ends(pod)]
            left = budget.status.disruptions_allowed - self._spent[budget.key]
            if mine and left < 1:
                yield f"disruption budget {budget.key} allows no more: pod {mine[0].key}"
            touched[budget.key] += len(mine)
        self._spent += touched

    def _without_place(self, moving: Sequence[Pod]) -> Iterator[str]:
        for pod in moving:
            if self._ends(pod):
                continue
            place = self._places.get(pod.metadata.uid) or self._places.get(pod.key)
            why = "nobody says where it goes" if place is None else self._room.take(pod, place)
            if why:
                yield f"pod {pod.key} has no place: {why}"
            elif place is not None:
                self._arrivals.append(Arrival(pod, self._nodes[place]))

    def _ends(self, pod: Pod) -> bool:
        """Whether a pod is gone soon by itself, and another one is there for it. CA takes it for one that lives on."""
        owner = pod.metadata.controller
        ends = pod.metadata.deletion_timestamp is not None and not self._settings.is_ca
        return ends and owner is not None and owner.kind in ("ReplicaSet", "ReplicationController")

    def neighbours_broken(self, removals: Sequence[NodeRemoval]) -> Iterator[tuple[NodeRemoval, str]]:
        """Pods that would keep each other away where the plan has them in the end.

        CA's chain of removals is true as a whole only: of what is chosen from it, this need not hold.
        """
        if self._settings.is_ca or not self._arrivals:
            return
        there = Neighbours(self._seen.snapshot, self._begun)
        planned = {pod: removal for removal in removals for pod in removal.pods}
        for pod, why in there.conflicts(self._arrivals):
            if pod.key in planned:
                yield planned[pod.key], f"pod {pod.key} has no place: {why}"


def _still_counted(seen: Observation) -> Mapping[GroupRef, int]:
    """Removals under way whose machine the group's target still counts."""
    return Counter(removing.removal.group for removing in seen.removing.values())


def _is_waived(pod: Pod) -> bool:
    """The owner waives the budget when planning; the API server still enforces it."""
    return pod.metadata.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "true"
