"""Check the free capacity, host ports and anti-affinity of nodes that stay, and whether a node admits a pod."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from nodewright.model.meta import Requirement
from nodewright.model.node import Node, Taint
from nodewright.model.pod import ContainerPort, NodeSelectorTerm, Pod, PodAffinityTerm, Toleration
from nodewright.snapshot.node_pods import find_node_pods
from nodewright.snapshot.requests import node_amounts
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.pods import PodProfile, find_profiles, holds, is_selected

_ANY = "0.0.0.0"  # noqa: S104  # an address in a pod's manifest; nothing listens here
_REPELLING = ("NoSchedule", "NoExecute")
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class CapacityCheck:
    """The free capacity of nodes, reduced by each pod that moves there.

    Nodes in ``leaving`` take no pods. Pods with a priority below ``cutoff`` are expendable and do not count.
    """

    def __init__(self, snapshot: Snapshot, leaving: Collection[str], cutoff: int) -> None:
        self._snapshot = snapshot
        self._leaving = leaving
        self._cutoff = cutoff
        self._left: dict[str, Counter[str]] = {}
        self._ports: dict[str, list[ContainerPort]] = {}

    def is_void(self, profile: PodProfile) -> bool:
        """Return whether pods of the profile are expendable, so that they do not count."""
        priority = profile.pod.spec.priority
        return priority is not None and priority < self._cutoff

    def find_doubtful(self, coming: Mapping[tuple[PodProfile, str], int]) -> set[str]:
        """Return the nodes that may be unable to take all pods planned for them. The free capacity is not reduced.

        All other nodes take their pods in any order. ``coming`` maps (profile, node) to the number of pods.
        """
        by_node: defaultdict[str, dict[PodProfile, int]] = defaultdict(dict)
        for (profile, name), count in coming.items():
            by_node[name][profile] = count
        return {name for name, profiles in by_node.items() if not self._takes_all(name, profiles)}

    def _takes_all(self, name: str, profiles: Mapping[PodProfile, int]) -> bool:
        if any(profile.ports or self._refusal(profile, name) for profile in profiles):
            return False  # host ports must be checked pod by pod
        asked = Counter[str]()
        for profile, count in profiles.items():
            for what, amount in profile.asked.items():
                asked[what] += amount * count
        left = self._free(name)
        return all(left[what] >= amount for what, amount in asked.items())

    def take(self, profile: PodProfile, name: str) -> str:
        """Move a pod to a node; return why it does not fit, empty if it does."""
        refused = self._refusal(profile, name)
        if refused:
            return refused
        if name not in self._left:
            self._left[name], self._ports[name] = self._free(name), self._taken(name)
        left, taken = self._left[name], self._ports[name]
        if any(_collide(one, other) for one in profile.ports for other in taken):
            return f"a host port that it requests is taken on node {name}"
        short = [what for what, amount in profile.asked.items() if left[what] < amount]
        if short:
            return f"node {name} has not enough {short[0]}"
        left.subtract(profile.asked)
        taken += profile.ports
        return ""

    def _refusal(self, profile: PodProfile, name: str) -> str:
        """Return why the node takes no pod of the profile, regardless of amounts; empty if it may."""
        if name not in self._snapshot:
            return f"there is no node {name}"
        return f"node {name} is removed too" if name in self._leaving else why_unfit(profile.pod, self._node(name))

    def _node(self, name: str) -> Node:
        return self._snapshot.node(self._snapshot.row(name))

    def _held(self, name: str) -> dict[PodProfile, int]:
        """Return how many pods of each profile run on a node, without expendable pods."""
        (node_pods,) = find_node_pods(self._snapshot, (self._snapshot.row(name),))
        profiles = Counter(node_pods.once(find_profiles))
        return {profile: count for profile, count in profiles.items() if not self.is_void(profile)}

    def _taken(self, name: str) -> list[ContainerPort]:
        return [port for profile in self._held(name) for port in profile.ports]

    def _free(self, name: str) -> Counter[str]:
        left = Counter(node_amounts(self._node(name).allocatable))
        for profile, count in self._held(name).items():
            for what, amount in profile.asked.items():
                left[what] -= amount * count
        return left


def _collide(one: ContainerPort, other: ContainerPort) -> bool:
    """Return whether two host ports conflict on one node."""
    if (one.host_port, one.protocol or "TCP") != (other.host_port, other.protocol or "TCP"):
        return False
    here, there = one.host_ip or _ANY, other.host_ip or _ANY
    return here == there or _ANY in (here, there)


def why_unfit(pod: Pod, node: Node) -> str:
    """Return why the node does not admit the pod by taints, cordon, node selector or node affinity.

    Empty if it does.
    """
    for taint in node.spec.taints:
        if taint.effect in _REPELLING and not _is_tolerated(pod, taint):
            return f"node {node.name} has the taint {taint.key}"
    if node.spec.unschedulable and not _is_tolerated(pod, _CORDON):
        return f"node {node.name} is cordoned"
    wanted = (pod.spec.node_selector or {}).items()
    if any(node.metadata.labels.get(key) != value for key, value in wanted):
        return f"node {node.name} lacks a label that it selects"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is not None and not any(_is_met(term, node) for term in required.node_selector_terms):
        return f"node {node.name} does not match its required node affinity"
    return ""


def _is_tolerated(pod: Pod, taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("Gt", "Lt"):
        return _is_beyond(toleration.operator, taint.value, toleration.value)
    return toleration.operator == "Exists" or toleration.value == taint.value


def _is_met(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether the node matches a term; no node matches a term without requirements."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels, fields = node.metadata.labels, {"metadata.name": node.name}
    by_labels = all(_holds(wanted, labels) for wanted in term.match_expressions)
    return by_labels and all(holds(wanted, fields) for wanted in term.match_fields)


def _holds(wanted: Requirement, labels: dict[str, str]) -> bool:
    if wanted.operator not in ("Gt", "Lt"):
        return holds(wanted, labels)
    if wanted.key not in labels or not wanted.values:
        return False
    return _is_beyond(wanted.operator, labels[wanted.key], wanted.values[0])


def _is_beyond(operator: str, value: str, bound: str) -> bool:
    """Return whether the value is above (Gt) or below (Lt) the bound; False if one of them is not a number."""
    try:
        has, limit = int(value), int(bound)
    except ValueError:
        return False
    return has > limit if operator == "Gt" else has < limit


class Arrival(NamedTuple):
    """A pod that moves to a node."""

    pod: Pod
    profile: PodProfile
    node: Node


class _EquivalentPods:
    """Pods that are equal to a scheduler, and the nodes on which they run; ``pod`` represents them."""

    def __init__(self, pod: Pod, staying: Callable[[], Iterable[Node]] = tuple) -> None:
        self.pod = pod
        self._staying = staying
        self._arrived: list[Node] = []
        # Label key → its values on those nodes, computed on demand.
        self._domains: dict[str, set[str]] = {}

    def add(self, node: Node) -> None:
        self._arrived.append(node)
        for key, values in self._domains.items():
            values.update(_values(key, (node,)))

    def is_near(self, node: Node, keys: Iterable[str]) -> bool:
        """Return whether one of the pods is in the same topology domain as the node, for one of the labels ``keys``."""
        return any(not self._domain(key).isdisjoint(_values(key, (node,))) for key in keys)

    def _domain(self, key: str) -> set[str]:
        if key not in self._domains:
            self._domains[key] = _values(key, chain(self._staying(), self._arrived))
        return self._domains[key]


class AntiAffinityCheck:
    """The pods on nodes that stay, and the pods that move there. ``gone`` are the names of the removed nodes."""

    def __init__(self, snapshot: Snapshot, gone: Collection[str]) -> None:
        self._snapshot = snapshot
        self._gone = gone
        self._all = [_EquivalentPods(held.pod, partial(self._staying, rows)) for held, rows in snapshot.placements()]
        self._with_terms = [pods for pods in self._all if _terms(pods.pod)]
        self._arrivals: dict[PodProfile, _EquivalentPods] = {}
        # Profile → how many other pods it was compared with, and those that conflict with it, with the topology labels.
        self._conflicting: dict[PodProfile, tuple[int, list[tuple[_EquivalentPods, list[str]]]]] = {}

    @property
    def any_terms(self) -> bool:
        """Return whether any pod has a required anti-affinity term."""
        return bool(self._with_terms)

    def conflicts(self, arrivals: Iterable[Arrival]) -> Iterator[tuple[Pod, str]]:
        """Yield each pod whose new node violates its anti-affinity or that of another pod, with the reason."""
        for pod, profile, node in arrivals:
            other = next((other for other, keys in self._conflicting_with(profile) if other.is_near(node, keys)), None)
            if other is not None:
                yield pod, f"on node {node.name} it would violate anti-affinity with pods like {other.pod.key}"
            if profile not in self._arrivals:
                self._arrivals[profile] = pods = _EquivalentPods(pod)
                self._all.append(pods)
                self._with_terms += [pods] if _terms(pod) else []
            self._arrivals[profile].add(node)

    def _conflicting_with(self, profile: PodProfile) -> list[tuple[_EquivalentPods, list[str]]]:
        others = self._all if _terms(profile.pod) else self._with_terms
        seen, found = self._conflicting.get(profile, (0, []))
        if seen < len(others):
            asked = ((other, _keys(profile.pod, other.pod)) for other in islice(others, seen, None))
            found += [(other, keys) for other, keys in asked if keys]
            self._conflicting[profile] = (len(others), found)
        return found

    def _staying(self, rows: Iterable[int]) -> Iterator[Node]:
        nodes = (self._snapshot.node(row) for row in rows)
        return (node for node in nodes if node.name not in self._gone)


def _values(key: str, nodes: Iterable[Node]) -> set[str]:
    """Return the values of a label on the nodes that have it."""
    return {node.metadata.labels[key] for node in nodes if key in node.metadata.labels}


def _keys(pod: Pod, other: Pod) -> list[str]:
    """Return the topology labels by which two pods must not be near each other."""
    keys = [term.topology_key for term in _terms(pod) if _is_about(term, pod, other)]
    return keys + [term.topology_key for term in _terms(other) if _is_about(term, other, pod)]


def _terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return anti.required if anti is not None else ()


def _is_about(term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
    """Return whether one pod's term selects another pod. Namespace selectors that are not empty are not evaluated."""
    everywhere = term.namespace_selector is not None and not (
        term.namespace_selector.match_labels or term.namespace_selector.match_expressions
    )
    own = (owner.metadata.namespace,) if term.namespace_selector is None else ()
    named = pod.metadata.namespace in (term.namespaces or own)
    return (everywhere or named) and is_selected(term.label_selector, pod.metadata.labels)
