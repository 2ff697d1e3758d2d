"""Requests, pods, deletions, templates that change or go, stock-outs, machines that never join, clouds that accept fewer,
refused writes and restarts in any order: nothing half-granted stays, nothing is promised twice, every request comes to one
end, and one of all or nothing is not kept waiting while some sound group has room for it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import LOOP, MINUTE, Story

from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CHECK_CAPACITY,
    FAILED,
    PROVISIONED,
    TERMINAL,
    ProvisioningRequest,
)

_QUIET = 40 * MINUTE
_MINUTES = 110.0
_PROVISION, _STARTUP = 300.0, 300.0
# Where no group is at fault a request waits for its next try, at first a minute and then twice as long.
_NEXT_TRY = 200.0
_CLOUDS: Sequence[tuple[str, ...]] = ((), ("atomic_resize",), ("atomic_resize", "fast_failure_detection"))


class Wish(NamedTuple):
    """A request at a moment, with what becomes of it (0: never): its pods come, or its owner withdraws it; its template is
    changed to ``cpu`` or, with 0, goes. ``lingers``: a finalizer keeps it after its withdrawal.
    """

    at: float
    kind: str
    pods: int
    consumed_at: float
    withdrawn_at: float
    lingers: bool
    template_at: float
    cpu: float


class Course(NamedTuple):
    """One world, and what happens in it before it is left alone. ``troubles`` are (what, group, start);
    ``has_sound``: there is a large group that nothing ever happens to.
    """

    size: int
    most: int
    without: tuple[str, ...]
    wishes: tuple[Wish, ...]
    pods: tuple[tuple[float, int], ...]
    stock_outs: tuple[tuple[float, float, int], ...]
    restarts: tuple[tuple[float, bool], ...]
    refusals: tuple[tuple[float, float], ...]
    troubles: tuple[tuple[str, str, float], ...]
    has_sound: bool


def _moments() -> st.SearchStrategy[float]:
    return st.integers(1, int(_QUIET // 10)).map(lambda tick: tick * 10.0)


def _perhaps_after(at: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(0.0), st.integers(1, 60).map(lambda ticks: at + ticks * 10.0))


_TROUBLES = st.sampled_from(["dead_boots", "slow_boots", "partial"])


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    at = draw(_moments())
    kind = draw(st.sampled_from([CHECK_CAPACITY, BEST_EFFORT_ATOMIC, BEST_EFFORT_ATOMIC]))
    return Wish(
        at,
        kind,
        pods=draw(st.integers(1, 6)),
        consumed_at=draw(_perhaps_after(at)),
        withdrawn_at=draw(_perhaps_after(at)),
        lingers=draw(st.booleans()),
        template_at=draw(_perhaps_after(at)),
        cpu=draw(st.sampled_from([0.0, 1.0, 3.0])),
    )


@st.composite
def courses(draw: st.DrawFn) -> Course:
    return Course(
        size=draw(st.integers(0, 3)),
        most=draw(st.integers(3, 10)),
        without=draw(st.sampled_from(_CLOUDS)),
        wishes=tuple(draw(st.lists(wishes(), min_size=1, max_size=4))),
        pods=tuple(draw(st.lists(st.tuples(_moments(), st.integers(1, 3)), max_size=2))),
        stock_outs=tuple(
            draw(st.lists(st.tuples(_moments(), st.sampled_from([120.0, 900.0]), st.integers(0, 4)), max_size=2))
        ),
        restarts=tuple(draw(st.lists(st.tuples(_moments(), st.booleans()), max_size=2))),
        refusals=tuple(draw(st.lists(st.tuples(_moments(), st.sampled_from([20.0, 300.0])), max_size=2))),
        troubles=tuple(
            draw(st.lists(st.tuples(_TROUBLES, st.sampled_from(["pool", "other"]), _moments()), max_size=3))
        ),
        has_sound=draw(st.sampled_from([True, True, False])),
    )


def play(course: Course) -> Asking:
    groups: list[dict[str, Any]] = [
        {"name": "pool", "size": course.size, "max_size": course.most, "price_per_hour": 0.1},
        {"name": "other", "max_size": 2, "price_per_hour": 0.2},
    ]
    if course.has_sound:
        groups.append({"name": "sound", "max_size": 40, "price_per_hour": 9.0})
    outs: list[dict[str, Any]] = [
        {"start": start, "end": start + lasts, "remaining": left, "group": "pool"}
        for start, lasts, left in course.stock_outs
    ]
    flags = {**ON, "max-node-provision-time": f"{_PROVISION:g}s", "max-node-startup-time": f"{_STARTUP:g}s"}
    cloud: dict[str, Any] = {"stock_outs": outs, "dead_boots": [], "slow_boots": [], "faults": []}
    for what, group, start in course.troubles:
        rule: dict[str, Any] = {"group": group, "start": start, "end": start + 1800}
        if what == "partial":
            cloud["faults"].append({**rule, "kind": "partial", "hook": "increase_size", "at_most": 1})
        else:
            cloud[what].append({**rule, "registers": "8m"} if what == "slow_boots" else rule)
    story = Story(*groups, minutes=_MINUTES, settings=flags, switched_off=course.without, **cloud)
    asking = Asking(story)
    for number, wish in enumerate(course.wishes):
        come_true(asking, f"r{number}", wish)
    for number, (at, count) in enumerate(course.pods):
        story.pods(count, at=at, name=f"web{number}")
    for at, keeps_memory in course.restarts:
        story.simulation.engine.restart(at, down_seconds=20, keeps_memory=keeps_memory)
    for at, lasts in course.refusals:
        asking.refuse_writes(at, at + lasts)
    return asking


def come_true(asking: Asking, name: str, wish: Wish) -> None:
    asking.ask(name, wish.pods, at=wish.at, kind=wish.kind, parameters={"ValidUntilSeconds": "1800"})
    if wish.consumed_at:
        asking.consume(name, wish.pods, at=wish.consumed_at, kind=wish.kind)
    if wish.withdrawn_at:
        leave = asking.begin_to_delete if wish.lingers else asking.withdraw
        leave(name, at=wish.withdrawn_at)
    if wish.template_at and wish.cpu:
        asking.template(f"{name}-0", at=wish.template_at, cpu=str(wish.cpu))
    elif wish.template_at:
        asking.story.at(wish.template_at, lambda: asking.templates.drop(f"default/{name}-0"))


def _of_one(without: tuple[str, ...], **trouble: Any) -> Course:
    """A single request for four machines, of a group that fails it and beside a sound one."""
    wish = Wish(60.0, BEST_EFFORT_ATOMIC, 4, 0.0, 0.0, lingers=False, template_at=0.0, cpu=0.0)
    nothing: dict[str, Any] = {"pods": (), "stock_outs": (), "restarts": (), "refusals": (), "troubles": ()}
    return Course(size=0, most=8, without=without, wishes=(wish,), has_sound=True, **{**nothing, **trouble})


@example(_of_one(_CLOUDS[2], stock_outs=((30.0, 3600.0, 2),)))
@example(_of_one(_CLOUDS[1], stock_outs=((30.0, 3600.0, 2),)))
@example(_of_one(_CLOUDS[1], troubles=(("partial", "pool", 0.0),)))
@example(_of_one(_CLOUDS[2], troubles=(("dead_boots", "pool", 0.0),)))
@example(_of_one(_CLOUDS[0], troubles=(("slow_boots", "pool", 0.0),)))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(courses())
def test_any_course_of_events(course: Course) -> None:
    asking = play(course)
    assert asking.story.result.violations == ()
    for request in asking.requests.all():
        if request.metadata.deletion_timestamp is not None:
            continue  # it is not examined any more
        ends = [end for end in (FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED) if request.has(end)]
        assert len(ends) == 1, f"{request.key}: {asking.conditions(request.name)}"
    assert not asking.story.loops[-1][0].memory.provisioning.reservations, "machines are still owed to a request"
    check_never_sold_twice(asking)
    check_nothing_half_granted(asking)
    check_moves_on(asking, course)


def check_never_sold_twice(asking: Asking) -> None:
    """In every loop what is held fits, beside all that runs, on machines of 1 cpu that there are: 1 cpu a pod."""
    for state, plan in asking.story.loops:
        snapshot = state.observation.snapshot
        running = sum(not pod.is_daemonset_pod for row, _ in snapshot.nodes() for pod in snapshot.pods(row))
        machines = sum(group.seen.target or 0 for group in state.groups.values())
        held = sum(plan.provisioning.reserved.values())
        assert held + running <= machines, f"at {state.now}: {held} held and {running} running on {machines}"


def check_nothing_half_granted(asking: Asking) -> None:
    """Once all is quiet for long, what is left serves pods that run: unneeded machines are gone, halves of grants too."""
    left = sum(asking.story.machines(name) for name in asking.story.cloud.group_names())
    running = asking.story.result.final.running
    assert left <= running, f"{left} machines for {running} pods"


def check_moves_on(asking: Asking, course: Course) -> None:
    """A request of all or nothing has machines under way for no longer than they may take. Where there is a sound group it
    has machines under way or is granted, but for a few loops or, without a fault, until its next try.
    """
    away = 30.0 * len(course.restarts) + sum(lasts for _, lasts in course.refusals)
    served, before = dict[str, float](), set[str]()
    for state, _ in asking.story.loops:
        grants = [grant for grant in state.memory.provisioning.reservations.values() if not grant.broken]
        for grant in grants:
            age = state.now - grant.started
            assert age <= _PROVISION + _STARTUP + 3 * LOOP + away, f"{grant.key} has waited for {age} s at {state.now}"
        under_way = {grant.key for grant in grants}
        for request in state.observation.provisioning.requests if course.has_sound else ():
            if request.key in under_way | before or not _can_be_granted(request, state.now, course):
                served[request.id] = state.now
            waited = state.now - served.setdefault(request.id, state.now)
            assert waited <= _NEXT_TRY + away, f"{request.key} waits for {waited} s at {state.now} beside a sound group"
        before = under_way


def _can_be_granted(request: ProvisioningRequest, now: float, course: Course) -> bool:
    """Is it open, with the template that it came with, so that the sound group fits?"""
    wish = course.wishes[int(request.name.removeprefix("r"))]
    is_whole = not wish.template_at or now < wish.template_at
    ended = any(request.has(end) for end in (PROVISIONED, *TERMINAL)) or request.metadata.deletion_timestamp is not None
    return wish.kind == BEST_EFFORT_ATOMIC and is_whole and not ended
