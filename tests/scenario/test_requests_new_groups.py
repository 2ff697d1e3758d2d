"""Requests of all or nothing for which node groups have to be made (seed 004): why they may be, and each cause of failure."""

from typing import Any

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import Story

from nodewright.model.capability import Capability
from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC

SMALL = {"name": "small", "cpu": 2, "memory": "8Gi", "price_per_hour": 0.2}
BIG = {"name": "big", "cpu": 4, "memory": "16Gi", "price_per_hour": 0.5}
THERE = {"name": "there", "cpu": 2, "memory": "8Gi", "max_size": 1, "price_per_hour": 0.2}
WHOLE = "True/CapacityIsProvisioned"


def ask_for_five(
    *groups: dict[str, Any],
    kinds: tuple[dict[str, Any], ...] = (SMALL,),
    settings: dict[str, Any] | None = None,
    shape: dict[str, Any] | None = None,
    **cloud: Any,
) -> Asking:
    """Five pods of 1 cpu: three small machines, or two big ones."""
    asking = make(*groups, kinds=kinds, settings=settings, **cloud)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC, **(shape or {}))
    return asking


def make(
    *groups: dict[str, Any],
    kinds: tuple[dict[str, Any], ...] = (SMALL,),
    settings: dict[str, Any] | None = None,
    **cloud: Any,
) -> Asking:
    flags = {**ON, "node-autoprovisioning-enabled": True, "scale-down-enabled": False, **(settings or {})}
    return Asking(Story(*groups, settings=flags, minutes=8, machine_types=list(kinds), **cloud))


def made(asking: Asking) -> list[str]:
    """The machine types of the groups that were made."""
    done = [d.group for d in asking.story.decisions() if (d.what, d.outcome) == ("create group", "done")]
    return [group.split("-")[1] for group in done]


@pytest.mark.parametrize(
    ("groups", "shape"),
    [
        ((), {}),
        (({**THERE, "max_size": 2},), {}),
        (({**THERE, "cpu": "0.5", "max_size": 50},), {}),
        (({**THERE, "max_size": 50},), {"node_selector": {"team": "a"}}),
        (({**THERE, "max_size": 50, "taints": [{"key": "dedicated", "value": "db"}]},), {}),
    ],
    ids=["no group", "a group too narrow", "machines too small", "a label that no group has", "a taint"],
)
def test_a_group_is_made_and_grows_whole(groups: tuple[dict[str, Any], ...], shape: dict[str, Any]) -> None:
    asking = ask_for_five(*groups, shape=shape)
    assert asking.conditions("a")["Provisioned"] == WHOLE
    assert made(asking) == ["small"]
    assert {write[0] for write in asking.story.writes("increase")} == {60.0}
    assert sum(write[4] - write[3] for write in asking.story.writes("increase")) == 3
    assert asking.story.result.violations == ()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cores-total": "0:5"}, "it takes 3 nodes, and the cluster's limits (cpu) leave 2"),
        ({"memory-total": "0:23"}, "it takes 3 nodes, and the cluster's limits (memory) leave 2"),
        ({"max-nodes-total": 2}, "it takes 3 nodes, and --max-nodes-total leaves 2"),
        ({"max-autoprovisioned-node-group-count": 0}, "max autoprovisioned node group count reached (0)"),
    ],
)
def test_no_limit_shrinks_it_and_each_group_says_what_is_in_the_way(settings: dict[str, Any], says: str) -> None:
    asking = ask_for_five({**THERE, "max_size": 1}, settings=settings)
    assert made(asking) == []
    assert asking.story.writes("increase") == []
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"
    assert f"fake/nap-small-186e6eba: {says}" in asking.message("a", "Provisioned")


def test_pods_for_which_no_machine_is_large_enough() -> None:
    asking = ask_for_five(kinds=(SMALL, BIG), shape={"cpu": "9"})
    assert made(asking) == []
    assert asking.message("a", "Provisioned").count("pod a-0-0 does not fit its nodes: Insufficient cpu") == 2


def refuse(hook: str, error: str, **more: Any) -> dict[str, Any]:
    return {"kind": "refuse", "hook": hook, "error": error, **more}


@pytest.mark.parametrize("hook", ["create_node_group", "atomic_increase_size"])
def test_a_cloud_that_refuses_one_machine_type_is_asked_for_the_next(hook: str) -> None:
    asking = ask_for_five(kinds=(SMALL, BIG), faults=[refuse(hook, "out_of_capacity", times=1)])
    assert asking.conditions("a")["Provisioned"] == WHOLE
    assert made(asking)[-1] == "big"
    assert [write[3:] for write in asking.story.writes("increase") if "big" in write[2]] == [(0, 2)]


def test_a_cloud_that_makes_no_more_groups_is_named() -> None:
    asking = ask_for_five(kinds=(SMALL, BIG), faults=[refuse("create_node_group", "quota", end=3600)])
    assert made(asking) == []
    assert asking.conditions("a") == {"Accepted": "True/Accepted", "Provisioned": "False/CapacityIsNotFound"}
    assert asking.message("a", "Provisioned").count("in backoff after failed scale-up (quotaExceeded)") == 2
    assert not asking.story.loops[-1][0].memory.provisioning.grants


def test_half_of_a_group_that_was_made_goes_before_the_next_is_made() -> None:
    outs = [{"instance_type": "small", "remaining": 1}]
    off = (Capability.ATOMIC_RESIZE.value,)
    asking = ask_for_five(kinds=(SMALL, BIG), stock_outs=outs, switched_off=off)
    assert made(asking) == ["small", "big"]
    assert asking.conditions("a")["Provisioned"] == WHOLE
    writes = [write[1:] for write in asking.story.writes() if "small" in write[2]]
    assert [(what, before, after) for what, _, before, after in writes] == [
        ("create group", 0, 0),
        ("increase", 0, 3),
        ("delete", 3, 1),
        ("delete", 1, 0),
    ]


def test_no_group_is_made_for_a_request_that_cannot_be_told_so() -> None:
    asking = make()
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.refuse_writes(50, 200)
    assert asking.conditions("a")["Provisioned"] == WHOLE
    assert {write[0] for write in asking.story.writes("create group", "increase")} == {200.0}
