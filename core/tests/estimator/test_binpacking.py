"""Packing on new nodes: the fast forms against CA's steps taken one pod at a time."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.estimator.binpacking import Estimate, Template, estimate
from nodewright.estimator.new_nodes import NodeBudget, node_limit
from nodewright.estimator.pod_group import group_pods
from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod

CPU, MEMORY, PODS = 1000, 1000, 6
SHAPES = st.lists(st.tuples(st.integers(1, 1100), st.integers(1, 1100), st.integers(1, 12)), min_size=1, max_size=5)


@dataclass
class Reference:
    """CA's first-fit decreasing, one pod at a time over plain lists."""

    limit: int
    nodes: list[list[str]] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)
    cursor: int = 0
    exhausted: bool = False

    def fits(self, node: int, cpu: int, memory: int) -> bool:
        return self.free[node][0] >= cpu and self.free[node][1] >= memory and len(self.nodes[node]) < PODS

    def put(self, node: int, name: str, cpu: int, memory: int) -> None:
        self.nodes[node].append(name)
        self.free[node] = [self.free[node][0] - cpu, self.free[node][1] - memory]

    def add(self, names: list[str], cpu: int, memory: int) -> None:
        while names:
            turn = [(self.cursor + k) % len(self.nodes) for k in range(len(self.nodes))]
            chosen = next((node for node in turn if self.fits(node, cpu, memory)), None)
            if chosen is None:
                break
            self.put(chosen, names.pop(0), cpu, memory)
            self.cursor = chosen + 1
        while names and not self.exhausted:
            if self.nodes and self.fits(len(self.nodes) - 1, cpu, memory):
                self.put(len(self.nodes) - 1, names.pop(0), cpu, memory)
                continue
            if self.nodes and not self.nodes[-1]:
                return
            if self.limit and len(self.nodes) >= self.limit:
                self.exhausted = True
                return
            self.nodes.append([])
            self.free.append([CPU, MEMORY])
            if not self.fits(len(self.nodes) - 1, cpu, memory):
                return


def packed(pods: list[Pod], limit: int = 0, *, fastpath: bool = False) -> Estimate:
    snapshot = Snapshot()
    template = Template(build_node("t", cpu=f"{CPU}m", memory=MEMORY, pods=PODS))
    return estimate(snapshot, template, group_pods(pods, snapshot), limit, fastpath=fastpath)


ALIKE = st.lists(
    st.tuples(st.sampled_from([1, 201, 400]), st.sampled_from([1, 400]), st.integers(1, 12)), min_size=1, max_size=6
)


@settings(max_examples=500)
@given(SHAPES | ALIKE, st.integers(0, 8), st.sets(st.integers(0, 5)))
def test_closed_forms_pack_like_one_pod_at_a_time(
    shapes: list[tuple[int, int, int]], limit: int, alone: set[int]
) -> None:
    """``alone`` are shapes whose pods have no controller: each is a group to CA."""
    pods, reference = [], Reference(limit)
    for index, (cpu, memory, count) in enumerate(shapes):
        names = [f"p{index}-{k}" for k in range(count)]
        owner = ("ReplicaSet", f"rs{index}") if index not in alone else None
        pods += [build_pod(name, cpu=f"{cpu}m", memory=memory, owner=owner) for name in names]
    order = sorted(range(len(shapes)), key=lambda i: shapes[i][0] / CPU + shapes[i][1] / MEMORY, reverse=True)
    for index in order:
        cpu, memory, count = shapes[index]
        names = [f"p{index}-{k}" for k in range(count)]
        for group in [[name] for name in names] if index in alone else [names]:
            reference.add(group, cpu, memory)
    found = packed(pods, limit)
    # Which of two alike nodes goes first is open; how full each becomes is not.
    assert sorted(len(node) for node in found.packing) == sorted(len(node) for node in reference.nodes)
    assert found.node_count == sum(1 for node in reference.nodes if node)


@given(SHAPES)
def test_no_new_node_holds_more_than_it_offers(shapes: list[tuple[int, int, int]]) -> None:
    pods = [
        build_pod(f"p{i}-{k}", cpu=f"{cpu}m", memory=memory, owner=("ReplicaSet", f"rs{i}"))
        for i, (cpu, memory, count) in enumerate(shapes)
        for k in range(count)
    ]
    found = packed(pods)
    for node in found.packing:
        requests = [pod.spec.containers[0].resources.requests for pod in node]
        assert sum(request["cpu"].milli for request in requests) <= CPU
        assert sum(request["memory"].value for request in requests) <= MEMORY
        assert len(node) <= PODS
    assert len({pod.key for pod in found.pods}) == len(found.pods)


def test_pods_that_repel_each_other_get_a_node_each() -> None:
    term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=LabelSelector(match_labels={"app": "a"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    found = packed([build_pod(f"a-{k}", memory=1, labels={"app": "a"}, affinity=apart) for k in range(4)])
    assert found.node_count == 4


def test_daemon_pods_take_their_share_of_every_new_node() -> None:
    snapshot = Snapshot()
    daemon = build_pod("agent", cpu="500m", owner=("DaemonSet", "agent"), node_name="t")
    template = Template(build_node("t", cpu="1", memory="1Gi"), (daemon,))
    pods = [build_pod(f"p-{k}", cpu="250m") for k in range(5)]
    assert estimate(snapshot, template, group_pods(pods, snapshot), 0).node_count == 3


def test_the_snapshot_is_not_changed() -> None:
    snapshot = Snapshot()
    snapshot.add_node(build_node("real"))
    pods = [build_pod(f"p-{k}", cpu="1") for k in range(9)]
    estimate(snapshot, Template(build_node("t")), group_pods(pods, snapshot), 0)
    assert len(snapshot) == 1
    assert snapshot.used.sum() == 0


def test_a_pod_that_fits_no_new_node_costs_one_trial_node() -> None:
    found = packed([build_pod("huge", cpu="64")])
    assert (found.node_count, found.pods, found.packing) == (0, (), ((),))


def test_pods_past_the_tenth_variety_of_a_controller_stand_alone() -> None:
    pods = [build_pod(f"p-{k}", cpu=f"{100 + k % 12}m") for k in range(24)]
    groups = group_pods(pods, Snapshot())
    assert [len(group.pods) for group in groups] == [2] * 10 + [1] * 4


def test_limits() -> None:
    assert node_limit([0, 7, 3]) == 3
    assert node_limit([0, 0]) == 0
    assert node_limit([5, -1]) == -1
    budget = NodeBudget(3)
    assert [budget.grant(2), budget.grant(2), budget.grant(2)] == [2, 1, 0]
    assert NodeBudget(-1).grant(1) == 0
    assert NodeBudget(0).grant(1000) == 1000
