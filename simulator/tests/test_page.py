"""The report contains the figures, and no text from outside is markup in it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from nodewright.engine.report import LoopReport
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.move import Addition, Move, MoveStage
from nodewright.model.plan import Plan
from nodewright_simulator.charts import TimeAxis, make_charts, pick_points
from nodewright_simulator.comparison import Side, write_comparison
from nodewright_simulator.journal import Fact, What
from nodewright_simulator.openb import NodeShape, group_options
from nodewright_simulator.page import make_table
from nodewright_simulator.report import summary, write_report
from nodewright_simulator.result import Decision, RecordedMove, Series, SimulationResult, WaitingTimes
from nodewright_simulator.scenario_file import read_scenario
from nodewright_simulator.timeline import draw_timeline

EVIL = "</script><img src=x onerror=alert(1)><b>&\u202e"


class Elements(HTMLParser):
    """The elements of a page and its text outside scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags = ["document"]
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        if self.tags[-1] not in ("script", "style"):
            self.text += data


def test_shows_figures_failures_and_decisions(run: SimulationResult) -> None:
    text = Elements(write_report(run, description="What it is about")).text
    for expected in ("A run", "What it is about", "1m10s", "0 → 2", "$1.50", "2.5", "83%", "a rule", "cannot be read"):
        assert expected in text


def test_markup_in_names_stays_text(run: SimulationResult, evil_run: SimulationResult) -> None:
    page = write_report(evil_run, description="<script>alert(1)</script>")
    elements = Elements(page)
    assert "<img src=x onerror=alert(1)>" in elements.text
    assert sorted(elements.tags) == sorted(Elements(write_report(run)).tags)
    assert "\u202e" not in page


def test_no_name_ends_the_element_with_the_values_of_charts(evil_run: SimulationResult) -> None:
    page = write_report(evil_run)
    [embedded] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    charts = json.loads(embedded)["charts"]
    assert any(series["name"].startswith("</script><img") for chart in charts for series in chart["series"])
    assert not re.search(r"<img src=x", page)


def test_nothing_is_named_that_could_be_fetched(run: SimulationResult) -> None:
    page = write_report(run)
    assert not re.search(r"<(script|img|iframe|link)[^>]*\b(src|href)=[\"'](?!data:)", page)
    assert len(page) < 150_000


def test_no_cost_chart_without_prices(make_run: Callable[..., SimulationResult]) -> None:
    assert "Cost so far" in write_report(make_run())
    assert "Cost so far" not in write_report(make_run(cost=None))


def test_the_cost_stands_beside_its_lower_bound(make_run: Callable[..., SimulationResult]) -> None:
    page = write_report(make_run())
    assert "Cost per hour" in page
    assert "2.00 ×" in page
    assert "of $0.75, the least for the pods of each moment" in page
    assert "Against the lower bound" not in write_report(make_run(cost=None))


def test_the_cost_says_whose_prices_it_is_by(run: SimulationResult) -> None:
    assert "by assumed list prices" in write_report(run)
    assert "the provider" not in write_report(run)


def test_the_prices_of_a_trace_are_told_as_assumed() -> None:
    options = group_options({NodeShape(64000, 262144, 2, "V100"): 3})
    assert [group["price_source"] for group in options] == ["assumed list prices"]


@pytest.mark.parametrize(
    ("span", "unit", "place"), [(3600.0, "minutes", 30.0), (86_400.0, "hours", 0.5), (864_000.0, "days", 0.0208)]
)
def test_the_unit_suits_the_span(span: float, unit: str, place: float) -> None:
    axis = TimeAxis.spanning(1000.0, 1000.0 + span)
    assert (axis.unit, axis.place(2800.0)) == (unit, place)
    assert axis.say(1000.0 + 90_061) == "1d 01:01:01"


def test_few_points_are_all_drawn(run: SimulationResult) -> None:
    assert list(pick_points(run.series)) == [0, 1, 2, 3]


def test_of_many_points_the_peaks_are_kept() -> None:
    count = 20_000
    pending = [0] * count
    pending[7_777] = 99
    series = Series(
        times=tuple(float(n) for n in range(count)),
        pending=pending,
        running=range(count),
        nodes={},
        utilisation={},
        cost=[0.0] * count,
    )
    points = pick_points(series, most=600)
    assert len(points) <= 650
    assert {0, 7_777, count - 1} <= set(points)
    assert list(points) == sorted(points)


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    html = make_table(("n",), [(str(n),) for n in range(1000)], 400)
    assert html.count("<tr>") == 401
    assert "600 more" in html


def test_percentiles_are_by_nearest_rank() -> None:
    waits = WaitingTimes.of([float(n) for n in range(1, 101)])
    assert (waits.p50, waits.p90, waits.p95, waits.p99, waits.longest) == (50.0, 90.0, 95.0, 99.0, 100.0)
    assert WaitingTimes.of([]) == WaitingTimes()
    assert WaitingTimes.of([7.0]).p50 == 7.0


def test_pods_that_still_wait_are_told_beside_the_longest_wait(run: SimulationResult) -> None:
    waits = [0.0, 10.0, 70.0, 7200.0]
    unlucky = replace(run, waiting=WaitingTimes.of(waits), still_waiting=WaitingTimes.of([7200.0]))
    notes = {what: (figure, note) for what, figure, note in summary(unlucky)}
    assert notes["Longest wait"] == ("2h", "1 pod still waits, for 2h so far")
    assert notes["Pods started"][0] == "3"
    fine = {what: note for what, _, note in summary(run)}
    assert fine["Longest wait"] == "from creation to start"


STORY = """
name: story
duration: 1h
seed: 7
providers: {fake: {stock_outs: [{group: small, start: 5m, end: 20m}]}}
timeline:
  - {at: 10m, do: unready, nodes: 2, for: 3m}
  - {at: 30m, do: crash, down: 60s}
"""


def test_the_timeline_tells_of_outages_crashes_and_events_of_the_scenario(run: SimulationResult) -> None:
    facts = (
        Fact(0.0, What.ENGINE_STARTED, "engine"),
        Fact(1800.0, What.ENGINE_CRASHED, "engine"),
        Fact(1860.0, What.ENGINE_STARTED, "engine"),
    )
    page = write_report(replace(run, journal=facts), read_scenario(STORY, "story.yaml"))
    text = Elements(page).text
    for expected in (
        "Faults of the clouds 100:05:00 stock outs: group small",
        "unready: nodes 2 for 3m",
        "it died; started again after 1m",
        "Scale-ups 1",
        "Failed scale-ups 1",
    ):
        assert expected in text
    assert re.search(r"Seed 7\. Hash of the inputs: [0-9a-f]{16}\.", text)


def recorded(stage: MoveStage, until: float, why: str = "") -> RecordedMove:
    """A move that began at 600 s."""
    move = Move(
        id="replaced-large-0-600",
        reason=DisruptionReason.REPLACED,
        stage=stage,
        sources=("large-0",),
        added=(Addition(group=GroupRef("fake", "small"), nodes=2),),
        started=600.0,
        deadline=2400.0,
        savings=0.7,
        score=0.88,
        why=why,
    )
    return RecordedMove(move, until, {MoveStage.PROPOSED: 600.0, MoveStage.LAUNCHING: 610.0, stage: until})


def test_the_timeline_tells_of_moves_from_the_proposal_to_the_end(run: SimulationResult) -> None:
    assert "Moves" not in write_report(run)
    ended = recorded(MoveStage.ABANDONED, 1200.0, EVIL)
    going = recorded(MoveStage.LAUNCHING, 700.0)
    axis = TimeAxis.spanning(run.start, run.end)
    text = Elements(drawn := draw_timeline(replace(run, moves=(ended,)), axis, None)).text
    assert (
        "Moves 100:10:00 Move replaced-large-0-600 (abandoned) gives up node large-0 for new nodes (2 of group fake/small)"
        in text
    )
    assert "saves $0.7000 an hour, score 0.88; launching 00:10:10, abandoned 00:20:00" in text
    assert 'data-a="10.0" data-b="20.0"' in drawn
    assert "<img" not in drawn
    under_way = LoopReport(started=3500.0, finished=3500.0, plan=Plan(moves=(going.move,)))
    assert 'data-a="10.0" data-b="60.0"' in draw_timeline(replace(run, moves=(going,), last_loop=under_way), axis, None)
    forgotten = replace(run, moves=(going,), last_loop=replace(under_way, plan=Plan()))
    assert f'data-a="10.0" data-b="{axis.place(700.0)}"' in draw_timeline(forgotten, axis, None)


def test_a_lane_says_why_a_node_came_and_went_and_who_ran_there(run: SimulationResult) -> None:
    grown = Decision(
        at=60.0, what="increase", group="g", before=0, after=1, pods=1, outcome="done", why="for default/a"
    )
    facts = (
        Fact(100.0, What.NODE_ADDED, "n1", "g"),
        Fact(110.0, What.NODE_READY, "n1"),
        Fact(120.0, What.POD_STARTED, "default/a", "n1"),
        Fact(300.0, What.POD_ENDED, "default/a", "n1"),
        Fact(900.0, What.NODE_REMOVED, "n1"),
    )
    text = Elements(write_report(replace(run, decisions=(grown,), journal=facts))).text
    assert "n1 g; came 00:01:40: for default/a; went 00:15:00: its machine was gone" in text
    assert "default/a 00:02:00 to 00:05:00" in text


def test_those_that_still_wait_never_count_as_started(run: SimulationResult) -> None:
    waits = {f"default/p{number}": 10.0 * number for number in range(1, 4)}
    unlucky = replace(
        run, pod_waits=waits, still_waiting=WaitingTimes.of([500.0]), waiting=WaitingTimes.of([1, 2, 3, 500])
    )
    chart = make_charts(unlucky, TimeAxis.spanning(0, 3600))["Waits"]
    assert chart["x"] == [1.0, 10.0, 20.0, 30.0, 500.0]
    assert chart["series"][0]["values"] == [0.0, 0.25, 0.5, 0.75, 0.75]
    assert "1 of 4 still wait" in chart["series"][0]["name"]


def test_two_runs_stand_side_by_side_with_the_same_axes(run: SimulationResult) -> None:
    scenario = read_scenario(STORY, "story.yaml")
    cheap = replace(run, cost=1.2, series=replace(run.series, cost=(0.0, 0.0, 0.1, 1.2)))
    page = write_comparison(Side("price", run, scenario), Side(EVIL, cheap, scenario))
    text = Elements(page).text
    assert "$1.50$1.20-$0.30 (-20.0%)" in text
    assert f"What happened when: {EVIL[:-1]}" in text
    [embedded] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    charts = json.loads(embedded)["charts"]
    assert len(charts) == 12
    assert {(charts[place]["most"], charts[place + 1]["most"]) for place in (10,)} == {(1.59, 1.59)}
    assert not re.search(r"<img src=x", page)


def test_a_pause_that_never_ends_lasts_to_the_end(run: SimulationResult) -> None:
    paused = replace(run, journal=(Fact(at=1800.0, what=What.PAUSED, name="writes"),))
    drawn = draw_timeline(paused, TimeAxis.spanning(run.start, run.end), None)
    assert 'data-a="30.0" data-b="60.0"' in drawn


def test_pauses_that_follow_one_another_are_one_span(run: SimulationResult) -> None:
    facts = ((600.0, What.PAUSED), (1200.0, What.PAUSED), (1800.0, What.RESUMED))
    paused = replace(run, journal=tuple(Fact(at=at, what=what, name="writes") for at, what in facts))
    drawn = draw_timeline(paused, TimeAxis.spanning(run.start, run.end), None)
    assert 'data-a="10.0" data-b="30.0"' in drawn
