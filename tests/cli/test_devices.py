"""Pods with devices (dynamic resource allocation) in ``plan``: served by a group with such devices, or told why not."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Command = Callable[..., CompletedProcess[str]]
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
CLASS = {
    "kind": "DeviceClass",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "gpu"},
    "spec": {
        "extendedResourceName": "example.com/gpu",
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
    },
}
PLAIN = {"name": "plain", "cpu": 8, "memory": "32Gi", "price_per_hour": 0.1}
CARDS = {
    **PLAIN,
    "name": "cards",
    "price_per_hour": 3,
    "devices": [{"driver": "gpu.example.com", "count": 4, "attributes": {"model": "a100"}}],
}


def pod(name: str, requests: dict[str, Any], **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-11-26T11:00:00Z"}
    container = {"name": "main", "resources": {"requests": {"cpu": "1", **requests}}}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}, "status": UNSCHEDULABLE}


def template(name: str, count: int, model: str) -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.attributes["gpu.example.com"].model == "{model}"'}}
    exactly = {"deviceClassName": "gpu", "count": count, "selectors": [selector]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    meta = {"name": name, "namespace": "default"}
    return {
        "kind": "ResourceClaimTemplate", "apiVersion": "resource.k8s.io/v1", "metadata": meta, "spec": {"spec": spec},
    }  # fmt: skip


def claiming(name: str, of: str) -> dict[str, Any]:
    return pod(name, {}, resourceClaims=[{"name": "x", "resourceClaimTemplateName": of}])


@pytest.fixture
def plan(command: Command, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(items: list[dict[str, Any]], *groups: dict[str, Any]) -> dict[str, Any]:
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps({"providers": {"fake": {"options": {"groups": groups}}}}), encoding="utf-8")
        done = command(
            "plan", "-", "--config", config, "-o", "json", stdin=json.dumps({"kind": "List", "items": items})
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def sizes(found: dict[str, Any]) -> dict[str, int]:
    return {one["group"]: one["target"] for one in found["expansions"]}


def test_an_extended_resource_of_a_device_class_is_served_by_a_group_with_such_devices(
    plan: Callable[..., dict[str, Any]],
) -> None:
    asking = [pod(f"p{index}", {"example.com/gpu": "1"}) for index in range(5)]
    assert sizes(plan([CLASS, *asking], PLAIN, CARDS)) == {"fake/cards": 2}


def test_claims_and_extended_resources_share_the_devices_of_a_node(plan: Callable[..., dict[str, Any]]) -> None:
    pods = [pod("one", {"example.com/gpu": "1"}), claiming("two", "pair"), claiming("three", "pair")]
    assert sizes(plan([CLASS, template("pair", 2, "a100"), *pods], PLAIN, CARDS)) == {"fake/cards": 2}
    assert sizes(plan([CLASS, template("pair", 2, "a100"), *pods[1:]], PLAIN, CARDS)) == {"fake/cards": 1}


@pytest.mark.parametrize(
    ("asking", "reason"),
    [
        ([pod("p", {"example.com/gpu": "1"})], "cannot allocate all claims"),
        ([template("pair", 2, "h100"), claiming("p", "pair")], "cannot allocate all claims"),
        ([claiming("p", "gone")], "could not find ResourceClaimTemplate"),
    ],
)
def test_what_no_group_can_serve_is_refused_with_the_true_reason(
    plan: Callable[..., dict[str, Any]], asking: list[dict[str, Any]], reason: str
) -> None:
    groups = [PLAIN] if "example.com/gpu" in json.dumps(asking) else [PLAIN, CARDS]
    found = plan([CLASS, *asking], *groups)
    assert sizes(found) == {}
    assert reason in json.dumps(found["pods"])
