"""A bound of the cost: the least that machines of the groups could cost for given pods.

The bound lets pods and machines be split and looks at each pod alone: at amounts of resources, at selectors, taints and volumes,
and not at other pods (spread, affinity, host ports).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.binpacking import Template
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.settings import PodSettings, Settings
from nodewright.optimizer.bound import find_values
from nodewright.optimizer.problem import Bools, Problem
from nodewright.planner.scale_up.pending_pods import is_expendable, is_pending, unhelped_namespaces
from nodewright.planner.scale_up.templates import empty_nodes, make_templates
from nodewright.predicates import is_admitted, static_key
from nodewright.snapshot.column import Ints
from nodewright.snapshot.observation import GroupSeen
from nodewright.snapshot.pod_class import PodClass, map_alike, per_class
from nodewright.snapshot.snapshot import RowCounts, Snapshot

_ENDLESS = 10**9


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shapes:
    """``S`` shapes of pods and an empty node of each of ``G`` groups.

    ``requests`` (S × resources): what a pod asks for. ``fits`` (S × G): the nodes that take it. ``pods`` (S): how many there are.
    ``free`` (G × resources): what a node offers.
    """

    requests: Ints
    fits: Bools
    pods: list[int]
    free: Ints


def machines_now(groups: Iterable[GroupSeen]) -> dict[GroupRef, int]:
    """Return how many machines each group has; groups whose machines could not be read are left out."""
    return {seen.ref: len(seen.instances) for seen in groups if seen.instances is not None}


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Groups from which machines may be taken for pods.

    ``rooms``: how many machines each of them may have or get. ``paid``: how many machines of each reservation cost nothing.
    """

    groups: Mapping[GroupRef, GroupSeen]
    templates: Mapping[GroupRef, Template]
    rooms: Mapping[GroupRef, int]
    paid: Mapping[str, int]


def find_bound(snapshot: Snapshot, offer: Offer, pods: Mapping[PodClass, int]) -> float | None:
    """Return the bound for these numbers of pods of each class, in USD an hour. Pods that fit none of the groups are left out.

    None: a group that takes one of the pods has no price.
    """
    refs = [ref for ref in offer.templates if offer.rooms.get(ref, 0) > 0]
    if not refs or not pods:
        return 0.0
    shapes = _shapes(empty_nodes(snapshot, [offer.templates[ref] for ref in refs]), pods)
    taking = np.flatnonzero(shapes.fits.any(axis=0)).tolist()
    if any(offer.groups[refs[row]].hourly_price is None for row in taking):
        return None
    problem = _problem(offer, refs, shapes)
    return find_values(problem).bound if len(problem.pods) else 0.0


def cluster_bound(state: ClusterState, settings: Settings) -> float | None:
    """Return the least that machines of the present groups could cost for all pods that run on them or wait.

    Maximum sizes are ignored: a bound that leaves pods without a machine could not be compared. None: a group that takes
    one of the pods has no price.
    """
    seen = {ref: group.seen for ref, group in state.groups.items()}
    offer = Offer(
        groups=seen,
        templates=make_templates(state, settings.templates),
        rooms={ref: _ENDLESS if one.group.max_size else 0 for ref, one in seen.items()},
        paid={one.reserved.name: one.reserved.count for one in seen.values() if one.reserved is not None},
    )
    return find_bound(state.observation.snapshot, offer, _all_pods(state, settings))


def _all_pods(state: ClusterState, settings: Settings) -> Counter[PodClass]:
    """Count the pods on nodes of groups and those that wait for room, without those that come with each node."""
    snapshot, pods = state.observation.snapshot, settings.pods
    of_no_group = {row for row, node in snapshot.nodes() if node.name not in state.group_of_node}
    found = Counter[PodClass]()
    for pod_class, rows in snapshot.placements():
        if not _counts(pod_class, pods):
            continue
        count = sum(rows.values()) - sum(rows[row] for row in rows.keys() & of_no_group)
        if count and not _comes_with_node(snapshot, pod_class, rows):
            found[pod_class] += count
    unhelped = unhelped_namespaces(snapshot, settings.policy)

    def waits_for_room(pod: Pod) -> bool:
        return is_pending(pod, pods) and not pod.is_daemonset_pod and pod.metadata.namespace not in unhelped

    waiting = [pod for pod, waits in map_alike(state.observation.pending, waits_for_room) if waits]
    for pod_class, alike in snapshot.vocabulary.classes.sort(waiting).items():
        found[pod_class] += len(alike)
    return found


def _counts(pod_class: PodClass, settings: PodSettings) -> bool:
    """Return whether pods of a class need a machine: they stay, are not expendable, and are not tied to one node."""
    return not (pod_class.terminating or _is_tied(pod_class) or is_expendable(pod_class.spec.priority, settings))


@per_class
def _is_tied(pod_class: PodClass) -> bool:
    """Return whether every term of the node affinity names nodes, as that of a DaemonSet's pod does."""
    affinity = pod_class.spec.affinity
    required = affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return bool(terms) and all(term.match_fields for term in terms)


def _comes_with_node(snapshot: Snapshot, pod_class: PodClass, rows: RowCounts) -> bool:
    """Return whether the pods of a class are DaemonSet or mirror pods, judged by one of them."""
    row = next(iter(rows))
    for pod, own in zip(snapshot.pods(row), snapshot.pod_classes(row), strict=True):
        if own is pod_class:
            return pod.is_daemonset_pod or pod.is_mirror
    return False


def _shapes(nodes: Snapshot, pods: Mapping[PodClass, int]) -> _Shapes:
    """Return the pods by amounts and by the nodes that take them; those that none takes are left out."""
    rows = [nodes.request_row(pod_class, placed=True) for pod_class in pods]
    requests = np.zeros((len(rows), len(nodes.vocabulary.resources)), dtype=np.int64)
    for number, row in enumerate(rows):
        requests[number, : len(row)] = row
    every, admitted = slice(0, len(nodes)), list[Bools]()
    known = dict[object, Bools]()
    for pod_class in pods:
        key = static_key(pod_class) if pod_class.is_plain else pod_class
        found = known.get(key)
        if found is None:
            found = known[key] = is_admitted(nodes, pod_class, every)
        admitted.append(found)
    free = np.maximum(nodes.free, 0)
    fits = np.array(admitted) & (requests[:, None, :] <= free[None, :, :]).all(axis=2)
    alike: dict[bytes, list[int]] = {}
    for number in np.flatnonzero(fits.any(axis=1)).tolist():
        alike.setdefault(requests[number].tobytes() + fits[number].tobytes(), []).append(number)
    first = [numbers[0] for numbers in alike.values()]
    counts = list(pods.values())
    return _Shapes(
        requests=requests[first],
        fits=fits[first],
        pods=[sum(counts[number] for number in numbers) for numbers in alike.values()],
        free=free,
    )


def _problem(offer: Offer, refs: Sequence[GroupRef], shapes: _Shapes) -> Problem:
    """Return the problem with one kind of nodes for groups that are alike; paid machines are a kind of their own."""
    kinds = dict[tuple[object, ...], tuple[int, float, int]]()
    for row in np.flatnonzero(shapes.fits.any(axis=0)).tolist():
        seen, room = offer.groups[refs[row]], offer.rooms[refs[row]]
        alike = (shapes.fits[:, row].tobytes(), shapes.free[row].tobytes())
        if seen.reserved is not None:
            most = offer.paid.get(seen.reserved.name, 0)
            _, _, before = kinds.get((seen.reserved.name, *alike), (row, 0.0, 0))
            kinds[seen.reserved.name, *alike] = (row, 0.0, min(most, before + room))
        price = seen.hourly_price or 0.0
        _, _, before = kinds.get((price, *alike), (row, price, 0))
        kinds[price, *alike] = (row, price, before + room)
    rows = [row for row, _, _ in kinds.values()]
    asked = shapes.requests.any(axis=0)
    return Problem(
        requests=shapes.requests[:, asked].astype(float),
        pods=shapes.pods,
        per_node=shapes.pods,
        free=shapes.free[rows][:, asked].astype(float),
        prices=np.array([price for _, price, _ in kinds.values()], dtype=float),
        rooms=[room for _, _, room in kinds.values()],
        fits=shapes.fits[:, rows],
    )
