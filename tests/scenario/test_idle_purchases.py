"""Pending pods that must not buy more nodes than they use: neighbours that depend on one another, pods nobody can help."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.scenario.story import Story

from nodewright.adapters.simulated.cluster import SimulatedPod
from nodewright.model.pod import Pod
from nodewright.snapshot.context import Context
from nodewright.testkit import build_pod

GROUPS: tuple[dict[str, Any], ...] = (
    {"name": "small", "zone": "a", "cpu": 4, "memory": "16Gi"},
    {"name": "large", "zone": "b", "cpu": 16, "memory": "64Gi"},
    {"name": "huge", "zone": "c", "cpu": 8, "memory": "32Gi"},
)
Build = Callable[[], list[Pod]]


def pods_of(name: str, count: int = 1, **extras: Any) -> list[Pod]:
    """Pods that the scheduler has not tried yet."""
    return [build_pod(f"{name}-{n}", unschedulable=False, owner=None, **extras) for n in range(count)]


def run(build: Build, provision: str, minutes: float = 10, settings: dict[str, Any] | None = None) -> Story:
    shapes = [{**group, "provision_delay": provision} for group in GROUPS]
    chosen = {"expander": "least-waste", "scale-down-enabled": False, **(settings or {})}
    story = Story(*shapes, settings=chosen, minutes=minutes)

    def arrive(at: float) -> None:
        for pod in build():
            story.simulation.cluster.submit(SimulatedPod(pod=pod, arrived=at))

    story.simulation.agenda.at(5.0, arrive)
    return story


def test_pods_of_a_namespace_that_is_being_deleted_get_no_node() -> None:
    """The API server binds nothing there: a node for them is never used."""
    story = run(partial(pods_of, "p", namespace="dying"), "1s")
    live = story.simulation.cluster.live
    live.context = Context(ending_namespaces=frozenset({"dying"}))
    assert story.writes() == []
    as_ca = run(partial(pods_of, "p", namespace="dying"), "1s", settings={"profile": "ca"})
    as_ca.simulation.cluster.live.context = Context(ending_namespaces=frozenset({"dying"}))
    assert [write[1] for write in as_ca.writes()] == ["increase"]
