"""Node times in the future grow old from when they were first seen."""

from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.adapters.server_time import FutureTimes
from nodewright.clusterstate.node_samples import is_stable
from nodewright.model.node import Node, NodeCondition, Taint
from nodewright.testkit import build_node

NOW, DAY = 1_800_000_000.0, 86400.0


def node(*, created: float, ready: float, tainted: float) -> Node:
    built = build_node("n", created_at=created, taints=(Taint(key="k", time_added=_at(tainted)),))
    said = NodeCondition(type="Ready", status="True", last_transition_time=_at(ready))
    return replace(built, status=replace(built.status, conditions=(said,)))


def _at(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def moments(seen: Node) -> tuple[float, datetime | None, datetime | None]:
    return seen.created, seen.status.conditions[0].last_transition_time, seen.spec.taints[0].time_added


def test_a_node_without_a_time_in_the_future_is_the_same_object() -> None:
    seen = node(created=NOW - 9, ready=NOW, tainted=NOW - 5)
    assert FutureTimes().clamp(seen, NOW) is seen


def test_each_time_in_the_future_is_when_it_was_first_seen() -> None:
    times, early = FutureTimes(), node(created=NOW + DAY, ready=NOW + DAY + 20, tainted=NOW - 5)
    assert moments(times.clamp(early, NOW)) == (NOW, _at(NOW), _at(NOW - 5))
    later = node(created=NOW + DAY, ready=NOW + DAY + 60, tainted=NOW - 5)
    assert moments(times.clamp(later, NOW + 40)) == (NOW, _at(NOW + 40), _at(NOW - 5))
    assert moments(times.clamp(later, NOW + 2 * DAY)) == (NOW, _at(NOW + 40), _at(NOW - 5)), "it is no future by now"
    assert is_stable(times.clamp(later, NOW + 600), NOW + 600)


def test_a_node_that_is_gone_is_forgotten() -> None:
    times, early = FutureTimes(), node(created=NOW + DAY, ready=NOW, tainted=NOW)
    times.clamp(early, NOW)
    times.forget("n")
    times.forget("n")
    assert times.clamp(early, NOW + 50).created == NOW + 50
