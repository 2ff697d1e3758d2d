"""``nodewright explain`` on a dump: nodes, pods and groups, for people and as JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodewright.testkit import build_node, build_pod, build_taint

Nodewright = Callable[..., Any]
WriteDump = Callable[..., str]

POOL = {"pool": "general"}
BY = ("--group-by", "pool")


@pytest.fixture
def dump(write_dump: WriteDump) -> str:
    """One node that nothing keeps but a pod, two that have no room for it, and pods that wait."""
    nodes = [build_node(f"n-{n}", cpu="4", labels=POOL, created_at=7200.0) for n in range(3)]
    db = build_node("db-0", labels={"pool": "db"}, taints=[build_taint("dedicated", value="db")])
    return write_dump(
        *nodes,
        db,
        build_pod("lone", "1", node_name="n-0", owner=None),
        build_pod("web", "1500m", node_name="n-0"),
        *(build_pod(f"full-{n}", "3", node_name=f"n-{n}") for n in (1, 2)),
        build_pod("agent", "10m", namespace="shop", node_name="n-1"),
        build_pod("small", "400m"),
        build_pod("huge", "64", owner=("ReplicaSet", "huge")),
    )


def test_a_node_with_a_pod_in_the_way(nodewright: Nodewright, dump: str) -> None:
    ended = nodewright("explain", "node", "n-0", dump, *BY, "--scale-down-utilization-threshold", "0.9")
    assert ended.code == 0
    head, blank = ended.out.splitlines()[:2]
    assert head == (
        "Node n-0, as of 1970-01-01T02:00:00Z: stays: BlockedByPod: pod default/lone (NotReplicated): "
        "no controller would start it again; give it one, delete it, "
        'or annotate it cluster-autoscaler.kubernetes.io/safe-to-evict: "true".'
    ), "one line, also where it is longer than the screen"
    assert not blank
    said = " ".join(ended.out.split())
    assert "group dump/general with 3 of 0 to 1,000 nodes, 3 ready" in said
    assert "default/lone blocks NotReplicated: no controller would start it again; give it one" in said
    assert "default/web has no place n-1, n-2: Insufficient cpu; db-0: taint dedicated=db:NoSchedule" in said


def test_a_node_as_json(nodewright: Nodewright, dump: str) -> None:
    document = nodewright("explain", "node", "n-1", dump, *BY, "-o", "json").document
    assert (document["schema"], document["node"], document["outcome"]) == (1, "n-1", "stays")
    assert document["reason"]["code"] == "NotUnderutilized"
    assert document["group"]["group"] == "dump/general"
    assert document["utilization"]["resource"] == "cpu"
    [pod] = [one for one in document["pods"] if one["pod"] == "default/full-1"]
    assert (pod["outcome"], pod["place"], pod["refusals"][0]["reason"]) == ("move", None, "Insufficient cpu")


def test_json_stays_json_where_a_utilization_is_no_number(nodewright: Nodewright, write_dump: WriteDump) -> None:
    daemon = build_pod("daemon", "4", node_name="n", owner=("DaemonSet", "d"))
    path = write_dump(build_node("n", labels=POOL), daemon, build_pod("p", "1", node_name="n"))
    ended = nodewright("explain", "node", "n", path, *BY, "--ignore-daemonsets-utilization", "-o", "json")
    assert ended.document["utilization"]["ratio"] is None
    shown = nodewright("explain", "node", "n", path, *BY, "--ignore-daemonsets-utilization")
    assert "cpu is requested, but none is allocatable; the threshold is 50 %" in shown.out


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("node", "n-9", "there is no node n-9; did you mean n-"),
        ("pod", "default/wep", "there is no pod default/wep; did you mean default/web?"),
        ("pod", "wep", "there is no pod default/wep; did you mean default/web?"),
        ("pod", "agent", "there is no pod agent in namespace default; there is one in namespace shop"),
        ("pod", "lab/agent", "there is no pod agent in namespace lab; there is one in namespace shop"),
        ("node", "other", "there is no node other; there are db-0, n-0, n-1 and 1 more"),
        ("group", "dump/generel", "there is no group dump/generel; did you mean dump/general?"),
        ("node", "\x1b[31mx", "there is no node \\x1b[31mx"),
        ("nodes", "n-0", "'nodes' is not one of 'node', 'pod', 'group'"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    nodewright: Nodewright, dump: str, kind: str, name: str, message: str
) -> None:
    ended = nodewright("explain", kind, name, dump, *BY)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1


def test_an_object_without_a_namespace_is_looked_for_in_namespace_default(nodewright: Nodewright, dump: str) -> None:
    assert (
        nodewright("explain", "pod", "web", dump, *BY).out == nodewright("explain", "pod", "default/web", dump, *BY).out
    )


def test_a_dump_without_groups_is_refused(nodewright: Nodewright, dump: str) -> None:
    ended = nodewright("explain", "node", "n-0", dump)
    assert ended.code == 2
    assert "no node groups" in ended.err


def test_names_are_text_not_markup(nodewright: Nodewright, write_dump: WriteDump) -> None:
    evil = "[red]x[/red]\x1b[31m"
    path = write_dump(build_node("n", labels=POOL), build_pod(evil, node_name="n"))
    ended = nodewright("explain", "node", "n", path, *BY)
    assert "\x1b" not in ended.out
    assert r"[red]x[/red]\x1b[31m" in ended.out


def test_a_pod_that_runs(nodewright: Nodewright, dump: str) -> None:
    ended = nodewright("explain", "pod", "default/lone", dump, *BY, "--scale-down-utilization-threshold", "0.9")
    said = " ".join(ended.out.split())
    assert "Pod default/lone, as of 1970-01-01T02:00:00Z: runs on n-0." in said
    assert "If that node went: blocks; NotReplicated: no controller" in said
    assert "The node stays: BlockedByPod" in said


def test_a_pod_that_gives_way(nodewright: Nodewright, write_dump: WriteDump) -> None:
    path = write_dump(build_node("n", labels=POOL), build_pod("low", node_name="n", priority=-100))
    document = nodewright("explain", "pod", "default/low", path, *BY, "-o", "json").document
    assert (document["outcome"], document["if_node_goes"]) == ("runs", None)
    assert "gives way to other pods" in document["reason"]


def test_a_pod_that_waits(nodewright: Nodewright, dump: str) -> None:
    huge = nodewright("explain", "pod", "default/huge", dump, *BY, "-o", "json").document
    assert (huge["outcome"], huge["node"]) == ("unhelped", None)
    assert {"group": "dump/general", "message": "Insufficient cpu"} in huge["groups"]
    assert [(one["reason"], one["count"]) for one in huge["refusals"]] == [
        ("Insufficient cpu", 3),
        ("taint dedicated=db:NoSchedule", 1),
    ]
    small = nodewright("explain", "pod", "default/small", dump, *BY, "-o", "json").document
    assert (small["outcome"], small["node"], small["refusals"]) == ("fits", "n-0", [])


def test_a_group(nodewright: Nodewright, dump: str) -> None:
    document = nodewright("explain", "group", "dump/general", dump, *BY, "-o", "json").document
    assert (document["group"], document["target"], document["upcoming"]) == ("dump/general", 3, 0)
    assert document["growth"] == "no pending pod needs it"
    [nodes] = document["nodes"]
    assert (nodes["outcome"], nodes["code"], nodes["count"]) == ("stays", "NotUnderutilized", 3)
    shown = nodewright("explain", "group", "dump/general", dump, *BY).out
    assert "n-0, n-1, n-2" in shown


def test_a_dump_that_is_not_there(nodewright: Nodewright, tmp_path: Path) -> None:
    ended = nodewright("explain", "node", "n", tmp_path / "none.json", *BY)
    assert ended.code == 2
    assert "No such file" in ended.err


def test_row_118_a_nominated_pod_counts_as_on_its_node_and_needs_a_place(
    nodewright: Nodewright, write_dump: WriteDump
) -> None:
    """Case 118 of docs/behaviour/edge-cases.md."""
    nodes = [build_node(f"n-{n}", cpu="4", labels=POOL) for n in range(2)]
    path = Path(write_dump(*nodes, build_pod("due", "1"), build_pod("full", "3500m", node_name="n-1")))
    path.write_text(path.read_text().replace('"nominatedNodeName": ""', '"nominatedNodeName": "n-0"', 1))
    document = nodewright("explain", "node", "n-0", path, *BY, "-o", "json").document
    assert document["utilization"]["ratio"] == 0.25
    assert (document["reason"]["code"], document["reason"]["pod"]) == ("NoPlaceToMovePods", "default/due")
    [pod] = document["pods"]
    assert (pod["pod"], pod["arrives"], pod["place"]) == ("default/due", True, None)


def test_a_daemon_that_shows_nothing_is_not_asked(nodewright: Nodewright) -> None:
    """--debug-address= in the settings that are shared with it: then one loop is run, here without a cluster."""
    ended = nodewright("explain", "group", "a", "--debug-address=", "--kubeconfig=nowhere", "--cloud-provider=fake")
    assert ended.err.splitlines() == [
        "No daemon answers: this is the result of one loop without memory of earlier loops.",
        "nodewright: --kubeconfig: there is no file nowhere",
    ]
    assert ended.code == 2


def test_the_loop_when_nothing_happens(nodewright: Nodewright, dump: str) -> None:
    ended = nodewright("explain", "loop", dump, *BY, "--scale-down-enabled=false")
    assert ended.code == 0
    said = " ".join(ended.out.split())
    assert said.startswith("The loop as of 1970-01-01T02:00:00Z: nothing is done.")
    assert "no node is removed: --scale-down-enabled is off" in said
    assert "1 pending pod: unhelped (nodewright explain pod NAME)" in said
    document = nodewright("explain", "loop", dump, *BY, "-o", "json").document
    assert set(document) == {"schema", "now", "stops", "does", "otherwise"}


def test_every_other_kind_has_a_name(nodewright: Nodewright) -> None:
    ended = nodewright("explain", "node")
    assert (ended.code, ended.out) == (2, "")
    assert "Missing argument 'NAME'" in ended.err
