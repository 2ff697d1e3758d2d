"""NodePorts: docs/behaviour/scheduling.md#nodeports, case 95."""

from typing import Any

import pytest
from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.node_ports import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REFUSED = {"n": "NodePorts: node(s) didn't have free ports for the requested pod ports"}


def _serving(kind: str = "containers", **port: Any) -> dict[str, Any]:
    return {kind: [{"ports": [{"hostPort": 80, **port}], "restartPolicy": port.pop("restart", "")}]}


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        pytest.param({"hostIP": "127.0.0.1"}, {"hostIP": "10.0.0.1"}, True, id="95-two-addresses"),
        pytest.param({"hostIP": "127.0.0.1"}, {}, False, id="95-every-address"),
        pytest.param({}, {"hostIP": "127.0.0.1"}, False, id="95-held-on-every-address"),
        pytest.param({"protocol": "UDP"}, {"protocol": "TCP"}, True, id="95-two-protocols"),
        pytest.param({"hostPort": 81}, {}, True, id="two-numbers"),
        pytest.param({"hostIP": "::"}, {"hostIP": "10.0.0.1"}, True, id="unspecified-ipv6-is-not-special"),
        pytest.param({"protocol": ""}, {"protocol": "TCP"}, False, id="tcp-by-default"),
        pytest.param({"hostPort": 0}, {"hostPort": 0}, True, id="no-host-port"),
    ],
)
def test_two_pods(held: dict[str, Any], wanted: dict[str, Any], fits: bool) -> None:
    snapshot = cluster(node("n"), placed=[(pod("q", **_serving(**held)), "n")])
    assert refusals(snapshot, pod(**_serving(**wanted))) == ({} if fits else REFUSED)


def test_only_init_containers_that_stay_hold_ports() -> None:
    sidecar: dict[str, Any] = {"initContainers": [{"ports": [{"hostPort": 80}], "restartPolicy": "Always"}]}
    passing: dict[str, Any] = {"initContainers": [{"ports": [{"hostPort": 80}]}]}
    assert refusals(cluster(node("n"), placed=[(pod("q", **sidecar), "n")]), pod(**_serving())) == REFUSED
    assert refusals(cluster(node("n"), placed=[(pod("q", **passing), "n")]), pod(**_serving())) == {}


def test_a_port_is_free_again_when_its_pod_is_gone() -> None:
    snapshot = cluster(node("n"), placed=[(pod("q", **_serving()), "n")])
    assert refusals(snapshot, pod(**_serving())) == REFUSED
    snapshot.unplace(snapshot.class_of(pod("q", **_serving())), 0)
    assert refusals(snapshot, pod(**_serving())) == {}


@given(worlds("containers", "init_containers"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
