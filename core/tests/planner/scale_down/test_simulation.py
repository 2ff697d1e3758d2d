"""The fast simulation of removals against a plain one: a fork for every candidate, one pod and one node at a time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodewright.model.meta import LabelSelector
from nodewright.model.node import Node
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, Toleration, TopologySpreadConstraint
from nodewright.planner.scale_down.simulation import DrainSimulation, tainted_copy
from nodewright.predicates import explain
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod, build_taint

NOW = 1000.0
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = {"app": "s"}


@dataclass
class Plain:
    """The cluster as a list of nodes, each with its pods, built again for every question."""

    nodes: list[tuple[Node, list[Pod]]]
    open: set[str]
    hints: dict[str, str] = field(default_factory=dict)
    cursor: int = 0

    def snapshot(self) -> Snapshot:
        found = Snapshot()
        for node, pods in self.nodes:
            row = found.add_node(node)
            for pod in pods:
                found.place(found.class_of(pod, placed=True), row, pod=pod)
        return found

    def drain(self, name: str, moving: list[Pod]) -> bool:
        """CA's steps: a tainted copy without pods in its place, pods one by one, then commit or revert."""
        before = [(node, list(pods)) for node, pods in self.nodes]
        index = next(i for i, (node, _) in enumerate(self.nodes) if node.name == name)
        self.nodes[index] = (tainted_copy(self.nodes[index][0], NOW), [])
        # Those of lower priority are placed all the same: hints come of it.
        placed = [
            self._place_all([pod for pod in moving if (pod.spec.priority or 0) == level], name)
            for level in _levels(moving)
        ]
        if all(placed):
            self.nodes[index] = (build_node(f"gone-{name}", cpu=0, memory=0, pods=0), [])
            self.open.discard(name)
            return True
        self.nodes = before
        # CA's hint would be where the attempt had put them: here those that came from other nodes are where they are.
        self.hints |= {pod.metadata.uid: name for pod in moving if pod.spec.node_name != name}
        return False

    def _place_all(self, pods: list[Pod], leaving: str) -> bool:
        left = [pod for pod in pods if not self._place(pod, leaving, [self._index(self.hints.get(pod.metadata.uid))])]
        for pod in left:
            turns = [(self.cursor + step) % len(self.nodes) for step in range(len(self.nodes))]
            turns = [i for i in turns if not self.nodes[i][0].spec.unschedulable]
            if not self._place(pod, leaving, turns):
                return False
            self.cursor = self._index(self.hints[pod.metadata.uid]) + 1
        return True

    def _place(self, pod: Pod, leaving: str, turns: list[int]) -> bool:
        snapshot = self.snapshot()
        pod_class = snapshot.class_of(pod, placed=True)
        for index in turns:
            name = self.nodes[index][0].name if index >= 0 else ""
            if name in self.open and name != leaving and explain(snapshot, pod_class, index) is None:
                self.nodes[index][1].append(pod)
                self.hints[pod.metadata.uid] = name
                return True
        return False

    def _index(self, name: str | None) -> int:
        return next((i for i, (node, _) in enumerate(self.nodes) if node.name == name), -1)


def _levels(pods: list[Pod]) -> list[int]:
    return sorted({pod.spec.priority or 0 for pod in pods}, reverse=True)


def spread(policy: str, key: str) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        topology_key=key, label_selector=LabelSelector(match_labels=APPS), node_taints_policy=policy
    )


def apart(key: str) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=APPS))
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


SHAPES = st.sampled_from(
    [
        {},
        {"priority": 5},
        {"labels": APPS},
        {"labels": APPS, "affinity": apart(HOST)},
        {"labels": APPS, "topology_spread_constraints": [spread("Ignore", ZONE)]},
        {"labels": APPS, "topology_spread_constraints": [spread("Honor", ZONE)]},
        {"node_selector": {ZONE: "z1"}},
        {"host_ports": [80]},
        {"tolerations": [Toleration(key="own", operator="Exists")]},
        {"extended": {"acme.com/gpu": 1}},
        {"owner": ("DaemonSet", "ds"), "labels": APPS},
    ]
)
# Cores, zone, whether it is cordoned, whether it takes no pods, what it offers and forbids besides.
NODES = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from(["z0", "z1"]),
        st.booleans(),
        st.booleans(),
        st.sampled_from([{}, {}, {"taints": [build_taint("own")]}, {"extended": {"acme.com/gpu": 2}}]),
    ),
    min_size=2,
    max_size=6,
)
PODS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 8), SHAPES), max_size=14)
EVEN: dict[str, Any] = {"labels": APPS, "topology_spread_constraints": [spread("Honor", ZONE)]}


@settings(max_examples=400)
@given(NODES, PODS, st.permutations(range(6)), st.booleans())
@example(  # the fourth node stays, and takes a pod of the fifth; both need a tainted copy
    [(cores, "z0", False, False, {}) for cores in (1, 1, 1, 2, 1, 1)],
    [(0, 1, EVEN if number in (2, 8) else {}) for number in range(9)],
    list(range(6)),
    False,
)
def test_what_could_go_is_what_a_plain_simulation_finds(
    shapes: list[tuple[int, str, bool, bool, dict[str, Any]]],
    running: list[tuple[int, int, dict[str, Any]]],
    order: list[int],
    again: bool,
) -> None:
    nodes = [
        (build_node(f"n{i}", cpu=cores, zone=zone, unschedulable=cordoned and i % 3 == 0, **extras), list[Pod]())
        for i, (cores, zone, cordoned, _, extras) in enumerate(shapes)
    ]
    for number, (at, quarters, more) in enumerate(running):
        node, pods = nodes[at % len(nodes)]
        pods.append(build_pod(f"p{number}", cpu=f"{quarters * 250}m", node_name=node.name, **more))
    closed = {f"n{i}" for i, shape in enumerate(shapes) if shape[3] and i % 2}
    plain = Plain(nodes=nodes, open={node.name for node, _ in nodes} - closed)
    snapshot = plain.snapshot()
    destinations = np.array([name in plain.open for name in (snapshot.name(row) for row in range(len(snapshot)))])
    fast = DrainSimulation(snapshot, destinations, PodDestinations(), NOW)
    for index in [i for i in order if i < len(nodes)] * (1 + again):
        name = f"n{index}"
        if name not in {node.name for node, _ in plain.nodes}:
            continue
        row = fast.snapshot.row(name)
        moving = fast.subset(row)
        expected = next(pods for node, pods in plain.nodes if node.name == name)
        assert [pod.key for pod in moving.pods] == [pod.key for pod in expected]
        stuck = fast.drain(row, moving, moving)
        assert (stuck is None) == plain.drain(name, list(moving.pods))
        assert fast.finish() == plain.hints
        assert pods_of(fast) == {node.name: _names(pods) for node, pods in plain.nodes if pods}
        fresh = plain.snapshot()
        for node, _ in plain.nodes:
            if node.name in fast.snapshot:
                assert free(fast.snapshot, node.name) == free(fresh, node.name)


def pods_of(simulation: DrainSimulation) -> dict[str, list[str]]:
    found = {node.name: _names(simulation.subset(row).pods) for row, node in simulation.snapshot.nodes()}
    return {name: pods for name, pods in found.items() if pods}


def _names(pods: Iterable[Pod]) -> list[str]:
    return [pod.key for pod in pods]


def free(snapshot: Snapshot, name: str) -> list[int]:
    found: list[int] = snapshot.free[snapshot.row(name)][:3].tolist()
    return found


@pytest.mark.parametrize("count", [1, 200, 3000])
def test_a_place_is_found_however_far_away_it_is(count: int) -> None:
    snapshot = Snapshot()
    snapshot.add_nodes([build_node(f"full-{n}", cpu=0) for n in range(count)])
    first = snapshot.add_node(build_node("leaving"))
    snapshot.add_nodes([build_node("room")])
    pod = build_pod("p", node_name="leaving")
    snapshot.place(snapshot.class_of(pod, placed=True), first, pod=pod)
    simulation = DrainSimulation(snapshot, np.ones(len(snapshot), dtype=np.bool_), PodDestinations(), NOW)
    subset = simulation.subset(first)
    assert simulation.drain(first, subset, subset) is None
    assert list(simulation.finish().values()) == ["room"]
