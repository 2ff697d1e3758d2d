"""Which events of a loop are written: each at most once in five minutes, and one for many pods together."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from nodewright.actuation import Event, EventFilter
from nodewright.actuation.ports import STATUS_KIND, STATUS_NAME, WARNING
from nodewright.model.meta import OwnerReference

WEB = OwnerReference(kind="ReplicaSet", name="web-1", uid="u-1", api_version="apps/v1", controller=True)


def of_pod(name: str, message: str = "m", owner: OwnerReference | None = None) -> Event:
    return Event(kind="Pod", name=name, reason="R", message=message, controller=owner)


def of_pods(numbers: Iterable[int], owner: OwnerReference | None = WEB, namespace: str = "shop") -> list[Event]:
    return [of_pod(f"{namespace}/p{number}", owner=owner) for number in numbers]


def passed(held: EventFilter, events: Iterable[Event], now: float = 0.0) -> list[Event]:
    return list(held.pass_through(events, now))


def test_the_same_event_passes_once_in_five_minutes() -> None:
    held = EventFilter(seconds=300.0)

    def passes(event: Event, now: float) -> bool:
        return passed(held, [event], now) == [event]

    assert passes(of_pod("x"), 0.0)
    assert not passes(of_pod("x", "another message"), 299.0)
    assert passes(of_pod("y"), 299.0)
    assert passes(of_pod("x"), 300.0)
    assert not passes(of_pod("x"), 301.0)


def test_events_of_the_status_object_differ_by_message() -> None:
    first, second = (Event(kind="ConfigMap", name=STATUS_NAME, reason="R", message=m) for m in "12")
    assert passed(EventFilter(), [first, second, first]) == [first, second]


def test_the_filter_forgets_the_oldest() -> None:
    held = EventFilter(capacity=2)
    passed(held, [of_pod("a"), of_pod("b"), of_pod("c")])
    assert passed(held, [of_pod("a")], 1.0) == [of_pod("a")]
    assert passed(held, [of_pod("c")], 1.0) == []


def test_without_a_span_every_event_passes() -> None:
    held = EventFilter(0.0)
    assert passed(held, [of_pod("a"), of_pod("a")]) == [of_pod("a")] * 2
    assert passed(held, [of_pod("a")]) == [of_pod("a")]


def test_of_a_controllers_pods_thirty_are_told_apart_and_the_others_on_it() -> None:
    events = of_pods(range(300))
    *apart, others = passed(EventFilter(), events)
    assert apart == events[:30]
    assert others == Event(
        kind="ReplicaSet",
        name="shop/web-1",
        reason="R",
        message="m (270 more pods of this ReplicaSet)",
        api_version="apps/v1",
        uid="u-1",
    )


def test_warnings_are_told_together_too() -> None:
    events = [replace(event, type=WARNING) for event in of_pods(range(300))]
    *apart, others = passed(EventFilter(), events)
    assert apart == events[:30]
    assert (others.type, others.message) == (WARNING, "m (270 more pods of this ReplicaSet)")


@pytest.mark.parametrize(("count", "told"), [(30, []), (31, ["m (1 more pod of this ReplicaSet)"])])
def test_thirty_need_no_other_event(count: int, told: list[str]) -> None:
    assert [event.message for event in passed(EventFilter(), of_pods(range(count)))[30:]] == told


def test_pods_without_a_controller_are_told_together_on_the_status_object() -> None:
    events = of_pods(range(20), owner=None) + of_pods(range(20), owner=None, namespace="other")
    *apart, others = passed(EventFilter(), events)
    assert apart == events[:30]
    assert others == Event(
        kind=STATUS_KIND, name=STATUS_NAME, reason="R", message="m (10 more pods without a controller)"
    )


def test_what_differs_is_counted_apart() -> None:
    """Another controller, namespace, reason, message or type is another event."""
    some = of_pods(range(30))
    others = [
        *of_pods(range(30, 60), owner=replace(WEB, name="web-2", uid="u-2")),
        *of_pods(range(30), namespace="other"),
        *(replace(event, reason="S") for event in some),
        *(replace(event, message="n") for event in of_pods(range(60, 90))),
        *(replace(event, type=WARNING) for event in of_pods(range(90, 120))),
    ]
    assert passed(EventFilter(), [*some, *others]) == [*some, *others]


def test_the_same_pods_are_told_once_however_they_were_told() -> None:
    """The pods of which only the controller's event told do not follow one by one, nor thirty by thirty."""
    held = EventFilter()
    assert len(passed(held, of_pods(range(300)))) == 31
    assert passed(held, of_pods(range(300)), 10.0) == []
    assert passed(held, of_pods(range(30, 300)), 20.0) == []  # the first ones run
    assert passed(held, of_pods(range(29, 301)), 30.0) == of_pods([300])
    again = passed(held, of_pods(range(301)), 300.0)
    assert (len(again), again[-1].message) == (31, "m (270 more pods of this ReplicaSet)")


def test_many_thousand_pods_are_not_told_again_in_each_loop() -> None:
    held = EventFilter()
    assert len(passed(held, of_pods(range(50_000)))) == 31
    assert passed(held, of_pods(range(50_000)), 10.0) == []


def test_what_may_be_told_again_takes_no_room() -> None:
    held = EventFilter(capacity=100)
    passed(held, of_pods(range(90)))
    passed(held, of_pods(range(90, 180)), 300.0)
    assert passed(held, of_pods(range(90, 180)), 301.0) == []


def test_other_events_are_not_told_together() -> None:
    nodes = [Event(kind="Node", name=f"n{number}", reason="R", message="m") for number in range(40)]
    assert passed(EventFilter(), nodes) == nodes
