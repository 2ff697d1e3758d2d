"""``simulate --explain``: why a node is still there, at a moment of a simulation."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
SCENARIO = """
name: drain
duration: 2h
settings: {scale-down-unneeded-time: 5m, scale-down-delay-after-add: 0s}
providers:
  fake:
    groups:
      - {name: g, cpu: 4, memory: 16Gi, size: 3, max_size: 5}
deployments:
  - name: web
    replicas: 3
    pod: {cpu: 3}
  - name: db
    replicas: 1
    at: 2m
    pod: {cpu: 1, annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}}
timeline:
  - {do: scale, at: 10m, deployment: web, replicas: 0}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "drain.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_node_at_a_moment_and_at_the_end(command: Command, scenario: Path) -> None:
    at = ("--explain", "group=fake/g", "--at", "12m", "-o", "json")
    [early] = json.loads(command("simulate", scenario, *at).stdout)["explanations"]
    assert {(nodes["outcome"], nodes["code"]): nodes["count"] for nodes in early["nodes"]} == {
        ("stays", "RecentlyUnremovable"): 1,
        ("unneeded", "NotUnneededLongEnough"): 2,
    }
    [late] = json.loads(command("simulate", scenario, "--explain", "group=fake/g", "-o", "json").stdout)["explanations"]
    assert [(nodes["outcome"], nodes["code"], nodes["count"]) for nodes in late["nodes"]] == [
        ("stays", "BlockedByPod", 1)
    ]
    node = late["nodes"][0]["nodes"][0]
    said = " ".join(command("simulate", scenario, "--explain", f"node={node}", "--at", "1h").stdout.split())
    assert f"Node {node}, as of 1h after the start" in said
    assert "1970" not in said
    assert "blocks NotSafeToEvictAnnotation: it is annotated" in said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--explain", "node"), "--explain node: is not of the form node=NAME"),
        (("--explain", "nodes=g-0"), "--explain nodes=g-0: is not of the form"),
        (("--explain", "node=ghost"), "there is no node ghost"),
        (("--at", "soon"), "--at: 'soon' is not a duration"),
    ],
)
def test_bad_questions_are_one_sentence(command: Command, scenario: Path, args: tuple[str, ...], message: str) -> None:
    ended = command("simulate", scenario, *args)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
