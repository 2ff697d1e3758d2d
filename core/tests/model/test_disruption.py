"""Windows of disruption budgets and schedules, above all around clock changes."""

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.disruption import Budget, DisruptionReason, Match, Opening, Window, next_edge, opening
from nodewright.model.group import GroupRef

BERLIN = "Europe/Berlin"
WORK = Window(cron="0 8 * * 1-5", length="10h", timezone=BERLIN)
REF = GroupRef("fake", "batch-a")


def at(text: str, zone: str = BERLIN, *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def test_a_window_is_open_from_its_time_on_for_its_length() -> None:
    # 2026-12-01 is a Tuesday.
    assert opening(WORK, at("2026-12-01T07:59:59")) == Opening(is_open=False, until=at("2026-12-01T08:00"))
    assert opening(WORK, at("2026-12-01T08:00")) == Opening(is_open=True, until=at("2026-12-01T18:00"))
    assert opening(WORK, at("2026-12-01T17:59:59.5")) == Opening(is_open=True, until=at("2026-12-01T18:00"))
    assert opening(WORK, at("2026-12-04T18:00")) == Opening(is_open=False, until=at("2026-12-07T08:00"))


def test_without_a_window_it_always_holds() -> None:
    assert opening(None, 0.0) == Opening(is_open=True, until=math.inf)


def test_windows_that_overlap_are_one() -> None:
    hourly = Window(cron="0 8-10 * * *", length="90m")
    assert opening(hourly, at("2026-12-01T08:10", "UTC")).until == at("2026-12-01T11:30", "UTC")
    touching = Window(cron="0 * * * *", length="1h")
    assert opening(touching, at("2026-12-01T08:10", "UTC")) == Opening(is_open=True, until=math.inf)


def test_a_time_that_a_clock_change_skips_comes_when_the_gap_ends() -> None:
    # On 2026-03-29 the clock goes from 02:00 to 03:00.
    night = Window(cron="30 2 * * *", length="1h", timezone=BERLIN)
    assert opening(night, at("2026-03-29T01:59")) == Opening(is_open=False, until=at("2026-03-29T03:00"))
    assert opening(night, at("2026-03-29T03:20")) == Opening(is_open=True, until=at("2026-03-29T04:00"))


def test_a_time_that_comes_twice_counts_once() -> None:
    # On 2026-10-25 the clock goes from 03:00 back to 02:00.
    night = Window(cron="30 2 * * *", length="30m", timezone=BERLIN)
    first = at("2026-10-25T02:30")
    assert opening(night, first + 60) == Opening(is_open=True, until=first + 1800)
    again = at("2026-10-25T02:30", fold=1)
    assert again == first + 3600
    assert opening(night, again + 60) == Opening(is_open=False, until=at("2026-10-26T02:30"))


def test_a_window_that_began_before_the_clock_went_back_stays_open() -> None:
    """On the clock it is 02:15 again, before the time at which the window began."""
    night = Window(cron="30 2 * * *", length="2h", timezone=BERLIN)
    first = at("2026-10-25T02:30")
    assert opening(night, at("2026-10-25T02:15", fold=1)) == Opening(is_open=True, until=first + 7200)


def test_a_window_is_as_long_in_the_night_of_a_clock_change() -> None:
    night = Window(cron="0 22 * * *", length="8h", timezone=BERLIN)
    assert opening(night, at("2026-10-24T23:00")).until == at("2026-10-25T05:00")
    assert opening(night, at("2026-03-28T23:00")).until == at("2026-03-29T07:00")


_CRONS = ("30 2 * * *", "0 3 * * *", "15 */2 * * *", "*/20 2-3 * * *", "0 0 * * 0", "59 1,2,3 * * 0,1")


@given(
    cron=st.sampled_from(_CRONS),
    zone=st.sampled_from((BERLIN, "America/New_York", "America/St_Johns", "UTC")),
    day=st.sampled_from(("2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01", "2026-04-05", "2026-10-04")),
    minutes=st.integers(-600, 1800),
    length=st.sampled_from((10, 61, 300)),
)
def test_windows_are_open_where_the_times_counted_forwards_say_so(
    cron: str, zone: str, day: str, minutes: int, length: int
) -> None:
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC)
    now = begin.timestamp() + minutes * 60 + 7
    fires = []
    for fire in CronSim(cron, (begin - timedelta(days=9)).astimezone(ZoneInfo(zone))):
        if fire > begin + timedelta(days=3):
            break
        fires.append(fire.timestamp())
    window = Window(cron=cron, length=f"{length}m", timezone=zone)
    assert opening(window, now).is_open == any(fire <= now < fire + length * 60 for fire in fires)


def test_the_next_edge_is_that_of_the_window_that_changes_first() -> None:
    now = at("2026-12-01T08:30")
    assert next_edge([WORK, None, Window(cron="0 9 * * *", length="1h", timezone=BERLIN)], now) == now + 1800
    assert next_edge([None], now) == math.inf


def test_a_share_is_rounded_up() -> None:
    assert [Budget(nodes="10%").allowed(nodes) for nodes in (0, 1, 10, 11)] == [0, 1, 1, 2]
    assert Budget(nodes="0%").allowed(50) == 0
    assert Budget(nodes=3).allowed(1) == 3


def test_a_budget_holds_for_an_interruption_only_by_name() -> None:
    assert not Budget(nodes=0).holds_for(DisruptionReason.INTERRUPTED)
    assert Budget(nodes=0).holds_for(DisruptionReason.EXPIRED)
    named = Budget(nodes=0, reasons=(DisruptionReason.INTERRUPTED,))
    assert named.holds_for(DisruptionReason.INTERRUPTED)
    assert not named.holds_for(DisruptionReason.EMPTY)


@pytest.mark.parametrize(
    ("match", "covers"),
    [
        (Match(), True),
        (Match(groups=("batch-*",)), True),
        (Match(groups=("fake/batch-a",)), True),
        (Match(groups=("web-*", "batch-b")), False),
        (Match(labels={"team": "a"}), True),
        (Match(labels={"team": "a", "tier": "1"}), False),
        (Match(groups=("web-*",), labels={"team": "a"}), False),
    ],
)
def test_an_entry_matches_by_group_and_by_labels(match: Match, *, covers: bool) -> None:
    assert match.covers(REF, {"team": "a"}) == covers
