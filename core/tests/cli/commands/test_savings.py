"""``nodewright savings``: what could go, in dollars a month."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodewright.model.cluster import ConfigMap
from nodewright.model.meta import ObjectMeta
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
    assert "No node has a known price" in outcome.out


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
    assert said in " ".join(nodewright("plan", dump, "--groups", mixed).out.split())
    off = ("--consolidation-policy", "off")
    assert said not in " ".join(nodewright("plan", dump, "--groups", mixed, *off).out.split())


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
    outcome = nodewright(
        "plan", found, "--groups", groups, "--expander", "price", "--scale-down-utilization-threshold", "0"
    )
    assert "Plan: 1 more node in 1 group for 1 move" in outcome.out
    assert "grows for move replaced-large-0-" in " ".join(outcome.out.split())


PREFERRED = """
groups:
- {name: large, nodes: {pool: large}, max_size: 8, price_per_hour: 3}
- {name: spot, cpu: 32, memory: 64Gi, max_size: 5, price_per_hour: 3}
"""


def test_moves_back_to_preferred_groups_are_listed_apart(
    nodewright: Nodewright, write_dump: WriteDump, tmp_path: Path
) -> None:
    nodes = [
        build_node(f"large-{n}", "32", "64Gi", provider_id=f"x:///large/{n}", labels={"pool": "large"}, created_at=HOUR)
        for n in range(2)
    ]
    pods = [build_pod(f"web-{n}", "20", node_name=f"large-{n}", created_at=HOUR) for n in range(2)]
    name = ObjectMeta(name="cluster-autoscaler-priority-expander", namespace="kube-system")
    priorities = ConfigMap(metadata=name, data={"priorities": "10: [large]\n50: [spot]"})
    dump = write_dump(*nodes, *pods, priorities, build_pod("late", "100m", created_at=5 * HOUR, phase="Succeeded"))
    (tmp_path / "groups.yaml").write_text(PREFERRED)
    given = ("savings", dump, "--groups", tmp_path / "groups.yaml", "--expander", "priority")
    document = nodewright(*given, "-o", "json").document
    assert (document["moves"], document["more_returns"]) == ([], False)
    first, second = document["returns"]
    assert first == {"removed": ["large-0"], "added": {"dump/spot": 1}, "evictions": 1, "savings": 0.0}
    assert second["removed"] == ["large-1"]
    told = nodewright(*given).out
    assert "Moves back to preferred groups" in told
    assert "made one at a time, and only while no other move pays" in " ".join(told.split())
    assert "preferred" not in nodewright(*given, "--consolidation-policy", "when-empty").out


def test_a_return_without_a_price_and_a_list_that_was_cut_are_said(
    nodewright: Nodewright, write_dump: WriteDump, tmp_path: Path
) -> None:
    labels = {"pool": "large"}
    nodes = [
        build_node(f"large-{n:02}", "32", "64Gi", provider_id=f"x:///large/{n}", labels=labels, created_at=HOUR)
        for n in range(21)
    ]
    pods = [build_pod(f"web-{n}", "20", node_name=f"large-{n:02}", created_at=HOUR) for n in range(21)]
    name = ObjectMeta(name="cluster-autoscaler-priority-expander", namespace="kube-system")
    priorities = ConfigMap(metadata=name, data={"priorities": "10: [large]\n50: [spot]"})
    dump = write_dump(*nodes, *pods, priorities, build_pod("late", "100m", created_at=5 * HOUR, phase="Succeeded"))
    (tmp_path / "groups.yaml").write_text(
        PREFERRED.replace("max_size: 8", "max_size: 30").replace(", price_per_hour: 3", "")
    )
    given = ("savings", dump, "--groups", tmp_path / "groups.yaml", "--expander", "priority")
    assert nodewright(*given, "-o", "json").document["returns"] == []
    explicit = (*given, "--consolidation-policy", "balanced")
    document = nodewright(*explicit, "-o", "json").document
    assert [move["savings"] for move in document["returns"]] == [None] * 20
    assert document["more_returns"] is True
    told = " ".join(nodewright(*explicit).out.split())
    assert "unknown" in told
    assert "There may be more moves back to preferred groups" in told


def test_without_a_preferred_group_no_returns_are_listed(nodewright: Nodewright, dump: str, groups: Path) -> None:
    assert nodewright("savings", dump, "--groups", groups, "-o", "json").document["returns"] == []
    assert "preferred" not in nodewright("savings", dump, "--groups", groups).out
