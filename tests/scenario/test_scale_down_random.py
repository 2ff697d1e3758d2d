"""Random small clusters with budgets, bare pods, local storage and affinity, from which nodes are removed: each pod
that moves has a place, a pod that may not move stays, and an engine that dies at any moment loses nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scenario.story import MINUTE, Story

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.meta import LabelSelector
from nodewright.model.node import TO_BE_DELETED_TAINT, Node
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.predicates import explain
from nodewright_simulator.api_server import BudgetRule, Refusal
from nodewright_simulator.cluster import SimulatedPod
from nodewright_simulator.controllers import DeploymentController, named
from nodewright_simulator.journal import What
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import PodShape, SpreadSpec
from nodewright_simulator.workloads import pod_of

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CORES, GRACE, LATER = 4, 15.0, 4 * MINUTE
SOON = {
    "scale-down-unneeded-time": "1m",
    "scale-down-delay-after-add": 0,
    "max-pod-eviction-time": "20s",
    "unremovable-node-recheck-timeout": "30s",
}
# Every pod asks for 1 cpu, so that a pod that could go somewhere could go anywhere, unless its kind is PARTICULAR.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "guarded": {},  # one at a time
    "waived": {"local_storage": True, "annotations": {SAFE: "true"}},
    "bare": {},
    "frozen": {},  # none at any time
    "local": {"local_storage": True},
    "pinned": {"annotations": {SAFE: "false"}},
    "apart": {"apart": True},
    "spread": {"spread": (SpreadSpec(),)},
    "zonal": {"node_selector": {"topology.kubernetes.io/zone": "a"}},
}
FIXED = {"bare", "frozen", "local", "pinned"}
PARTICULAR = {"apart", "spread", "zonal"}


@dataclass(frozen=True)
class Cluster:
    """Two groups, one a zone, and pods: of each kind so many at first, and fewer ``LATER``. ``refused``: for a while the
    API server lets nothing be evicted.
    """

    sizes: tuple[int, int]
    least: tuple[int, int]
    pods: Mapping[str, tuple[int, int]]
    drains: int
    refused: bool

    @property
    def is_uniform(self) -> bool:
        return not PARTICULAR & self.pods.keys()

    def story(self) -> "Watched":
        groups = [
            {"name": zone, "zone": zone, "cpu": CORES, "memory": "64Gi", "size": size, "min_size": min(least, size)}
            for zone, size, least in zip("ab", self.sizes, self.least, strict=True)
        ]
        story = Watched(*groups, settings={**SOON, "max-drain-parallelism": self.drains}, minutes=20)
        story.simulation.api_server.budgets = (_budget("guarded", 1), _budget("frozen", 0))
        if self.refused:
            story.simulation.api_server.refusals.append(Refusal(start=MINUTE, end=LATER))
        for kind, (first, later) in self.pods.items():
            story.create(kind, first, later)
        return story


class Watched(Story):
    """Checks each plan: the scheduler may put the pods of all nodes that go on nodes that stay; and marked for
    deletion are only nodes on their way out.
    """

    def create(self, kind: str, first: int, later: int) -> None:
        cluster, agenda = self.simulation.cluster, self.simulation.agenda
        template = pod_of(kind, PodShape(cpu="1", memory="1Gi", **{"grace": GRACE, **KINDS[kind]}))
        if kind == "bare":
            for number in range(first):
                cluster.submit(SimulatedPod(pod=named(template, f"bare-{number}", 0.0), arrived=0.0))
            return
        deployment = DeploymentController(cluster, kind, template)
        agenda.at(1.0, partial(deployment.scale, first))
        agenda.at(LATER, partial(deployment.scale, later))

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, after = super()._plan(state, settings, random)
        assert list(without_place(state, plan, after)) == []
        assert list(left_marked(state)) == []
        return plan, after


def _budget(kind: str, most: int) -> BudgetRule:
    return BudgetRule(name=kind, selector=LabelSelector(match_labels={"app": kind}), max_unavailable=most)


def without_place(state: ClusterState, plan: Plan, after: PlanMemory) -> Iterator[str]:
    """Pods of nodes that go which the scheduler would not let run where the plan has them, one after the other."""
    board = state.observation.snapshot.fork()
    going = {removal.node for removal in plan.scale_down.removals} | state.observation.removing.keys()
    for removal in plan.scale_down.removals:
        row = board.row(removal.node)
        moving = [pod for pod in board.pods(row) if pod.key in removal.pods]
        for pod in moving:
            board.unplace(board.class_of(pod, placed=True), row, pod=pod)
        for pod in moving:
            # The plan's place may be one only once another node is empty, too, whose turn has not come (as in CA).
            place, pod_class = after.scale_down.hints[pod.metadata.uid], board.class_of(pod, placed=True)
            open_rows = [there for there, node in board.nodes() if node.name not in going]
            fits = [there for there in open_rows if explain(board, pod_class, there) is None]
            if not fits:
                yield f"{pod.key}: {place}"
                continue
            there = board.row(place)
            board.place(pod_class, there if there in fits else fits[0], pod=pod)
        board.remove_node(row)


def left_marked(state: ClusterState) -> Iterator[str]:
    """Nodes that an engine marked for deletion that is gone."""
    going = {name for group in state.groups.values() for name in group.readiness.deleted}
    for _, node in state.observation.snapshot.nodes():
        if node.name not in going | state.observation.removing.keys() and _is_marked(node):
            yield node.name


def _is_marked(node: Node) -> bool:
    return node.spec.unschedulable or any(taint.key == TO_BE_DELETED_TAINT for taint in node.spec.taints)


def kind_of(pod: str) -> str:
    return pod.removeprefix("default/").rpartition("-")[0]


def check(cluster: Cluster, story: Watched, when: str) -> SimulationResult:
    """What must hold of every run, from the journal alone."""
    result = story.result
    evicted: dict[str, float] = {}
    gone: Counter[str] = Counter()
    replaced: dict[str, float] = {}
    for fact in result.journal:
        if fact.what == What.POD_EVICTED:
            assert kind_of(fact.name) not in FIXED, f"{when}: {fact}"
            assert fact.name not in evicted, f"{when}: {fact}"
            evicted[fact.name] = fact.at
        elif fact.what == What.POD_ARRIVED and fact.at in evicted.values():
            replaced[fact.name] = fact.at
        elif fact.what == What.POD_STARTED and fact.name in replaced and cluster.is_uniform:
            assert fact.at == replaced[fact.name], f"{when}: {fact} had to wait"
        elif fact.what == What.MACHINE_GONE:
            gone[fact.name] += 1
    assert all(count == 1 for count in gone.values()), when
    removed = {fact.name for fact in result.journal if fact.what == What.NODE_REMOVED}
    lost = [fact for fact in result.journal if fact.what == What.POD_LOST and fact.where in removed]
    ended = {fact.name: fact.at - evicted.get(fact.name, LATER) for fact in lost}
    assert all(lasted == (GRACE if pod in evicted else 0) for pod, lasted in ended.items()), f"{when}: {lost}"
    for _, _, group, _, after in story.writes("delete"):
        size, least = (cluster.sizes["ab".index(group)], cluster.least["ab".index(group)])
        assert after >= min(size, least), when
    assert result.final.pending == 0, when
    assert result.final.running == sum(later for _, later in cluster.pods.values()), when
    live = story.simulation.cluster.live
    assert not any(_is_marked(node) for _, node in live.nodes()), when
    assert not result.problems, when
    return result


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    sizes = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    room, pods = CORES * sum(sizes), dict[str, tuple[int, int]]()
    for kind in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True)):
        first = draw(st.integers(0, min(room, 2 if kind in FIXED else 6)))
        later = first if kind == "bare" else draw(st.integers(0, first))
        pods[kind] = (first, later)
        room -= first
    return Cluster(
        sizes=sizes,
        least=draw(st.tuples(st.integers(0, 2), st.integers(0, 2))),
        pods=pods,
        drains=draw(st.integers(1, 3)),
        refused=draw(st.booleans()),
    )


@settings(max_examples=40, derandomize=True)
@given(clusters())
def test_every_pod_that_moves_has_a_place(cluster: Cluster) -> None:
    check(cluster, cluster.story(), "untroubled")


@settings(max_examples=20, derandomize=True)
@given(clusters(), st.floats(0, 1, exclude_max=True), st.booleans())
def test_an_engine_that_dies_anywhere_loses_nothing(cluster: Cluster, moment: float, keeps_memory: bool) -> None:
    untroubled = cluster.story()
    expected = check(cluster, untroubled, "untroubled")
    boundaries = untroubled.simulation.engine.boundaries
    if not boundaries:
        return
    number = 1 + int(moment * len(boundaries))
    story = cluster.story()
    story.simulation.engine.kill(number, down_seconds=25, keeps_memory=keeps_memory)
    result = check(cluster, story, f"killed {boundaries[number - 1]}")
    if cluster.is_uniform:
        assert sum(result.final.nodes.values()) == sum(expected.final.nodes.values()), boundaries[number - 1]
