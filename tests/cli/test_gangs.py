"""Gangs in ``plan`` and ``explain``: met whole, or told what is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Command = Callable[..., CompletedProcess[str]]
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 6}}},
}


def pod(number: int) -> dict[str, Any]:
    """A pod that waits before the queue, without a condition."""
    meta = {
        "name": f"train-{number}",
        "namespace": "default",
        "uid": str(number),
        "creationTimestamp": "2026-11-26T11:00:00Z",
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "schedulingGroup": {"podGroupName": "train"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def ask(command: Command, tmp_path: Path) -> Callable[..., str]:
    def run(count: int, most: int, *words: str) -> str:
        pool = {"name": "pool", "cpu": 1, "memory": "4Gi", "max_size": most, "price_per_hour": 1}
        config, dump = tmp_path / "config.yaml", tmp_path / "dump.json"
        config.write_text(json.dumps({"providers": {"fake": {"options": {"groups": [pool]}}}}))
        dump.write_text(json.dumps({"kind": "List", "items": [GROUP, *map(pod, range(count))]}))
        done = command(*words, str(dump), "--config", str(config))
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    return run


def test_a_gang_that_is_met(ask: Callable[..., str]) -> None:
    said = ask(6, 9, "plan")
    assert "helps 6 pods; no other group could; grows for gang default/train" in said
    assert "Plan: 6 more nodes in 1 group for 6 pods." in said


def test_what_is_missing(ask: Callable[..., str]) -> None:
    said = ask(6, 4, "plan")
    assert "could help 4 pods with 4 nodes" in said
    assert "Plan: no group grows; 6 pods are not helped." in said
    text = "gang default/train needs 6 pods to start together"
    assert f"{text}: 4 of 6 pods would have room" in ask(6, 4, "explain", "pod", "default/train-0")
    assert f"{text}: 5 of 6 pods exist" in ask(5, 9, "explain", "pod", "default/train-0")
