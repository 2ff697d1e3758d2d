"""Dumps, groups and settings that cannot be: one sentence that names the file and the place, exit code 2."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels": {"pool": "a"}}}
BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)


def assert_refused(ended: Finished, *sentences: str) -> None:
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("nodewright: ")
    assert ended.stderr.count("\n") == 1
    for sentence in sentences:
        assert sentence in ended.stderr


@pytest.mark.parametrize(
    ("dump", "sentences"),
    [
        ("", ["stdin: the file holds nothing"]),
        ('{"kind": "List", "items": [', ["stdin: the JSON ends in the middle"]),
        ("no: [yaml", ["stdin line"]),
        ("kubectl: command not found", ["stdin"]),
        ('{"kind": "ConfigMap", "metadata": {"name": "x"}}', ["stdin: holds no node and no pod", "kubectl get"]),
        ('{"kind": "Pod", "metadata": {"name": 7}}', ["stdin: Pod", "metadata.name", "must be a string"]),
        (
            json.dumps({"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "four"}}}),
            ["stdin: Node n: status.capacity.cpu", "'four' is not a quantity"],
        ),
        (BOMB, ["stdin"]),
        ("[" * 100_000, ["stdin"]),
        ('{"kind": "Pod", "metadata": {"name": "\x1b[31m"}, "spec": 7}', ["stdin"]),
    ],
)
def test_malformed_dumps(command: Command, dump: str, sentences: list[str]) -> None:
    assert_refused(command("plan", "-", "--group-by", "pool", stdin=dump), *sentences)


def test_a_dump_that_is_not_there(command: Command) -> None:
    assert_refused(command("plan", "nowhere.json", "--group-by", "pool"), "nowhere.json: No such file")


@pytest.mark.parametrize(
    ("groups", "sentences"),
    [
        ("groups: [{name: a, min_size: 3, max_size: 2}]", ["group 'a': min_size 3 is above max_size 2"]),
        ("groups: [{name: a, max_siz: 2}]", ["unknown key", "did you mean max_size?"]),
        ("groups: [{name: a, max_size: 2}]", ["group a: the dump has no node of it", "cpu and memory"]),
        ("groups: [{name: a, max_size: 2, cpu: lots, memory: 1}]", ["group 'a': cpu: 'lots' is not a quantity"]),
        ("groups: [{name: a, max_size: 2, cpu: -1, memory: 1}]", ["group 'a': cpu", "negative"]),
        ("groups: [{name: a, max_size: 1e9}]", ["max_size"]),
        (
            "groups: [{name: a, max_size: 2, nodes: {pool: a}}, {name: b, max_size: 2, nodes: {pool: a}}]",
            ["node n is of group a and of b"],
        ),
        (
            "groups: [{name: a, max_size: 2, cpu: 1, memory: 1}, {name: a, max_size: 2, cpu: 1, memory: 1}]",
            ["group 'a': a name must be unique"],
        ),
        ("just text", ["must hold one mapping"]),
        (BOMB, ["g.yaml"]),
    ],
)
def test_malformed_groups(command: Command, tmp_path: Path, groups: str, sentences: list[str]) -> None:
    (tmp_path / "home" / "g.yaml").write_text(groups)
    assert_refused(command("plan", "-", "--groups", "g.yaml", stdin=json.dumps(NODE)), *sentences)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            [],
            "no node groups: give --groups, --group-by or --cloud-provider (installed: aws, azure, externalgrpc, fake, gce)",
        ),
        (["--group-by", "poll"], "no node of the dump has the label poll; did you mean pool?"),
        (["--group-by", "pool", "--groups", "g"], "--groups and --group-by: give one of them, not both"),
        (["--group-by", "pool", "--expander", "cheapest"], "--expander"),
        (["--group-by", "pool", "--expandr", "price"], "'--expander'"),
        (["--group-by", "pool", "--now", "yesterday"], "--now: 'yesterday' is not a time"),
        (["--group-by", "pool", "--scan-interval", "10"], "--scan-interval"),
        (["--config", "nowhere.yaml"], "--config: nowhere.yaml: No such file"),
        (["--cloud-provider", "fake", "--nodes", "1:5:a"], "describe no group a"),
    ],
)
def test_wrong_flags(command: Command, args: list[str], sentence: str) -> None:
    assert_refused(command("plan", "-", *args, stdin=json.dumps(NODE)), sentence)


def test_wrong_variables(command: Command) -> None:
    ended = command("plan", "-", stdin=json.dumps(NODE), env={"NODEWRIGHT_EXPANDR": "price"})
    assert_refused(ended, "NODEWRIGHT_EXPANDR", "did you mean NODEWRIGHT_EXPANDER?")


def test_huge_quantities_saturate(command: Command) -> None:
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "huge", "namespace": "x"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1e3000000", "memory": "9" * 100}}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }
    node = {**NODE, "status": {"capacity": {"cpu": "1e3000000", "memory": "1Ei", "pods": "1e99"}}}
    dump = json.dumps({"kind": "List", "items": [node, pod]})
    ended = command("plan", "-", "--group-by", "pool", "-o", "json", stdin=dump)
    assert ended.returncode == 0
    assert len(json.loads(ended.stdout)["pods"]) == 1


def test_a_daemon_with_a_bad_file_of_prices_does_not_start(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("prices: [{type: m5.large, per_hour: 1}, {type: m5.large, per_hour: 2}]")
    ended = command("run", "--cloud-provider=fake", f"--prices={file}", env={"KUBECONFIG": "nowhere"})
    assert_refused(ended, f"nodewright: {file}: type m5.large has two prices")
    gone = command("run", "--cloud-provider=fake", "--prices=nowhere.yaml", env={"KUBECONFIG": "nowhere"})
    assert_refused(gone, "nodewright: --prices: nowhere.yaml cannot be read: No such file or directory")


def test_a_daemon_without_a_cluster(command: Command) -> None:
    """What is missing is said of both places: it may well be a pod, one that was given no token."""
    ended = command("run", "--cloud-provider=fake", env={"KUBECONFIG": "nowhere", "KUBERNETES_SERVICE_HOST": ""})
    found = (
        "this process does not run in a pod (Service host/port is",
        "and there is no kubeconfig (Invalid kube-config",
    )
    assert_refused(ended, "nodewright: --kubeconfig: ", *found)
