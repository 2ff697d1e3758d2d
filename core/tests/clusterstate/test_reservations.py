"""Reservations: which machines of an all-or-nothing request came, and what breaks it for good."""

from dataclasses import replace
from typing import Any

import pytest

from nodewright.clusterstate.backoff import FEWER_ACCEPTED, MACHINE_LOST, NEVER_READY, NO_ANSWER, TIMEOUT
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Reservation, ReservationPart
from nodewright.clusterstate.reservations import open_reservations
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DecreaseTargetSize, Done, Failed, ForRequest, IncreaseSize, Outcome, Unknown
from nodewright.model.group import FailedInstance, GroupOptions, Instance
from nodewright.testkit.builders import build_node
from nodewright.testkit.world import World, ref, settings_with

G, H = ref("g"), ref("h")
REQUEST = "uid-1"
PROVISION, STARTUP = 600.0, 300.0
OPTIONS = GroupOptions(max_node_provision_seconds=PROVISION, max_node_startup_seconds=STARTUP)


class Cloud:
    """Groups whose machines and nodes the test sets; each ``look`` folds them ten seconds later."""

    def __init__(self, **settings: Any) -> None:
        self.world = World()
        self.settings = settings_with(**settings)
        self.groups = ["g"]
        self.targets = {"g": 0, "h": 0}
        self.machines: dict[str, list[str]] = {"g": [], "h": []}
        self.failed: dict[str, tuple[FailedInstance, ...]] = {"g": (), "h": ()}
        self.ready: set[str] = set()
        self.unready: set[str] = set()

    def look(self, *outcomes: Outcome, after: float = 10.0) -> ClusterState:
        world = self.world
        world.now += after
        world.nodes.clear()
        world.groups.clear()
        for name in self.groups:
            world.add_group(
                name,
                target=self.targets[name],
                instances=tuple(Instance(id=machine) for machine in self.machines[name]),
                failed=self.failed[name],
                options=OPTIONS,
            )
        for machine in sorted(self.ready | self.unready):
            node = build_node(machine, provider_id=machine, ready=machine in self.ready, created_at=world.now - 10)
            world.nodes.append(node)
        state = fold(world.memory, world.state(self.settings).observation, outcomes, self.settings)
        world.memory = state.memory
        return state

    def ask(self, by: int, *, nodes: int, group: str = "g") -> IncreaseSize:
        """The increase of a group that is a part of the request for so many nodes."""
        held = self.targets[group]
        request = ForRequest(id=REQUEST, key="default/r", nodes=nodes)
        return IncreaseSize(group=ref(group), expected_target=held, target=held + by, request=request)

    def accept(self, by: int, *, nodes: int, accepted: int | None = None, group: str = "g") -> Done:
        """The cloud accepts that increase."""
        action = self.ask(by, nodes=nodes, group=group)
        accepted = by if accepted is None else accepted
        self.targets[group] += accepted
        return Done(action=action, started=self.world.now, accepted=accepted)

    @property
    def reservation(self) -> Reservation:
        return self.world.memory.provisioning.reservations[REQUEST]


def under_way(by: int = 2) -> Cloud:
    """The cloud has accepted the whole request, and no machine has come."""
    cloud = Cloud()
    cloud.look()
    cloud.look(cloud.accept(by, nodes=by))
    assert cloud.reservation.broken == ""
    return cloud


def failure(state: ClusterState, code: str) -> str:
    """The message of the group's only failure."""
    (found,) = state.groups[G].failures
    assert found.code == code
    assert state.groups[G].shortfall == found.message
    return found.message


# Opening


def test_a_reservation_opens_with_the_first_part_and_waits_for_the_slowest() -> None:
    request = ForRequest(id=REQUEST, key="default/r", nodes=3)
    asked = [
        (IncreaseSize(group=group, expected_target=1, target=1 + by, request=request), at)
        for group, by, at in ((G, 1, 100.0), (H, 2, 105.0))
    ]
    world = World()
    world.add_group("g", options=OPTIONS)
    world.add_group("h", options=GroupOptions(max_node_provision_seconds=60.0, max_node_startup_seconds=900.0))
    found = open_reservations({}, asked, {}, world.groups)[REQUEST]
    assert (found.key, found.nodes, found.started) == ("default/r", 3, 100.0)
    assert [(part.ref, part.nodes, part.deadline) for part in found.parts] == [(G, 1, 700.0), (H, 2, 165.0)]
    assert (found.deadline, found.patience) == (700.0, 900.0)


def test_ordinary_growth_opens_none() -> None:
    action = IncreaseSize(group=G, expected_target=0, target=2)
    assert open_reservations({}, [(action, 100.0)], {}, {}) == {}
    cloud = Cloud()
    cloud.targets["g"] = 2
    state = cloud.look(Done(action=action, started=cloud.world.now, accepted=2))
    assert state.memory.provisioning.reservations == {}


def test_profile_ca_forgets_the_request_once_it_is_accepted() -> None:
    cloud = Cloud(profile="ca")
    cloud.look()
    assert cloud.look(cloud.accept(2, nodes=2)).memory.provisioning.reservations == {}


# Machines that come


def test_machines_are_credited_as_they_appear() -> None:
    cloud = under_way()
    cloud.machines["g"] = ["i-1"]
    cloud.look()
    (part,) = cloud.reservation.parts
    assert (part.machines, part.missing, part.asked) == (("i-1",), 1, True)
    cloud.machines["g"] = ["i-1", "i-2"]
    cloud.look()
    (part,) = cloud.reservation.parts
    assert (part.machines, part.missing, cloud.reservation.broken) == (("i-1", "i-2"), 0, "")


def test_machines_that_were_owed_before_come_first() -> None:
    cloud = Cloud()
    cloud.look()
    ordinary = IncreaseSize(group=G, expected_target=0, target=1)
    cloud.targets["g"] = 1
    cloud.look(Done(action=ordinary, started=cloud.world.now, accepted=1))
    cloud.look(cloud.accept(1, nodes=1))
    assert cloud.reservation.parts[0].ahead == 1
    cloud.machines["g"] = ["i-1"]
    cloud.look()
    assert (cloud.reservation.parts[0].machines, cloud.reservation.parts[0].ahead) == ((), 0)
    cloud.machines["g"] = ["i-1", "i-2"]
    cloud.look()
    assert cloud.reservation.parts[0].machines == ("i-2",)


def test_nothing_is_concluded_of_a_group_that_cannot_be_read() -> None:
    cloud = under_way()
    before = cloud.reservation
    world = cloud.world
    world.now += PROVISION / 2
    seen = world.state().observation
    unread = replace(seen.groups[G], target=None, instances=None, problem="no answer")
    state = fold(world.memory, replace(seen, groups={G: unread}), (), cloud.settings)
    assert state.memory.provisioning.reservations[REQUEST] == before


# What breaks it


def test_a_refused_call_breaks_it_and_leaves_nothing() -> None:
    cloud = Cloud()
    cloud.look()
    refused = Failed(action=cloud.ask(2, nodes=2), started=cloud.world.now, code="stockout", message="none left")
    assert cloud.look(refused).memory.provisioning.reservations == {}


def test_fewer_machines_than_asked_for_break_it() -> None:
    cloud = Cloud()
    cloud.look()
    state = cloud.look(cloud.accept(3, nodes=3, accepted=2))
    assert cloud.reservation.broken == "group cloud/g accepted 2 of 3 machines"
    assert failure(state, FEWER_ACCEPTED) == cloud.reservation.broken
    assert cloud.reservation.parts[0].nodes == 2, "these are still to be taken back"


def test_a_group_whose_maximum_was_lowered_is_not_at_fault() -> None:
    cloud = Cloud()
    cloud.look()
    done = cloud.accept(12, nodes=12, accepted=10)
    state = cloud.look(done)
    assert cloud.reservation.broken
    assert state.groups[G].failures == ()


def test_without_an_answer_the_target_tells_whether_the_call_was_made() -> None:
    made, lost = Cloud(), Cloud()
    for cloud in (made, lost):
        cloud.look()
    unknown = Unknown(action=made.ask(2, nodes=2), started=made.world.now, message="timed out")
    made.targets["g"] = 2
    made.look(unknown)
    assert (made.reservation.broken, made.reservation.parts[0].nodes) == ("", 2)
    lost.targets["g"] = 1
    state = lost.look(unknown)
    assert lost.reservation.broken == "group cloud/g was asked for 1 of 2 machines"
    assert "did not answer, and 1 of 2 machines" in failure(state, NO_ANSWER)


def test_a_group_that_was_not_asked_breaks_it() -> None:
    cloud = Cloud()
    cloud.look()
    state = cloud.look(cloud.accept(1, nodes=3))
    assert cloud.reservation.broken == "1 of 3 machines could be asked for"
    assert state.groups[G].failures == (), "the group did what it was asked"


def test_a_machine_that_fails_before_it_is_a_node_breaks_it() -> None:
    cloud = under_way()
    cloud.machines["g"] = ["i-1", "i-2"]
    cloud.look()
    cloud.machines["g"], cloud.targets["g"] = ["i-1"], 1
    state = cloud.look()
    assert cloud.reservation.broken == "machine i-2 of group cloud/g failed or disappeared"
    assert failure(state, MACHINE_LOST).startswith("machine i-2")
    assert cloud.reservation.parts[0].nodes == 1


def test_a_node_that_goes_is_no_failure_of_the_group() -> None:
    cloud = under_way()
    cloud.machines["g"], cloud.ready = ["i-1", "i-2"], {"i-1", "i-2"}
    cloud.look()
    cloud.look()
    cloud.machines["g"], cloud.ready, cloud.targets["g"] = ["i-1"], {"i-1"}, 1
    state = cloud.look()
    assert cloud.reservation.broken == "machine i-2 of group cloud/g failed or disappeared"
    assert state.groups[G].failures == ()


def test_a_target_that_somebody_lowered_breaks_it() -> None:
    cloud = under_way(3)
    cloud.targets["g"] = 2
    cloud.look()
    assert cloud.reservation.broken == "1 machines of group cloud/g are no longer asked for"
    assert cloud.reservation.parts[0].nodes == 2


def test_a_group_that_is_gone_breaks_it() -> None:
    cloud = Cloud()
    cloud.groups = ["g", "h"]
    cloud.look()
    cloud.look(cloud.accept(1, nodes=2), cloud.accept(1, nodes=2, group="h"))
    assert cloud.reservation.broken == ""
    cloud.groups = ["h"]
    cloud.look()
    assert cloud.reservation.broken == "group cloud/g is gone"
    assert [part.nodes for part in cloud.reservation.parts] == [0, 1]


@pytest.mark.parametrize(("after", "breaks"), [(PROVISION - 10.0, False), (PROVISION + 1.0, True)])
def test_machines_that_do_not_come_in_time_break_it(*, after: float, breaks: bool) -> None:
    cloud = under_way()
    cloud.machines["g"] = ["i-1"]
    state = cloud.look(after=after)
    assert cloud.reservation.broken == ("1 of 2 machines did not come in time" if breaks else "")
    codes = {one.code for one in state.groups[G].failures}
    assert (TIMEOUT in codes) == breaks


def test_machines_that_do_not_register_in_time_are_late() -> None:
    cloud = under_way()
    cloud.machines["g"] = ["i-1", "i-2"]
    cloud.look()
    cloud.ready = {"i-1"}
    state = cloud.look(after=PROVISION)
    assert cloud.reservation.broken == "1 of 2 machines did not become nodes in time"
    assert (G, "i-2") in state.memory.late
    assert (G, "i-1") not in state.memory.late


def test_nodes_that_do_not_become_ready_in_time_break_it() -> None:
    cloud = under_way()
    cloud.machines["g"], cloud.ready = ["i-1", "i-2"], {"i-1"}
    cloud.unready = {"i-2"}
    cloud.look()
    state = cloud.look(after=PROVISION + STARTUP)
    assert cloud.reservation.broken == "not all machines were ready in time"
    assert {one.code for one in state.groups[G].failures} == {NEVER_READY}


# Its end


def test_what_is_left_of_a_broken_one_is_remembered_until_it_is_taken_back() -> None:
    cloud = under_way(3)
    cloud.targets["g"] = 2
    cloud.look()
    action = DecreaseTargetSize(group=G, expected_target=2, target=0, reason="taken back")
    cloud.look(Failed(action=action, started=cloud.world.now, code="no", message="no"))
    assert cloud.reservation.parts[0].withdrawn_at == cloud.world.now - 10, "a call in vain rests before it is repeated"
    cloud.targets["g"] = 0
    state = cloud.look(Done(action=action, started=cloud.world.now, accepted=2))
    assert state.memory.provisioning.reservations == {}


def test_a_withdrawal_without_effect_rests_as_one_that_failed() -> None:
    cloud = under_way(3)
    cloud.targets["g"] = 2
    cloud.look()
    action = DecreaseTargetSize(group=G, expected_target=2, target=0, reason="taken back")
    cloud.look(Done(action=action, started=cloud.world.now, accepted=0))
    assert cloud.reservation.parts[0].withdrawn_at == cloud.world.now - 10


def test_what_is_left_of_a_broken_one_is_given_up_after_an_hour() -> None:
    cloud = under_way(3)
    cloud.targets["g"], cloud.machines["g"], cloud.ready = 2, ["i-1", "i-2"], {"i-1", "i-2"}
    cloud.look()
    assert cloud.reservation.broken
    cloud.look(after=PROVISION + STARTUP + 3500.0)
    assert REQUEST in cloud.world.memory.provisioning.reservations
    state = cloud.look(after=200.0)
    assert state.memory.provisioning.reservations == {}


def test_the_first_reason_stays() -> None:
    cloud = under_way(3)
    cloud.targets["g"] = 2
    cloud.look()
    first = cloud.reservation.broken
    cloud.targets["g"] = 1
    state = cloud.look()
    assert cloud.reservation.broken == first
    assert state.groups[G].shortfall == ""


def test_a_group_is_blamed_only_for_what_broke_it() -> None:
    cloud = under_way(3)
    cloud.machines["g"] = ["i-1", "i-2"]
    cloud.look()
    cloud.targets["g"] = 2
    assert cloud.look().groups[G].shortfall == ""
    assert cloud.reservation.broken
    cloud.machines["g"], cloud.targets["g"] = ["i-1"], 1
    assert cloud.look().groups[G].shortfall == ""
    assert cloud.reservation.parts[0].nodes == 1


def test_what_was_taken_back_unseen_is_not_taken_from_ordinary_requests() -> None:
    """A crash lost the outcome of the decrease; the machines that are still to come are for other pods."""
    cloud = Cloud()
    cloud.look()
    cloud.targets["g"] = 2
    ordinary = IncreaseSize(group=G, expected_target=0, target=2)
    cloud.look(Done(action=ordinary, started=cloud.world.now, accepted=2))
    cloud.look(cloud.accept(3, nodes=3, accepted=2))
    assert (cloud.reservation.parts[0].nodes, bool(cloud.reservation.broken)) == (2, True)
    cloud.targets["g"] = 2
    assert cloud.look().memory.provisioning.reservations == {}


@pytest.mark.parametrize("rule", ["prompt", "seed", "ca"])
def test_only_the_prompt_rule_gives_up_machines_by_the_time_of_their_reservation(rule: str) -> None:
    """The machine appears just before the time of its reservation ends, and its own time goes on."""
    cloud = Cloud(size_correction=rule)
    cloud.look()
    cloud.look(cloud.accept(1, nodes=1))
    cloud.machines["g"] = ["i-1"]
    cloud.look(after=PROVISION - 20.0)
    state = cloud.look(after=30.0)
    assert cloud.reservation.broken == ("1 of 1 machines did not become nodes in time" if rule == "prompt" else "")
    assert (G, "i-1") in state.memory.late if rule == "prompt" else not state.memory.late


def test_a_part_replaces_that_of_its_group() -> None:
    first, second = (ReservationPart(provider="cloud", group=name, expected_target=0, nodes=1) for name in "gh")
    held = Reservation(key="default/r", started=1.0, deadline=2.0, patience=3.0, nodes=2, parts=(first, second))
    fresh = ReservationPart(provider="cloud", group="h", expected_target=0, nodes=5)
    assert held.with_part(fresh).parts == (first, fresh)
    assert held.leftover_name("uid") == "uid@1.000"


def test_what_is_withdrawn_for_a_broken_one_is_not_taken_from_a_younger_one() -> None:
    """The target falls by the two machines of the older one; the younger one still waits for its three."""
    cloud = under_way(2)
    younger = ForRequest(id="uid-2", key="default/younger", nodes=3)
    grow = IncreaseSize(group=G, expected_target=2, target=5, request=younger)
    cloud.look(after=PROVISION / 2)
    cloud.targets["g"] = 5
    cloud.look(Done(action=grow, started=cloud.world.now, accepted=3))
    cloud.look(after=PROVISION / 2)
    assert cloud.reservation.broken
    cloud.targets["g"] = 3
    withdrawal = DecreaseTargetSize(group=G, expected_target=5, target=3, reason="r")
    state = cloud.look(Done(action=withdrawal, started=cloud.world.now, accepted=2))
    (left,) = state.memory.provisioning.reservations.values()
    assert (left.key, left.broken, left.parts[0].nodes) == ("default/younger", "", 3)
    (request,) = state.memory.requests[G]
    assert (request.increase, request.reservation) == (3, "default/younger")


def test_what_is_withdrawn_for_a_broken_one_is_not_taken_from_its_retry() -> None:
    """A gang that is tried again has the key of the broken reservation, of which some machines are still on their way."""
    cloud = Cloud()
    cloud.groups = ["g", "h"]
    cloud.look()
    cloud.look(cloud.accept(2, nodes=3), cloud.accept(1, nodes=3, accepted=0, group="h"))
    assert cloud.reservation.broken
    again = ForRequest(id="uid-2", key=cloud.reservation.key, nodes=3)
    cloud.look(after=PROVISION / 2)
    cloud.targets["g"] = 5
    grow = IncreaseSize(group=G, expected_target=2, target=5, request=again)
    asked = cloud.world.now
    cloud.look(Done(action=grow, started=asked, accepted=3))
    cloud.targets["g"] = 3
    withdrawal = DecreaseTargetSize(group=G, expected_target=5, target=3, reason="r")
    state = cloud.look(Done(action=withdrawal, started=cloud.world.now, accepted=2))
    (request,) = state.memory.requests[G]
    assert (request.increase, request.started) == (3, asked)
