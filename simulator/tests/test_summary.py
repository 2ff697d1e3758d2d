"""A simulation's numbers in words, and the story of its failures."""

from dataclasses import replace

import pytest

from nodewright.actuation import Event
from nodewright.clusterstate.backoff import NO_MACHINE
from nodewright.model.errors import InvariantError
from nodewright_simulator.cli.run_scenario import check_violations
from nodewright_simulator.cli.summary import (
    GroupSums,
    as_json,
    find_failed_scale_ups,
    format_clock,
    format_span,
    sum_groups,
)
from nodewright_simulator.comparison import Side
from nodewright_simulator.result import (
    Decision,
    FinalState,
    NodeHours,
    Series,
    SimulationResult,
    TimedEvent,
    WaitingTimes,
)
from nodewright_simulator.scenario_file import read_scenario


def decide(at: float, what: str, group: str, before: int, after: int, outcome: str = "done") -> Decision:
    return Decision(at=at, what=what, group=group, before=before, after=after, pods=1, outcome=outcome)


def fail(at: float, group: str, reason: str = "ScaleUpFailed") -> TimedEvent:
    return TimedEvent(at=at, event=Event(kind="x", name="y", reason=reason, message=f"Failed for group {group} today"))


def result(*decisions: Decision, events: tuple[TimedEvent, ...] = ()) -> SimulationResult:
    series = Series(times=(0,), pending=(0,), running=(0,), nodes={"c/a": (3,), "c/b": (1,)}, utilisation={}, cost=(0,))
    return SimulationResult(
        title="t",
        start=0,
        end=60,
        loops=1,
        happenings=1,
        increases=4,
        series=series,
        waiting=WaitingTimes(),
        node_hours=NodeHours(),
        cost=None,
        final=FinalState(pending=0, running=0, nodes={"c/a": 2}, ready_nodes=2),
        decisions=decisions,
        events=events,
    )


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (90, "1.5 min"), (7200, "2.0 h"), (86400 * 149.3, "149.3 d")]
)
def test_spans_in_words(seconds: float, words: str) -> None:
    assert format_span(seconds) == words


def test_the_time_of_day() -> None:
    assert format_clock(3661) == "01:01:01"


def test_groups_are_summed_the_largest_first() -> None:
    ran = result(
        decide(1, "increase", "c/b", 0, 2),
        decide(2, "delete", "c/b", 2, 1),
        decide(3, "increase", "c/b", 1, 1, "refused"),
        decide(3, "delete", "c/b", 1, 1, "unknown"),
        decide(4, "increase", "c/a", 0, 3),
    )
    assert sum_groups(ran) == (
        GroupSums(group="c/a", asked=3, failed=0, failed_calls=0, peak=3, last=2),
        GroupSums(group="c/b", asked=2, failed=1, failed_calls=2, peak=1, last=0),
    )


def test_a_setback_knows_what_it_befell_and_what_came_instead() -> None:
    ran = result(
        decide(10, "increase", "c/a", 0, 2),
        decide(20, "increase", "c/b", 0, 1),
        decide(30, "increase", "c/b", 1, 3),
        events=(fail(30, "c/a"),),
    )
    [setback] = find_failed_scale_ups(ran)
    assert setback.before.at == 10
    assert setback.seen_after == 20
    assert setback.instead is not None
    assert setback.instead.at == 30


def test_a_setback_may_have_nothing_instead() -> None:
    ran = result(decide(10, "increase", "c/a", 0, 2), decide(500, "increase", "c/b", 0, 1), events=(fail(20, "c/a"),))
    [setback] = find_failed_scale_ups(ran)
    assert setback.instead is None


@pytest.mark.parametrize(("said", "why"), [("quota", "quota"), ("", NO_MACHINE)])
def test_a_call_that_the_cloud_refused_is_a_setback_too(said: str, why: str) -> None:
    refusal = replace(decide(20, "increase", "c/a", 2, 2, "refused"), message=said)
    message = f"Scale-up failed for group c/a: {why}"
    event = TimedEvent(at=20, event=Event(kind="x", name="y", reason="FailedToScaleUpGroup", message=message))
    grown = decide(10, "increase", "c/a", 0, 2), refusal, decide(20, "increase", "c/b", 0, 1)
    [setback] = find_failed_scale_ups(result(*grown, events=(event,)))
    assert setback.before is refusal
    assert setback.seen_after == 0
    assert setback.instead is not None
    later = fail(40, "c/a")
    assert [one.before.at for one in find_failed_scale_ups(result(*grown, events=(event, later)))] == [20, 10]


def test_a_failure_that_nothing_preceded_is_no_story() -> None:
    assert list(find_failed_scale_ups(result(events=(fail(5, "c/a"), fail(6, "c/a", "ScaledUpGroup"))))) == []


def test_json_counts_failures_by_event() -> None:
    document = as_json(result(events=(fail(5, "c/a"), fail(6, "c/a", "ScaleUpTimedOut"))), None)
    counts = {reason: times for reason, times in document["failures"].items() if times}
    assert counts == {"ScaleUpFailed": 1, "ScaleUpTimedOut": 1}
    assert document["failures"]["FailedToScaleUpGroup"] == 0
    assert document["cost_usd"] is None


def test_a_broken_rule_of_the_compared_run_is_told_with_its_name() -> None:
    scenario = read_scenario("{name: s, duration: 1m, providers: {fake: {}}}", "s")
    fine, broken = result(), replace(result(), violations=("fake/a: a rule",))
    check_violations([Side("expander=price", fine, scenario), Side("expander=random", fine, scenario)])
    sentence = r"^1 planned action broke a rule in the run expander=random \(fake/a: a rule\)$"
    with pytest.raises(InvariantError, match=sentence):
        check_violations([Side("expander=price", fine, scenario), Side("expander=random", broken, scenario)])
