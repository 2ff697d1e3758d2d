"""Nodes that are looked at ahead leave as they would one by one: what the last loop found out only saves work."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.meta import LabelSelector
from nodewright.model.pod import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.model.reason import Unremovable
from nodewright.model.settings import DrainSettings, Settings
from nodewright.planner.scale_down.node_removal import LOOK_AHEAD, RemovalSimulator, destination_rows
from nodewright.planner.scale_down.simulation import DrainSimulation
from nodewright.snapshot.node_pods import PodDestinations, find_node_pods
from nodewright.testkit.builders import build_budget, build_pod, build_taint
from nodewright.testkit.world import World

APPS = {"app": "s"}
HOST = "kubernetes.io/hostname"
APART = Affinity(
    pod_anti_affinity=PodAffinity(
        required=(PodAffinityTerm(topology_key=HOST, label_selector=LabelSelector(match_labels=APPS)),)
    )
)
SPREAD = TopologySpreadConstraint(
    topology_key=HOST, label_selector=LabelSelector(match_labels=APPS), node_taints_policy="Honor"
)
SHAPES: Any = st.sampled_from(
    [
        {},
        {},
        {},
        {"priority": 5},
        {"labels": APPS},
        {"labels": APPS, "affinity": APART},
        {"topology_spread_constraints": [SPREAD]},
        {"host_ports": [80]},
        {"owner": None},
        {"owner": ("DaemonSet", "ds")},
        {"deleted_at": 99_990.0},
    ]
)
NODES = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([{}, {}, {"taints": [build_taint("own")]}])), min_size=2, max_size=8
)
PODS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 6), SHAPES), max_size=20)
# What became of each node, where pods went, and what is free at last.
Found = tuple[dict[str, object], PodDestinations, list[list[int]]]


def world_of(nodes: Sequence[tuple[int, dict[str, Any]]], pods: Sequence[tuple[int, int, Any]], allowed: int) -> World:
    world = World()
    for number, (cores, more) in enumerate(nodes):
        world.add_group(f"g{number}", 1, cpu=str(cores), **more)
    world.running = [
        build_pod(f"p{number}", cpu=f"{quarters * 250}m", node_name=f"g{at % len(nodes)}-0", **shape)
        for number, (at, quarters, shape) in enumerate(pods)
    ]
    world.budgets = [build_budget("b", allowed, APPS)]
    return world


def run(state: ClusterState, names: Sequence[str], hints: PodDestinations, ahead: int) -> Found:
    snapshot = state.observation.snapshot
    simulation = DrainSimulation(snapshot.fork(), destination_rows(snapshot, state), hints, state.now)
    simulator = RemovalSimulator(simulation, state, DrainSettings(), Settings().policy)
    results: dict[str, object] = {}
    for index, name in enumerate(names):
        verdict = simulator.try_removal(name, names[index : index + ahead])
        results[name] = verdict if isinstance(verdict, Unremovable) else [pod.key for pod in verdict.moving.pods]
    places, snapshot = simulator.finish(), simulation.snapshot
    return results, places, [snapshot.free[row].tolist() for row, _ in snapshot.nodes()]


@settings(max_examples=500)
@given(NODES, PODS, PODS, st.sets(st.integers(0, 19), max_size=3), st.integers(0, 4), st.booleans())
def test_looking_ahead_changes_nothing(
    nodes: list[tuple[int, dict[str, Any]]],
    before: list[tuple[int, int, Any]],
    come: list[tuple[int, int, Any]],
    gone: set[int],
    allowed: int,
    unchanged: bool,
) -> None:
    """Two loops: the second takes the first at its word, node by node or ahead, also where pods came and went."""
    names = [f"g{number}-0" for number in range(len(nodes))]
    state = world_of(nodes, before, allowed).state()
    results, hints, _ = run(state, names, PodDestinations(), 1)
    could_go = [name for name in names if not isinstance(results[name], Unremovable)]
    if not unchanged:
        later = world_of(nodes, before + come[:4], allowed)
        later.running = [pod for number, pod in enumerate(later.running) if number not in gone]
        state = later.state()
    memory = ScaleDownMemory(unneeded_since=dict.fromkeys(could_go, 1.0))
    state = replace(state, memory=replace(state.memory, scale_down=memory))
    ordered = [*could_go, *(name for name in names if name not in could_go)]
    assert run(state, ordered, hints, LOOK_AHEAD) == run(state, ordered, hints, 1)


# Pods on nodes that could go, in quarters of a core, and where each is remembered to have room; negative: nowhere.
HINTED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), SHAPES, st.integers(-1, 7)), min_size=1, max_size=12)


@settings(max_examples=500)
@given(NODES, HINTED, PODS, st.integers(0, 4), st.permutations(range(8)))
def test_whatever_is_remembered(
    nodes: list[tuple[int, dict[str, Any]]],
    hinted: list[tuple[int, int, Any, int]],
    others: list[tuple[int, int, Any]],
    allowed: int,
    order: list[int],
) -> None:
    """Places on nodes that could go themselves, that are too small, that refuse a pod by now, or that have others."""
    names = [f"g{number}-0" for number in range(len(nodes))]
    unneeded_count = max(2, len(nodes) // 2)
    pods = [(at % unneeded_count, quarters, shape) for at, quarters, shape, _ in hinted]
    state = world_of(nodes, pods + others[:4], allowed).state()
    memory = ScaleDownMemory(unneeded_since=dict.fromkeys(names[:unneeded_count], 1.0))
    state = replace(state, memory=replace(state.memory, scale_down=memory))
    places = {f"p{k}": names[to % len(nodes)] if to >= 0 else "" for k, (*_, to) in enumerate(hinted)}
    all_pods = find_node_pods(state.observation.snapshot, range(len(nodes)))
    hints = PodDestinations({node_pods: [places.get(pod.name, "") for pod in node_pods.pods] for node_pods in all_pods})
    ordered = [*names[:unneeded_count], *(names[at] for at in order if unneeded_count <= at < len(names))]
    assert run(state, ordered, hints, LOOK_AHEAD) == run(state, ordered, hints, 1)


@pytest.mark.parametrize("ahead", [1, LOOK_AHEAD])
def test_pods_come_to_a_node_in_the_order_in_which_they_leave_another(ahead: int) -> None:
    """As in CA, those of high priority first: the first of them without a place is the one that is told."""
    shapes: list[tuple[int, Any]] = [(1, {}), (2, {}), (1, {}), (1, {"priority": 5})]
    pods = [(at, quarters, shape) for at in (0, 1) for quarters, shape in shapes]
    state = world_of([(4, {})] * 4, pods, 0).state()
    memory = ScaleDownMemory(unneeded_since={"g0-0": 1.0, "g1-0": 1.0})
    state = replace(state, memory=replace(state.memory, scale_down=memory))
    hints = PodDestinations(
        {node_pods: ["g2-0"] * 4 for node_pods in find_node_pods(state.observation.snapshot, (0, 1))}
    )
    results, _, _ = run(state, ["g0-0", "g1-0", "g2-0"], hints, ahead)
    assert results["g2-0"] == [f"default/p{number}" for number in (3, 0, 1, 2, 7, 4, 5, 6)]
