"""Requests, pods, deletions, templates that change or go, stock-outs, refused writes and restarts in any order: nothing
half-granted stays, nothing is promised twice, and every request comes to one end.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import MINUTE, Story

from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CHECK_CAPACITY,
    FAILED,
)

_QUIET = 40 * MINUTE
_MINUTES = 110.0
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
    """One world, and what happens in it before it is left alone."""

    size: int
    most: int
    without: tuple[str, ...]
    wishes: tuple[Wish, ...]
    pods: tuple[tuple[float, int], ...]
    stock_outs: tuple[tuple[float, float, int], ...]
    restarts: tuple[tuple[float, bool], ...]
    refusals: tuple[tuple[float, float], ...]


def _moments() -> st.SearchStrategy[float]:
    return st.integers(1, int(_QUIET // 10)).map(lambda tick: tick * 10.0)


def _perhaps_after(at: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(0.0), st.integers(1, 60).map(lambda ticks: at + ticks * 10.0))


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
    )


def play(course: Course) -> Asking:
    groups = (
        {"name": "pool", "size": course.size, "max_size": course.most, "price_per_hour": 0.1},
        {"name": "other", "max_size": 2, "price_per_hour": 0.2},
    )
    outs: list[dict[str, Any]] = [
        {"start": start, "end": start + lasts, "remaining": left, "group": "pool"}
        for start, lasts, left in course.stock_outs
    ]
    flags = {**ON, "max-node-provision-time": "5m"}
    story = Story(*groups, minutes=_MINUTES, settings=flags, stock_outs=outs, switched_off=course.without)
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


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(courses())
def test_any_course_of_events(course: Course) -> None:
    asking = play(course)
    assert asking.story.result.violations == ()
    for request in asking.requests.all():
        if request.metadata.deletion_timestamp is not None:
            continue  # nobody looks at it any more
        ends = [end for end in (FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED) if request.has(end)]
        assert len(ends) == 1, f"{request.key}: {asking.conditions(request.name)}"
    assert not asking.story.loops[-1][0].memory.provisioning.grants, "machines are still owed to a request"
    check_never_sold_twice(asking)
    check_nothing_half_granted(asking)


def check_never_sold_twice(asking: Asking) -> None:
    """In every loop what is held fits, beside all that runs, on machines of 1 cpu that there are: 1 cpu a pod."""
    for state, plan in asking.story.loops:
        snapshot = state.observation.snapshot
        running = sum(not pod.is_daemonset_pod for row, _ in snapshot.nodes() for pod in snapshot.pods(row))
        machines = sum(group.seen.target or 0 for group in state.groups.values())
        held = sum(plan.provisioning.booked.values())
        assert held + running <= machines, f"at {state.now}: {held} held and {running} running on {machines}"


def check_nothing_half_granted(asking: Asking) -> None:
    """Once all is quiet for long, what is left serves pods that run: unneeded machines are gone, halves of grants too."""
    left = asking.story.machines("pool") + asking.story.machines("other")
    running = asking.story.result.final.running
    assert left <= running, f"{left} machines for {running} pods"
