"""Plan a mix of several groups at the least price (--expander=least-cost; docs/cost.md).

Pods go through the optimizer if the room on a node depends on amounts alone, or on other pods of that node alone
(anti-affinity, host ports, spread by hostname), and if they are spread by zone. A place is used only if all predicates of
kube-scheduler agree at the end. All other pods are left to the estimator.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nodewright.estimator.packing import repels_itself
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.group import GroupRef
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.plan import Expansion, PlannedNode
from nodewright.model.pod import Pod, TopologySpreadConstraint
from nodewright.optimizer.bound import find_values
from nodewright.optimizer.mix import find_mix
from nodewright.optimizer.problem import Mix, Problem
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.balancing import balance_sizes, is_similar
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import paid_nodes
from nodewright.planner.scale_up.planned_nodes import PlannedPod, add_planned, place_in_rounds
from nodewright.predicates import amounts_room, is_countable, static_fit
from nodewright.predicates.inter_pod_affinity import terms_of
from nodewright.predicates.node_ports import host_ports
from nodewright.predicates.pod_topology_spread import hard_constraints, pods_in_domains
from nodewright.snapshot.observation import hourly_cost
from nodewright.snapshot.pod_class import PodClass, is_restricted, kind_of
from nodewright.snapshot.requests import PODS
from nodewright.snapshot.snapshot import Snapshot

_ANY = 10**9
# A machine that is paid already counts with this part of its price.
_PAID = 1e-3


@dataclass(frozen=True, kw_only=True)
class PlannedMix:
    """The new nodes with their pods, the expansions that add them, and their price and its bound in USD an hour.

    ``bound`` is None if some of the pods got no place.
    ``is_cut``: the time for improvements was up early. ``is_limited``: limits of the cluster allow only a part of the mix.
    ``later``: pods of nodes beyond --max-nodes-per-scaleup. ``snapshot``: the cluster with these nodes and pods (None: it
    was not needed to check their places).
    """

    nodes: tuple[PlannedNode, ...]
    expansions: tuple[Expansion, ...]
    price: float
    bound: float | None
    is_cut: bool
    is_limited: bool = False
    later: tuple[Pod, ...] = ()
    snapshot: Snapshot | None = None


@dataclass(frozen=True, kw_only=True)
class MixTerms:
    """The demands on a mix besides the least price.

    ``whole``: zero-or-max groups that get all their machines, so that room on them costs nothing more. ``surcharges`` are
    added to the price of a node, by group, so that the mix takes less of a scarce limit. ``time_share`` is the part of the
    time budget that the search may take; 0: the first mix is enough.
    """

    whole: frozenset[GroupRef] = frozenset()
    surcharges: Mapping[GroupRef, float] = field(default_factory=dict)
    time_share: float = 1.0


@dataclass(eq=False)
class Demand:
    """Pods that are planned alike: those of one class that go to ``groups``, at most ``per_node`` on one node."""

    pod_class: PodClass
    groups: frozenset[GroupRef]
    per_node: int
    pods: list[Pod] = field(default_factory=list)


class _NodeKind(NamedTuple):
    """Groups whose new nodes are alike and cost the same, in USD an hour, and how many of these they may get together."""

    refs: tuple[GroupRef, ...]
    price: float
    room: int


class MixProblem(NamedTuple):
    """The pods that are planned for, the kinds of nodes for them, and the problem with a row for each of both."""

    demands: list[Demand]
    kinds: list[_NodeKind]
    problem: Problem


def plan_mix(
    context: PlanningContext,
    pod_groups: Sequence[PodGroup],
    fit: NodeGroupFit,
    may_grow: Sequence[GroupRef],
    probation: Probation,
    terms: MixTerms,
) -> PlannedMix | None:
    """Return the cheapest mix of the groups for the pods, within the cluster's limits; None if it helps no pod.

    Every group in ``may_grow`` has a price; a zero-or-max group is among them only if it is bought as a whole.
    """
    made = make_mix_problem(context, pod_groups, fit, may_grow, probation, terms)
    if made is None:
        return None
    demands, kinds, problem = made
    values = find_values(problem)
    began, elapsed = context.state.elapsed(), context.state.elapsed
    budget = terms.time_share * context.settings.scale_up.least_cost_budget
    mix = find_mix(problem, values, lambda: (elapsed() - began) / budget if budget else 1.0)
    wanted = list(_nodes(context, demands, kinds, mix))
    nodes = _within_limits(context, wanted, terms.whole)
    most = context.settings.scale_up.max_nodes_per_scaleup or len(nodes)
    later = tuple(pod for node in nodes[most:] for pod in node.pods)
    placed, snapshot = _without_misplaced(context, demands, nodes[:most])
    if not placed:
        return None
    expansions = _expansions(context, placed, terms.whole)
    return PlannedMix(
        nodes=tuple(placed),
        expansions=expansions,
        price=_price_of(context, expansions),
        bound=values.bound if sum(len(node.pods) for node in placed) == sum(problem.pods) else None,
        is_cut=mix.is_cut,
        is_limited=len(nodes) < len(wanted),
        later=later,
        snapshot=snapshot,
    )


def _price_of(context: PlanningContext, expansions: Sequence[Expansion]) -> float:
    """Return what the new nodes cost, in USD an hour; those that are paid already cost nothing."""
    groups = [context.state.groups[expansion.group].seen for expansion in expansions]
    unused = {seen.reserved.name: paid_nodes(context, seen.ref) for seen in groups if seen.reserved is not None}
    return hourly_cost(groups, {expansion.group: expansion.added for expansion in expansions}, unused).total


# The problem


def make_mix_problem(
    context: PlanningContext,
    pod_groups: Sequence[PodGroup],
    fit: NodeGroupFit,
    may_grow: Sequence[GroupRef],
    probation: Probation,
    terms: MixTerms,
) -> MixProblem | None:
    """Return the problem of the pods for which one of the groups may grow; None if there are none."""
    demands = list(_demands(context, pod_groups, fit, may_grow, probation))
    kinds = _kinds(context, fit, demands, may_grow, probation, terms)
    return MixProblem(demands, kinds, _problem(fit, demands, kinds)) if kinds else None


def _demands(
    context: PlanningContext,
    pod_groups: Sequence[PodGroup],
    fit: NodeGroupFit,
    may_grow: Sequence[GroupRef],
    probation: Probation,
) -> Iterator[Demand]:
    # Most classes fit the same groups: these share one set, whose hash is computed once.
    by_class, shared = dict[PodClass, list[Pod]](), dict[frozenset[GroupRef], frozenset[GroupRef]]()
    spare: Snapshot | None = None
    for group in pod_groups:
        by_class.setdefault(group.pod_class, []).extend(group.pods)
    for pod_class, pods in by_class.items():
        per_node = most_per_node(context.snapshot, pod_class)
        spread = [one for one in hard_constraints(pod_class) if one.topology_key != HOSTNAME_LABEL]
        # The groups that fit the first pod need not be in the domains that its siblings must use.
        groups = fit.fits_alone(pod_class) if spread else fit.fits(pod_class)
        growing = shared.setdefault(groups, groups.intersection(may_grow))
        groups = probation.taking(growing, PodGroup(pod_class, pods))
        groups = shared.setdefault(groups, groups)
        if not per_node or not groups or len(spread) > 1:
            continue
        if spread:
            # Pods for which existing nodes of their domain have room go there as soon as other domains have a node.
            spare = spare or context.snapshot.fork()
            key = spread[0].topology_key
            for value, dealt, refs in _by_domain(context, pod_class, pods, groups, spread[0]):
                placed = _take_room(spare, pod_class, key, value, len(dealt)) if per_node == _ANY else 0
                if placed < len(dealt):
                    yield Demand(pod_class, refs, per_node, dealt[placed:])
        else:
            yield Demand(pod_class, groups, per_node, pods)


def most_per_node(snapshot: Snapshot, pod_class: PodClass) -> int:
    """Return how many pods of a class one new node may take, amounts aside; 0: that depends on other nodes."""
    if is_countable(snapshot, pod_class):
        return _ANY
    spec, terms = pod_class.spec, terms_of(pod_class)
    if terms.affinity or terms.broken is not None or spec.resource_claims or any(map(is_restricted, spec.volumes)):
        return 0
    if any(term.key != HOSTNAME_LABEL for term in terms.anti_affinity):
        return 0
    if host_ports(pod_class) or repels_itself(snapshot, pod_class):
        return 1
    skews = [one.max_skew for one in hard_constraints(pod_class) if one.topology_key == HOSTNAME_LABEL]
    return min(skews, default=_ANY)


def _by_domain(
    context: PlanningContext,
    pod_class: PodClass,
    pods: Sequence[Pod],
    groups: frozenset[GroupRef],
    constraint: TopologySpreadConstraint,
) -> Iterator[tuple[str, list[Pod], frozenset[GroupRef]]]:
    """Yield each topology domain, its pods, and its groups: pods go in turn to the domain with the fewest."""
    domains: dict[str, set[GroupRef]] = {}
    for ref in groups:
        value = context.templates[ref].node.metadata.labels.get(constraint.topology_key)
        if value is not None:
            domains.setdefault(value, set()).add(ref)
    counts = pods_in_domains(context.snapshot, pod_class, constraint.topology_key, sorted(domains))
    found: dict[str, list[Pod]] = {value: [] for value in counts}
    for pod in pods if counts else ():
        value = min(counts, key=lambda one: (counts[one], one))
        counts[value] += 1
        found[value].append(pod)
    yield from ((value, dealt, frozenset(domains[value])) for value, dealt in found.items())


def _take_room(spare: Snapshot, pod_class: PodClass, key: str, value: str, most: int) -> int:
    """Place up to ``most`` pods on nodes of a domain where amounts and static filters allow it; return how many."""
    every = slice(0, len(spare))
    room = np.where(static_fit(spare, pod_class, every) & spare.schedulable, amounts_room(spare, pod_class, every), 0)
    rows = np.array(
        [row for row in np.flatnonzero(room > 0).tolist() if spare.node(row).metadata.labels.get(key) == value], np.intp
    )
    counts = np.clip(most - (np.cumsum(room[rows]) - room[rows]), 0, room[rows])
    used = counts > 0
    if used.any():
        spare.place_many(pod_class, rows[used], counts[used])
    return int(counts.sum())


def _kinds(
    context: PlanningContext,
    fit: NodeGroupFit,
    demands: Sequence[Demand],
    may_grow: Sequence[GroupRef],
    probation: Probation,
    terms: MixTerms,
) -> list[_NodeKind]:
    """Return the kinds of nodes: groups whose new nodes are alike for these pods and cost the same are one kind.

    A group on probation is alone, and so is one that is bought as a whole. Machines that are paid already are a kind of
    their own.
    """
    sets = list(dict.fromkeys(demand.groups for demand in demands))
    kinds, paid, probes = list[_NodeKind](), dict[str, int](), probation.probes_left
    ordinary = dict[GroupRef, float]()
    for ref in may_grow:
        seen, most = context.state.groups[ref].seen, probation.most(ref)
        if not any(ref in groups for groups in sets):
            continue
        room, price = context.room(ref), (seen.hourly_price or 0.0) + terms.surcharges.get(ref, 0.0)
        if ref in terms.whole:
            kinds.append(_NodeKind((ref,), price * _PAID, room))
            continue
        if most is None and seen.reserved is None:
            ordinary[ref] = price
            continue
        if most is not None:
            room = min(room, most, probes)
            probes -= room
        free = 0
        if seen.reserved is not None:
            free = min(room, paid.setdefault(seen.reserved.name, paid_nodes(context, ref)))
            paid[seen.reserved.name] -= free
            kinds.append(_NodeKind((ref,), price * _PAID, free))
        kinds.append(_NodeKind((ref,), price, room - free))
    for refs in alike_groups(fit, sets, ordinary):
        kinds.append(_NodeKind(refs, ordinary[refs[0]], sum(map(context.room, refs))))
    return kinds


def alike_groups(
    fit: NodeGroupFit, taking: Iterable[frozenset[GroupRef]], prices: Mapping[GroupRef, float]
) -> list[tuple[GroupRef, ...]]:
    """Return the groups with a price that take one of the demands, as sets whose new nodes are alike and cost the same.

    ``taking``: for each demand the groups that take its pods. ``prices``: USD an hour.
    """
    sets = list(dict.fromkeys(taking))
    found: dict[tuple[tuple[int, ...], frozenset[tuple[str, int]], float], list[GroupRef]] = {}
    for ref, price in prices.items():
        takes = tuple(number for number, groups in enumerate(sets) if ref in groups)
        if takes:
            found.setdefault((takes, fit.free(ref), price), []).append(ref)
    return [tuple(refs) for refs in found.values()]


def _problem(fit: NodeGroupFit, demands: Sequence[Demand], kinds: Sequence[_NodeKind]) -> Problem:
    names = list(dict.fromkeys((PODS, *(name for demand in demands for name in demand.pod_class.requests))))
    free = [dict(fit.free(kind.refs[0])) for kind in kinds]
    sets = {demand.groups for demand in demands}
    fits = {groups: [kind.refs[0] in groups for kind in kinds] for groups in sets}
    return Problem(
        requests=np.array(
            [[1 if name == PODS else demand.pod_class.requests.get(name, 0) for name in names] for demand in demands],
            dtype=float,
        ),
        pods=[len(demand.pods) for demand in demands],
        per_node=[demand.per_node for demand in demands],
        free=np.array([[max(0, offered.get(name, 0)) for name in names] for offered in free], dtype=float),
        prices=np.array([kind.price for kind in kinds], dtype=float),
        rooms=[kind.room for kind in kinds],
        fits=np.array([fits[demand.groups] for demand in demands], dtype=bool),
    )


# What is bought


def _nodes(
    context: PlanningContext, demands: Sequence[Demand], kinds: Sequence[_NodeKind], mix: Mix
) -> Iterator[PlannedNode]:
    """Yield the nodes of the mix with their pods; nodes of one kind are distributed over its groups."""
    wanted = Counter[int]()
    for pattern in mix.patterns:
        wanted[pattern.kind] += pattern.copies
    turns = {kind: _turns(context, kinds[kind].refs, count) for kind, count in wanted.items()}
    taken, kind_names = [0] * len(demands), [kind_of(demand.pod_class) for demand in demands]
    for pattern in mix.patterns:
        by_kind = _counted((kind_names[one], count) for one, count in pattern.pods)
        for _ in range(pattern.copies):
            pods = list[Pod]()
            for one, count in pattern.pods:
                pods += demands[one].pods[taken[one] : taken[one] + count]
                taken[one] += count
            yield PlannedNode(group=next(turns[pattern.kind]), pods=tuple(pods), kinds=by_kind)


def _counted(pairs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return the sum of each name, sorted by name."""
    sums = Counter[str]()
    for name, count in pairs:
        sums[name] += count
    return tuple(sorted(sums.items()))


def _turns(context: PlanningContext, refs: Sequence[GroupRef], count: int) -> Iterator[GroupRef]:
    """Yield the group of each of ``count`` nodes: the smallest group if groups are balanced, else each group until it is full.

    Groups that do not exist yet are not balanced. They come last.
    """
    left = count
    if context.settings.scale_up.balance_similar_node_groups and refs[0] not in context.new_groups:
        existing = [ref for ref in refs if ref not in context.new_groups]
        alike = [ref for ref in existing if ref == refs[0] or is_similar(context, refs[0], ref)]
        targets = [context.state.groups[ref].seen.target or 0 for ref in alike]
        sizes = [(target, target + context.room(ref)) for target, ref in zip(targets, alike, strict=True)]
        for ref, target, size in zip(alike, targets, balance_sizes(sizes, count), strict=True):
            yield from [ref] * (size - target)
            left -= size - target
        refs = [ref for ref in refs if ref not in alike]
    for ref in refs:
        part = min(left, context.room(ref))
        yield from [ref] * part
        left -= part


def _without_misplaced(
    context: PlanningContext, demands: Iterable[Demand], nodes: Sequence[PlannedNode]
) -> tuple[Sequence[PlannedNode], Snapshot | None]:
    """Return the nodes without the pods that a predicate rejects there. Drop nodes that have no pods left.

    Return also the cluster with these nodes and pods; None if it was not built or has other nodes too. If only amounts
    decide, nothing is checked: the mix respects all amounts.
    """
    if all(is_countable(context.snapshot, demand.pod_class) for demand in demands):
        return nodes, None
    snapshot = context.snapshot.fork()
    rows = add_planned(snapshot, nodes, context.templates)
    by_class: dict[PodClass, list[tuple[int, Pod]]] = {}
    for row, node in zip(rows, nodes, strict=True):
        for pod in node.pods:
            by_class.setdefault(snapshot.class_of(pod), []).append((row, pod))
    kept: dict[int, list[Pod]] = {row: [] for row in rows}
    # Countable pods first: no place of theirs depends on the others.
    for pod_class, places in sorted(by_class.items(), key=lambda item: not is_countable(snapshot, item[0])):
        if is_countable(snapshot, pod_class):
            counts = Counter(row for row, _ in places)
            snapshot.place_many(pod_class, np.fromiter(counts, int), np.fromiter(counts.values(), int))
            for row, pod in places:
                kept[row].append(pod)
            continue
        placed, _ = place_in_rounds(snapshot, [PlannedPod(pod_class, row, pod) for row, pod in places])
        for one in placed:
            kept[one.row].append(one.pod)
    found = [
        node if len(kept[row]) == len(node.pods) else _with_pods(snapshot, node, kept[row])
        for row, node in zip(rows, nodes, strict=True)
        if kept[row]
    ]
    return found, snapshot if len(found) == len(nodes) else None


def _with_pods(snapshot: Snapshot, node: PlannedNode, pods: Sequence[Pod]) -> PlannedNode:
    kinds = _counted((kind_of(snapshot.class_of(pod)), 1) for pod in pods)
    return PlannedNode(group=node.group, pods=tuple(pods), kinds=kinds)


def _within_limits(
    context: PlanningContext, nodes: Sequence[PlannedNode], whole: Iterable[GroupRef]
) -> Sequence[PlannedNode]:
    """Return the nodes that the cluster's limits allow: first those with the most pods for their share of the limits."""
    counts, left = _counts(context, nodes, whole), context.nodes_left
    if context.allows(counts):
        return nodes
    templates = context.templates
    tried, kept = context.quota.fork(), list[PlannedNode]()
    for ref in whole:
        count = context.room(ref)
        if (left is None or count <= left) and tried.allowed(templates[ref].node, count)[0] == count:
            tried.consume(templates[ref].node, count)
            left = None if left is None else left - count
            kept += [node for node in nodes if node.group == ref]
    shares = {ref: limit_share(context, ref) for ref in counts}
    prices = {ref: context.state.groups[ref].seen.hourly_price or 0.0 for ref in counts}
    others = [node for node in nodes if node.group not in set(whole)]
    others.sort(key=lambda node: (shares[node.group] / len(node.pods), prices[node.group] / len(node.pods)))
    for node in others:
        if (left is None or left > 0) and tried.allowed(templates[node.group].node, 1)[0]:
            tried.consume(templates[node.group].node, 1)
            left = None if left is None else left - 1
            kept.append(node)
    return kept


def limit_share(context: PlanningContext, ref: GroupRef) -> float:
    """Return the largest share that one node of a group takes of the rest of a limit of the cluster."""
    left = context.nodes_left
    return max(context.quota.share(context.templates[ref].node), 1 / max(left, 1) if left is not None else 0.0)


def _counts(context: PlanningContext, nodes: Iterable[PlannedNode], whole: Iterable[GroupRef]) -> dict[GroupRef, int]:
    """Return how many nodes of each group are bought: all of a zero-or-max group, whether or not they have pods."""
    counts = Counter(node.group for node in nodes)
    return {ref: context.room(ref) if ref in set(whole) else count for ref, count in counts.items()}


def _expansions(
    context: PlanningContext, nodes: Sequence[PlannedNode], whole: Iterable[GroupRef]
) -> tuple[Expansion, ...]:
    found = []
    for ref, count in _counts(context, nodes, whole).items():
        seen = context.state.groups[ref].seen
        current = seen.target or 0
        found.append(Expansion(group=ref, current=current, target=current + count, maximum=seen.group.max_size))
    return tuple(found)
