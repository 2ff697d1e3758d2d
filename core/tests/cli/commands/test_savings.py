"""``nodewright savings``: what could go, in dollars a month."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodewright.testkit import build_node, build_pod

Nodewright = Callable[..., Any]
WriteDump = Callable[..., str]
HOUR = 3600.0


@pytest.fixture
def dump(write_dump: WriteDump) -> str:
    """Three large nodes: one with a small pod, one with a pod that must stay, and one that is young."""
    nodes = [
        build_node(
            f"large-{n}", "32", "64Gi", provider_id=f"x:///large/{n}", labels={"pool": "large"}, created_at=HOUR + n
        )
        for n in range(2)
    ]
    stays = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    return write_dump(
        *nodes,
        build_pod("web", "500m", node_name="large-0", created_at=HOUR),
        build_pod("held", "31", node_name="large-1", created_at=HOUR, annotations=stays),
        build_pod("late", "100m", created_at=5 * HOUR, phase="Succeeded"),
    )


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    path = tmp_path / "groups.yaml"
    path.write_text(
        """
groups:
- {name: large, nodes: {pool: large}, max_size: 8, price_per_hour: 3}
- {name: small, cpu: 1, memory: 2Gi, max_size: 5, price_per_hour: 0.2}
"""
    )
    return path


def test_moves_are_listed_in_dollars_a_month(nodewright: Nodewright, dump: str, groups: Path) -> None:
    document = nodewright("savings", dump, "--groups", groups, "-o", "json").document
    assert document["nodes_cost"] == 4380.0
    assert document["savings"] == 2190.0  # the pod goes to the other large node
    [move] = document["moves"]
    assert (move["removed"], move["added"], move["evictions"], move["savings"]) == (["large-0"], {}, 1, 2190.0)
    assert "safe-to-evict" in document["held"]["large-1"]


def test_the_table_says_what_would_be_saved(nodewright: Nodewright, dump: str, groups: Path) -> None:
    outcome = nodewright("savings", dump, "--groups", groups)
    assert outcome.code == 0
    assert "large-0" in outcome.out
    assert "These moves would save $2,190.00 a month, 50 %. Nothing was changed." in outcome.out


def test_without_prices_nothing_can_be_compared(nodewright: Nodewright, dump: str) -> None:
    outcome = nodewright("savings", dump, "--group-by", "pool")
    assert outcome.code == 0
    assert "No group with nodes has a price" in outcome.out


def test_a_group_without_a_price_keeps_its_nodes_and_the_reason_is_said(
    nodewright: Nodewright, dump: str, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed.yaml"
    mixed.write_text(
        """
groups:
- {name: large, nodes: {pool: large}, max_size: 8}
- {name: small, cpu: 1, memory: 2Gi, max_size: 5, price_per_hour: 0.2}
"""
    )
    document = nodewright("savings", dump, "--groups", mixed, "-o", "json").document
    assert document["held"] == dict.fromkeys(("large-0", "large-1"), "group dump/large has no price")
    said = "Nodes of groups without a price are not given up for cheaper ones (--consolidation-policy): dump/large."
    assert said in " ".join(nodewright("plan", dump, "--groups", mixed, "--consolidation-policy", "auto").out.split())
    assert said not in " ".join(nodewright("plan", dump, "--groups", mixed).out.split())


def test_nothing_pays(nodewright: Nodewright, dump: str, groups: Path) -> None:
    outcome = nodewright("savings", dump, "--groups", groups, "--consolidation-policy", "when-empty")
    assert "No move pays." in outcome.out


def test_plan_shows_growth_for_a_move_as_such(nodewright: Nodewright, write_dump: WriteDump, groups: Path) -> None:
    node = build_node("large-0", "32", "64Gi", provider_id="x:///large/0", labels={"pool": "large"}, created_at=HOUR)
    found = write_dump(
        node,
        build_pod("web", "500m", node_name="large-0", created_at=HOUR),
        build_pod("late", "100m", created_at=5 * HOUR, phase="Succeeded"),
    )
    policy = ("--consolidation-policy", "auto", "--expander", "price")
    outcome = nodewright("plan", found, "--groups", groups, *policy, "--scale-down-utilization-threshold", "0")
    assert "Plan: 1 more node in 1 group for 1 move" in outcome.out
    assert "grows for move replaced-large-0-" in " ".join(outcome.out.split())
