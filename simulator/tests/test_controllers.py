"""Controllers replace pods that are lost, and no others."""

import pytest

from nodewright.model.cluster import DaemonSet, DaemonSetSpec, PodTemplateSpec
from nodewright.model.meta import ObjectMeta
from nodewright.testkit import build_node, build_pod, build_taint
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.cluster import SimulatedCluster
from nodewright_simulator.controllers import DeploymentController, Jobs, start_daemons
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.scheduler import Scheduler

World = tuple[SimulatedCluster, Agenda, Journal]


@pytest.fixture
def world() -> World:
    journal = Journal()
    cluster = SimulatedCluster(Scheduler(), journal)
    cluster.add_node(build_node("n", cpu=4), 0.0)
    return cluster, Agenda(), journal


def deploy(cluster: SimulatedCluster, replicas: int) -> DeploymentController:
    deployment = DeploymentController(cluster, "web", build_pod("web", cpu="1", unschedulable=False))
    deployment.scale(replicas, 0.0)
    cluster.schedule(0.0)
    return deployment


def names(cluster: SimulatedCluster) -> list[str]:
    return [held.pod.name for held in (*cluster.pods_on("n"), *cluster.pending())]


def test_a_deployment_makes_its_pods_with_one_owner(world: World) -> None:
    cluster, _, _ = world
    deploy(cluster, 6)
    assert names(cluster) == [f"web-{n}" for n in range(6)]
    owners = {held.pod.metadata.controller for held in (*cluster.pods_on("n"), *cluster.pending())}
    assert [(owner.kind, owner.name) for owner in owners if owner] == [("ReplicaSet", "web")]


def test_scaling_down_takes_waiting_pods_first_then_the_youngest(world: World) -> None:
    cluster, _, _ = world
    deployment = deploy(cluster, 5)
    deployment.scale(3, 10.0)
    assert names(cluster) == ["web-0", "web-1", "web-2"]
    deployment.scale(3, 20.0)
    assert names(cluster) == ["web-0", "web-1", "web-2"]


def test_a_lost_pod_is_replaced_and_a_scaled_down_one_is_not(world: World) -> None:
    cluster, _, _ = world
    deployment = deploy(cluster, 2)
    cluster.remove_node("n", 5.0)
    assert [held.pod.name for held in cluster.pending()] == ["web-2", "web-3"]
    deployment.scale(0, 6.0)
    assert cluster.pending() == ()


def test_a_job_ends_after_its_time_and_is_not_replaced(world: World) -> None:
    cluster, agenda, journal = world
    Jobs(cluster, agenda).run(build_pod("job", unschedulable=False), 60.0, 0.0)
    cluster.schedule(3.0)
    assert agenda.next_due() == 63.0
    agenda.run_next()
    assert names(cluster) == []
    assert [(fact.at, fact.what) for fact in journal.facts()][-1] == (63.0, What.POD_ENDED)


def test_a_job_whose_node_is_lost_starts_anew(world: World) -> None:
    cluster, agenda, journal = world
    Jobs(cluster, agenda).run(build_pod("job", unschedulable=False), 60.0, 0.0)
    cluster.schedule(0.0)
    for turn in (1, 2):
        cluster.remove_node("n", 30.0 * turn)
        assert [held.pod.name for held in cluster.pending()] == [f"job-r{turn}"]
        cluster.add_node(build_node("n"), 30.0 * turn)
        cluster.schedule(30.0 * turn)
    while agenda.next_due() < 1000:
        agenda.run_next()
    assert [fact.at for fact in journal.facts() if fact.what == What.POD_ENDED] == [120.0]


def daemons() -> DaemonSet:
    template = build_pod("agent", cpu="100m", unschedulable=False)
    spec = DaemonSetSpec(template=PodTemplateSpec(metadata=ObjectMeta(labels={"app": "agent"}), spec=template.spec))
    return DaemonSet(metadata=ObjectMeta(name="agent", namespace="kube-system", uid="u"), spec=spec)


def test_every_node_gets_one_daemon(world: World) -> None:
    cluster, _, _ = world
    cluster.daemon_sets = (daemons(),)
    start_daemons(cluster, "n", 1.0)
    start_daemons(cluster, "n", 2.0)
    assert names(cluster) == ["agent-n"]
    assert cluster.tally.pods == 0  # they use room, but count as no waiting pods


def test_a_daemon_does_not_start_where_it_does_not_fit(world: World) -> None:
    cluster, _, _ = world
    cluster.daemon_sets = (daemons(),)
    cluster.add_node(build_node("tainted", taints=[build_taint("dedicated")]), 0.0)
    cluster.add_node(build_node("tiny", cpu="50m"), 0.0)
    for node in ("tainted", "tiny"):
        start_daemons(cluster, node, 1.0)
        assert cluster.pods_on(node) == ()
