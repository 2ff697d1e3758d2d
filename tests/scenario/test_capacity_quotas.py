"""CapacityQuotas in whole loops: what they hold back, what they say of themselves, and that nothing gets past them."""

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario.requesting import ON as REQUESTS
from tests.scenario.requesting import Asking
from tests.scenario.story import MINUTE, SOON, Story

from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DecreaseTargetSize, IncreaseSize
from nodewright.model.capacity_quota import QUOTA_VALID, CapacityQuota, CapacityQuotaSpec, QuotaAmounts
from nodewright.model.meta import LabelSelector, ObjectMeta
from nodewright.model.plan import Plan
from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC

ON = {"capacity-quotas-enabled": True}
CHEAP = {"name": "cheap", "labels": {"team": "a"}, "price_per_hour": 0.1}
DEAR = {"name": "dear", "labels": {"team": "b"}, "price_per_hour": 0.2}


def make(*groups: dict[str, Any], minutes: float = 10, settings: dict[str, Any] | None = None, **cloud: Any) -> Story:
    return Story(*groups, minutes=minutes, settings={**ON, **(settings or {})}, **cloud)


def put(story: Story, name: str = "a", *, at: float = 0.0, team: str = "a", **amounts: Any) -> None:
    """An operator says what the nodes of a team may have; empty: all nodes."""
    selector = LabelSelector(match_labels={"team": team}) if team else None
    spec = CapacityQuotaSpec(selector=selector, limits=QuotaAmounts(resources=amounts))
    quota = CapacityQuota(metadata=ObjectMeta(name=name), spec=spec)
    story.at(at, lambda: story.simulation.api_server.quotas.put(quota))


def said(story: Story, name: str = "a") -> tuple[str, dict[str, Any]]:
    """Whether the quota says that it is enforced, and what it says is used."""
    assert story.result
    held = story.simulation.api_server.quotas.get(name)
    assert held is not None
    condition = held.condition(QUOTA_VALID)
    used = held.status.used.resources if held.status.used is not None else {}
    return condition.status if condition is not None else "", used


def test_pods_go_where_the_quota_leaves_room_and_it_says_what_is_used() -> None:
    story = make(CHEAP, DEAR)
    put(story, nodes=3, cpu="1k")
    story.pods(5, at=60)
    assert [grown[2:] for grown in story.writes("increase")] == [("cheap", 0, 3), ("dear", 0, 2)]
    assert story.result.final.running == 5
    assert said(story) == ("True", {"nodes": "3", "cpu": "3"})


def test_what_stays_pending_is_told_the_quota() -> None:
    story = make(CHEAP)
    put(story, nodes=2)
    story.pods(5, at=60)
    assert story.machines("cheap") == 2
    (told,) = {text for _, text in story.events("NotTriggerScaleUp")}
    assert 'exceeded quota: "CapacityQuota/a", resources: nodes' in told


def test_status_is_written_when_something_changes_and_not_in_every_loop() -> None:
    """At first sight, when nodes came, and when they went."""
    story = make(CHEAP, minutes=30, settings=SOON)
    put(story, nodes=3)
    story.pods(2, at=60)
    story.simulation.agenda.at(600, lambda _: None)
    assert said(story) == ("True", {"nodes": "2"})
    assert story.simulation.api_server.quotas.writes == 2


def test_a_status_that_could_not_be_written_is_written_later_and_the_quota_holds_all_the_same() -> None:
    story = make(CHEAP)
    quotas = story.simulation.api_server.quotas
    quotas.refuses = True
    story.at(300, lambda: setattr(quotas, "refuses", False))
    put(story, nodes=2)
    story.pods(5, at=60)
    assert story.machines("cheap") == 2
    assert said(story) == ("True", {"nodes": "2"})
    assert story.events("StatusNotWritten")


def test_one_that_is_wrong_is_told_and_limits_nothing_until_it_is_right() -> None:
    story = make(CHEAP, minutes=20)
    put(story, nodes=-1)
    put(story, "b", team="", nodes=6)
    story.pods(3, at=60)
    put(story, at=400, nodes=4)
    story.pods(5, at=500, name="more")
    assert [grown[2:] for grown in story.writes("increase")] == [("cheap", 0, 3), ("cheap", 3, 4)]
    (told,) = story.events("CapacityQuotaInvalid")
    assert "nodes: '-1' is not a whole number of at least 0" in told[1]
    assert said(story) == ("True", {"nodes": "4"})


def test_a_quota_that_goes_gives_way_at_once() -> None:
    story = make(CHEAP)
    put(story, nodes=1)
    story.pods(3, at=60)
    story.at(300, lambda: story.simulation.api_server.quotas.delete("a"))
    assert [grown[2:] for grown in story.writes("increase")] == [("cheap", 0, 1), ("cheap", 1, 3)]


@pytest.mark.parametrize("profile", ["ca", "nodewright"])
def test_a_request_of_all_or_nothing_is_granted_whole_or_not_at_all(profile: str) -> None:
    asking = Asking(make(CHEAP, minutes=5, settings={**REQUESTS, "profile": profile}))
    put(asking.story, nodes=3)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.ask("b", 3, at=90, kind=BEST_EFFORT_ATOMIC)
    assert asking.story.writes("increase") == [(90.0, "increase", "cheap", 0, 3)]
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"


def test_a_request_is_told_the_quota_that_refuses_it() -> None:
    asking = Asking(make(CHEAP, minutes=2, settings=REQUESTS))
    put(asking.story, nodes=3)
    put(asking.story, "all", team="", cpu=4)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    limits = "the limits of CapacityQuota/a (nodes) and the limits of CapacityQuota/all (cpu)"
    assert f"it takes 5 nodes, and {limits} leave 3" in asking.message("a", "Provisioned")


class Course(NamedTuple):
    """Pods, a stock-out and restarts at some ticks of ten seconds, under a quota that may come and change."""

    quotas: tuple[tuple[int, int], ...]
    pods: tuple[tuple[int, int], ...]
    requests: tuple[tuple[int, int], ...]
    stock_out: tuple[int, int, int]
    restarts: tuple[tuple[int, bool], ...]


_TICKS = st.integers(1, 60)


@st.composite
def courses(draw: st.DrawFn) -> Course:
    limits = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    moments = sorted(draw(st.lists(_TICKS, min_size=len(limits) - 1, max_size=len(limits) - 1, unique=True)))
    return Course(
        quotas=tuple(zip([0, *moments], sorted(limits), strict=True)),
        pods=tuple(draw(st.lists(st.tuples(_TICKS, st.integers(1, 5)), max_size=3))),
        requests=tuple(draw(st.lists(st.tuples(_TICKS, st.integers(1, 6)), max_size=2))),
        stock_out=draw(st.tuples(_TICKS, st.integers(1, 60), st.integers(0, 3))),
        restarts=tuple(draw(st.lists(st.tuples(_TICKS, st.booleans()), max_size=2))),
    )


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(courses())
def test_never_more_than_the_quota_whatever_happens(course: Course) -> None:
    """The limit is only raised while the story runs: lowering one takes no machine away."""
    start, lasts, left = course.stock_out
    outs = [{"start": start * 10, "end": (start + lasts) * 10, "remaining": left, "group": "cheap"}]
    flags = {**REQUESTS, **SOON, "max-node-provision-time": "3m"}
    twin = {**CHEAP, "name": "twin", "price_per_hour": 0.11}
    story = make(CHEAP, twin, DEAR, minutes=30, settings=flags, stock_outs=outs)
    for at, nodes in course.quotas:
        put(story, at=at * 10, nodes=nodes)
    for number, (at, count) in enumerate(course.pods):
        story.pods(count, at=at * 10, name=f"web{number}")
    asking = Asking(story)
    for number, (at, count) in enumerate(course.requests):
        asking.ask(f"r{number}", count, at=at * 10, kind=BEST_EFFORT_ATOMIC)
    for at, keeps in course.restarts:
        story.simulation.engine.restart(at * 10, down_seconds=20, keeps_memory=keeps)
    assert story.result.violations == ()
    for state, plan in story.loops:
        sizes = sizes_after(state, plan)
        limit = max(nodes for at, nodes in course.quotas if at * 10 <= state.now)
        assert sizes["cheap"] + sizes["twin"] <= limit, f"at {state.now / MINUTE:.1f} min: {sizes} of {limit}"


def sizes_after(state: ClusterState, plan: Plan) -> dict[str, int]:
    """How many machines each group has or is owed once the plan is carried out; what failed is none."""
    found = {}
    for ref, group in state.groups.items():
        failed = sum(failure.count for failure in group.seen.failed or ())
        found[ref.group_id] = (group.seen.target or 0) - failed
    for action in plan.actions:
        if isinstance(action, IncreaseSize | DecreaseTargetSize):
            found[action.group.group_id] += action.target - action.expected_target
    return found
