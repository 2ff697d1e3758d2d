"""Builders set what a test names, and leave the rest at its defaults."""

from nodewright.model.quantity import Quantity
from nodewright.testkit import build_node, build_pod, build_taint, build_template


def test_a_node_offers_what_it_was_built_with() -> None:
    node = build_node("n", cpu="2", extended={"example.com/gpu": 1}, zone="z", taints=[build_taint("k")], ready=False)
    assert node.allocatable["cpu"] == Quantity.of(2)
    assert node.allocatable["example.com/gpu"] == Quantity.of(1)
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "z"
    assert node.spec.taints[0].effect == "NoSchedule"
    assert [c.status for c in node.status.conditions] == ["False"]


def test_a_pod_without_a_node_waits_unschedulable() -> None:
    pod = build_pod("p", cpu="250m", host_ports=[80], owner=("Job", "j"))
    assert pod.status.conditions[0].reason == "Unschedulable"
    assert pod.metadata.controller is not None
    assert pod.metadata.controller.kind == "Job"
    assert pod.spec.containers[0].resources.requests["cpu"].milli == 250
    assert pod.spec.containers[0].ports[0].host_port == 80


def test_a_bound_pod_runs() -> None:
    pod = build_pod("p", node_name="n", owner=None)
    assert (pod.status.phase, pod.status.conditions, pod.metadata.controller) == ("Running", (), None)


def test_a_template_has_what_the_contract_asks_for() -> None:
    assert {"cpu", "memory", "pods", "x/y"} == set(build_template(extended={"x/y": 2}).allocatable)
