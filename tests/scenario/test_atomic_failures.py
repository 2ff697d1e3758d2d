"""Groups that fail a request of all or nothing: each failure backs off the group at fault and no other, and the request
goes to the next group within one provision time and one loop.
"""

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenario.kills import kill_everywhere
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import LOOP, MINUTE, PROVISION, Story

from nodewright.model.capability import Capability
from nodewright.model.group import GroupRef
from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.simulation import Simulation

POOL = {"name": "pool", "max_size": 20, "price_per_hour": 0.1}
# Too large to be similar to the pool, and dearer: it is asked when the pool has failed.
OTHER = {"name": "other", "max_size": 20, "cpu": 2, "memory": "8Gi", "price_per_hour": 0.9}
NO_ATOMIC = (Capability.ATOMIC_RESIZE.value,)
SILENT = (Capability.ATOMIC_RESIZE.value, Capability.FAST_FAILURE_DETECTION.value)
ASKED = 60.0
# The loop after a whole provision time: a deadline is passed when time is beyond it.
OUT_OF_TIME = ASKED + PROVISION + LOOP
TWO_LEFT = [{"group": "pool", "remaining": 2}]
ACCEPTS_TWO = {"kind": "partial", "hook": "increase_size", "group": "pool", "at_most": 2}


def make(
    *groups: dict[str, Any],
    minutes: float = 30,
    at: float = ASKED,
    settings: dict[str, Any] | None = None,
    **cloud: Any,
) -> Asking:
    flags = {**ON, "scale-down-enabled": False, **(settings or {})}
    asking = Asking(Story(*(groups or (POOL, OTHER)), minutes=minutes, settings=flags, **cloud))
    asking.ask("a", 4, at=at, kind=BEST_EFFORT_ATOMIC)
    return asking


def backed_off(asking: Asking) -> set[str]:
    """Every group that was ever left alone."""
    return {ref.group_id for state in asking.story.states() for ref in state.memory.backoffs}


def grown(asking: Asking) -> list[tuple[float, str, int, int]]:
    return [(at, group, before, after) for at, _, group, before, after in asking.story.writes("increase")]


def check_moved_on(asking: Asking, by: float, *, first: int = 4) -> None:
    """It was granted on the next group, asked ``by`` then; the first bore the blame, and nothing of it is left."""
    (one, other) = grown(asking)
    assert one == (ASKED, "pool", 0, first)
    assert other[1:] == ("other", 0, 2)
    assert other[0] <= by
    assert len(asking.when("a", "Provisioned", "False/CapacityIsNotFound")) == 1
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert backed_off(asking) == {"pool"}
    assert asking.story.machines("pool") == asking.story.cloud.group("pool").target == 0
    assert not asking.story.states()[-1].memory.provisioning.reservations


def test_two_of_four_machines_come_and_the_cloud_gives_no_reason() -> None:
    asking = make(switched_off=SILENT, stock_outs=TWO_LEFT)
    check_moved_on(asking, OUT_OF_TIME)
    ((at, said),) = asking.story.events("ScaleUpTimedOut")
    assert (at, said) == (OUT_OF_TIME, "2 nodes added to group fake/pool failed to register within 15m")


def test_arrivals_do_not_make_it_wait_for_longer() -> None:
    """One machine after ten minutes would give an ordinary increase ten minutes more."""
    slow = {**POOL, "request_delay": {"choice": ["10m", "100h"]}}
    asking = make(slow, OTHER, switched_off=SILENT)
    check_moved_on(asking, OUT_OF_TIME)


def test_a_cloud_that_accepts_two_of_four() -> None:
    asking = make(switched_off=NO_ATOMIC, faults=[ACCEPTS_TWO])
    check_moved_on(asking, ASKED + LOOP, first=2)
    ((_, said),) = asking.story.events("FailedToScaleUpGroup")
    assert said == "Scale-up failed for group fake/pool: group fake/pool accepted 2 of 4 machines"


def test_two_of_four_machines_are_reported_as_failed() -> None:
    asking = make(switched_off=NO_ATOMIC, stock_outs=TWO_LEFT)
    check_moved_on(asking, ASKED + 2 * LOOP)
    assert len(asking.story.events("ScaleUpFailed")) == 1


def test_machines_that_never_register() -> None:
    asking = make(switched_off=SILENT, dead_boots=[{"group": "pool"}])
    check_moved_on(asking, OUT_OF_TIME)
    assert [at for at, _ in asking.story.events("ScaleUpTimedOut")] == [OUT_OF_TIME]


def test_machines_that_register_late_are_late_by_the_clock_of_the_request() -> None:
    """They are there after ten minutes, and by their own clock could take until 25 minutes."""
    asking = make({**POOL, "request_delay": 600, "register_delay": 600}, OTHER, switched_off=SILENT)
    check_moved_on(asking, OUT_OF_TIME)


def test_machines_that_never_become_ready() -> None:
    """Each node has one start-up time from when it registered, here a minute after it was asked for."""
    well = {"name": "well", "size": 12, "max_size": 12, "price_per_hour": 9.0, "labels": {"for": "others"}}
    asking = make({**POOL, "ready_delay": "100h"}, OTHER, well, switched_off=SILENT)
    asking.story.pods(12, name="others", node_selector={"for": "others"})
    check_moved_on(asking, OUT_OF_TIME + 2 * 60)
    assert len(asking.story.events("ScaleUpTimedOut")) == 1


def test_a_machine_that_goes_before_it_is_a_node() -> None:
    slow = {**POOL, "register_delay": 300}
    taken = [{"do": "take_back", "group": "pool", "start": 200}]
    # The machine that comes in its place is unneeded, and goes as such.
    unneeded = {"scale-down-enabled": True}
    asking = make(slow, OTHER, minutes=45, settings=unneeded, switched_off=SILENT, interference=taken)
    check_moved_on(asking, 200 + 2 * LOOP)
    assert "before it was a node" in asking.story.events("FailedToScaleUpGroup")[0][1]


def test_where_there_is_no_other_group_it_is_asked_again_after_its_backoff() -> None:
    """5, 10, 20 and 30 minutes: the backoff grows with each failure, and each is told."""
    some = {**POOL, "request_delay": {"choice": ["30s", "100h", "100h", "100h"]}}
    asking = make(some, minutes=240, switched_off=SILENT)
    asked = asking.story.asked("pool")
    pauses = [after - before - PROVISION for before, after in pairwise(asked)]
    assert all(pause >= least for pause, least in zip(pauses, (300, 600, 1200, 1800, 1800), strict=False)), pauses
    assert len(asked) <= 7
    assert len(asking.story.events("ScaleUpTimedOut")) in (len(asked), len(asked) - 1)


def test_the_group_that_delivered_its_part_is_not_punished() -> None:
    pool, twin = {**POOL, "max_size": 2}, {**POOL, "name": "twin", "max_size": 2, "request_delay": "100h"}
    asking = make(pool, twin, OTHER, switched_off=SILENT)
    assert backed_off(asking) == {"twin"}
    assert grown(asking)[2][:2] == (OUT_OF_TIME, "other")
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert asking.story.machines("pool") == asking.story.machines("twin") == 0


def test_two_groups_that_fail_by_turns_do_not_keep_it_from_a_third() -> None:
    """The backoff of the first ends long before the second is out of time: the third was asked after 91 minutes."""
    dear = {"name": "dear", "max_size": 20, "cpu": 4, "memory": "16Gi", "price_per_hour": 2.0}
    dead = [{"group": "pool"}, {"group": "other"}]
    asking = make(POOL, OTHER, dear, minutes=60, switched_off=SILENT, stock_outs=dead)
    assert [group for _, group, _, _ in grown(asking)] == ["pool", "other", "dear"]
    assert asking.story.asked("dear")[0] <= ASKED + 2 * (PROVISION + LOOP)
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"


def test_pods_that_wait_for_the_same_group_keep_their_machines_and_their_time() -> None:
    """Two machines come, for the pods that asked first; the request alone goes elsewhere."""
    asking = make(at=75, switched_off=SILENT, stock_outs=[{"group": "pool", "remaining": 2}])
    asking.story.pods(2, at=60)
    assert asking.story.result.final.running == 2
    assert asking.story.killed() == []
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    (at,) = asking.story.asked("other")
    assert 75 + PROVISION < at <= 75 + PROVISION + 2 * LOOP


def test_a_failed_withdrawal_delays_neither_request_nor_group() -> None:
    """It is tried again as often as any, and the machines that come after all go too."""
    refuses = {"kind": "refuse", "hook": "decrease_target_size", "group": "pool", "end": 2000}
    asking = make(minutes=60, switched_off=SILENT, stock_outs=TWO_LEFT, faults=[refuses])
    check_moved_on(asking, OUT_OF_TIME)
    tries = [at for at, _ in asking.story.events("FailedToRevertScaleUp")]
    assert 1 < len(tries) <= 5, tries


def test_a_failed_deletion_delays_neither_request_nor_group() -> None:
    refuses = {"kind": "refuse", "hook": "delete_instances", "group": "pool", "end": 2000}
    asking = make(minutes=60, switched_off=SILENT, stock_outs=TWO_LEFT, faults=[refuses])
    check_moved_on(asking, OUT_OF_TIME)


@pytest.mark.parametrize("at", [ASKED + 5, ASKED + 300, OUT_OF_TIME - LOOP - 5])
def test_a_request_that_its_owner_deletes_backs_off_no_group(at: float) -> None:
    asking = make({**POOL, "request_delay": "100h"}, OTHER, switched_off=SILENT)
    asking.withdraw("a", at=at)
    assert asking.story.writes("withdraw")
    assert backed_off(asking) == set()
    assert not asking.story.events("FailedToScaleUpGroup") + asking.story.events("ScaleUpTimedOut")


def test_a_maximum_that_the_operator_lowered_backs_off_no_group() -> None:
    """The cloud accepts no more than the maximum; the next loop reads what that is by now."""
    asking = make(switched_off=NO_ATOMIC, faults=[ACCEPTS_TWO])

    def lower() -> None:
        held = asking.story.cloud.group("pool")
        held.config, held.seen = replace(held.config, max_size=2), None

    asking.story.at(ASKED + LOOP / 2, lower)
    assert backed_off(asking) == set()
    assert [group for _, group, _, _ in grown(asking)] == ["pool", "other"]
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"


def test_a_request_that_wants_no_retry_fails() -> None:
    asking = Asking(Story(POOL, OTHER, minutes=20, settings=ON, switched_off=SILENT, stock_outs=TWO_LEFT))
    asking.ask("a", 4, at=ASKED, kind=BEST_EFFORT_ATOMIC, parameters={"noRetry": "true"})
    assert asking.conditions("a")["Failed"] == "True/CapacityIsNotFound"
    assert "did not come in time" in asking.message("a", "Failed")
    assert backed_off(asking) == {"pool"}


def test_the_other_rules_of_size_correction_know_no_such_failures() -> None:
    for settings in ({"size-correction": "seed"}, {"profile": "ca"}):
        asking = make(settings=settings, switched_off=NO_ATOMIC, faults=[ACCEPTS_TWO])
        assert backed_off(asking) == set(), settings
        assert not asking.story.asked("other"), settings


_FAILING: dict[str, dict[str, Any]] = {
    "silent": {"switched_off": SILENT, "stock_outs": TWO_LEFT},
    "short": {"switched_off": NO_ATOMIC, "faults": [ACCEPTS_TWO]},
    "reported": {"switched_off": NO_ATOMIC, "stock_outs": TWO_LEFT},
    "never registers": {"switched_off": SILENT, "dead_boots": [{"group": "pool", "start": 30}]},
}
_KEPT = {"name": "kept", "size": 2, "max_size": 2, "price_per_hour": 0.1, "labels": {"for": "others"}}


@pytest.mark.parametrize("failing", _FAILING)
def test_an_engine_that_dies_anywhere_still_moves_on_and_buys_nothing_twice(failing: str) -> None:
    down = 25.0

    def play() -> Asking:
        settings = {"max-node-provision-time": "5m"}
        asking = make(POOL, OTHER, _KEPT, minutes=14, settings=settings, **_FAILING[failing])
        asking.story.pods(2, name="others", node_selector={"for": "others"})
        return asking

    def simulate() -> Simulation:
        plays.append(play())
        return plays[-1].story.simulation

    plays: list[Asking] = []
    # A call that may be under way when it dies is over after 75 s; its group is asked then.
    latest = ASKED + 75 + 300 + 2 * LOOP
    for kill in kill_everywhere(simulate, down_seconds=down):
        _check_killed(plays[-1], kill.result, latest, str(kill))


def test_wherever_an_engine_dies_no_group_is_backed_off_for_a_withdrawal() -> None:
    """The parts of a group that delivered, and of a request that its owner withdraws, are withdrawn by ourselves."""

    def simulate(groups: tuple[dict[str, Any], ...], withdrawn_at: float) -> Simulation:
        settings = {"max-node-provision-time": "5m"}
        asking = make(*groups, minutes=10, settings=settings, switched_off=SILENT)
        if withdrawn_at:
            asking.withdraw("a", at=withdrawn_at)
        plays.append(asking)
        return asking.story.simulation

    plays: list[Asking] = []
    small = {**POOL, "max_size": 2}
    slow = {**small, "behaviour": {"max_node_provision": "10m"}, "request_delay": "8m"}
    never = {**small, "name": "twin", "request_delay": "100h"}
    courses: list[tuple[tuple[dict[str, Any], ...], float, set[str]]] = [
        ((slow, never, OTHER), 0.0, {"twin"}),
        (({**POOL, "request_delay": "100h"}, OTHER), 200.0, set()),
    ]
    for groups, withdrawn_at, at_fault in courses:
        for kill in kill_everywhere(partial(simulate, groups, withdrawn_at), down_seconds=25):
            states = [state for state, _ in plays[-1].story.loops]
            assert {ref.group_id for state in states for ref in state.memory.backoffs} == at_fault, str(kill)
            assert plays[-1].story.cloud.group("pool").target == 0, str(kill)


def _check_killed(asking: Asking, result: SimulationResult, latest: float, kill: str) -> None:
    asked = [(d.at, d.group.removeprefix("fake/"), d.before, d.after) for d in result.decisions if d.what == "increase"]
    others = [one for one in asked if one[1] == "other"]
    assert [one[2:] for one in others] == [(0, 2)], f"{kill}: {asked}"
    assert others[0][0] <= latest, f"{kill}: {asked}"
    assert all(after <= 4 for _, _, _, after in asked), f"{kill}: {asked}"
    held = asking.requests.get("default/a")
    assert held is not None
    assert held.has("Provisioned"), kill
    assert len(asking.story.cloud.living("kept")) == 2, kill
    left = asking.story.cloud.group("pool")
    assert left.target == len(asking.story.cloud.living("pool")) == 0, kill
    states = [state for state, _ in asking.story.loops]
    assert {ref for state in states for ref in state.memory.backoffs} <= {GroupRef("fake", "pool")}, kill
    assert not states[-1].memory.provisioning.reservations, kill


def test_what_is_left_is_withdrawn_once_and_not_from_requests_of_others() -> None:
    """The two machines that never came were withdrawn in each loop again, until nothing of the web's was left."""
    asking = make(minutes=25, stock_outs=TWO_LEFT, switched_off=SILENT)
    asking.story.pods(3, at=10 * MINUTE)
    withdrawn = [(at, before, after) for at, what, group, before, after in asking.story.writes("withdraw")]
    assert withdrawn[0][0] == OUT_OF_TIME
    in_time = [before - after for at, before, after in withdrawn if at < 10 * MINUTE + PROVISION]
    assert sum(in_time) == 2


def test_pods_that_an_empty_answer_hides_keep_the_machines_of_a_broken_request() -> None:
    """Two of four machines come, and pods of others run on them when the request is given up."""
    asking = make(switched_off=SILENT, stock_outs=TWO_LEFT)
    asking.story.pods(2, at=ASKED + 5 * MINUTE)
    asking.story.simulation.misread(OUT_OF_TIME - MINUTE, "no_pods", 5 * MINUTE, is_direct=True)
    assert asking.story.killed() == []
    held = asking.story.events("DeletionWithheld")
    assert held
    assert all("pod default/web-0 runs on it" in said for _, said in held)  # read by name
