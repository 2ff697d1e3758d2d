"""Mixes of groups in whole loops (--expander=least-cost): zero-or-max groups, groups made on demand, limits, and failures."""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, PROVISION, SILENT, Story

from nodewright.model.action import CreateNodeGroup

LEAST_COST = {"expander": "least-cost,least-waste", "scale-down-enabled": False}
BOTH = {"name": "both", "cpu": 8, "memory": "16Gi", "price_per_hour": 1.0}
CPU = {"name": "cpu", "cpu": 8, "memory": "8Gi", "price_per_hour": 0.5}
MEMORY = {"name": "memory", "cpu": 2, "memory": "32Gi", "price_per_hour": 0.5}
WHOLE = {"behaviour": {"zero_or_max": True}}


def world(*groups: dict[str, Any], settings: dict[str, Any] | None = None, minutes: float = 60, **cloud: Any) -> Story:
    """Pods of much cpu and pods of much memory, pending from the first minute on."""
    story = Story(*groups, settings={**LEAST_COST, **(settings or {})}, minutes=minutes, **cloud)
    story.pods(4, at=15, name="c", cpu="3", memory="1Gi")
    story.pods(4, at=15, name="m", cpu="500m", memory="14Gi")
    return story


def machines(story: Story) -> dict[str, int]:
    assert story.result
    return {name: len(story.cloud.living(name)) for name in story.cloud.group_names() if story.cloud.living(name)}


def test_a_zero_or_max_group_comes_as_a_whole_or_not_at_all() -> None:
    cheap = world(BOTH, {**CPU, **WHOLE, "max_size": 3, "price_per_hour": 0.3}, MEMORY)
    assert machines(cheap) == {"cpu": 3, "memory": 2}
    assert cheap.result.final.running == 8
    assert [size for _, what, group, _, size in cheap.writes() if group == "cpu"] == [3]
    dear = world(BOTH, {**CPU, **WHOLE, "max_size": 30}, MEMORY)
    assert "cpu" not in machines(dear)
    assert dear.result.final.running == 8


def test_groups_are_made_for_a_mix() -> None:
    story = world(
        BOTH,
        settings={"node-autoprovisioning-enabled": True},
        machine_types=[CPU, MEMORY],
    )
    assert story.result.final.running == 8
    made = [
        action.spec.machine_type
        for _, plan in story.loops
        for action in plan.actions
        if isinstance(action, CreateNodeGroup)
    ]
    assert sorted(made) == ["cpu", "memory"]
    assert sorted(machines(story).values()) == [2, 2]
    assert len({at for at, *_ in story.writes("increase")}) == 1


@pytest.mark.parametrize(("most", "bought", "running"), [(3, {"both": 2, "memory": 1}, 8), (2, {"both": 2}, 6)])
def test_a_mix_within_a_limit_on_nodes_helps_as_many_pods_as_it_can(
    most: int, bought: dict[str, int], running: int
) -> None:
    story = world(BOTH, CPU, MEMORY, settings={"max-nodes-total": most})
    assert machines(story) == bought
    assert story.result.final.running == running
    assert len({at for at, *_ in story.writes("increase")}) == 1


def test_where_the_limit_grows_the_rest_follows() -> None:
    story = world(BOTH, CPU, {**MEMORY, "max_size": 1})
    assert story.result.final.running == 8
    assert machines(story)["memory"] == 1


REFUSAL = {"faults": [{"kind": "refuse", "hook": "increase_size", "group": "cpu", "error": "quota"}]}
STOCK_OUT = {"stock_outs": [{"group": "cpu"}]}


@pytest.mark.parametrize("failing", [REFUSAL, STOCK_OUT], ids=["refused", "reported"])
def test_a_group_that_fails_fast_does_not_spoil_the_rest(failing: dict[str, Any]) -> None:
    """The others grow at once. The next loops plan the failed group's pods again, without it."""
    story = world(BOTH, CPU, MEMORY, minutes=4, **failing)
    assert machines(story) == {"both": 2, "memory": 2}
    assert story.result.final.running == 8
    [first] = story.asked("cpu")
    assert story.asked("memory") == [first]
    [then] = story.asked("both")
    assert then - first <= 2 * LOOP


def test_a_group_that_stays_silent_holds_up_only_its_own_pods() -> None:
    story = world(BOTH, {**CPU, "provision_delay": "100h"}, MEMORY, minutes=40, switched_off=SILENT)
    assert story.result.final.running == 8
    first = story.asked("cpu")[0]
    assert story.asked("memory") == [first]
    assert story.asked("both")[0] - first <= PROVISION + 2 * MINUTE
