"""Which group is chosen after one that did not deliver, if no cloud reports what is out of stock."""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, PROVISION, SILENT, Story

ASKED = LOOP
TIMED_OUT = ASKED + PROVISION + LOOP


def groups(*kinds: tuple[str, str]) -> list[dict[str, Any]]:
    """Group a and those after it, by zone and machine type; each dearer than the one before."""
    return [
        {"name": name, "price_per_hour": 0.1 * (n + 1), "zone": zone, "instance_type": instance_type}
        for n, (name, (zone, instance_type)) in enumerate(zip("abc", kinds, strict=True))
    ]


def sold_out(*kinds: tuple[str, str], **settings: Any) -> Story:
    """Group a is sold out and the cloud does not report it; one pod waits from the start."""
    story = Story(*groups(*kinds), settings=settings, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=40)
    story.pods(1, at=5)
    return story


@pytest.mark.parametrize(
    ("kinds", "next_group"),
    [
        ((("z1", "m"), ("z1", "m"), ("z2", "m")), "c"),  # the zone may be sold out
        ((("z1", "m"), ("z1", "m"), ("z1", "n")), "c"),  # or the quota of the machine type used up
        ((("z1", "m"), ("z1", "n"), ("z2", "m")), "b"),  # each differs in one thing: the expander chooses
        ((("z1", "m"), ("z2", "n"), ("z1", "m")), "b"),
        ((("z1", "m"), ("z1", "m"), ("z1", "m")), "b"),
    ],
)
def test_pods_that_waited_in_vain_go_to_the_group_that_has_least_in_common(
    kinds: tuple[tuple[str, str], ...], next_group: str
) -> None:
    story = sold_out(*kinds)
    assert story.asked(next_group) == [TIMED_OUT]
    assert [name for name in "bc" if story.asked(name)] == [next_group]


def test_a_group_alike_is_asked_where_no_other_would_help() -> None:
    a, b, c = groups(("z1", "m"), ("z1", "m"), ("z2", "m"))
    story = Story(a, b, {**c, "memory": "512Mi"}, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=40)
    story.pods(1, at=5)
    assert story.asked("b") == [TIMED_OUT]


def test_growth_is_not_spread_to_a_group_that_has_more_in_common() -> None:
    """Balance alone would give the node to group b: it is as small as c, and comes first."""
    story = sold_out(("z1", "m"), ("z1", "m"), ("z2", "m"), **{"balance-similar-node-groups": True})
    assert (story.asked("b"), story.asked("c")) == ([], [TIMED_OUT])


def test_growth_is_spread_over_groups_that_have_as_little_in_common() -> None:
    """Three are alike and smaller than group a; the one in its zone gets no share."""
    kinds = {"b": ("z1", 0.4), "c": ("z2", 0.5), "d": ("z3", 0.6)}
    alike = [
        {"name": name, "zone": zone, "price_per_hour": price, "cpu": "4", "instance_type": "small"}
        for name, (zone, price) in kinds.items()
    ]
    a = {"name": "a", "zone": "z1", "price_per_hour": 0.1, "cpu": "8", "instance_type": "large"}
    settings = {"balance-similar-node-groups": True}
    story = Story(a, *alike, settings=settings, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=40)
    story.pods(2, at=5, cpu="3")
    assert [story.asked(name) for name in "abcd"] == [[ASKED], [], [TIMED_OUT], [TIMED_OUT]]


def test_other_pods_go_where_the_expander_says() -> None:
    """A failure says little: pods that did not wait for that group are not kept from those like it."""
    story = sold_out(("z1", "m"), ("z1", "m"), ("z2", "m"))
    story.pods(1, at=TIMED_OUT + MINUTE, name="later")
    assert (len(story.asked("b")), len(story.asked("c"))) == (1, 1)
    assert story.asked("b")[0] > TIMED_OUT


def test_a_group_whose_machines_never_join_casts_no_doubt_on_those_like_it() -> None:
    story = Story(*groups(("z1", "m"), ("z1", "m"), ("z2", "m")), dead_boots=[{"group": "a"}], minutes=40)
    story.pods(1, at=5)
    assert story.asked("c") == []
    assert len(story.asked("b")) == 1


@pytest.mark.parametrize("rule", ["ca", "seed"])
def test_the_other_rules_know_no_suspicion(rule: str) -> None:
    story = sold_out(("z1", "m"), ("z1", "m"), ("z2", "m"), **{"size-correction": rule})
    assert story.asked("c") == []
