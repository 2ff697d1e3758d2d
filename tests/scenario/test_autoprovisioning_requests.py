"""Seed 004: a request of all or nothing for which a node group has to be made, and what makes that fail."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.scenario import requesting
from tests.scenario.requesting import Asking
from tests.scenario.story import Story

from nodewright.model.capability import Capability
from nodewright.model.provisioning_request import SEED_ATOMIC

ON = {**requesting.ON, "node-autoprovisioning-enabled": True}
KIND = {"name": "kind", "cpu": 2, "memory": "8Gi", "price_per_hour": 0.2}
FULL = {"name": "full", "size": 0, "max_size": 2}
NO_ATOMIC = (Capability.ATOMIC_RESIZE.value,)
PROVISIONED = {"Accepted": "True/Accepted", "Provisioned": "True/CapacityIsProvisioned"}


def ask(*groups: Mapping[str, Any], settings: Mapping[str, Any] | None = None, pods: int = 6, **cloud: Any) -> Asking:
    cloud = {"machine_types": [KIND], **cloud}
    asking = Asking(Story(*groups, minutes=10, settings={**ON, **(settings or {})}, **cloud))
    asking.ask("a", pods, at=60, kind=SEED_ATOMIC)
    return asking


@pytest.mark.parametrize("switched_off", [(), NO_ATOMIC])
@pytest.mark.parametrize(
    "groups",
    [
        (),
        (FULL,),
        ({**FULL, "max_size": 50, "labels": {"pool": "x"}, "taints": [{"key": "pool"}]},),
        ({**FULL, "max_size": 50, "memory": "512Mi"},),
    ],
    ids=["no group", "existing ones are too small", "or tainted", "or of too small machines"],
)
def test_a_group_is_made_and_grows_by_all_at_once(groups: tuple[Any, ...], switched_off: tuple[str, ...]) -> None:
    asking = ask(*groups, switched_off=switched_off)
    assert asking.conditions("a") == PROVISIONED
    create, increase = asking.story.writes()
    assert (create[1], increase[1], increase[3:]) == ("create group", "increase", (0, 3))
    assert asking.story.machines(increase[2]) == 3


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cores-total": "0:5"}, "it takes 3 nodes, and the cluster's limits (cpu) leave 2"),
        ({"memory-total": "0:23"}, "it takes 3 nodes, and the cluster's limits (memory) leave 2"),
        ({"max-nodes-total": 2}, "it takes 3 nodes, and --max-nodes-total leaves 2"),
        ({"max-autoprovisioned-node-group-count": 0}, "max autoprovisioned node group count reached (0)"),
    ],
)
def test_limits_refuse_the_whole_and_nothing_is_made(settings: Mapping[str, Any], reason: str) -> None:
    asking = ask(FULL, settings=settings)
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"
    message = asking.message("a", "Provisioned")
    assert reason in message
    assert "and the maximum size leaves 2" in message
    assert asking.story.writes() == []


def test_pods_that_fit_no_machine_type() -> None:
    asking = ask(machine_types=[{**KIND, "memory": "512Mi"}])
    assert "Insufficient memory" in asking.message("a", "Provisioned")
    assert asking.story.writes() == []


def test_a_creation_that_is_refused_leaves_nothing_and_the_next_one_helps() -> None:
    refusal = {"kind": "refuse", "hook": "create_node_group", "error": "out_of_capacity", "times": 1}
    asking = ask(machine_types=[KIND, {**KIND, "name": "other", "price_per_hour": 0.4}], faults=[refusal])
    assert asking.conditions("a") == PROVISIONED
    assert [d.outcome for d in asking.story.decisions()] == ["refused", "done", "done"]


def test_an_increase_that_is_refused_after_the_creation() -> None:
    """The group is there by then, in backoff; the request is not taken to be under way."""
    refusal = {"kind": "refuse", "hook": "atomic_increase_size", "error": "out_of_capacity"}
    asking = ask(faults=[refusal])
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"
    assert [(d.what, d.outcome) for d in asking.story.decisions()][:2] == [
        ("create group", "done"),
        ("increase", "refused"),
    ]


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_restart_does_not_buy_twice(write: int, *, after_effect: bool) -> None:
    asking = ask()
    asking.story.simulation.crash_engine(
        0.0, write=write, after_effect=after_effect, down_seconds=25.0, keeps_memory=True
    )
    assert asking.conditions("a") == PROVISIONED
    [name] = asking.story.cloud.group_names()
    assert asking.story.machines(name) == 3
