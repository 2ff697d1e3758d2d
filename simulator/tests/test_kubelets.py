"""Machines become nodes as their cloud says, and nodes vanish with their machines."""

from collections.abc import Sequence

import pytest

from nodewright.clusterstate.readiness import is_ready
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.settings import TemplateSettings
from nodewright.spec import NodeStart
from nodewright.testkit import build_node, build_pod, build_taint
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.cluster import SimulatedCluster, SimulatedPod
from nodewright_simulator.journal import Journal
from nodewright_simulator.kubelets import Kubelets
from nodewright_simulator.scheduler import Scheduler

A = GroupRef("cloud", "a")
SETTINGS = TemplateSettings(startup_taint=("boot",))


class Cloud:
    """Machines that a test lists."""

    name = "cloud"

    def __init__(self) -> None:
        self.machines: list[NodeStart] = []

    def running_machines(self) -> Sequence[NodeStart]:
        return self.machines

    def next_change(self) -> float:
        return 1234.0


class Bench:
    """A cloud, a cluster and the kubelets in between."""

    def __init__(self) -> None:
        self.cloud, self.agenda = Cloud(), Agenda()
        self.cluster = SimulatedCluster(Scheduler(), Journal())
        self.kubelets = Kubelets(self.cluster, self.agenda, Journal(), [self.cloud], SETTINGS)

    def start(self, at: float, *, register: float | None = 20.0, ready: float = 5.0) -> None:
        machine = NodeStart(
            instance_id="i-1",
            group_id="a",
            node_name="n-1",
            running_since=at,
            register_after_seconds=register,
            ready_after_seconds=ready,
        )
        self.cloud.machines = [machine]
        self.kubelets.sync(at)

    def set_templates(self, template: Node, at: float = 0.0) -> None:
        self.kubelets.set_templates({A: template}, at)

    def run_until(self, moment: float) -> None:
        while self.agenda.next_due() <= moment:
            self.agenda.run_next()

    @property
    def nodes(self) -> list[Node]:
        return [node for _, node in self.cluster.live.nodes()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_node_registers_not_ready_and_becomes_ready(bench: Bench) -> None:
    bench.set_templates(build_node("template", labels={"kind": "x"}))
    bench.start(100.0)
    bench.run_until(119.9)
    assert bench.nodes == []
    bench.run_until(120.0)
    (node,) = bench.nodes
    assert (node.name, node.spec.provider_id, node.metadata.labels["kind"]) == ("n-1", "i-1", "x")
    assert node.metadata.labels["kubernetes.io/hostname"] == "n-1"
    assert node.metadata.creation_timestamp is not None
    assert node.metadata.creation_timestamp.timestamp() == 120.0
    assert not is_ready(node, SETTINGS)
    bench.run_until(125.0)
    assert [is_ready(node, SETTINGS) for node in bench.nodes] == [True]


def test_nothing_runs_on_a_node_that_is_not_ready(bench: Bench) -> None:
    bench.set_templates(build_node("template"))
    bench.start(0.0)
    held = SimulatedPod(pod=build_pod("p", unschedulable=False), arrived=0.0)
    bench.cluster.submit(held)
    bench.run_until(20.0)
    bench.cluster.schedule(20.0)
    assert held.node == ""
    bench.run_until(25.0)
    bench.cluster.schedule(25.0)
    assert held.node == "n-1"


def test_a_machine_that_never_registers_is_no_node(bench: Bench) -> None:
    bench.set_templates(build_node("template"))
    bench.start(0.0, register=None)
    assert bench.agenda.next_due() == float("inf")
    assert bench.kubelets.machine_counts() == {A: 1}


def test_a_machine_waits_until_its_group_is_known(bench: Bench) -> None:
    bench.start(0.0)
    bench.run_until(50.0)
    assert bench.nodes == []
    bench.set_templates(build_node("template"), 60.0)
    bench.run_until(60.0)
    assert [node.name for node in bench.nodes] == ["n-1"]


def test_a_stopped_machine_takes_its_node_along(bench: Bench) -> None:
    bench.set_templates(build_node("template"))
    bench.start(0.0)
    bench.run_until(30.0)
    bench.cloud.machines = []
    assert bench.kubelets.sync(40.0)
    assert bench.nodes == []
    assert not bench.kubelets.sync(50.0)


@pytest.mark.parametrize("stops_at", [10.0, 22.0])
def test_a_machine_stopped_on_the_way_leaves_nothing_behind(bench: Bench, stops_at: float) -> None:
    bench.set_templates(build_node("template"))
    bench.start(0.0)
    bench.run_until(stops_at)
    bench.cloud.machines = []
    bench.kubelets.sync(stops_at)
    bench.run_until(100.0)
    assert bench.nodes == []


def test_startup_taints_stay_for_a_while(bench: Bench) -> None:
    bench.kubelets.startup_taint_seconds = 15.0
    bench.set_templates(build_node("template", taints=[build_taint("boot"), build_taint("dedicated")]))
    bench.start(0.0)
    bench.run_until(39.0)
    assert {taint.key for taint in bench.nodes[0].spec.taints} == {"boot", "dedicated"}
    bench.run_until(40.0)
    assert {taint.key for taint in bench.nodes[0].spec.taints} == {"dedicated"}


def test_a_late_look_registers_nothing_in_the_past(bench: Bench) -> None:
    bench.set_templates(build_node("template"))
    bench.cloud.machines = [
        NodeStart(instance_id="i", group_id="a", node_name="n", running_since=0.0, register_after_seconds=1.0)
    ]
    bench.kubelets.sync(50.0)
    assert bench.agenda.next_due() == 50.0


def test_the_next_change_is_the_cloud_s(bench: Bench) -> None:
    assert bench.kubelets.next_change() == 1234.0
