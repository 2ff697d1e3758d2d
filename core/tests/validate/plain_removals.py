"""The check of removals as plainly as it can be told: one pod and one node at a time, everything computed again."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nodewright.model.node import Node
from nodewright.model.pod import Pod, PodAffinityTerm
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.requests import node_amounts, pod_requests
from nodewright.validate.capacity import why_unfit
from nodewright.validate.pods import is_selected, matches, why_immovable

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def broken_by_pods(
    seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
) -> list[tuple[str, str]]:
    """The node of each removal and a rule that it breaks, as far as rules are about pods."""
    plain = _Plain(seen, removals, places, settings)
    found = [(removal.node, rule) for removal in removals for rule in plain.follow(removal)]
    return found + [(node, rule) for node, rule in plain.near if settings.policy.confirms_removals]


class _Plain:
    def __init__(
        self, seen: Observation, removals: Sequence[NodeRemoval], places: Mapping[str, str], settings: Settings
    ) -> None:
        self.near: list[tuple[str, str]] = []
        self._seen = seen
        self._settings = settings
        self._places = places
        self._nodes = {node.name: node for _, node in seen.snapshot.nodes()}
        self._running = {name: [*seen.snapshot.pods(seen.snapshot.row(name))] for name in self._nodes}
        self._going = {removal.node for removal in removals}
        self._owners = {pod: removal.node for removal in removals for pod in removal.pods}
        self._spent: Counter[str] = Counter()

    def follow(self, removal: NodeRemoval) -> Iterator[str]:
        budgets = self._seen.workloads.budgets
        moving = []
        for pod in self._seen.snapshot.pods(self._seen.snapshot.row(removal.node)):
            why = (
                ""
                if self._is_void(pod)
                else why_immovable(pod, budgets, self._settings.drain, self._settings.policy, self._seen.now)
            )
            if why is None:
                moving.append(pod)
            elif why:
                yield f"pod {pod.key} may not be moved: {why}"
        unplanned = sorted(pod.key for pod in moving if pod.key not in removal.pods)
        if unplanned:
            yield f"pods run on the node that the plan does not name: {', '.join(unplanned)}"
        yield from self._broken_budgets(moving)
        for pod in moving:
            if self._settings.policy.refuses_several_budgets and sum(matches(budget, pod) for budget in budgets) > 1:
                yield f"pod {pod.key} may not be moved: more than one disruption budget selects it"
            if not self._ends(pod):
                yield from self._without_place(pod)

    def _broken_budgets(self, moving: Sequence[Pod]) -> Iterator[str]:
        touched: Counter[str] = Counter()
        for budget in self._seen.workloads.budgets:
            waived = [pod for pod in moving if pod.metadata.annotations.get(SAFE) == "true" or self._ends(pod)]
            mine = [pod for pod in moving if matches(budget, pod) and pod not in waived]
            if mine and budget.status.disruptions_allowed - self._spent[budget.key] < 1:
                yield f"disruption budget {budget.key} allows no more: pod {mine[0].key}"
            touched[budget.key] += len(mine)
        self._spent += touched

    def _without_place(self, pod: Pod) -> Iterator[str]:
        place = self._places.get(pod.metadata.uid) or self._places.get(pod.key)
        why = "the plan names no node for it" if place is None else self._refusal(pod, place)
        if why:
            yield f"pod {pod.key} has no place: {why}"
        elif place is not None:
            node = self._nodes[place]
            if any(_clash(pod, node, other, there) for there, other in self._staying()):
                self.near.append((self._owners.get(pod.key, ""), f"{pod.key} is too near on {place}"))
            self._running[place].append(pod)

    def _staying(self) -> Iterator[tuple[Node, Pod]]:
        return (
            (self._nodes[name], pod) for name, pods in self._running.items() if name not in self._going for pod in pods
        )

    def _refusal(self, pod: Pod, name: str) -> str:
        if name not in self._nodes:
            return f"there is no node {name}"
        if name in self._going:
            return f"node {name} is removed too"
        node, others = self._nodes[name], [other for other in self._running[name] if not self._is_void(other)]
        unfit = why_unfit(pod, node)
        if unfit:
            return unfit
        if {port for other in others for port in _ports(other)} & _ports(pod):
            return f"a host port that it requests is taken on node {name}"
        left = Counter(node_amounts(node.allocatable))
        for other in others:
            left.subtract(_asked(other))
        short = [what for what, amount in _asked(pod).items() if left[what] < amount]
        return f"node {name} has not enough {short[0]}" if short else ""

    def _is_void(self, pod: Pod) -> bool:
        return (pod.spec.priority or 0) < self._settings.pods.expendable_pods_priority_cutoff

    def _ends(self, pod: Pod) -> bool:
        owner = pod.metadata.controller
        ends = pod.metadata.deletion_timestamp is not None and self._settings.policy.replaced_pods_need_no_place
        return ends and owner is not None and owner.kind == "ReplicaSet"


def _asked(pod: Pod) -> dict[str, int]:
    return {**pod_requests(pod, placed=True), "pods": 1}


def _ports(pod: Pod) -> set[int]:
    return {port.host_port for container in pod.spec.containers for port in container.ports if port.host_port}


def _clash(pod: Pod, node: Node, other: Pod, there: Node) -> bool:
    terms = [term for term in _terms(pod) if _is_about(term, other)]
    terms += [term for term in _terms(other) if _is_about(term, pod)]
    here, labels = node.metadata.labels, there.metadata.labels
    return any(term.topology_key in here and here[term.topology_key] == labels.get(term.topology_key) for term in terms)


def _terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    return anti.required if anti is not None else ()


def _is_about(term: PodAffinityTerm, pod: Pod) -> bool:
    return is_selected(term.label_selector, pod.metadata.labels)
