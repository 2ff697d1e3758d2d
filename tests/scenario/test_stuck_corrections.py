"""Corrections that the cloud refuses, ignores or never answers: the others get their turn, and an event reports it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.scenario.story import LOOP, PROVISION, SILENT, Story
from tests.scenario.test_budget import forget_nodes

from nodewright.model.action import DeleteInstances
from nodewright.spec import hookimpl
from nodewright_fake import FakeProvider

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
C = {"name": "c", "price_per_hour": 0.3}
SOLD_OUT = [{"group": "a"}]
ASKED = LOOP
# Seen first in the loop after the call, and left twice the provision time.
LATE = ASKED + LOOP + 2 * PROVISION + LOOP
PAUSE = 300.0
UNDELETABLE = {"kind": "refuse", "hook": "delete_instances", "group": "a"}


class DeafToDeletions(FakeProvider):
    """Accepts every deletion and does nothing."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        assert group_id
        assert expected_target
        return tuple(instance_ids)


class Zombie(FakeProvider):
    """Refuses to delete one machine."""

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        wanted = [instance_id for instance_id in instance_ids if not instance_id.endswith("a-0")]
        return tuple(super().delete_instances(group_id, wanted, expected_target))


def tries(story: Story) -> list[tuple[float, tuple[str, ...]]]:
    """Every deletion asked of group a: when, and of which machines."""
    planned = story.planned(DeleteInstances, "a")
    return [(at, action.instance_ids) for at, action in planned if isinstance(action, DeleteInstances)]


def rests(moments: Sequence[float]) -> bool:
    return all(later - earlier >= PAUSE for earlier, later in pairwise(moments))


def test_a_machine_that_cannot_be_deleted_keeps_nothing_from_being_withdrawn() -> None:
    broken = [{"group": "a", "end": "2m"}]
    sold_out = [{"group": "a", "start": "2m"}]
    settings = {"probe-after-backoff": False}
    cloud: dict[str, Any] = {"dead_boots": broken, "stock_outs": sold_out, "switched_off": SILENT}
    story = Story(A, B, C, faults=[UNDELETABLE], settings=settings, minutes=60, **cloud)
    story.pods(1, at=5)
    story.pods(2, at=1505, name="later")
    asked = story.asked("a")[1]
    assert [write[:3] for write in story.writes("withdraw")] == [(asked + PROVISION + LOOP, "withdraw", "a")]
    assert rests([at for at, _ in tries(story)])


def test_a_deletion_budget_that_is_used_up_keeps_nothing_from_being_withdrawn() -> None:
    story = Story({**A, "size": 30}, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=40)
    story.pods(30, at=1, name="base")
    story.at(60, lambda: forget_nodes(story))
    story.at(1200, lambda: story.cloud.set_target("a", 33))
    assert story.events("DeletionBudgetExhausted")[0][0] < 1200 + PROVISION
    assert [write[0] for write in story.writes("withdraw")] == [1200 + PROVISION + LOOP]


def test_one_machine_that_cannot_be_deleted_does_not_keep_the_others() -> None:
    story = Story({**A, "never_registers": 1.0}, B, variant=Zombie, minutes=45)
    story.pods(3, at=5)
    assert story.machines("a") == 1
    removed = [message.split()[3] for _, message in story.events("DeleteUnregistered")]
    assert removed == ["fake:///a/a-1:", "fake:///a/a-2:"]
    assert rests([at for at, ids in tries(story) if ids == ("fake:///a/a-0",)])


def test_deletions_that_do_nothing_are_noticed_and_rest() -> None:
    story = Story({**A, "never_registers": 1.0}, B, variant=DeafToDeletions, minutes=45)
    story.pods(1, at=5)
    moments = [at for at, _ in tries(story)]
    assert moments[0] == LATE
    assert len(moments) > 1
    assert rests(moments)
    assert [at for at, _ in story.events("DeleteUnregistered")] == [LATE]
    assert [at for at, _ in story.events("DeleteUnregisteredFailed")][:1] == [moments[1]]


@pytest.mark.parametrize("variant", [FakeProvider, DeafToDeletions])
def test_failed_machines_that_cannot_be_deleted_are_told(variant: type[FakeProvider]) -> None:
    faults = [UNDELETABLE] if variant is FakeProvider else []
    story = Story(A, B, variant=variant, stock_outs=SOLD_OUT, faults=faults, minutes=10)
    story.pods(1, at=5)
    moments = [at for at, _ in tries(story)]
    assert len(moments) > 1
    assert rests(moments)
    assert story.events("CleanUpFailed")
    assert story.asked("b") == [ASKED + LOOP]


def test_a_deletion_that_hangs_delays_no_pods_and_is_not_repeated_at_once() -> None:
    hangs = {"kind": "hang", "hook": "delete_instances", "group": "a"}
    story = Story(A, B, C, stock_outs=SOLD_OUT, faults=[hangs], minutes=20)
    story.pods(3, at=5)
    assert story.asked("b") == [ASKED + LOOP]
    assert rests([at for at, _ in tries(story)])


def test_machines_below_the_minimum_that_never_joined_are_removed_and_the_group_is_filled_up_again() -> None:
    """A group at its minimum would keep them forever."""
    settings = {"enforce-node-group-min-size": True}
    story = Story({**A, "min_size": 2}, settings=settings, dead_boots=[{"group": "a", "end": "1m"}], minutes=60)
    assert story.writes()[0] == (0.0, "increase", "a", 0, 2)
    assert [write[2:] for write in story.writes("delete")][:1] == [("a", 2, 1)]
    assert story.events("DeleteUnregisteredFailed") == []
    assert len(story.state("a", 3590).readiness.ready) == 2


def test_machines_at_the_minimum_that_were_nodes_once_stay() -> None:
    """If Kubernetes forgot its nodes their machines may be sound: the minimum is what is left then."""
    story = Story({**A, "size": 5, "min_size": 3}, minutes=60)
    story.at(60, lambda: forget_nodes(story))
    assert story.machines("a") == 3
