"""Re-checks planned removals of nodes (design.md §7): sizes, minima, budgets, unmovable pods, and a place for each pod.

Written from the rules alone, over plain nodes and pods; pods that no rule tells apart are looked at once
(``kinds.py``). Where the plan says a pod could go is a claim, checked here.
Volumes, topology spread, pod affinity and devices that are claimed are the planner's affair alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.validate.check import Violation
from nodewright.validate.kinds import Crew, Kind, find_crew
from nodewright.validate.minima import Minima
from nodewright.validate.movable import matches, why_immovable
from nodewright.validate.neighbours import Arrival, Neighbours
from nodewright.validate.room import Room

_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def check_removals(
    seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
) -> tuple[Violation, ...]:
    """Every violation; none for sound removals. ``places`` is the node that takes each moved pod of a removal that does
    not say so itself, by the pod's uid or else its ``namespace/name``.
    """
    course = _Course(seen, removals, places, settings)
    found = [(removal, rule) for removal in removals for rule in course.follow(removal)]
    found += course.without_room()
    found += course.neighbours_broken(removals)
    return tuple(Violation(removal, rule) for removal, rule in found)


class _Move(NamedTuple):
    """Pods that a removal moves, and the node to which each is to go; empty: nobody says."""

    removal: NodeRemoval
    crew: Crew
    places: list[str]


class _Course:
    """Sizes, budgets and room as one removal after the other leaves them."""

    def __init__(
        self, seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
    ) -> None:
        self._seen = seen
        self._settings = settings
        self._places = places
        going = {removal.node for removal in removals} | seen.removing.keys()
        self._room = Room(seen.snapshot, going, settings.pods.expendable_pods_priority_cutoff)
        self._leaving: Counter[GroupRef] = Counter(_still_counted(seen))
        self._spent: Counter[str] = Counter()
        self._begun: set[str] = set(seen.removing)
        self._minima = Minima(seen, settings.limits, self._begun)
        self._moves: list[_Move] = []
        self._refused: set[str] = set()
        self._machines: dict[GroupRef, frozenset[str]] = {}
        nodes = seen.snapshot.live_nodes() if removals else []
        self._nodes_of: Counter[str] = Counter(node.spec.provider_id for node in nodes)
        self._fates: dict[Kind, str | None] = {}
        self._budgets: dict[Kind, tuple[PodDisruptionBudget, ...]] = {}

    def follow(self, removal: NodeRemoval) -> list[str]:
        """The rules that a removal breaks; it counts as done for those after it. Room is looked at in the end."""
        row = self._seen.snapshot.find_row(removal.node)
        if row is None:
            return [f"there is no node {removal.node}"]
        node = self._seen.snapshot.node(row)
        broken = [
            *self._broken_by_node(removal, node),
            *self._broken_by_pods(removal, find_crew(self._seen.snapshot, row)),
        ]
        if not self._settings.policy.counts_leaving_nodes:
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
        if self._nodes_of[removal.instance_id] > 1 and self._settings.policy.spares_shared_machines:
            yield f"machine {removal.instance_id} has {self._nodes_of[removal.instance_id]} nodes"
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

    def _broken_by_pods(self, removal: NodeRemoval, crew: Crew) -> Iterator[str]:
        """The pods of the node are those that were planned for, may move, and are said to go somewhere."""
        fates = {kind: self._fate(kind) for kind in crew.variety}
        for pod, kind in zip(crew.pods, crew.kinds, strict=True) if any(fates.values()) else ():
            if fates[kind]:
                yield f"pod {pod.key} may not be moved: {fates[kind]}"
        moving = crew.only(kind for kind, fate in fates.items() if fate is None)
        planned = dict(zip_longest(removal.pods, removal.places, fillvalue=""))
        unplanned = [key for key in moving.keys if key not in planned]
        if unplanned:
            yield f"pods run on it that were not planned for: {', '.join(sorted(unplanned))}"
        if self._seen.workloads.budgets:
            yield from self._broken_budgets(moving)
        needing = moving.only(kind for kind in moving.variety if not self._ends(kind.pod))
        known_as = zip(needing.ids, needing.keys, strict=True)
        places = [planned.get(key) or self._place(pod_id, key) for pod_id, key in known_as]
        self._moves.append(_Move(removal, needing, places))

    def _place(self, pod_id: str, key: str) -> str:
        return self._places.get(pod_id) or self._places.get(key, "")

    def _fate(self, kind: Kind) -> str | None:
        """``why_immovable``; pods that count for nothing go with their node."""
        if kind not in self._fates:
            budgets, void = self._seen.workloads.budgets, self._room.is_void(kind)
            self._fates[kind] = "" if void else why_immovable(kind.pod, budgets, self._settings, self._seen.now)
        return self._fates[kind]

    def _broken_budgets(self, moving: Crew) -> Iterator[str]:
        """Each budget must allow at least one more disruption when a node's turn comes; the API server counts on."""
        about = {kind: self._budgets_of(kind) for kind in moving.variety}
        spared = {kind for kind in moving.variety if _is_waived(kind.pod) or self._ends(kind.pod)}
        touched: Counter[str] = Counter()
        for pod, kind in zip(moving.pods, moving.kinds, strict=True) if any(about.values()) else ():
            if len(about[kind]) > 1 and self._settings.policy.refuses_several_budgets:
                yield f"pod {pod.key} may not be moved: more than one disruption budget is about it"
            for budget in about[kind] if kind not in spared else ():
                left = budget.status.disruptions_allowed - self._spent[budget.key]
                if left < 1 and not touched[budget.key]:
                    yield f"disruption budget {budget.key} allows no more: pod {pod.key}"
                touched[budget.key] += 1
        self._spent += touched

    def _budgets_of(self, kind: Kind) -> tuple[PodDisruptionBudget, ...]:
        if kind not in self._budgets:
            self._budgets[kind] = tuple(b for b in self._seen.workloads.budgets if matches(b, kind.pod))
        return self._budgets[kind]

    def _ends(self, pod: Pod) -> bool:
        """Whether a pod is gone soon by itself, and another one is there for it. CA takes it for one that lives on."""
        owner = pod.metadata.controller
        ends = pod.metadata.deletion_timestamp is not None and self._settings.policy.replaced_pods_need_no_place
        return ends and owner is not None and owner.kind in ("ReplicaSet", "ReplicationController")

    def without_room(self) -> Iterator[tuple[NodeRemoval, str]]:
        """Pods that find no room where they are to go. One by one where not all fit there together."""
        doubtful = self._room.find_doubtful(
            Counter(chain.from_iterable(zip(crew.kinds, places, strict=True) for _, crew, places in self._moves))
        )
        for removal, crew, places in self._moves if doubtful else ():
            for pod, kind, place in zip(crew.pods, crew.kinds, places, strict=True):
                why = ""
                if place in doubtful:
                    why = self._room.take(kind, place) if place else "nobody says where it goes"
                if why:
                    self._refused.add(pod.key)
                    yield removal, f"pod {pod.key} has no place: {why}"

    def neighbours_broken(self, removals: Sequence[NodeRemoval]) -> Iterator[tuple[NodeRemoval, str]]:
        """Pods that would keep each other away where the plan has them in the end.

        CA's chain of removals is true as a whole only: of what is chosen from it, this need not hold.
        """
        there = Neighbours(self._seen.snapshot, self._begun)
        if not self._settings.policy.confirms_removals or not there.are_shy:
            return
        planned = {pod: removal for removal in removals for pod in removal.pods}
        for pod, why in there.conflicts(self._arrivals()):
            if pod.key in planned:
                yield planned[pod.key], f"pod {pod.key} has no place: {why}"

    def _arrivals(self) -> Iterator[Arrival]:
        snapshot = self._seen.snapshot
        for _, crew, places in self._moves:
            for pod, kind, place in zip(crew.pods, crew.kinds, places, strict=True):
                if pod.key not in self._refused:
                    yield Arrival(pod, kind, snapshot.node(snapshot.row(place)))


def _still_counted(seen: Observation) -> Mapping[GroupRef, int]:
    """Removals under way whose machine the group's target still counts."""
    return Counter(removing.removal.group for removing in seen.removing.values())


def _is_waived(pod: Pod) -> bool:
    """The owner waives the budget when planning; the API server still enforces it."""
    return pod.metadata.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "true"
