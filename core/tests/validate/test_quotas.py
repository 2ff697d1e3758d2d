"""The independent check knows quotas as it knows the cluster's limits."""

from typing import Any

import pytest

from nodewright.model.action import IncreaseSize
from nodewright.model.capacity_quota import CapacityQuota, CapacityQuotaSpec, QuotaAmounts
from nodewright.model.meta import LabelSelector, ObjectMeta, Requirement
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.world import World, ref, settings_with
from nodewright.validate import check_actions

GPU = ProviderSeen(name="cloud", gpu_label="accelerator", gpu_types=("a100",), gpu_resources=("example.com/gpu",))
ON = settings_with(capacity_quotas_enabled=True)


def rules(amounts: dict[str, Any], selector: LabelSelector | None = None, *, more: int = 2) -> list[str]:
    """Two nodes with 4 cpu and two devices each are there, and so many more are asked for."""
    world = World(provider=GPU)
    labels = {"team": "a", "accelerator": "t4"}
    world.add_group("g", 2, labels=labels, extended={"example.com/gpu": 2}, cpu="4", memory="8Gi")
    spec = CapacityQuotaSpec(selector=selector, limits=QuotaAmounts(resources=amounts))
    world.quotas = [CapacityQuota(metadata=ObjectMeta(name="q"), spec=spec)]
    action = IncreaseSize(group=ref("g"), expected_target=2, target=2 + more)
    return [violation.rule for violation in check_actions(world.state().observation, [action], ON)]


@pytest.mark.parametrize(
    ("amounts", "rule"),
    [
        ({"nodes": 3}, "nodes of 2 and 2 more exceeds 3, the limit of CapacityQuota/q"),
        ({"cpu": "15"}, "cpu of 8 and 8 more exceeds 15, the limit of CapacityQuota/q"),
        ({"example.com/gpu": 7}, "example.com/gpu of 4 and 4 more exceeds 7, the limit of CapacityQuota/q"),
        ({"t4": 7}, "t4 of 4 and 4 more exceeds 7, the limit of CapacityQuota/q"),
        ({"nodes": 3, "a100": 1}, "nodes of 2 and 2 more exceeds 3, the limit of CapacityQuota/q"),
    ],
)
def test_what_exceeds_a_quota_is_a_violation(amounts: dict[str, Any], rule: str) -> None:
    assert rules(amounts) == [rule]
    assert rules(amounts, LabelSelector(match_labels={"team": "a"})) == [rule]
    assert rules(amounts, LabelSelector(match_labels={"team": "b"})) == []
    assert rules(amounts, more=1) == []


@pytest.mark.parametrize(
    ("amounts", "selector"),
    [
        ({"nodes": -1}, None),
        ({"nodes": "many"}, None),
        ({"nodes": "500m"}, None),
        ({"nodes": 0, "cores": 1}, None),
        ({"nodes": 0}, LabelSelector(match_labels={"no key!": "a"})),
        ({"nodes": 0}, LabelSelector(match_expressions=(Requirement(key="x y", operator="DoesNotExist"),))),
        ({"nodes": 0}, LabelSelector(match_expressions=(Requirement(key="team", operator="NotIn"),))),
        (
            {"nodes": 0},
            LabelSelector(match_expressions=(Requirement(key="x", operator="DoesNotExist", values=("a",)),)),
        ),
    ],
)
def test_one_that_is_wrong_holds_nobody(amounts: dict[str, Any], selector: LabelSelector | None) -> None:
    """As the planner has it: else a sound plan would be refused."""
    assert rules(amounts, selector) == []


def test_the_least_of_what_a_group_is_known_to_be_counts() -> None:
    """A label that an operator put on one node by hand makes no violation of a plan for nodes without it."""
    world = World()
    world.add_group("g", 2)
    node = world.nodes[0]
    labels = {**node.metadata.labels, "team": "a"}
    world.nodes[0] = type(node)(
        metadata=type(node.metadata)(name=node.name, labels=labels), spec=node.spec, status=node.status
    )
    spec = CapacityQuotaSpec(
        selector=LabelSelector(match_labels={"team": "a"}), limits=QuotaAmounts(resources={"nodes": 1})
    )
    world.quotas = [CapacityQuota(metadata=ObjectMeta(name="q"), spec=spec)]
    action = IncreaseSize(group=ref("g"), expected_target=2, target=4)
    assert check_actions(world.state().observation, [action], ON) == ()
