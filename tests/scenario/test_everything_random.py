"""Requests, buffers, quotas, groups made on demand, stock-outs, refusals and restarts, all at once and at random."""

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario import requesting, spare
from tests.scenario.requesting import Asking
from tests.scenario.spare import Sparing
from tests.scenario.story import LOOP, MINUTE, SOON, Story
from tests.scenario.test_capacity_quotas import put

from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CHECK_CAPACITY,
    FAILED,
)

HOOKS = ("create_node_group", "delete_node_group", "increase_size", "delete_instances")
ON = {
    **requesting.ON,
    **spare.ON,
    **SOON,
    "capacity-quotas-enabled": True,
    "node-autoprovisioning-enabled": True,
    "initial-node-group-backoff-duration": "1m",
    "max-node-provision-time": "5m",
}
PROVISION, STARTUP = 300.0, 900.0
ALREADY = 2
# Requests and pods come within the first 40 minutes; then the buffer goes, and everything comes to its end.
DROPPED, END = 50 * MINUTE, 120 * MINUTE


@dataclass(frozen=True)
class Case:
    """``requests`` are (count, kind, at, consumed after, withdrawn after), the latter two 0 for never; ``pods`` are (count, at,
    for how long); ``stock_outs`` are (kind of machine, start, how many are left); ``restarts`` (at, with memory).
    """

    quota: int
    buffer: int
    kinds: tuple[int, ...]
    requests: tuple[tuple[int, str, float, float, float], ...]
    pods: tuple[tuple[int, float, float], ...]
    stock_outs: tuple[tuple[str, float, int], ...]
    refusals: tuple[tuple[str, int], ...]
    restarts: tuple[tuple[float, bool], ...]
    switched_off: tuple[str, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    moments = st.integers(1, 40).map(lambda minute: minute * MINUTE)
    later = st.integers(0, 10).map(lambda minutes: minutes * MINUTE)
    kinds = st.sampled_from((CHECK_CAPACITY, BEST_EFFORT_ATOMIC))
    requests = st.tuples(st.integers(1, 6), kinds, moments, later, later)
    groups = st.sampled_from(("pool", "k1", "k2"))
    return Case(
        quota=draw(st.integers(ALREADY, 9)),
        buffer=draw(st.integers(0, 4)),
        kinds=tuple(draw(st.lists(st.sampled_from((1, 2)), max_size=2, unique=True))),
        requests=tuple(draw(st.lists(requests, min_size=1, max_size=4))),
        pods=tuple(draw(st.lists(st.tuples(st.integers(1, 4), moments, later), max_size=3))),
        stock_outs=tuple(draw(st.lists(st.tuples(groups, moments, st.integers(0, 3)), max_size=2))),
        refusals=tuple(draw(st.lists(st.tuples(st.sampled_from(HOOKS), st.integers(1, 2)), max_size=2))),
        restarts=tuple(draw(st.lists(st.tuples(moments, st.booleans()), max_size=2))),
        switched_off=draw(st.sampled_from(((), ("atomic_resize",), ("atomic_resize", "fast_failure_detection")))),
    )


def play(case: Case) -> tuple[Story, Asking]:
    story = Story(
        {"name": "pool", "size": ALREADY, "max_size": 6, "price_per_hour": 0.1},
        settings=ON,
        minutes=END / MINUTE,
        switched_off=case.switched_off,
        machine_types=[{"name": f"k{cpu}", "cpu": cpu, "memory": "16Gi", "price_per_hour": cpu} for cpu in case.kinds],
        stock_outs=[
            {"group" if name == "pool" else "instance_type": name, "start": at, "end": at + 900, "remaining": left}
            for name, at, left in case.stock_outs
        ],
        faults=[{"kind": "refuse", "hook": hook, "error": "out_of_capacity", "times": n} for hook, n in case.refusals],
    )
    put(story, "all", team="", nodes=case.quota)
    sparing, asking = Sparing(story), Asking(story)
    sparing.template()
    sparing.buffer(at=MINUTE, replicas=case.buffer)
    sparing.drop(at=DROPPED)
    for number, (count, kind, at, consumed, withdrawn) in enumerate(case.requests):
        name = f"r{number}"
        asking.ask(name, count, at=at, kind=kind, parameters={"ValidUntilSeconds": "1800"})
        if consumed:
            asking.consume(name, count, at=at + consumed, kind=kind)
        if withdrawn:
            asking.withdraw(name, at=at + withdrawn)
    for number, (count, at, lasts) in enumerate(case.pods):
        story.pods(count, at=at, until=at + lasts + MINUTE, name=f"web{number}")
    for at, keeps_memory in case.restarts:
        story.simulation.engine.restart(at, down_seconds=20, keeps_memory=keeps_memory)
    return story, asking


@given(cases())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_together_they_keep_what_each_promises(case: Case) -> None:
    story, asking = play(case)
    assert story.result.violations == ()
    for request in asking.requests.all():
        assert sum(request.has(end) for end in (FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED)) == 1, request.key
    assert story.loops[-1][0].memory.provisioning.reservations == {}
    for state, _ in story.loops:
        assert sum(group.seen.target or 0 for group in state.groups.values()) <= case.quota
        for grant in state.memory.provisioning.reservations.values():
            late = grant.started + PROVISION + STARTUP + 3 * LOOP + 20 * len(case.restarts)
            assert grant.broken or state.now <= late, f"{grant.key} is kept waiting at {state.now}"
    groups = [story.cloud.group(name) for name in story.cloud.group_names()]
    # A pod has a node of its own where it cannot share one; nothing is left for those that are gone.
    assert sum(group.target for group in groups) <= story.result.final.running
    assert story.result.final.running or len(groups) == 1
