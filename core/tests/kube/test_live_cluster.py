"""A cluster that deltas keep current equals the one that is built from all objects at once."""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from nodewright.adapters.kube.cluster import LiveCluster
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import Node, NodeStatus
from nodewright.model.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from nodewright.model.quantity import Quantity
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_pod

NAMES = [f"n{number}" for number in range(8)]


def make_node(name: str, cpu: int = 8) -> Node:
    amounts = {"cpu": Quantity.of(str(cpu)), "memory": Quantity.of("32Gi"), "pods": Quantity.of("110")}
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity=amounts, allocatable=amounts))


def make_pod(name: str, *, node: str = "", nominated: str = "", cpu: str = "1", phase: str = "") -> Pod:
    container = Container(resources=ResourceRequirements(requests={"cpu": Quantity.of(cpu)}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"{name}-{node}-{cpu}"),
        spec=PodSpec(node_name=node, containers=(container,)),
        status=PodStatus(nominated_node_name=nominated, phase=phase),
    )


def what_it_shows(snapshot: Snapshot) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Free milli-cpus and the pods of each node."""
    snapshot.widen()
    column = snapshot.vocabulary.resources.get("cpu")
    return {
        node.name: (
            int(snapshot.free[row, column]) if column is not None else 0,
            tuple(sorted(pod.name for pod in snapshot.pods(row))),
        )
        for row, node in snapshot.nodes()
    }


def draw_anew(nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[Snapshot, set[str]]:
    snapshot = Snapshot()
    snapshot.add_nodes(list(nodes))
    pending = set()
    for pod in pods:
        host = pod.host
        if pod.is_terminal:
            continue
        if host in snapshot:
            snapshot.place(snapshot.class_of(pod, placed=True), snapshot.row(host), pod=pod)
        elif not host:
            pending.add(pod.name)
    return snapshot, pending


@pytest.mark.parametrize("seed", range(20))
def test_deltas_and_the_whole_agree(seed: int) -> None:
    random = Random(seed)
    live = LiveCluster()
    nodes: dict[str, Node | None] = {}
    pods: dict[str, Pod | None] = {}
    for _ in range(60):
        some_nodes: dict[str, Node | None] = {}
        for name in random.sample(NAMES, random.randrange(4)):
            some_nodes[name] = make_node(name, random.choice([4, 8])) if random.random() < 0.7 else None
        some_pods: dict[str, Pod | None] = {}
        for number in random.sample(range(20), random.randrange(6)):
            key = f"default/p{number}"
            some_pods[key] = draw_pod(f"p{number}", random) if random.random() < 0.8 else None
        live.apply_nodes(some_nodes)
        live.apply_pods(some_pods)
        nodes |= some_nodes
        pods |= some_pods
        expected, pending = draw_anew(filter(None, nodes.values()), filter(None, pods.values()))
        assert what_it_shows(live.fork()) == what_it_shows(expected)
        assert {pod.name for pod in live.pending()} == pending


def draw_pod(name: str, random: Random) -> Pod:
    return make_pod(
        name,
        node=random.choice(["", *NAMES]),
        nominated=random.choice(["", "", "n1"]),
        cpu=random.choice(["1", "500m"]),
        phase=random.choice(["", "Running", "Succeeded"]),
    )


def test_a_pod_may_come_before_its_node() -> None:
    live = LiveCluster()
    live.apply_pods({"default/p": make_pod("p", node="late")})
    assert not live.pending()
    live.apply_nodes({"late": make_node("late")})
    assert what_it_shows(live.fork())["late"][1] == ("p",)


def test_a_fork_does_not_change_with_the_picture() -> None:
    live = LiveCluster()
    live.apply_nodes({"a": make_node("a")})
    live.apply_pods({"default/p": make_pod("p", node="a")})
    before = live.fork()
    live.apply_pods({"default/p": None})
    assert what_it_shows(before)["a"][1] == ("p",)
    assert what_it_shows(live.fork())["a"][1] == ()


def test_rows_do_not_pile_up() -> None:
    live = LiveCluster()
    node = make_node("a")
    live.apply_pods({"default/p": make_pod("p", node="a")})
    for number in range(2000):
        labelled = replace(node, metadata=replace(node.metadata, labels={"turn": str(number)}))
        live.apply_nodes({"a": labelled})
    fork = live.fork()
    assert len(fork) < 600
    assert np.count_nonzero(fork.alive) == 1
    assert what_it_shows(fork)["a"][1] == ("p",)


def test_pods_are_pending_in_the_order_of_their_age() -> None:
    live = LiveCluster()
    live.apply_pods({f"default/{name}": make_pod(name) for name in ("b", "a", "c")})
    assert [pod.name for pod in live.pending()] == ["a", "b", "c"]


def test_pods_that_a_later_list_lacked_are_named_until_they_or_their_nodes_go() -> None:
    live = LiveCluster()
    live.apply_nodes({name: make_node(name) for name in ("a", "b")})
    names = ("deleted", "unlisted", "back", "elsewhere")
    live.apply_pods({f"default/{name}": make_pod(name, node="a") for name in names})
    live.apply_pods({"default/other": make_pod("other", node="b"), "default/waits": make_pod("waits")})
    gone = [f"default/{name}" for name in ("unlisted", "back", "other", "waits")]
    live.apply_pods(dict.fromkeys([*gone, "default/deleted"]), gone)
    assert [pod.name for pod in live.unlisted_on("a")] == ["unlisted", "back"]
    live.apply_pods({"default/back": make_pod("back", node="a")})
    assert [pod.name for pod in live.unlisted_on("a")] == ["unlisted"]
    live.forget_unlisted(live.unlisted_on("a")[0])
    live.apply_nodes({"b": None})
    assert live.unlisted_on("a") == live.unlisted_on("b") == ()


def lack(live: LiveCluster, pods: Iterable[Pod], nodes: Iterable[str] = ()) -> None:
    """New lists have neither these pods nor these nodes."""
    names, keys = tuple(nodes), [pod.key for pod in pods]
    live.apply_nodes(dict.fromkeys(names), names)
    live.apply_pods(dict.fromkeys(keys), keys)


@pytest.mark.parametrize("lacks_pods", ["before its node", "with its node", "after its node", "when its node is back"])
def test_pods_are_still_named_when_a_node_that_a_list_lacked_is_back(lacks_pods: str) -> None:
    live, pod, node = LiveCluster(), make_pod("p", node="a"), {"a": make_node("a")}
    live.apply_nodes(node)
    live.apply_pods({pod.key: pod})
    lack(live, [pod] if lacks_pods == "before its node" else [])
    lack(live, [pod] if lacks_pods == "with its node" else [], ["a"])
    lack(live, [pod] if lacks_pods == "after its node" else [])
    live.apply_nodes(node)
    lack(live, [pod] if lacks_pods == "when its node is back" else [])
    assert live.unlisted_on("a") == (pod,)
    live.apply_nodes({"a": None})  # a watch tells of it
    assert live.unlisted_on("a") == ()


def test_as_many_pods_stay_named_as_there_ever_were_at_once_and_the_oldest_go() -> None:
    """Lists that lack all pods of ever new nodes do not use ever more memory."""
    live, size = LiveCluster(), 1500
    for number in range(3):
        pods = [make_pod(f"p{number}-{one}", node=f"n{number}") for one in range(size)]
        live.apply_nodes({f"n{number}": make_node(f"n{number}")})
        live.apply_pods({pod.key: pod for pod in pods})
        lack(live, pods[:-1], [f"n{number}"])
        live.apply_pods({pods[-1].key: None})
    assert [len(live.unlisted_on(f"n{number}")) for number in range(3)] == [0, 1, size - 1]


def test_pods_that_would_not_be_lost_with_their_node_are_not_named() -> None:
    live = LiveCluster()
    live.apply_nodes({"a": make_node("a")})
    daemon = build_pod("daemon", node_name="a", owner=("DaemonSet", "d"))
    ending = build_pod("ending", node_name="a", deleted_at=1.0)
    live.apply_pods({pod.key: pod for pod in (daemon, ending)})
    live.apply_pods({daemon.key: None, ending.key: None}, {daemon.key, ending.key})
    assert live.unlisted_on("a") == ()
