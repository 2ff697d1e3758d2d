"""Check planned removals of nodes, and moves: sizes, minimums, budgets, unmovable pods, and a place for each pod.

The check of removals is written from the rules alone, over plain nodes and pods. Pods that are equal for every rule are
checked once (``pods.py``). The plan names a node for each moved pod; the check verifies that the pod fits there. It does not
verify volumes, topology spread, pod affinity and claimed devices: only the planner knows these rules.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from nodewright.model.action import IncreaseSize
from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.disruption import DisruptionReason, opening
from nodewright.model.gang import GangRef, find_gang, find_terms
from nodewright.model.group import GroupRef
from nodewright.model.interruption import parse_signals
from nodewright.model.limits import make_resource_limits
from nodewright.model.move import Move, MoveStage
from nodewright.model.node import INSTANCE_TYPE_LABEL, Node
from nodewright.model.plan import PlannedAction
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import LimitSettings, Settings
from nodewright.snapshot.observation import Observation
from nodewright.validate.actions import PlanViolation
from nodewright.validate.capacity import AntiAffinityCheck, Arrival, CapacityCheck
from nodewright.validate.pods import PodProfile, ProfiledPods, find_pods, matches, why_immovable
from nodewright.validate.quotas import Devices

_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def check_removals(
    seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
) -> tuple[PlanViolation, ...]:
    """Return every violation; empty if the removals are correct.

    ``places`` gives the node for each moved pod of a removal without places of its own. Its keys are uids, or
    ``namespace/name`` for pods without a uid.
    """
    sequence = _RemovalSequence(seen, removals, places, settings)
    found = [(removal, rule) for removal in removals for rule in sequence.follow(removal)]
    found += sequence.without_place()
    found += sequence.broken_gangs()
    found += _broken_disruption_budgets(seen, removals)
    found += sequence.broken_anti_affinity(removals)
    return tuple(PlanViolation(removal, rule) for removal, rule in found)


_REASONS = {
    RemovalReason.EMPTY: DisruptionReason.EMPTY,
    RemovalReason.UNDERUTILIZED: DisruptionReason.UNDERUSED,
    RemovalReason.REPLACED: DisruptionReason.REPLACED,
    RemovalReason.EXPIRED: DisruptionReason.EXPIRED,
    RemovalReason.DRIFTED: DisruptionReason.DRIFTED,
    RemovalReason.PREFERRED: DisruptionReason.PREFERRED,
    RemovalReason.INTERRUPTED: DisruptionReason.INTERRUPTED,
}


def _broken_disruption_budgets(seen: Observation, removals: Sequence[NodeRemoval]) -> Iterator[tuple[NodeRemoval, str]]:
    """Yield each removal beyond what an open disruption budget allows.

    Removals of machines that a cloud is about to take need no budget from ``drain_by`` on.
    """
    nodes = {node.name: node for node in seen.snapshot.live_nodes()} if seen.disruption.disruption else {}
    for budget in seen.disruption.disruption if removals else ():
        if not opening(budget.when, seen.now).is_open:
            continue
        going = [held.removal for held in seen.removing.values()]
        asking = [
            one
            for one in removals
            if one.reason in _REASONS
            and budget.holds_for(_REASONS[one.reason])
            and not (one.is_forced and one.drain_by <= seen.now)
        ]
        covered = [
            one
            for one in (*going, *asking)
            if one.node in nodes and budget.match.covers(one.group, nodes[one.node].metadata.labels)
        ]
        most = budget.allowed(len(nodes))  # nodes of other groups included: never less than what the budget counts
        yield from ((one, "a disruption budget allows no more nodes") for one in covered[most:] if one in asking)


class _PlannedMoves(NamedTuple):
    """The pods that a removal moves, and the node that each moves to; empty: the plan names none."""

    removal: NodeRemoval
    moving_pods: ProfiledPods
    places: list[str]


class _RemovalSequence:
    """Sizes, disruption budgets and free capacity, updated after each removal of a plan."""

    def __init__(
        self, seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
    ) -> None:
        self._seen = seen
        self._settings = settings
        self._places = places
        leaving_nodes = {removal.node for removal in removals} | seen.removing.keys()
        self._capacity = CapacityCheck(seen.snapshot, leaving_nodes, settings.pods.expendable_pods_priority_cutoff)
        self._leaving: Counter[GroupRef] = Counter(_still_counted(seen))
        self._used_disruptions: Counter[str] = Counter()
        self._begun: set[str] = set(seen.removing)
        self._minimums = MinimumCheck(seen, settings.limits, self._begun)
        self._moves: list[_PlannedMoves] = []
        self._refused: set[str] = set()
        self._machines: dict[GroupRef, frozenset[str]] = {}
        nodes = seen.snapshot.live_nodes() if removals else []
        self._nodes_of: Counter[str] = Counter(node.spec.provider_id for node in nodes)
        self._immovable: dict[PodProfile, str | None] = {}
        self._budgets: dict[PodProfile, tuple[PodDisruptionBudget, ...]] = {}

    def follow(self, removal: NodeRemoval) -> list[str]:
        """Return the rules that a removal breaks, and apply its effect for the check of later removals.

        ``without_place`` checks capacity at the end.
        """
        row = self._seen.snapshot.find_row(removal.node)
        if row is None:
            return [f"there is no node {removal.node}"]
        node = self._seen.snapshot.node(row)
        broken = [*self._broken_by_node(removal, node)]
        if removal.is_forced:
            broken += self._broken_by_notice(removal, node)
        else:
            broken += self._broken_by_pods(removal, find_pods(self._seen.snapshot, row))
        if not self._settings.policy.counts_leaving_nodes:
            broken += self._minimums.take(node)
        self._begun.add(removal.node)
        self._leaving[removal.group] += 1
        return broken

    def _broken_by_node(self, removal: NodeRemoval, node: Node) -> Iterator[str]:
        group = self._seen.groups.get(removal.group)
        if node.name in self._begun:
            yield f"node {node.name} is being removed already"
        if not removal.deletes:
            return
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
            yield f"group {removal.group} has no machine {removal.instance_id}"
        if node.metadata.annotations.get(_DISABLED) == "true" and not removal.is_forced:
            yield f"node {node.name} has the annotation scale-down-disabled"
        if group.target - self._leaving[removal.group] - 1 < group.group.min_size:
            yield f"group {removal.group} would fall below its minimum of {group.group.min_size}"

    def _broken_by_notice(self, removal: NodeRemoval, node: Node) -> Iterator[str]:
        """Check that the cloud or the node announces an interruption: only then may a drain be forced."""
        provider = self._seen.providers.get(removal.group.provider)
        notices = provider.interruptions if provider is not None else ()
        told = any(notice.instance_id.lower() == removal.instance_id.lower() for notice in notices)
        signals = parse_signals(self._settings.interruptions.interruption_signal)
        if not told and not any(signal.is_on(node) for signal in signals):
            yield f"neither its cloud nor its node announces an interruption of machine {removal.instance_id}"

    def _broken_by_pods(self, removal: NodeRemoval, pods: ProfiledPods) -> Iterator[str]:
        """Check that the node's pods are those of the plan and may be moved; record the node that each moves to."""
        immovable = {profile: self._why_immovable(profile) for profile in pods.distinct}
        for pod, profile in zip(pods.pods, pods.profiles, strict=True) if any(immovable.values()) else ():
            if immovable[profile]:
                yield f"pod {pod.key} may not be moved: {immovable[profile]}"
        moving = pods.only(profile for profile, reason in immovable.items() if reason is None)
        planned = dict(zip_longest(removal.pods, removal.places, fillvalue=""))
        unplanned = [key for key in moving.keys if key not in planned]
        if unplanned:
            yield f"pods run on the node that the plan does not name: {', '.join(sorted(unplanned))}"
        if self._seen.workloads.budgets:
            yield from self._broken_budgets(moving)
        needing = moving.only(profile for profile in moving.distinct if not self._ends(profile.pod))
        known_as = zip(needing.ids, needing.keys, strict=True)
        places = [planned.get(key) or self._place(pod_id, key) for pod_id, key in known_as]
        self._moves.append(_PlannedMoves(removal, needing, places))

    def _place(self, pod_id: str, key: str) -> str:
        return self._places.get(pod_id) or self._places.get(key, "")

    def _why_immovable(self, profile: PodProfile) -> str | None:
        """Return ``why_immovable`` of the profile, cached; expendable pods end with their node."""
        if profile not in self._immovable:
            budgets, void = self._seen.workloads.budgets, self._capacity.is_void(profile)
            self._immovable[profile] = (
                ""
                if void
                else why_immovable(profile.pod, budgets, self._settings.drain, self._settings.policy, self._seen.now)
            )
        return self._immovable[profile]

    def _broken_budgets(self, moving: ProfiledPods) -> Iterator[str]:
        """Check that each disruption budget allows at least one more disruption when the node is drained.

        The API server enforces the rest.
        """
        about = {profile: self._budgets_of(profile) for profile in moving.distinct}
        spared = {profile for profile in moving.distinct if _is_waived(profile.pod) or self._ends(profile.pod)}
        touched: Counter[str] = Counter()
        for pod, profile in zip(moving.pods, moving.profiles, strict=True) if any(about.values()) else ():
            if len(about[profile]) > 1 and self._settings.policy.refuses_several_budgets:
                yield f"pod {pod.key} may not be moved: more than one disruption budget selects it"
            for budget in about[profile] if profile not in spared else ():
                left = budget.status.disruptions_allowed - self._used_disruptions[budget.key]
                if left < 1 and not touched[budget.key]:
                    yield f"disruption budget {budget.key} allows no more: pod {pod.key}"
                touched[budget.key] += 1
        self._used_disruptions += touched

    def _budgets_of(self, profile: PodProfile) -> tuple[PodDisruptionBudget, ...]:
        if profile not in self._budgets:
            self._budgets[profile] = tuple(b for b in self._seen.workloads.budgets if matches(b, profile.pod))
        return self._budgets[profile]

    def _ends(self, pod: Pod) -> bool:
        """Return whether a pod is terminating and its controller has created a replacement, so that it needs no place.

        CA requires a place for it.
        """
        owner = pod.metadata.controller
        ends = pod.metadata.deletion_timestamp is not None and self._settings.policy.replaced_pods_need_no_place
        return ends and owner is not None and owner.kind in ("ReplicaSet", "ReplicationController")

    def without_place(self) -> Iterator[tuple[NodeRemoval, str]]:
        """Yield the pods that do not fit on their planned node.

        Pods are checked one by one only on nodes where they may not all fit together.
        """
        doubtful = self._capacity.find_doubtful(
            Counter(
                chain.from_iterable(
                    zip(moving_pods.profiles, places, strict=True) for _, moving_pods, places in self._moves
                )
            )
        )
        for removal, moving_pods, places in self._moves if doubtful else ():
            for pod, profile, place in zip(moving_pods.pods, moving_pods.profiles, places, strict=True):
                why = ""
                if place in doubtful:
                    why = self._capacity.take(profile, place) if place else "the plan names no node for it"
                if why:
                    self._refused.add(pod.key)
                    yield removal, f"pod {pod.key} has no place: {why}"

    def broken_gangs(self) -> Iterator[tuple[NodeRemoval, str]]:
        """Yield the removals that together leave a running gang with fewer pods than it needs, but with at least one."""
        if not self._settings.policy.serves_gangs:
            return
        going: dict[GangRef, list[NodeRemoval]] = {}
        for removal, moving_pods, _ in self._moves:
            for pod in moving_pods.pods:
                ref = _gang_of(pod)
                if ref is not None:
                    going.setdefault(ref, []).append(removal)
        on_nodes, staying = self._find_members(going)
        for ref, removals in going.items():
            least = self._least_of(ref, on_nodes[ref], staying.get(ref, ()))
            left = len(staying.get(ref, ())) - len(removals)
            if 0 < left < least:
                text = f"gang {ref.key} would keep {left} pod{'s' if left > 1 else ''}, and needs {least}"
                yield from ((removal, text) for removal in {one.node: one for one in removals}.values())

    def _find_members(self, refs: Collection[GangRef]) -> tuple[Counter[GangRef], dict[GangRef, list[Pod]]]:
        """Return how many pods of these gangs run, and those of them on nodes that are not being drained yet."""
        seen = self._seen
        drained = {name for name, held in seen.removing.items() if held.removal.drains}
        on_nodes, staying = Counter[GangRef](), dict[GangRef, list[Pod]]()
        for row, node in seen.snapshot.nodes() if refs else ():
            for pod in seen.snapshot.pods(row):
                ref = _gang_of(pod)
                if ref is not None and ref in refs:
                    on_nodes[ref] += 1
                    if node.name not in drained:
                        staying.setdefault(ref, []).append(pod)
        return on_nodes, staying

    def _least_of(self, ref: GangRef, on_nodes: int, staying: Sequence[Pod]) -> int:
        """Return how many of these pods of a gang must stay."""
        terms = find_terms(ref, staying[0], self._seen.pod_groups) if staying else None
        if terms is None or terms.is_missing:
            return 0
        runs = on_nodes >= terms.min_count or any(find_gang(pod) == ref for pod in self._seen.pending)
        return min(len(staying), terms.min_count) if runs else 0

    def broken_anti_affinity(self, removals: Sequence[NodeRemoval]) -> Iterator[tuple[NodeRemoval, str]]:
        """Yield the pods whose planned node violates anti-affinity.

        Not checked without ``confirms_removals`` (as in CA): CA plans its removals together and then selects a part of
        them, and a part may violate anti-affinity.
        """
        anti_affinity = AntiAffinityCheck(self._seen.snapshot, self._begun)
        if not self._settings.policy.confirms_removals or not anti_affinity.any_terms:
            return
        planned = {pod: removal for removal in removals for pod in removal.pods}
        for pod, why in anti_affinity.conflicts(self._arrivals()):
            if pod.key in planned:
                yield planned[pod.key], f"pod {pod.key} has no place: {why}"

    def _arrivals(self) -> Iterator[Arrival]:
        snapshot = self._seen.snapshot
        for _, moving_pods, places in self._moves:
            for pod, profile, place in zip(moving_pods.pods, moving_pods.profiles, places, strict=True):
                if pod.key not in self._refused:
                    yield Arrival(pod, profile, snapshot.node(snapshot.row(place)))


def _gang_of(pod: Pod) -> GangRef | None:
    """Return the gang of a pod that is not being deleted."""
    return find_gang(pod) if pod.metadata.deletion_timestamp is None else None


def _still_counted(seen: Observation) -> Mapping[GroupRef, int]:
    """Return for each group the number of removals under way: its target still counts these machines."""
    return Counter(removing.removal.group for removing in seen.removing.values())


def _is_waived(pod: Pod) -> bool:
    """Return whether an annotation exempts the pod from budgets in planning; the API server still enforces them."""
    return pod.metadata.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "true"


class MinimumCheck:
    """The minimum amounts of the cluster, and the amounts that remain; nodes named in ``gone`` do not count."""

    def __init__(self, seen: Observation, settings: LimitSettings, gone: Collection[str]) -> None:
        limits = make_resource_limits(settings)
        least = {"cpu": limits.min_cores, "memory": limits.min_memory_bytes, **limits.min_gpu}
        self._least = {name: amount for name, amount in least.items() if amount > 0}
        self._devices = Devices(seen)
        self._remaining: Counter[str] = Counter()
        for _, node in seen.snapshot.nodes() if self._least else ():
            if node.name not in gone and not _is_virtual(node):
                for name, amount in self._offers(node).items():
                    self._remaining[name] += amount

    def take(self, node: Node) -> Iterator[str]:
        """Remove the node; yield the minimums that are violated without it."""
        if not self._least or _is_virtual(node):
            return
        for name, amount in self._offers(node).items():
            self._remaining[name] -= amount
            if amount and name in self._least and self._remaining[name] < self._least[name]:
                yield f"{name} of the cluster would fall below its minimum of {self._least[name]}"

    def _offers(self, node: Node) -> dict[str, int]:
        """Return the node's cores, memory (bytes) and devices; devices that have not appeared yet are included."""
        held = node.status.capacity
        offers: dict[str, int] = {name: held[name].value for name in ("cpu", "memory") if name in held}
        kind, devices = self._devices.of(node)
        return {**offers, kind: devices} if kind in self._least else offers


def _is_virtual(node: Node) -> bool:
    """Return whether the node is one of virtual-kubelet, which counts for no limit."""
    return node.metadata.labels.get("type") == "virtual-kubelet"


_COSTS_LESS = (DisruptionReason.UNDERUSED, DisruptionReason.REPLACED)
_DRAINS = (MoveStage.READY, MoveStage.DRAINING)


def check_moves(
    seen: Observation, moves: Sequence[Move], actions: Sequence[PlannedAction], removals: Sequence[NodeRemoval]
) -> tuple[PlanViolation, ...]:
    """Return every removal that comes too early, and the growth of every move that must not begin."""
    found = list[PlanViolation]()
    live = [move for move in moves if not move.stage.is_over]
    times = Counter(name for move in live for name in move.sources)
    sources = {name: move for move in live for name in move.left}
    for removal in removals:
        if removal.node in sources:
            found += [PlanViolation(removal, rule) for rule in _broken_by_removal(seen, removal, sources, times)]
    for move in live:
        if move.stage != MoveStage.PROPOSED:
            continue
        rules = list(_broken(seen, move, times))
        wanted = _counts(move)
        for action in actions:
            if isinstance(action, IncreaseSize) and action.group in wanted:
                found += [PlanViolation(action, rule) for rule in rules]
                grown = action.target - action.expected_target
                if grown > wanted[action.group]:
                    text = f"group {action.group} grows by {grown}, and move {move.id} needs {wanted[action.group]}"
                    found.append(PlanViolation(action, text))
    return tuple(found)


def _broken_by_removal(
    seen: Observation, removal: NodeRemoval, sources: Mapping[str, Move], times: Mapping[str, int]
) -> Iterator[str]:
    """Yield the rules against removing a source now; a machine that the cloud takes may always be removed."""
    if removal.is_forced:
        return
    move = sources[removal.node]
    if times[removal.node] > 1:
        yield f"node {removal.node} is in two moves"
    if move.added and move.stage not in _DRAINS:
        yield f"node {removal.node} is drained before the new nodes of move {move.id} are ready ({move.stage})"
    for place in dict.fromkeys(filter(None, removal.places)):
        if place in sources:
            yield f"pods of node {removal.node} are to go to node {place}, which move {sources[place].id} gives up"
        if not _is_ready(seen, place):
            yield f"pods of node {removal.node} are to go to node {place}, which is not ready"


def _is_ready(seen: Observation, name: str) -> bool:
    row = seen.snapshot.find_row(name)
    conditions = seen.snapshot.node(row).status.conditions if row is not None else ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _counts(move: Move) -> Counter[GroupRef]:
    """Return how many nodes of each group the move adds."""
    found = Counter[GroupRef]()
    for one in move.added:
        found[one.group] += one.nodes
    return found


def _broken(seen: Observation, move: Move, times: Mapping[str, int]) -> Iterator[str]:
    for name in move.sources:
        if times[name] > 1:
            yield f"node {name} is in two moves"
        if name not in seen.snapshot:
            yield f"move {move.id} gives up node {name}, which does not exist"
        if name in seen.removing:
            yield f"move {move.id} gives up node {name}, which is being removed"
    if move.reason == DisruptionReason.PREFERRED:
        yield from _broken_by_price(seen, move)
    if move.reason not in _COSTS_LESS:
        return
    prices = {ref: seen.groups[ref].hourly_price if ref in seen.groups else None for ref in _counts(move)}
    unpriced = [ref for ref, price in prices.items() if price is None]
    yield from (f"the price of nodes of group {ref} is unknown, and move {move.id} adds some" for ref in unpriced)
    price = sum((prices[ref] or 0.0) * count for ref, count in _counts(move).items())
    before = _price_of(seen, move.sources)
    if before is None:
        yield f"the price of the old nodes of move {move.id} is unknown"
    elif not unpriced and price >= before:
        yield f"the new nodes of move {move.id} cost ${price:.4f} an hour, and the old ones ${before:.4f}"


def _broken_by_price(seen: Observation, move: Move) -> Iterator[str]:
    """Yield that a move to a preferred group costs more, if what its nodes cost is known."""
    prices = {ref: seen.groups[ref].hourly_price if ref in seen.groups else None for ref in _counts(move)}
    before = _price_of(seen, move.sources)
    if before is None or any(price is None for price in prices.values()):
        return
    price = sum((prices[ref] or 0.0) * count for ref, count in _counts(move).items())
    # Sums of floats: three nodes at 0.1 cost as much as one at 0.3.
    if price > before and not math.isclose(price, before):
        yield f"the new nodes of move {move.id} cost ${price:.4f} an hour, and the old ones ${before:.4f}"


def _price_of(seen: Observation, names: Sequence[str]) -> float | None:
    """Return the price of nodes, in USD an hour; None if the machine or the price of one is unknown.

    A group's price is that of its next node, and says nothing of a node of another machine type.
    """
    group_of = {instance.id.lower(): ref for ref, group in seen.groups.items() for instance in group.instances or ()}
    total = 0.0
    for name in names:
        row = seen.snapshot.find_row(name)
        ref = group_of.get(seen.snapshot.node(row).spec.provider_id.lower()) if row is not None else None
        if row is None or ref is None or not _is_alike(seen.snapshot.node(row), seen.groups[ref].template):
            return None
        price = seen.groups[ref].hourly_price
        if price is None:
            return None
        total += price
    return total


def _is_alike(node: Node, template: Node | None) -> bool:
    """Return whether a node may be of the machine type of its group's next node."""
    types = {one.metadata.labels.get(INSTANCE_TYPE_LABEL) for one in (node, template) if one is not None}
    return len(types - {None, ""}) < 2
