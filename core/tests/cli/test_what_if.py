"""``plan`` with --add, --remove-node and --group: what would change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Nodewright = Callable[..., Any]
EXAMPLES = Path(__file__).parents[3] / "docs/examples/plan"
PLAN = ("plan", str(EXAMPLES / "dump.json"), "--groups", str(EXAMPLES / "groups.yaml"))


def ask(nodewright: Nodewright, *flags: str) -> dict[str, Any]:
    ended = nodewright(*PLAN, "--output", "json", *flags)
    assert (ended.code, ended.err) == (0, "")
    difference: dict[str, Any] = json.loads(ended.out)["difference"]
    return difference


def test_more_pods_cost_more(nodewright: Nodewright) -> None:
    found = ask(nodewright, "--add", str(EXAMPLES / "deploy.yaml"), "--replicas", "20")
    assert found["then"]["pending_pods"] - found["now"]["pending_pods"] == 20
    assert found["then"]["nodes"] > found["now"]["nodes"]
    assert found["then"]["usd_per_hour"] > found["now"]["usd_per_hour"]
    assert found["then"]["lower_bound_of_new_nodes_in_usd_per_hour"] <= found["then"]["usd_per_hour_of_new_nodes"]


def test_without_replicas_the_file_decides(nodewright: Nodewright) -> None:
    found = ask(nodewright, "--add", str(EXAMPLES / "deploy.yaml"))
    assert found["then"]["pending_pods"] - found["now"]["pending_pods"] == 4


def test_pods_of_a_removed_node_need_room(nodewright: Nodewright) -> None:
    found = ask(nodewright, "--remove-node", "general-b")
    assert found["then"]["pending_pods"] > found["now"]["pending_pods"]
    assert found["then"]["usd_per_hour_of_new_nodes"] > found["now"]["usd_per_hour_of_new_nodes"]


def test_one_more_group_helps_a_pod_that_no_group_helps_now(nodewright: Nodewright) -> None:
    found = ask(nodewright, "--group", "name=xl,cpu=96,memory=768Gi,price_per_hour=4,max_size=2,labels.tier=big")
    assert found["then"]["groups"]["dump/xl"] == 1
    assert found["then"]["pods_not_helped"] == found["now"]["pods_not_helped"] - 1


def test_people_get_a_table_with_the_groups_that_change(nodewright: Nodewright) -> None:
    said = nodewright(*PLAN, "--add", str(EXAMPLES / "deploy.yaml"), "--replicas", "20").out
    difference = said[said.index("Difference to now") :]
    assert "USD per hour" in difference
    assert "nodes of dump/gpu" not in difference
    assert "Difference to now" not in nodewright(*PLAN).out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--replicas", "3"), "--replicas: needs --add"),
        (("--add", "none.yaml"), "--add: none.yaml: No such file"),
        (("--add", str(EXAMPLES / "groups.yaml")), "holds no Deployment, StatefulSet, ReplicaSet, Job or Pod"),
        (("--remove-node", "general-d"), "--remove-node: the dump has no node general-d; did you mean general-"),
        (("--group", "name=x"), "--group x: cpu and memory must describe a node"),
        (("--group", "name=x,cpu=-1,memory=1Gi"), "--group: group 'x': cpu: '-1' is negative"),
        (("--group", "xl"), "--group xl: is not of the form"),
        (("--group", "name=large,cpu=1,memory=1Gi"), "--group: there are two groups large"),
        (("--group", "labels=a,labels.b=c"), "--group labels=a,labels.b=c: labels needs a name: labels.NAME=VALUE"),
        (("--group", "name=x,cpu=1,memory=1Gi,prise=3"), "--group name=x,cpu=1,memory=1Gi,prise=3: "),
    ],
)
def test_wrong_questions_are_one_sentence(nodewright: Nodewright, flags: tuple[str, ...], sentence: str) -> None:
    ended = nodewright(*PLAN, *flags)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert sentence in ended.err


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("{kind: Pod, metadata: foo}", "metadata: must be a mapping, and is 'foo'"),
        ("{kind: Pod, spec: foo}", "spec"),
        ("{kind: Deployment, metadata: foo}", "metadata: must be a mapping, and is 'foo'"),
        ("{kind: Deployment, spec: foo}", "spec: must be a mapping, and is 'foo'"),
        ("{kind: Job, spec: {template: foo}}", "spec.template: must be a mapping, and is 'foo'"),
        ("{kind: Job, spec: {template: {metadata: [1]}}}", "spec.template.metadata: must be a mapping, and is a list"),
        ("{kind: Job, spec: {template: {spec: foo}}}", "spec"),
    ],
)
def test_wrong_manifests_are_one_sentence(nodewright: Nodewright, tmp_path: Path, manifest: str, sentence: str) -> None:
    (file := tmp_path / "added.yaml").write_text(manifest)
    ended = nodewright(*PLAN, "--add", file)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert "added.yaml" in ended.err
    assert sentence in ended.err
