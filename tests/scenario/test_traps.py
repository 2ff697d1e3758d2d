"""The traps of today's CA, as measured in its own tests: each is shut here, and shown open under its own rule
unless that rule is kept free of it too (docs/adr/0006-size-correction.md).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.scenario.story import LOOP, PROVISION, SILENT, Story

from nodewright.model.action import DecreaseTargetSize
from nodewright.spec import hookimpl
from nodewright_fake import FakeProvider

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
SOLD_OUT = [{"group": "a"}]
CA = {"size-correction": "ca"}
ASKED = LOOP
TIMED_OUT = ASKED + PROVISION + LOOP


def lowered(story: Story) -> list[tuple[float, int]]:
    """Every planned decrease of group a's size: when, and by how much."""
    planned = story.planned(DecreaseTargetSize, "a")
    return [(at, act.expected_target - act.target) for at, act in planned if isinstance(act, DecreaseTargetSize)]


# One loop, just before the deadline, takes a little longer: the next one finds every time over.
SLOW_LOOP = {"kind": "slow", "hook": "refresh", "start": PROVISION + 5, "end": PROVISION + 15, "seconds": 40}
SECOND_LOOK = ASKED + PROVISION + 40


def with_slow_loop(story: Story) -> Story:
    """Something happens in the world just before the deadline, so that a loop runs there."""
    story.at(PROVISION + 6, lambda: None)
    return story


def test_what_timed_out_is_given_back_once() -> None:
    """CA reverts the increase and corrects the lasting difference in the same loop: machines that run would go."""

    def run(settings: dict[str, Any]) -> Story:
        cloud: dict[str, Any] = {"stock_outs": SOLD_OUT, "switched_off": SILENT, "faults": [SLOW_LOOP]}
        story = with_slow_loop(Story({**A, "size": 3}, B, settings=settings, minutes=20, **cloud))
        story.pods(5, at=5)
        return story

    shut = run({})
    assert lowered(shut) == [(SECOND_LOOK, 2)]
    assert (shut.machines("a"), shut.killed()) == (3, [])
    assert lowered(run(CA)) == [(SECOND_LOOK, 2), (SECOND_LOOK, 2)]


def test_a_partial_arrival_gives_back_only_what_is_missing() -> None:
    """CA gives back the whole increase: the target falls below the machines that came."""
    shortage = [{"group": "a", "remaining": 2}]

    def run(settings: dict[str, Any]) -> Story:
        story = Story(A, B, stock_outs=shortage, switched_off=SILENT, settings=settings, minutes=30)
        story.pods(3, at=5)
        return story

    shut = run({})
    assert [count for _, count in lowered(shut)] == [1]
    assert (shut.machines("a"), shut.result.final.pending, shut.killed()) == (2, 0, [])
    assert [count for _, count in lowered(run(CA))] == [3]


class Deaf(FakeProvider):
    """Accepts every decrease and does nothing."""

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        assert group_id
        return expected_target - target


def test_a_decrease_that_silently_does_nothing_is_noticed_and_stops_nothing_else() -> None:
    """CA takes the size for fixed in every loop, and skips the rest of the loop each time."""

    def run(settings: dict[str, Any]) -> Story:
        story = Story(
            {**A, "size": 1},
            B,
            variant=Deaf,
            stock_outs=SOLD_OUT,
            switched_off=SILENT,
            settings=settings,
            minutes=40,
        )
        story.pods(3, at=5)
        story.pods(2, at=1200, name="later")
        return story

    shut = run({})
    assert [at for at, _ in shut.events("FailedToRevertScaleUp")][:1] == [TIMED_OUT + LOOP]
    tried = [at for at, _ in lowered(shut)]
    assert all(later - earlier >= 300 for earlier, later in pairwise(tried))
    assert shut.result.final.pending == 0
    opened = run(CA)
    assert opened.result.final.pending == 2, "the pods that came later are never planned"
    assert not opened.events("FailedToRevertScaleUp")


def test_machines_that_boot_and_never_join_always_back_their_group_off() -> None:
    """CA counts machines that are long unregistered as arrived, before it looks at the deadline of the request."""

    def run(settings: dict[str, Any]) -> Story:
        broken = {**A, "never_registers": 1.0}
        story = with_slow_loop(Story(broken, B, faults=[SLOW_LOOP], settings=settings, minutes=30))
        story.pods(2, at=5)
        return story

    shut = run({})
    assert shut.events("ScaleUpTimedOut")
    assert (len(shut.asked("a")), len(shut.asked("b"))) == (1, 1)
    assert shut.result.final.pending == 0
    opened = run(CA)
    assert not opened.events("ScaleUpTimedOut")
    assert len(opened.asked("a")) == 2, "the same pods go to the same group again"
    assert opened.result.final.pending == 2


def test_a_fresh_start_beside_an_empty_group_whose_target_is_five_corrects_itself() -> None:
    """CA never looks at a group without nodes and instances: a human must lower its size."""

    def run(settings: dict[str, Any]) -> Story:
        story = Story(A, stock_outs=[{"group": "a", "end": "50m"}], switched_off=SILENT, settings=settings, minutes=90)
        story.cloud.set_target("a", 5)
        return story

    shut = run({})
    assert lowered(shut) == [(PROVISION + LOOP, 5)]
    assert shut.machines("a") == 0
    assert lowered(run(CA)) == []


def test_new_pods_do_not_restart_the_time_of_those_before() -> None:
    """CA starts the deadline of the whole group again with every increase."""

    def run(settings: dict[str, Any]) -> Story:
        story = Story(A, B, stock_outs=SOLD_OUT, switched_off=SILENT, settings=settings, minutes=75)
        for number in range(30):
            story.pods(1, at=5 + number * 60, name=f"web-{number}")
        return story

    assert run({}).asked("b")[0] == TIMED_OUT
    last_pod = ASKED + 29 * 60
    assert run(CA).asked("b")[0] == last_pod + PROVISION + LOOP


NO_TEMPLATE = [{"kind": "refuse", "hook": "template_node", "group": "a"}]


def test_a_group_without_a_template_is_backed_off_like_any_other() -> None:
    """CA only logs its failure."""
    story = Story(A, B, faults=NO_TEMPLATE, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=30)
    story.cloud.set_target("a", 2)
    backoff = story.state("a", PROVISION + LOOP).backoff
    assert backoff is not None
    assert backoff.code == "timeout"
    assert story.events("ScaleUpTimedOut")


def test_machines_on_their_way_in_a_group_without_a_template_stop_nobody() -> None:
    """In CA every scale-up of the loop fails. Rule ca here is free of that (ADR 6)."""
    story = Story({**A, "request_delay": "10m"}, B, faults=NO_TEMPLATE, minutes=8)
    story.cloud.set_target("a", 1)
    story.pods(2, at=5)
    assert story.writes() == [(ASKED, "increase", "b", 0, 2)]
    assert story.result.final.pending == 0


@pytest.mark.parametrize("faults", [(), ({"kind": "refuse", "hook": "instances", "start": 200, "end": 600},)])
def test_an_error_in_listing_machines_does_not_restart_their_clock(faults: Sequence[dict[str, Any]]) -> None:
    """CA stores an empty list, forgets since when a machine was unregistered, and starts from zero. Rule ca is free
    of that: a group that cannot be read goes by its last list (ADR 6).
    """
    story = Story({**A, "never_registers": 1.0}, B, faults=list(faults), minutes=60)
    story.pods(1, at=5)
    assert [at for at, _ in story.events("ScaleUpTimedOut")] == [TIMED_OUT + LOOP]
    assert [at for at, _ in story.events("DeleteUnregistered")] == [TIMED_OUT + LOOP + PROVISION]


def test_a_node_lost_while_its_group_cannot_be_read_is_no_failure_to_join() -> None:
    """It is still in the last list of machines: timed by that, the group would be backed off as never registering."""
    blind = {"kind": "refuse", "hook": "instances", "group": "a", "start": 200, "end": 1500}
    stays = {"scale-down-enabled": False}
    story = Story({**A, "size": 2}, {**B, "max_size": 1}, faults=[blind], settings=stays, minutes=60)
    story.pods(2, at=5)
    story.at(300, lambda: story.cloud.lose("fake:///a/a-0"))
    story.pods(3, at=1600, name="later")
    assert story.events("ScaleUpTimedOut") == []
    assert [write[2:] for write in story.writes("increase")] == [("b", 0, 1), ("a", 2, 4)]
    assert story.result.final.pending == 0


def test_machines_on_their_way_out_do_not_keep_a_size_from_being_corrected() -> None:
    """They are still listed, and no longer part of the target."""
    story = Story({**A, "size": 2, "delete_delay": "2h"}, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=30)
    story.at(300, lambda: story.cloud.delete("a", ["fake:///a/a-0", "fake:///a/a-1"], expected_target=2))
    story.at(310, lambda: story.cloud.set_target("a", 2))
    assert lowered(story) == [(310 + PROVISION + LOOP, 2)]
    assert story.result.violations == ()
