"""Places that the independent check refuses: nodes that take no such pod, and pods that keep each other away."""

from typing import Any

import pytest
from core.tests.validate.test_removals import removal, rules, world
from msgspec.structs import replace

from nodewright.model.meta import LabelSelector, Requirement
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.pod import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
)
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World

X = {"app": "x"}


def place(pod: Pod, given: World, where: str = "t-0", **changes: object) -> list[str]:
    """The rules against moving the pod from g-0 to another node."""
    given.running = [*given.running, pod]
    return rules(given, removal("g-0", pod.key), places={pod.key: where}, **changes)


def requires(*terms: NodeSelectorTerm) -> Affinity:
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=terms)))


def label(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=(Requirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([label("disk", "In", "ssd", "nvme")], True),
        ([label("disk", "In", "hdd")], False),
        ([label("disk", "In", "hdd"), label("size", "Gt", "3")], True),
        ([label("size", "Lt", "4")], False),
        ([label("size", "Gt", "big")], False),
        ([label("gpu", "DoesNotExist")], True),
        ([label("gpu", "Exists")], False),
        ([label("disk", "Resembles", "ssd")], False),
        ([NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=("t-0",)),))], True),
        ([NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=("t-1",)),))], False),
        ([NodeSelectorTerm()], False),
        ([], False),
    ],
)
def test_required_node_affinity(terms: list[NodeSelectorTerm], fits: bool) -> None:
    given = world()
    given.add_group("t", 1, labels={"disk": "ssd", "size": "4"})
    pod = build_pod("p", node_name="g-0", affinity=requires(*terms))
    why = "pod default/p has no place: node t-0 does not match its required node affinity"
    assert place(pod, given) == ([] if fits else [why])


@pytest.mark.parametrize("tolerates", [False, True])
def test_a_cordoned_node(tolerates: bool) -> None:
    given = world()
    given.add_group("t", 1, unschedulable=True)
    tolerations = [Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")] if tolerates else []
    pod = build_pod("p", node_name="g-0", tolerations=tolerations)
    assert place(pod, given) == ([] if tolerates else ["pod default/p has no place: node t-0 is cordoned"])


def with_port(name: str, node: str, port: int, ip: str = "", protocol: str = "TCP", **container: Any) -> Pod:
    """A pod with a container that takes a port of its node; ``init``: one that goes before the others."""
    pod = build_pod(name, node_name=node)
    is_init = container.pop("init", False)
    asked = Container(ports=(ContainerPort(host_port=port, host_ip=ip, protocol=protocol),), **container)
    where = "init_containers" if is_init else "containers"
    return replace(pod, spec=replace(pod.spec, **{where: (*getattr(pod.spec, where), asked)}))


@pytest.mark.parametrize(
    ("port", "collides"),
    [
        ({"port": 80}, True),
        ({"port": 80, "ip": "10.0.0.1"}, True),
        ({"port": 80, "ip": "10.0.0.2"}, False),
        ({"port": 80, "protocol": "UDP"}, False),
        ({"port": 81}, False),
        ({"port": 0}, False),
        ({"port": 80, "init": True}, False),
        ({"port": 80, "init": True, "restart_policy": "Always"}, True),
    ],
)
def test_host_ports(port: dict[str, Any], collides: bool) -> None:
    given = world(with_port("there", "g-1", 80, ip="10.0.0.1"))
    found = place(with_port("p", "g-0", **port), given, "g-1")
    why = "pod default/p has no place: a host port that it requests is taken on node g-1"
    assert found == ([why] if collides else [])


def test_a_port_is_given_once() -> None:
    two = [with_port(name, "g-0", 80) for name in ("a", "b")]
    found = rules(world(*two), removal("g-0", *(pod.key for pod in two)), places={pod.key: "g-1" for pod in two})
    assert found == ["pod default/b has no place: a host port that it requests is taken on node g-1"]


def shuns(key: str, selected: dict[str, str] | None = None, **more: Any) -> Affinity:
    selector = LabelSelector(match_labels=selected if selected is not None else X)
    term = PodAffinityTerm(topology_key=key, label_selector=selector, **more)
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


def zones() -> World:
    """g-0 to g-2 in zone a, t-0 and t-1 in zone b."""
    given = world(zone="a")
    given.add_group("t", 2, zone="b")
    return given


@pytest.mark.parametrize(
    ("affinity", "other", "clashes"),
    [
        (shuns(ZONE_LABEL), {"labels": X}, True),
        (shuns(HOSTNAME_LABEL), {"labels": X}, False),
        (shuns(ZONE_LABEL, {"app": "y"}), {"labels": X}, False),
        (shuns(ZONE_LABEL), {"labels": X, "namespace": "elsewhere"}, False),
        (shuns(ZONE_LABEL, namespaces=("elsewhere",)), {"labels": X, "namespace": "elsewhere"}, True),
        (shuns(ZONE_LABEL, namespace_selector=LabelSelector()), {"labels": X, "namespace": "elsewhere"}, True),
        (shuns("rack"), {"labels": X}, False),
        (Affinity(), {"labels": X, "affinity": shuns(ZONE_LABEL)}, True),
        (Affinity(), {"labels": X, "affinity": shuns(HOSTNAME_LABEL)}, False),
    ],
)
def test_pods_that_keep_each_other_away(affinity: Affinity, other: dict[str, Any], clashes: bool) -> None:
    given = zones()
    given.running = [build_pod("other", node_name="t-1", **other)]
    pod = build_pod("p", node_name="g-0", labels=X, affinity=affinity)
    why = "pod default/p has no place: on node t-0 it would violate anti-affinity with pods like {}/other"
    expected = [why.format(other.get("namespace", "default"))] if clashes else []
    assert place(pod, given) == expected
    assert place(pod, given, profile="ca") == []


def test_two_that_move_to_one_node() -> None:
    given = zones()
    two = [build_pod(name, node_name=f"g-{n}", labels=X, affinity=shuns(HOSTNAME_LABEL)) for n, name in enumerate("ab")]
    given.running = two
    plan = [removal(f"g-{n}", pod.key) for n, pod in enumerate(two)]
    found = rules(given, *plan, places={pod.key: "t-0" for pod in two})
    assert found == ["pod default/b has no place: on node t-0 it would violate anti-affinity with pods like default/a"]
    assert rules(given, *plan, places={two[0].key: "t-0", two[1].key: "t-1"}) == []


def test_each_of_many_that_move_is_known_to_the_next() -> None:
    given = zones()
    three = [
        build_pod(name, node_name=f"g-{n}", labels=X, affinity=shuns(HOSTNAME_LABEL)) for n, name in enumerate("abc")
    ]
    given.running = three
    plan = [removal(f"g-{n}", pod.key) for n, pod in enumerate(three)]
    places = dict(zip((pod.key for pod in three), ("t-0", "t-1", "t-1"), strict=True))
    assert rules(given, *plan, places=places) == [
        "pod default/c has no place: on node t-1 it would violate anti-affinity with pods like default/a"
    ]


def test_whoever_leaves_is_near_to_nobody() -> None:
    """The other pod goes to another zone itself."""
    given = zones()
    two = [build_pod(name, node_name=f"{name}-0", labels=X, affinity=shuns(ZONE_LABEL)) for name in ("g", "t")]
    given.running = two
    plan = [removal("g-0", two[0].key), removal("t-0", two[1].key)]
    assert rules(given, *plan, places={two[0].key: "t-1", two[1].key: "g-1"}) == []
    assert rules(given, plan[0], places={two[0].key: "t-1"}) != []


@pytest.mark.parametrize(("owner", "needs"), [("ReplicaSet", False), ("StatefulSet", True)])
def test_a_pod_that_is_ending_needs_no_place(owner: str, needs: bool) -> None:
    pod = build_pod("p", node_name="g-0", owner=(owner, "o"), deleted_at=NOW + 20)
    for profile, missing in (("nodewright", needs), ("ca", True)):
        found = rules(world(pod), removal("g-0", pod.key), profile=profile)
        assert found == (["pod default/p has no place: the plan names no node for it"] if missing else [])


def test_devices_of_the_cluster() -> None:
    given = World()
    given.provider = ProviderSeen(name=given.provider.name, gpu_label="gpu", gpu_resources=("nvidia.com/gpu",))
    given.add_group("g", 3, labels={"gpu": "a100"}, extended={"nvidia.com/gpu": 4})
    given.add_group("t", 2, labels={"gpu": "t4"}, extended={"nvidia.com/gpu": 4})
    limits: dict[str, Any] = {"gpu_total": ("a100:8:100", "v100:1:9")}
    assert rules(given, removal("g-0"), removal("t-0"), removal("t-1"), **limits) == []
    rule = "a100 of the cluster would fall below its minimum of 8"
    assert rules(given, removal("g-0"), removal("g-1"), **limits) == [rule]
    assert rules(given, removal("g-0"), removal("g-1"), profile="ca", **limits) == []
