"""Requests of all or nothing for which node groups have to be made (seed 004): why they may be, and each cause of failure."""

from typing import Any

import pytest
from tests.scenario import requesting
from tests.scenario.requesting import Asking
from tests.scenario.story import Story
from tests.scenario.test_autoprovisioning import BIG, ON, SMALL, refuses

from nodewright.model.capability import Capability
from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC, SEED_ATOMIC

NARROW = {"name": "there", "cpu": 2, "memory": "8Gi", "max_size": 2, "price_per_hour": 0.2}
THERE = {**NARROW, "max_size": 50}
NO_ATOMIC = (Capability.ATOMIC_RESIZE.value,)
PROVISIONED = {"Accepted": "True/Accepted", "Provisioned": "True/CapacityIsProvisioned"}
NOT_FOUND = {"Accepted": "True/Accepted", "Provisioned": "False/CapacityIsNotFound"}


def ask_for_five(
    *groups: dict[str, Any],
    kinds: tuple[dict[str, Any], ...] = (SMALL,),
    settings: dict[str, Any] | None = None,
    shape: dict[str, Any] | None = None,
    **cloud: Any,
) -> Asking:
    """Five pods of 1 cpu: three small machines, or two big ones."""
    flags = {**requesting.ON, **ON, **(settings or {})}
    asking = Asking(Story(*groups, settings=flags, minutes=8, machine_types=list(kinds), **cloud))
    asking.ask("a", 5, at=60, **{"kind": BEST_EFFORT_ATOMIC, **(shape or {})})
    return asking


def made(asking: Asking) -> list[str]:
    """The machine types of the groups that were made."""
    done = [d.group for d in asking.story.decisions() if (d.what, d.outcome) == ("create group", "done")]
    return [group.split("-")[1] for group in done]


@pytest.mark.parametrize("switched_off", [(), NO_ATOMIC], ids=["atomic", "one by one"])
@pytest.mark.parametrize(
    ("groups", "shape"),
    [
        ((), {}),
        ((NARROW,), {}),
        (({**THERE, "cpu": "0.5"},), {}),
        (({**THERE, "memory": "512Mi"},), {}),
        ((THERE,), {"node_selector": {"team": "a"}}),
        (({**THERE, "taints": [{"key": "dedicated", "value": "db"}]},), {}),
        (({**THERE, "labels": {"pool": "x"}, "taints": [{"key": "pool"}]},), {}),
    ],
    ids=["no group", "too narrow", "too small", "too little memory", "no such label", "a taint", "a pool's taint"],
)
def test_a_group_is_made_and_grows_whole(
    groups: tuple[dict[str, Any], ...], shape: dict[str, Any], switched_off: tuple[str, ...]
) -> None:
    """Also under the class's name of the seed."""
    asking = ask_for_five(*groups, shape={"kind": SEED_ATOMIC, **shape}, switched_off=switched_off)
    assert asking.conditions("a") == PROVISIONED
    assert made(asking) == ["small"]
    create, increase = asking.story.writes()
    assert create[:2] == (60.0, "create group")
    assert (increase[:2], increase[3:]) == ((60.0, "increase"), (0, 3))
    assert asking.story.machines(increase[2]) == 3
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
    asking = ask_for_five(NARROW, settings=settings)
    assert asking.conditions("a") == NOT_FOUND
    assert asking.story.writes() == []
    message = asking.message("a", "Provisioned")
    assert f"fake/nap-small-186e6eba: {says}" in message
    assert "and the maximum size leaves 2" in message


@pytest.mark.parametrize(
    ("kinds", "cpu", "lacks"),
    [((SMALL, BIG), "9", "Insufficient cpu"), (({**SMALL, "memory": "512Mi"},), "1", "Insufficient memory")],
    ids=["cpu", "memory"],
)
def test_pods_for_which_no_machine_is_large_enough(kinds: tuple[dict[str, Any], ...], cpu: str, lacks: str) -> None:
    asking = ask_for_five(kinds=kinds, shape={"cpu": cpu})
    assert asking.message("a", "Provisioned").count(f"pod a-0-0 does not fit its nodes: {lacks}") == len(kinds)
    assert asking.story.writes() == []


@pytest.mark.parametrize(
    ("hook", "outcomes"),
    [
        ("create_node_group", ["refused", "done", "done"]),
        ("atomic_increase_size", ["done", "refused", "done", "done"]),
    ],
)
def test_a_cloud_that_refuses_one_machine_type_is_asked_for_the_next(hook: str, outcomes: list[str]) -> None:
    asking = ask_for_five(kinds=(SMALL, BIG), faults=[refuses(hook, "out_of_capacity", times=1)])
    assert asking.conditions("a") == PROVISIONED
    assert made(asking)[-1] == "big"
    assert [write[3:] for write in asking.story.writes("increase") if "big" in write[2]] == [(0, 2)]
    assert [d.outcome for d in asking.story.decisions()] == outcomes


def test_an_increase_that_is_refused_after_the_creation() -> None:
    """The group is there by then, in backoff; the request is not taken to be under way."""
    asking = ask_for_five(faults=[refuses("atomic_increase_size", "out_of_capacity")])
    assert asking.conditions("a") == NOT_FOUND
    assert [(d.what, d.outcome) for d in asking.story.decisions()][:2] == [
        ("create group", "done"),
        ("increase", "refused"),
    ]


def test_a_cloud_that_makes_no_more_groups_is_named() -> None:
    asking = ask_for_five(kinds=(SMALL, BIG), faults=[refuses("create_node_group", "quota", end=3600)])
    assert made(asking) == []
    assert asking.conditions("a") == NOT_FOUND
    assert asking.message("a", "Provisioned").count("in backoff after failed scale-up (quotaExceeded)") == 2
    assert not asking.story.loops[-1][0].memory.provisioning.reservations


def test_half_of_a_group_that_was_made_goes_before_the_next_is_made() -> None:
    outs = [{"instance_type": "small", "remaining": 1}]
    asking = ask_for_five(kinds=(SMALL, BIG), stock_outs=outs, switched_off=NO_ATOMIC)
    assert made(asking) == ["small", "big"]
    assert asking.conditions("a") == PROVISIONED
    writes = [write[1:] for write in asking.story.writes() if "small" in write[2]]
    assert [(what, before, after) for what, _, before, after in writes] == [
        ("create group", 0, 0),
        ("increase", 0, 3),
        ("delete", 3, 1),
        ("delete", 1, 0),
    ]


def test_no_group_is_made_for_a_request_that_cannot_be_told_so() -> None:
    asking = ask_for_five()
    asking.refuse_writes(50, 200)
    assert asking.conditions("a") == PROVISIONED
    assert {write[0] for write in asking.story.writes("create group", "increase")} == {200.0}


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_restart_does_not_buy_twice(write: int, *, after_effect: bool) -> None:
    asking = ask_for_five()
    asking.story.simulation.engine.crash(
        0.0, write=write, after_effect=after_effect, down_seconds=25.0, keeps_memory=True
    )
    assert asking.conditions("a") == PROVISIONED
    [name] = asking.story.cloud.group_names()
    assert asking.story.machines(name) == 3
