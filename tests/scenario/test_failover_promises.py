"""What is promised of failover: how soon, across restarts, to whom, and that nothing is bought twice or killed."""

from typing import Any

import pytest
from tests.scenario.story import LOOP, PROVISION, SILENT, Story

from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef
from nodewright.spec import NodeGroup, ProviderContext, hookimpl
from nodewright_fake import FakeProvider

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
C = {"name": "c", "price_per_hour": 0.3, "size": 2}
SOLD_OUT = [{"group": "a"}]
ASKED = LOOP
TIMED_OUT = ASKED + PROVISION + LOOP
# The cloud cannot take back what it was asked for: what comes late comes all the same.
STAYS = {"scale-down-enabled": False}
KEEPS_ITS_WORD = [{"kind": "partial", "hook": "decrease_target_size", "at_most": 0}]


@pytest.mark.parametrize("at", [12, 20, 25, 100, 455, 899, 905, 910, 913, 918, 920, 921, 925, 935])
def test_a_restart_at_any_time_costs_at_most_one_loop(at: float) -> None:
    story = Story(A, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=60)
    story.pods(2, at=5)
    story.simulation.engine.restart(at)
    assert story.asked("a") == [ASKED]
    (instead,) = story.asked("b")
    assert TIMED_OUT - LOOP <= instead <= TIMED_OUT + LOOP
    assert (story.machines("a"), story.machines("b")) == (0, 2)
    assert story.result.final.pending == 0


def test_two_dead_groups_do_not_hand_the_pods_to_each_other() -> None:
    """The rest after a failure is shorter than the next failure takes: each would be free again when the other fails."""
    story = Story(A, B, C, stock_outs=[{"group": "a"}, {"group": "b"}], switched_off=SILENT, minutes=120)
    story.pods(6, at=5)
    assert [write for write in story.writes("increase") if write[2] == "c"] == [
        (TIMED_OUT + PROVISION + LOOP, "increase", "c", 2, 6)
    ]
    assert story.first_running() < TIMED_OUT + PROVISION + LOOP + 120


@pytest.mark.parametrize("at", [12, 455, 905])
def test_restarts_with_new_pods_arriving_do_not_move_the_deadline(at: float) -> None:
    story = Story(A, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=90)
    for number in range(15):
        story.pods(1, at=5 + number * 60, name=f"web-{number}")
    story.simulation.engine.restart(at)
    story.simulation.engine.restart(at + 300)
    assert TIMED_OUT - LOOP <= story.asked("b")[0] <= TIMED_OUT + LOOP
    assert (story.machines("a"), story.machines("b")) == (0, 15)


def test_a_restart_that_loses_everything_starts_one_provision_time_anew_and_buys_nothing_twice() -> None:
    story = Story(A, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=90)
    story.pods(2, at=5)
    story.simulation.engine.restart(455, keeps_memory=False)
    assert story.asked("a") == [ASKED]
    (instead,) = story.asked("b")
    assert 455 + PROVISION < instead <= 455 + PROVISION + 2 * LOOP
    assert story.machines("b") == 2


def test_a_restart_in_the_middle_of_a_healthy_scale_up_buys_nothing_twice() -> None:
    """CA forgets its request and no longer counts what is on its way (ADR 3)."""
    for keeps_memory in (True, False):
        story = Story({**A, "provision_delay": "5m"}, B, minutes=20)
        story.pods(3, at=5)
        story.simulation.engine.restart(100, keeps_memory=keeps_memory)
        assert story.writes() == [(ASKED, "increase", "a", 0, 3)]


def test_a_machine_that_comes_after_correction_is_adopted_and_serves_before_anything_more_is_bought() -> None:
    late = {**A, "request_delay": "20m"}
    story = Story(late, B, switched_off=SILENT, faults=KEEPS_ITS_WORD, settings=STAYS, minutes=90)
    story.pods(2, at=5)
    story.pods(2, at=2400, name="later")
    assert story.writes("increase") == [(ASKED, "increase", "a", 0, 2), (TIMED_OUT, "increase", "b", 0, 2)]
    came = story.state("a", 2000)
    assert (len(came.readiness.ready), came.given_up, came.upcoming, came.seen.target) == (2, 0, 0, 2)
    assert story.result.final.pending == 0
    assert story.killed() == []


def test_a_machine_that_comes_after_correction_and_before_its_replacement_serves_the_pods() -> None:
    story = Story(
        {**A, "request_delay": "17m", "provision_delay": 1, "register_delay": 1, "ready_delay": 1},
        {**B, "provision_delay": "30m"},
        switched_off=SILENT,
        settings=STAYS,
        faults=KEEPS_ITS_WORD,
        minutes=90,
    )
    story.pods(2, at=5)
    assert story.first_running() < ASKED + 18 * 60
    assert story.result.final.running == 2
    assert story.killed() == []


def test_under_a_learned_provision_time_a_slow_machine_is_left_its_ordinary_time_and_adopted() -> None:
    """The pods go elsewhere in minutes; the machine, which may be sound, is not deleted by what was learned."""
    story = Story(A, B, settings={"max-node-provision-time": "auto", **STAYS}, minutes=90)
    for step in range(4):
        story.pods(10, at=step * 600 + 5, name=f"warm-{step}")
    asked = 3000.0
    story.at(asked - 60, lambda: story.slow_down("a", "10m"))
    story.pods(2, at=asked - 5, name="late")
    assert asked < story.asked("b")[0] <= asked + 300
    assert story.killed() == []
    assert story.writes("delete") == []
    adopted = story.state("a", asked + 900)
    assert (len(adopted.readiness.ready), adopted.seen.target) == (42, 42)


def test_under_a_learned_provision_time_machines_that_never_join_are_given_up_once_and_then_removed() -> None:
    """What is learned from the failure, a longer time, does not make them awaited again."""
    broken = [{"group": "a", "start": 2900}]
    story = Story(A, B, settings={"max-node-provision-time": "auto"}, dead_boots=broken, minutes=120)
    for step in range(4):
        story.pods(10, at=step * 600 + 5, name=f"warm-{step}")
    story.pods(2, at=2995, name="late")
    assert len(story.events("ScaleUpTimedOut")) == 1
    # Seen first in the loop after the call, and left twice the ordinary time.
    gone = 3000 + LOOP + 2 * PROVISION + LOOP
    assert [write[0] for write in story.writes("delete")] == [gone, gone + LOOP]
    assert story.machines("a") == 40


def slow_boot(**settings: Any) -> Story:
    """Two machines that take 20 minutes to join; their pods go elsewhere after 15, more pods come later."""
    story = Story({**A, "register_delay": "20m"}, B, settings={**STAYS, **settings}, minutes=90)
    story.pods(2, at=5)
    story.pods(2, at=2400, name="later")
    return story


def test_a_machine_that_joins_late_is_adopted_not_killed_and_serves_before_anything_more_is_bought() -> None:
    story = slow_boot()
    assert (story.asked("a"), story.asked("b")) == ([ASKED], [TIMED_OUT + LOOP])
    assert story.writes("delete") == []
    assert story.machines("a") == 2
    assert (story.result.final.running, story.machines("b")) == (4, 2)


def test_the_rule_of_seed_001_leaves_a_late_machine_no_more_than_its_time() -> None:
    story = slow_boot(**{"size-correction": "seed"})
    assert [write[0] for write in story.writes("delete")][:2] == [TIMED_OUT + LOOP, TIMED_OUT + 2 * LOOP]


def test_machines_that_come_after_correction_count_in_limits() -> None:
    story = Story(
        {**A, "request_delay": "20m"},
        B,
        switched_off=SILENT,
        faults=KEEPS_ITS_WORD,
        settings={"max-nodes-total": 4, **STAYS},
        minutes=90,
    )
    story.pods(2, at=5)
    story.pods(4, at=2400, name="later")
    assert story.asked("b") == [TIMED_OUT]
    assert story.result.final.running == 4
    assert story.events("MaxNodesTotalReached")


def test_after_a_refusal_another_group_is_asked_without_waiting_for_the_next_scan() -> None:
    refusals = [{"kind": "refuse", "hook": "increase_size", "group": name, "error": "other"} for name in ("a", "b")]
    story = Story(A, B, C, faults=refusals, minutes=10)
    story.pods(4, at=5)
    assert story.writes() == [
        (ASKED, "increase", "a", 0, 0),
        (ASKED, "increase", "b", 0, 0),
        (ASKED, "increase", "c", 2, 4),
    ]


def test_a_quota_error_at_the_call_costs_each_group_of_the_account_one_call() -> None:
    story = Story(A, B, quota={"machines": 2, "enforced": "call"}, minutes=4)
    story.pods(5, at=5)
    assert story.writes() == [(ASKED, "increase", "a", 0, 0), (ASKED, "increase", "b", 0, 0)]
    assert [story.state(name, 20).backoff is not None for name in ("a", "b")] == [True, True]


# One broken group never stops the others, and is never written to.


@pytest.mark.parametrize("kind", ["crash", "hang", "refuse"])
@pytest.mark.parametrize("hook", ["target_size", "instances", "failed_instances", "template_node"])
def test_a_group_that_cannot_be_read_is_not_written_to_while_others_go_on(hook: str, kind: str) -> None:
    story = Story(A, C, faults=[{"kind": kind, "hook": hook, "group": "a"}], minutes=30)
    story.pods(6, at=5)
    assert story.asked("a") == []
    assert [write[2:] for write in story.writes()] == [("c", 2, 6)]
    assert story.result.final.pending == 0


@pytest.mark.parametrize("hook", ["target_size", "instances", "failed_instances"])
def test_a_group_that_can_no_longer_be_read_keeps_what_is_on_its_way(hook: str) -> None:
    """Its machines still count: nothing is bought a second time, and nothing of it is withdrawn or deleted."""
    fault = {"kind": "refuse", "hook": hook, "group": "a", "start": 15, "end": 1500}
    story = Story({**A, "provision_delay": "10m"}, C, faults=[fault], minutes=60)
    story.pods(4, at=5)
    assert story.writes() == [(ASKED, "increase", "a", 0, 2)]
    assert story.result.final.pending == 0


@pytest.mark.parametrize("kind", ["crash", "hang", "refuse"])
def test_a_group_that_cannot_be_written_to_is_left_alone_and_another_is_asked(kind: str) -> None:
    fault = {"kind": kind, "hook": "increase_size", "group": "a"}
    story = Story(A, C, faults=[fault], minutes=30)
    story.pods(6, at=5)
    assert len(story.asked("a")) == 1
    assert story.asked("c")
    assert story.result.final.pending == 0


def test_a_group_whose_size_is_read_wrong_is_left_alone_and_another_is_asked() -> None:
    """The cloud refuses every write, because the size is not what we think: that must not go round forever."""
    story = Story(A, C, faults=[{"kind": "wrong_size", "group": "a", "off_by": 1}], minutes=40)
    story.pods(6, at=5)
    assert len(story.asked("a")) <= 2
    assert story.result.final.pending == 0
    assert story.machines("a") == 0


def test_a_whole_provider_that_hangs_for_minutes_costs_those_minutes_and_no_more() -> None:
    story = Story(A, C, faults=[{"kind": "hang", "hook": "refresh", "start": 8, "end": 300}], minutes=30)
    story.pods(4, at=5)
    assert story.writes("increase")[0][0] <= 300 + 60 + 2 * LOOP
    assert story.result.final.pending == 0


# An increase that was accepted and comes to nothing is a failure like any other.


class DeafToIncreases(FakeProvider):
    """Accepts every increase of group a and does nothing."""

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        if group_id == "a":
            return target - expected_target
        return super().increase_size(group_id, expected_target, target)


def test_an_increase_that_is_accepted_and_has_no_effect_backs_its_group_off() -> None:
    story = Story(A, B, variant=DeafToIncreases, minutes=4)
    story.pods(2, at=5)
    assert (story.asked("a"), story.asked("b")) == ([ASKED], [ASKED + LOOP])
    assert story.result.final.pending == 0
    assert [at for at, _ in story.events("FailedToScaleUpGroup")] == [ASKED + LOOP]


@pytest.mark.parametrize("first", [15, 25])
def test_an_increase_that_somebody_else_takes_back_backs_its_group_off(first: int) -> None:
    """Before it was ever seen or after: two controllers that undo each other must not keep pods waiting."""
    story = Story({**A, "request_delay": "5m"}, B, switched_off=SILENT, minutes=4)
    story.pods(2, at=5)
    for moment in range(first, 240, 20):
        story.at(moment, lambda: story.cloud.set_target("a", 0))
    assert (len(story.asked("a")), len(story.asked("b"))) == (1, 1)
    assert story.result.final.pending == 0


def test_a_target_that_somebody_lowers_in_part_neither_backs_off_nor_extends_a_deadline() -> None:
    story = Story(A, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=30)
    story.pods(3, at=5)
    story.at(800, lambda: story.cloud.set_target("a", 2))
    state = story.state("a", 809)
    assert [(request.increase, request.deadline) for request in state.requests] == [(2, ASKED + PROVISION)]
    assert state.backoff is None
    assert story.asked("b")[0] == TIMED_OUT


def test_an_extended_deadline_is_told_as_it_was() -> None:
    """Two of four machines come after 14 minutes: the others have as long again, and the event says so."""
    story = Story(A, B, stock_outs=[{"group": "a", "remaining": 2}], switched_off=SILENT, minutes=35)
    story.slow_down("a", "14m")
    story.pods(4, at=5)
    ((_, message),) = story.events("ScaleUpTimedOut")
    (request,) = story.state("a", 1200).requests
    given = format_duration(round(request.deadline - request.started))
    assert request.deadline - request.started > 1.9 * PROVISION
    assert message == f"2 nodes added to group fake/a failed to register within {given}"


class Forgetful(FakeProvider):
    """Leaves group a out of its list for two loops."""

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._clock = context.clock

    @hookimpl
    def node_groups(self) -> tuple[NodeGroup, ...]:
        left_out = 500 <= self._clock.now() <= 515
        return tuple(group for group in super().node_groups() if not (left_out and group.id == "a"))


def test_a_group_that_is_missing_from_one_list_keeps_its_requests_and_clocks() -> None:
    story = Story(A, B, variant=Forgetful, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=30)
    story.pods(3, at=5)
    for moment in (500, 505, 520):
        story.at(moment, lambda: None)
    assert (story.asked("a"), story.asked("b")) == ([ASKED], [TIMED_OUT])
    assert story.machines("b") == 3


def test_a_group_that_is_gone_for_good_is_forgotten_after_a_while() -> None:
    story = Story(A, B, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=14)
    story.pods(3, at=5)
    story.at(100, lambda: story.cloud.remove_group("a"))
    assert story.asked("b") == [400]
    assert GroupRef("fake", "a") not in story.states()[-1].groups
