"""docs/behaviour/reasons.md has every reason why a node is kept, a pod blocks it, and a group is not used, every note and result."""

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import pytest

from nodewright.actuation import Pause
from nodewright.actuation.write_gate import (
    SECOND_LOOK,
    DeletionBudget,
    DeletionLimits,
    deletion_limits,
    empty_deletion_limits,
)
from nodewright.clusterstate.memory import UnhealthyCluster
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances
from nodewright.model.reason import BlockingCode, ScaleDownResult, ScaleUpResult, SkipCode, UnremovableCode
from nodewright.model.settings import SafetySettings
from nodewright.planner.explain.node import NodeNote
from nodewright.planner.make_plan import NO_READY_NODES
from nodewright.planner.rules.corrections import SIZES_FIXED
from nodewright.testkit.world import NOW, World, ref

PAGE = Path(__file__).parents[2] / "docs/behaviour/reasons.md"


def section_of(heading: str) -> str:
    _, _, section = PAGE.read_text().partition(f"## {heading}\n")
    return section.partition("\n## ")[0]


@pytest.mark.parametrize(
    ("heading", "codes"),
    [
        ("Why a node is kept", UnremovableCode),
        ("Why a pod blocks its node", BlockingCode),
        ("Why a group is not used for a pod", SkipCode),
        ("How scale-up planning ended", ScaleUpResult),
        ("How scale-down planning ended", ScaleDownResult),
    ],
)
def test_every_value_is_in_its_table(heading: str, codes: type[StrEnum]) -> None:
    rows = re.findall(r"^\| ([A-Za-z_, ]+) \|", section_of(heading), re.MULTILINE)
    listed = [name for row in rows[1:] for name in row.split(", ")]
    assert sorted(listed) == sorted(codes)


def held_back(limits: Callable[[ClusterState, SafetySettings], DeletionLimits]) -> str:
    """Return why the last of too many deletions waits."""
    world = World()
    world.add_group("a", 100)
    state = world.state()
    ids = tuple(f"cloud:///a/{n}" for n in range(100))
    _, held = DeletionBudget(state, limits(state, SafetySettings()), {}).take(
        DeleteInstances(group=ref("a"), expected_target=100, instance_ids=ids, reason="r")
    )
    assert held is not None
    return held.reason


def test_every_note_is_in_its_table() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", section_of("Notes about a node"), re.MULTILINE)
    listed = re.findall(r"`([^`]+)`", "".join(rows))
    patterns = {note: re.compile(re.escape(note).replace("…", ".+")) for note in listed}
    unhealthy = UnhealthyCluster(since=NOW, unready=5, nodes=9, tolerated=3)
    notes = [
        *NodeNote,
        describe_unhealthy(unhealthy, NOW),
        NO_READY_NODES,
        SIZES_FIXED,
        str(Pause(since=NOW, until=NOW + 60)),
        held_back(deletion_limits),
        held_back(empty_deletion_limits),
        SECOND_LOOK,
    ]
    for note in notes:
        assert [listed for listed, pattern in patterns.items() if pattern.fullmatch(note)], note
