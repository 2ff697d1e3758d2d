"""Cores, memory and GPUs of the whole cluster (behaviour/up.md §4.9)."""

from dataclasses import replace

import pytest

from nodewright.clusterstate.accelerators import NO_ACCELERATORS
from nodewright.model.capacity_quota import CapacityQuota, CapacityQuotaSpec, QuotaAmounts
from nodewright.model.limits import ResourceLimits
from nodewright.model.meta import LabelSelector, ObjectMeta
from nodewright.planner.quota import CLUSTER_WIDE, Exceeded, Quota
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


def unreported(*, age: float = 60, **labels: str) -> World:
    """One node of two devices whose device plugin has not reported any, and pods for six devices more."""
    world = World(pending=[build_pod(f"p{k}", extended={"example.com/gpu": 2}) for k in range(3)], provider=GPU)
    labels = {"accelerator": "t4", **labels}
    world.add_group("g", 1, max_size=9, extended={"example.com/gpu": 2}, labels=labels)
    world.nodes = [build_node("g-0", provider_id="cloud:///g/0", labels=labels, created_at=world.now - age)]
    return world


@pytest.mark.parametrize("age", [60, 901, 90_000])
def test_devices_that_have_not_appeared_count_as_the_template_says(age: float) -> None:
    """As CA counts them: four were allowed and six bought."""
    assert grown(unreported(age=age).plan(gpu_total=("t4:0:4",))) == {"g": (1, 2)}


def test_they_count_in_quotas_and_in_what_is_told_of_them() -> None:
    world = unreported(age=901, team="a")
    limits = QuotaAmounts(resources={"t4": 4})
    selector = LabelSelector(match_labels={"team": "a"})
    world.quotas = [
        CapacityQuota(metadata=ObjectMeta(name="q"), spec=CapacityQuotaSpec(selector=selector, limits=limits))
    ]
    plan = world.plan(capacity_quotas_enabled=True)
    assert grown(plan) == {"g": (1, 2)}
    (told,) = plan.quotas
    assert told.status.used == QuotaAmounts(resources={"t4": "2"})


def test_the_node_of_no_group_counts_what_it_offers() -> None:
    world = unreported(age=901)
    world.nodes = [build_node("stranger", labels={"accelerator": "t4"}, created_at=world.now - 901)]
    world.groups[ref("g")] = replace(world.groups[ref("g")], target=0, instances=())
    assert grown(world.plan(gpu_total=("t4:0:4",))) == {"g": (0, 2)}
