"""Taints on nodes: pure edits, and what an earlier process left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from nodewright.actuation.taints import (
    CORDONED_ANNOTATION,
    StartupCleanup,
    with_candidate_taint,
    with_deletion_taint,
    without_candidate_taint,
    without_deletion_taint,
)
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node
from nodewright.model.settings import Settings
from nodewright.testkit import build_node, build_taint
from nodewright.testkit.world import World


def test_a_node_is_tainted_and_untainted_as_it_was() -> None:
    node = build_node("n")
    tainted = with_deletion_taint(node, 1234.9, cordon=True)
    assert [(t.key, t.value, t.effect) for t in tainted.spec.taints] == [(TO_BE_DELETED_TAINT, "1234", "NoSchedule")]
    assert tainted.spec.unschedulable
    assert without_deletion_taint(tainted, uncordon=True, force_uncordon=False) == node


def test_without_the_flag_nothing_is_cordoned() -> None:
    tainted = with_deletion_taint(build_node("n"), 1.0, cordon=False)
    assert not tainted.spec.unschedulable
    assert CORDONED_ANNOTATION not in tainted.metadata.annotations


def test_row_71_what_a_human_cordoned_stays_so_unless_as_in_ca() -> None:
    """down.md C 71."""
    node = build_node("n")
    node = replace(node, spec=replace(node.spec, unschedulable=True))
    tainted = with_deletion_taint(node, 1.0, cordon=True)
    assert without_deletion_taint(tainted, uncordon=True, force_uncordon=False) == node
    assert not without_deletion_taint(tainted, uncordon=True, force_uncordon=True).spec.unschedulable


def test_row_72_a_taint_from_elsewhere_stays_as_it_is() -> None:
    """down.md C 72: it counts as success, nothing is cordoned, the old time is kept."""
    node = build_node("n", taints=[build_taint(TO_BE_DELETED_TAINT, "NoSchedule", "17")])
    assert with_deletion_taint(node, 1000.0, cordon=True) is node


def test_a_node_without_taint_is_not_touched() -> None:
    node = build_node("n")
    cordoned = replace(node, spec=replace(node.spec, unschedulable=True))
    assert without_deletion_taint(cordoned, uncordon=True, force_uncordon=True) is cordoned
    assert without_candidate_taint(node) is node


def test_a_soft_taint_keeps_its_time() -> None:
    once = with_candidate_taint(build_node("n"), 100.0)
    assert [(t.key, t.value, t.effect) for t in once.spec.taints] == [
        (DELETION_CANDIDATE_TAINT, "100", "PreferNoSchedule")
    ]
    assert with_candidate_taint(once, 200.0) is once
    assert without_candidate_taint(once) == build_node("n")


@dataclass
class Edits:
    """Remembers the names of nodes that are edited; takes events."""

    edited: list[str] = field(default_factory=list)

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> None:
        del edit
        self.edited.append(name)

    def record(self, event: object) -> None:
        """Forget the event."""


def clean(cleanup: StartupCleanup, now: float, *taint: tuple[int, float]) -> None:
    """Run the cleanup in a cluster in which these nodes have a deletion taint of that time."""
    world = World(now=now)
    world.add_group("a", 3)
    for index, at in taint:
        tainted = with_deletion_taint(world.nodes[index], at, cordon=False)
        world.nodes[index] = tainted
    cleanup.run(world.state(), Settings().removals)


def test_a_deletion_taint_of_an_earlier_process_is_removed_also_when_it_is_seen_late() -> None:
    edits: Any = Edits()
    cleanup = StartupCleanup(edits, edits)
    clean(cleanup, 1000.0)  # the lists are older than the taint
    clean(cleanup, 1010.0, (1, 990.0), (2, 1005.0))
    assert edits.edited == ["a-1"]


def test_the_first_look_removes_every_deletion_taint() -> None:
    edits: Any = Edits()
    clean(StartupCleanup(edits, edits), 1000.0, (1, 990.0), (2, 1005.0))
    assert edits.edited == ["a-1", "a-2"]
