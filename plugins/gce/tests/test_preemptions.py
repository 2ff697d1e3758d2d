"""Preemptions of spot machines, told by Compute Engine's operations."""

from collections.abc import Callable
from typing import Any

import pytest

from attached import Stage
from gcecloud import GceCloud
from nodewright.spec import Capability, InterruptionKind, ProviderError

Attach = Callable[..., Any]


@pytest.fixture
def stage(cloud: GceCloud, attach: Attach) -> Stage[GceCloud]:
    found: Stage[GceCloud] = attach(f"0:10:{cloud.add_group(size=2)}", preemption_interval=5)
    return found


def test_a_preemption_is_told_with_half_a_minute_left(stage: Stage[GceCloud]) -> None:
    (group,) = stage.client.node_groups()
    machine = min(stage.cloud.machines(group.id))
    stage.cloud.preempt(machine)
    stage.later(4)
    (notice,) = stage.client.interruptions() or ()
    assert (notice.instance_id, notice.kind) == (machine, InterruptionKind.RECLAIM)
    assert notice.deadline == stage.clock.now() + 26


def test_an_old_operation_says_nothing_of_a_new_machine_of_that_name(stage: Stage[GceCloud]) -> None:
    (group,) = stage.client.node_groups()
    stage.cloud.preempt(min(stage.cloud.machines(group.id)))
    stage.later(121)
    assert stage.client.interruptions() == ()


def test_waiting_ends_with_the_next_look(stage: Stage[GceCloud]) -> None:
    (group,) = stage.client.node_groups()
    assert stage.client.await_interruption(12) is False
    stage.cloud.preempt(min(stage.cloud.machines(group.id)))
    began = stage.clock.now()
    assert stage.client.await_interruption(12) is True
    assert stage.clock.now() - began < 5


def test_where_operations_cannot_be_read_groups_still_can(stage: Stage[GceCloud]) -> None:
    (group,) = stage.client.node_groups()
    stage.cloud.refuse_once("zoneOperations.list", 403, "forbidden", "Required permission")
    stage.later(61)
    assert stage.client.target_size(group.id) == 2
    with pytest.raises(ProviderError):
        stage.client.interruptions()


def test_without_the_option_nothing_is_asked(cloud: GceCloud, attach: Attach) -> None:
    stage = attach(f"0:10:{cloud.add_group(size=1)}")
    assert Capability.INTERRUPTION not in stage.client.info.capabilities
    assert not cloud.calls["zoneOperations.list"]
