"""Cores, memory and GPUs of the whole cluster (behaviour/up.md §4.9)."""

import pytest

from nodewright.model.limits import ResourceLimits
from nodewright.planner.quota import CLUSTER_WIDE, Exceeded, Quota
from nodewright.registry.accelerators import NO_ACCELERATORS
from nodewright.snapshot.observation import ProviderSeen
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import World, grown, ref

GPU = ProviderSeen(name="cloud", gpu_label="accelerator", gpu_resources=("example.com/gpu",))
CORES = Exceeded(CLUSTER_WIDE, ("cpu",))


def test_cores_count_whole_and_virtual_kubelets_not_at_all() -> None:
    snapshot = Snapshot()
    snapshot.add_nodes([build_node("a", cpu="1500m"), build_node("v", cpu="100", labels={"type": "virtual-kubelet"})])
    quota = Quota(snapshot, ResourceLimits(max_cores=10), NO_ACCELERATORS)
    assert quota.allowed(build_node("n", cpu="4"), 5) == (2, (CORES,))
    quota.consume(build_node("n", cpu="4"), 2)
    assert quota.allowed(build_node("n", cpu="4"), 1) == (0, (CORES,))


def test_an_exceeded_limit_allows_nothing_more() -> None:
    snapshot = Snapshot()
    snapshot.add_node(build_node("a", cpu="20"))
    quota = Quota(snapshot, ResourceLimits(max_cores=10), NO_ACCELERATORS)
    assert quota.allowed(build_node("n", cpu="1"), 3) == (0, (CORES,))


@pytest.mark.parametrize(("limit", "expected"), [("t4:0:4", (0, 2)), ("t4:0:3", (0, 1)), ("a100:0:0", (0, 3))])
def test_gpu_limits_by_type(limit: str, expected: tuple[int, int]) -> None:
    world = World(pending=[build_pod(f"p{k}", extended={"example.com/gpu": 2}) for k in range(3)], provider=GPU)
    world.add_group("g", extended={"example.com/gpu": 2}, labels={"accelerator": "t4"})
    assert grown(world.plan(gpu_total=(limit,))) == {"g": expected}


def test_the_resource_that_stands_in_the_way_is_named() -> None:
    world = World(pending=[build_pod("p", extended={"example.com/gpu": 2})], provider=GPU)
    world.add_group("g", extended={"example.com/gpu": 2}, labels={"accelerator": "t4"})
    plan = world.plan(gpu_total=("t4:0:1",), memory_total="0:1")
    assert str(plan.scale_up.skipped[ref("g")]) == 'exceeded quota: "cluster-wide", resources: memory, t4'
