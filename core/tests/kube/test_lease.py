"""There are never two leaders, and never none for long."""

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import Api, ApiError, Request
from nodewright.adapters.kube.lease import Leadership, LeaseOptions

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler"


def candidate(
    server: Api, name: str, clock: VirtualClock, retry_period: float = 2.0, *, is_first: bool = True
) -> Leadership:
    options = LeaseOptions(
        namespace="kube-system",
        name="cluster-autoscaler",
        identity=name,
        duration=15.0,
        renew_deadline=10.0,
        retry_period=retry_period,
        is_first=lambda: is_first,
    )
    return Leadership(server, options, clock, clock, Random(1))


class SlowWrites:
    """Implements Api: every write takes so long, and takes effect at its end."""

    def __init__(self, server: ApiServer, clock: VirtualClock, seconds: float) -> None:
        self._server, self._clock, self._seconds = server, clock, seconds
        self.follow = server.follow

    def send(self, request: Request) -> bytes:
        if request.method != "GET":
            self._clock.sleep(self._seconds)
        return self._server.send(request)


class SlowReads:
    """Implements Api: every read takes so long, and shows what there is at its end."""

    def __init__(self, server: ApiServer, clock: VirtualClock, seconds: float) -> None:
        self._server, self._clock, self._seconds = server, clock, seconds
        self.follow = server.follow

    def send(self, request: Request) -> bytes:
        if request.method == "GET":
            self._clock.sleep(self._seconds)
        return self._server.send(request)


class LostAnswers:
    """Implements Api: the answer to the first write is lost."""

    def __init__(self, server: ApiServer) -> None:
        self._server, self._left = server, 1
        self.follow = server.follow

    def send(self, request: Request) -> bytes:
        answer = self._server.send(request)
        if request.method != "GET" and self._left:
            self._left -= 1
            raise ApiError("no answer")
        return answer


def leader_and_candidate(server: ApiServer) -> tuple[VirtualClock, Leadership, Leadership]:
    """The first one leads, the second has seen it."""
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(server, "b", clock)
    assert a.attempt()
    assert not b.attempt()
    return clock, a, b


def test_what_keeps_it_from_the_lease_is_told(server: ApiServer) -> None:
    """Without it a missing right would stay unknown: a process that waits to lead is healthy."""
    clock, heard = VirtualClock(1000.0), list[str]()
    options = LeaseOptions(
        namespace="kube-system",
        name="cluster-autoscaler",
        identity="a",
        duration=15.0,
        renew_deadline=10.0,
        retry_period=2.0,
    )
    waiting = Leadership(server, options, clock, clock, Random(1), heard.append)
    server.refusals[LEASE] = ApiError("leases is forbidden", status=403)
    assert not waiting.attempt()
    del server.refusals[LEASE]
    assert waiting.attempt()
    assert heard == ["leases is forbidden", ""]


def held(server: ApiServer) -> dict[str, Any]:
    spec: dict[str, Any] = server.objects[LEASE]["spec"]
    return spec


def test_the_first_one_leads_and_the_other_waits(server: ApiServer) -> None:
    clock, a, b = leader_and_candidate(server)
    assert (a.remaining(), b.remaining()) == (15.0, 0.0)
    assert b.holder == "a"
    for _ in range(30):
        clock.sleep(2)
        assert a.attempt()
        assert not b.attempt()
    assert held(server)["leaseTransitions"] == 0
    assert held(server)["acquireTime"] < held(server)["renewTime"]


def test_a_holder_that_stops_renewing_is_followed_when_its_lease_is_over(server: ApiServer) -> None:
    clock, a, b = leader_and_candidate(server)
    clock.sleep(15)
    assert not b.attempt()
    assert a.remaining() == 0.0
    clock.sleep(0.1)
    assert b.attempt()
    assert held(server)["holderIdentity"] == "b"
    assert held(server)["leaseTransitions"] == 1


def test_a_frozen_holder_knows_at_its_first_look(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(server, "b", clock)
    a.attempt()
    b.attempt()
    clock.sleep(20)
    b.attempt()
    assert a.remaining() == 0.0
    assert not a.attempt()
    assert a.is_lost
    assert b.remaining() > 0


def test_a_holder_that_was_frozen_leads_no_more_though_nobody_followed(server: ApiServer) -> None:
    """Its other threads wake with it, and would go on with what they decided before."""
    clock = VirtualClock(1000.0)
    a = candidate(server, "a", clock)
    a.attempt()
    clock.sleep(14.9)
    assert a.attempt()
    clock.sleep(15)
    assert not a.attempt()
    assert a.is_lost
    assert a.remaining() == 0.0


def test_a_holder_that_was_frozen_within_a_renewal_leads_no_more(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a = candidate(SlowReads(server, clock, 7.5), "a", clock)
    a.attempt()
    clock.sleep(7.5)
    assert not a.attempt()
    assert a.is_lost


def test_a_frozen_holder_whose_name_an_editor_puts_back_leads_no_more(server: ApiServer) -> None:
    clock, a, b = leader_and_candidate(server)
    clock.sleep(15.1)
    assert b.attempt()
    server.put(LEASE, {**server.objects[LEASE], "spec": {**held(server), "holderIdentity": "a"}})
    assert not a.attempt()
    assert a.is_lost
    assert b.remaining() > 14


def test_the_length_that_another_kind_of_holder_says_counts(server: ApiServer) -> None:
    """CA's own leases last 15 s, or as its flag says."""
    clock = VirtualClock(1000.0)
    server.put(LEASE, {"metadata": {}, "spec": {"holderIdentity": "ca", "leaseDurationSeconds": 60}})
    b = candidate(server, "b", clock)
    assert not b.attempt()
    clock.sleep(59)
    assert not b.attempt()
    clock.sleep(2)
    assert b.attempt()


def test_a_slow_answer_does_not_make_the_lease_longer(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a = candidate(SlowWrites(server, clock, 6.0), "a", clock)
    assert a.attempt()
    assert a.remaining() == 9.0


def test_a_slow_look_does_not_make_the_lease_of_another_shorter(server: ApiServer) -> None:
    """The holder counts from before its write, which came after the look had begun."""
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(SlowReads(server, clock, 2.0), "b", clock)
    assert a.attempt()
    clock.sleep(1)
    assert not b.attempt()
    clock.sleep(1)
    assert a.attempt()
    assert not b.attempt()
    clock.sleep(a.remaining())
    assert not b.attempt()
    assert a.remaining() == 0.0


def test_an_unanswered_renewal_counts_as_none(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a = candidate(server, "a", clock)
    assert a.attempt()
    clock.sleep(3)
    server.faults = [ApiError("no answer")]
    assert not a.attempt()
    assert a.remaining() == 12.0
    assert a.attempt()
    assert a.remaining() == 15.0


def test_two_that_see_the_same_gap_do_not_both_take_it(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(server, "b", clock)
    server.put(LEASE, {"metadata": {}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
    server.after_read = a.attempt
    assert not b.attempt()
    assert (a.remaining(), b.remaining()) == (15.0, 0.0)


def test_good_bye_lets_another_lead_at_once(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(server, "b", clock)
    assert a.acquire()
    assert not b.attempt()
    clock.sleep(1)
    a.release()
    assert a.remaining() == 0.0
    assert b.acquire()
    b.release()


def test_a_lease_that_somebody_deletes_stays_with_its_holder(server: ApiServer) -> None:
    clock, a, b = leader_and_candidate(server)
    server.drop(LEASE)
    clock.sleep(2)
    assert not b.attempt()
    assert a.attempt()
    assert (a.remaining(), a.is_lost) == (15.0, False)
    assert held(server)["holderIdentity"] == "a"
    clock.sleep(14)
    assert not b.attempt()


def test_who_waited_for_a_lease_that_is_deleted_waits_as_long_as_it_said(server: ApiServer) -> None:
    """Its holder may be in the middle of a call to a cloud."""
    clock, a, b = leader_and_candidate(server)
    server.drop(LEASE)
    assert not b.attempt()
    clock.sleep(15)
    assert not b.attempt()
    clock.sleep(0.1)
    assert b.attempt()
    assert not a.attempt()
    assert a.is_lost


def test_a_lease_may_have_been_taken_and_deleted_between_two_looks(server: ApiServer) -> None:
    clock, a, b = leader_and_candidate(server)
    other = candidate(server, "c", clock)
    assert not other.attempt()
    clock.sleep(15.1)
    assert b.attempt()
    server.drop(LEASE)
    assert not other.attempt()
    assert b.attempt()
    assert a.remaining() == other.remaining() == 0.0


def test_a_lease_that_is_missing_may_be_held_by_one_that_was_never_seen(server: ApiServer) -> None:
    """An operator deleted it, and its holder has not written it again yet."""
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(server, "b", clock, is_first=False)
    assert a.attempt()
    server.drop(LEASE)
    assert not b.attempt()
    clock.sleep(15)
    assert not b.attempt()
    clock.sleep(0.1)
    assert a.remaining() == 0.0
    assert b.attempt()


@pytest.mark.parametrize(
    "edit",
    [
        {"holderIdentity": ""},
        {"holderIdentity": None},
        {"holderIdentity": "b"},
        {"holderIdentity": "somebody"},
        {"leaseDurationSeconds": 1},
        {"leaseDurationSeconds": None},
        {"holderIdentity": "", "leaseDurationSeconds": None},
        {"holderIdentity": "", "leaseDurationSeconds": 1},
        {"renewTime": "2001-01-01T00:00:00.000000Z"},
    ],
)
def test_an_edited_lease_frees_nobody_before_its_holder_knows(server: ApiServer, edit: dict[str, Any]) -> None:
    clock, a, b = leader_and_candidate(server)
    clock.sleep(1)
    assert a.attempt()
    server.put(LEASE, {**server.objects[LEASE], "spec": {**held(server), **edit}})
    while a.remaining() > 0:
        assert not b.attempt()
        clock.sleep(0.5)
    clock.sleep(5)
    assert b.attempt()


@pytest.mark.parametrize("first", ["holderIdentity", "leaseDurationSeconds"])
def test_edits_that_make_a_new_lease_look_given_up_free_nobody(server: ApiServer, first: str) -> None:
    """Its times are alike since it was not renewed yet; one edit after the other."""
    clock, a, b = leader_and_candidate(server)
    edits: dict[str, Any] = {"holderIdentity": "", "leaseDurationSeconds": 1}
    server.put(LEASE, {**server.objects[LEASE], "spec": {**held(server), first: edits[first]}})
    assert not b.attempt()
    server.put(LEASE, {**server.objects[LEASE], "spec": {**held(server), **edits}})
    while a.remaining() > 0:
        assert not b.attempt()
        clock.sleep(0.5)
    clock.sleep(0.5)
    assert b.attempt()


def test_a_lease_that_was_taken_without_an_answer_is_not_waited_for(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a = candidate(LostAnswers(server), "a", clock)
    assert not a.attempt()
    assert held(server)["holderIdentity"] == "a"
    assert a.attempt()
    assert a.remaining() == 15.0


def test_who_was_away_does_not_take_a_missing_lease_for_its_own(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    a, b = candidate(server, "a", clock), candidate(server, "b", clock)
    a.attempt()
    b.attempt()
    clock.sleep(20)
    assert b.attempt()
    server.drop(LEASE)
    assert not a.attempt()
    assert a.is_lost
    assert b.attempt()


def wait(probe: Callable[[], object]) -> None:
    """For what another thread does next."""
    for _ in range(500):
        if probe():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not come to pass")


def test_a_leader_renews_until_it_has_failed_for_too_long(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    leader = candidate(server, "a", clock, retry_period=0.001)
    assert leader.acquire()
    clock.sleep(5)
    wait(lambda: leader.remaining() == 15.0)
    server.refusals[LEASE] = ApiError("no answer")
    clock.sleep(10)
    failed = leader.failed
    wait(lambda: leader.failed > failed + 2)
    assert (leader.is_lost, leader.remaining()) == (False, 5.0)
    clock.sleep(0.1)
    wait(lambda: leader.is_lost)
    assert leader.remaining() == 0.0
    del server.refusals[LEASE]
    leader.release()
    assert held(server)["holderIdentity"] == "a"  # it is not its own any more, to give back


def test_nothing_is_renewed_after_good_bye(server: ApiServer) -> None:
    clock = VirtualClock(1000.0)
    leader = candidate(server, "a", clock, retry_period=0.001)
    assert leader.acquire()
    wait(lambda: leader.renewed > 2)
    leader.release()
    assert held(server)["holderIdentity"] == ""
    assert leader._keeper is not None
    assert not leader._keeper.is_alive()
