"""What a pod asks: docs/behaviour/scheduling.md#requests-of-a-pod. The parts of a pod are tabled with NodeResourcesFit."""

from typing import Any

import pytest
from core.tests.predicates.manifests import pod

from nodewright.model.decode import convert_object
from nodewright.model.pod import Pod
from nodewright.snapshot.requests import MAX_REQUEST, is_counted, pod_requests


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("cpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-x", True),
        ("nvidia.com/gpu", True),
        ("kubernetes.io/batch", True),
        ("requests.x.com/y", False),
        ("foo", False),
        ("x.com/", False),
        ("/y", False),
        ("UPPER.com/y", False),
        ("x.com/" + "y" * 64, False),
        ("pods", False),
    ],
)
def test_names_that_count(name: str, counted: bool) -> None:
    assert is_counted(name) == counted


def test_rounding_is_once_per_pod() -> None:
    halves = [{"resources": {"requests": {"cpu": "0.5m", "memory": "0.5"}}}] * 2
    assert pod_requests(pod(containers=halves), placed=False) == {"cpu": 1, "memory": 1}


def test_requests_saturate() -> None:
    assert pod_requests(pod(requests={"memory": "1e3000000"}), placed=False) == {"memory": MAX_REQUEST}


@pytest.mark.parametrize(
    ("status", "millicores"),
    [
        pytest.param({}, 1000, id="not-resized"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, 3000, id="holds-more"),
        pytest.param({"resources": {"requests": {"cpu": "500m"}}}, 1000, id="asks-more"),
        pytest.param({"resources": {"requests": {}}, "allocatedResources": {"cpu": "2"}}, 2000, id="is-promised-more"),
    ],
)
def test_a_placed_pod_counts_by_the_most_of_what_it_asks_holds_and_is_promised(
    status: dict[str, Any], millicores: int
) -> None:
    resized = _pod({"containerStatuses": [{"name": "c", **status}]})
    assert pod_requests(resized, placed=True) == {"cpu": millicores}
    assert pod_requests(resized, placed=False) == {"cpu": 1000}


def test_a_resize_that_cannot_be_does_not_count() -> None:
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    held = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
    assert pod_requests(_pod({"conditions": [condition], "containerStatuses": [held]}), placed=True) == {"cpu": 500}


def _pod(status: dict[str, Any]) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return convert_object(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [container]}, "status": status})
