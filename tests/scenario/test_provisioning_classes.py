"""ProvisioningClasses in whole loops: what open requests hold is never more than their class allows, in any case."""

from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario.requesting import ON as REQUESTS
from tests.scenario.requesting import Asking
from tests.scenario.story import MINUTE, Story

from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    NODES_DETAIL,
    PROVISIONED,
    TERMINAL,
    UNDER_WAY,
    ClassLimits,
    ProvisioningClass,
    ProvisioningClassSpec,
    ProvisioningRequest,
)

ON = {**REQUESTS, "enable-provisioning-classes": True}
POOL = {"name": "pool", "size": 0, "max_size": 30}


def make(*groups: dict[str, Any], minutes: float = 40, classes: bool = True, **cloud: Any) -> Asking:
    """With a class ``train``: whole machines, 10 pods and 8 nodes for each namespace."""
    asking = Asking(Story(*groups, minutes=minutes, settings=ON, **cloud))
    if classes:
        put(asking, pods=10, nodes=8)
    return asking


def put(asking: Asking, name: str = "train", *, pods: int | None = None, nodes: int | None = None, **spec: Any) -> None:
    limits = ClassLimits(pods=pods, nodes=nodes)
    described = ProvisioningClassSpec(provisioner=BEST_EFFORT_ATOMIC, limits=limits, **spec)
    asking.requests.put_class(ProvisioningClass(metadata=ObjectMeta(name=name), spec=described))


def details(asking: Asking, name: str) -> dict[str, str]:
    assert asking.story.result
    held = asking.requests.get(f"default/{name}")
    return held.own_details if held is not None else {}


def test_a_request_waits_until_others_are_over() -> None:
    asking = make(POOL)
    asking.ask("a", 6, at=60, kind="train")
    asking.ask("b", 6, at=70, kind="train")
    asking.consume("a", 6, at=300, kind="train")
    assert asking.when("b", "Provisioned", "False/ClassLimitReached") == [70]
    (over,) = asking.when("a", "BookingExpired", "True/CapacityBookingConsumed")
    (granted,) = asking.when("b", "Provisioned", "True/CapacityIsProvisioned")
    assert granted > over
    assert details(asking, "b") == {"provisioner": BEST_EFFORT_ATOMIC, "nodes": "6"}
    assert asking.story.result.final.running == 6


def test_a_restart_without_memory_forgets_no_nodes() -> None:
    """Those of the first are known by its status alone."""
    asking = make(POOL, minutes=8, classes=False)
    put(asking, nodes=8)
    asking.ask("a", 6, at=60, kind="train")
    asking.story.simulation.engine.restart(250, down_seconds=20, keeps_memory=False)
    asking.ask("b", 6, at=300, kind="train")
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert asking.conditions("b")["Provisioned"] == "False/CapacityIsNotFound"
    assert "limits.nodes of class train leaves 2 of 8 to namespace default" in asking.message("b", "Provisioned")


def test_a_class_that_goes_takes_nothing_away() -> None:
    asking = make(POOL, minutes=20)
    put(asking, "other")
    asking.ask("a", 6, at=60, kind="train")
    asking.ask("b", 6, at=65, kind="train")
    asking.story.at(90, lambda: asking.requests.drop_class("train"))
    asking.consume("a", 6, at=400, kind="train")
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityBookingConsumed"
    assert asking.conditions("b")["Failed"] == "True/ClassNotAllowed"
    assert asking.story.writes("withdraw", "delete") == []


def test_a_larger_limit_is_seen_at_the_next_try() -> None:
    asking = make(POOL, minutes=15)
    asking.ask("a", 6, at=60, kind="train")
    asking.ask("b", 6, at=70, kind="train")
    asking.story.at(100, lambda: put(asking, pods=20))
    (granted,) = asking.when("b", "Provisioned", "True/CapacityIsProvisioned")
    assert granted < 300


class Course(NamedTuple):
    """Requests of two classes at some ticks of ten seconds, with what becomes of them."""

    wishes: tuple[tuple[int, str, int, bool], ...]
    stock_outs: tuple[tuple[int, int, int], ...]
    restarts: tuple[tuple[int, bool], ...]


_TICKS = st.integers(1, 90)


@st.composite
def courses(draw: st.DrawFn) -> Course:
    wish = st.tuples(_TICKS, st.sampled_from(["train", "batch"]), st.integers(1, 8), st.booleans())
    return Course(
        wishes=tuple(draw(st.lists(wish, min_size=2, max_size=6))),
        stock_outs=tuple(draw(st.lists(st.tuples(_TICKS, st.integers(1, 60), st.integers(0, 6)), max_size=2))),
        restarts=tuple(draw(st.lists(st.tuples(_TICKS, st.booleans()), max_size=2))),
    )


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(courses())
def test_never_more_than_a_class_allows_whatever_happens(course: Course) -> None:
    outs = [
        {"start": start * 10, "end": (start + lasts) * 10, "remaining": left, "group": "pool"}
        for start, lasts, left in course.stock_outs
    ]
    asking = make(POOL, minutes=60, stock_outs=outs)
    put(asking, "batch", pods=8, nodes=5)
    most = {"train": (10, 8), "batch": (8, 5)}
    for number, (at, kind, pods, comes) in enumerate(course.wishes):
        name = f"r{number}"
        asking.ask(name, pods, at=at * 10, kind=kind, parameters={"ValidUntilSeconds": "1200"})
        if comes:
            asking.consume(name, pods, at=at * 10 + 200, kind=kind)
    for at, keeps in course.restarts:
        asking.story.simulation.engine.restart(at * 10, down_seconds=20, keeps_memory=keeps)
    assert asking.story.result.violations == ()
    for state, _ in asking.story.loops:
        for kind, (pods, nodes) in most.items():
            held = [one for one in state.observation.provisioning.requests if is_held(one, kind)]
            assert sum(one.pod_count for one in held) <= pods, f"at {state.now / MINUTE:.1f} min: {held}"
            assert sum(int(one.own_details[NODES_DETAIL]) for one in held) <= nodes
    for one in asking.requests.all():
        assert len([end for end in TERMINAL if one.has(end)]) == 1, f"{one.key}: {asking.conditions(one.name)}"


def is_held(request: ProvisioningRequest, kind: str) -> bool:
    """Is room held, or are machines under way, for a request of that class?"""
    said = request.condition(PROVISIONED)
    if request.spec.provisioning_class_name != kind or said is None or any(request.has(end) for end in TERMINAL):
        return False
    return said.is_true or said.reason == UNDER_WAY
