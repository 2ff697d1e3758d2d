"""Every write leaves an audit record before the call, and one with its outcome."""

from collections.abc import Sequence

import msgspec
import pytest

from nodewright.actuation import AuditLog, AuditRecord, CloudWriter, Inbox
from nodewright.actuation.audit import Write
from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseSize,
)
from nodewright.model.errors import NodewrightError, OutcomeUnknown, OutOfCapacity, ProviderError
from nodewright.model.group import GroupRef, NewNodeGroup, NodeGroup
from nodewright.testkit import FakeClock

A, B = GroupRef("p", "a"), GroupRef("p", "b")


class Cloud:
    """Takes 5 seconds a call; raises what a test says, accepts ``at_most``. ``log`` is what it was asked, and when
    recorded."""

    name = "p"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.error: ProviderError | None = None
        self.at_most = 99
        self.calls = 0

    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        assert group_id
        self.calls += 1
        self.clock.sleep(5)
        if self.error is not None:
            raise self.error
        return min(self.at_most, abs(target - expected_target))

    atomic_increase_size = decrease_target_size = increase_size

    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        return tuple(instance_ids)[: self.increase_size(group_id, expected_target, expected_target + len(instance_ids))]

    force_delete_instances = delete_instances

    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup:
        self.increase_size(spec.group_id, 0, 1)
        return NodeGroup(id=spec.group_id, min_size=0, max_size=spec.max_size)

    def delete_node_group(self, group_id: str) -> bool:
        return bool(self.increase_size(group_id, 0, 1))


class Ledger:
    """Every record as it came; refuses to keep more than ``room`` of them."""

    def __init__(self, room: int = 99) -> None:
        self.room = room
        self.kept: list[AuditRecord] = []

    def record(self, record: AuditRecord) -> None:
        if len(self.kept) == self.room:
            raise NodewrightError("the disk is full")
        self.kept.append(record)


def increase(*pods: str) -> IncreaseSize:
    return IncreaseSize(group=A, expected_target=1, target=3, pods=pods[:3], pod_count=len(pods))


WITHDRAW = DecreaseTargetSize(group=A, expected_target=3, target=2, reason="late")
DELETE = DeleteInstances(group=B, expected_target=4, instance_ids=("i-1", "i-2"), reason="no node")


def test_a_write_is_recorded_before_and_after() -> None:
    clock, ledger = FakeClock(100.0), Ledger()
    CloudWriter([Cloud(clock)], clock, Inbox(), ledger).act([increase("ns/p")], "50.000-7")
    before, after = ledger.kept
    assert before == AuditRecord(
        time=100.0,
        loop="50.000-7",
        request="50.000-7/1",
        action="IncreaseSize",
        group="p/a",
        expected_target=1,
        target=3,
        reason="pending pods ns/p",
    )
    assert before.outcome == "asked"
    assert (after.time, after.outcome, after.accepted, after.request) == (105.0, "done", 2, before.request)


def test_the_log_keeps_one_record_a_write() -> None:
    clock, log = FakeClock(), AuditLog()
    CloudWriter([Cloud(clock)], clock, Inbox(), log).act([increase(), WITHDRAW, DELETE], "L")
    found = [(r.request, r.action, r.expected_target, r.target, r.instance_ids, r.reason) for r in log.records()]
    assert found == [
        ("L/1", "IncreaseSize", 1, 3, (), "enforced minimum size"),
        ("L/2", "DecreaseTargetSize", 3, 2, (), "late"),
        ("L/3", "DeleteInstances", 4, 2, ("i-1", "i-2"), "no node"),
    ]
    assert {record.outcome for record in log.records()} == {"done"}


def test_growth_for_a_move_is_logged_with_the_move() -> None:
    clock, log = FakeClock(), AuditLog()
    growth = msgspec.structs.replace(increase("p/a"), move="replaced-a-0-1")
    CloudWriter([Cloud(clock)], clock, Inbox(), log).act([growth], "L")
    (record,) = log.records()
    assert record.reason == "move replaced-a-0-1"


def test_many_pods_are_counted() -> None:
    clock, log = FakeClock(), AuditLog()
    CloudWriter([Cloud(clock)], clock, Inbox(), log).act([increase(*(f"n/{k}" for k in range(8)))], "L")
    assert log.records()[0].reason == "pending pods n/0, n/1, n/2 and 5 more"


@pytest.mark.parametrize(
    ("error", "outcome", "message"),
    [
        (OutOfCapacity("none left"), "refused", "outOfResources: none left"),
        (OutcomeUnknown("silence"), "unknown", "silence"),
    ],
)
def test_what_became_of_it(error: ProviderError, outcome: str, message: str) -> None:
    clock, log = FakeClock(), AuditLog()
    cloud = Cloud(clock)
    cloud.error = error
    CloudWriter([cloud], clock, Inbox(), log).act([increase()], "L")
    (record,) = log.records()
    assert (record.outcome, record.accepted, record.message) == (outcome, 0, message)


@pytest.mark.parametrize("action", [increase(), DELETE])
def test_a_part_is_called_a_part(action: Write) -> None:
    clock, log = FakeClock(), AuditLog()
    cloud = Cloud(clock)
    cloud.at_most = 1
    CloudWriter([cloud], clock, Inbox(), log).act([action], "L")
    assert [(record.outcome, record.accepted) for record in log.records()] == [("partial", 1)]


def test_no_record_no_write() -> None:
    clock = FakeClock()
    cloud = Cloud(clock)
    with pytest.raises(NodewrightError, match="disk is full"):
        CloudWriter([cloud], clock, Inbox(), Ledger(room=0)).act([increase()], "L")
    assert cloud.calls == 0


def test_an_outcome_that_cannot_be_recorded_is_not_lost() -> None:
    clock, inbox = FakeClock(), Inbox()
    cloud = Cloud(clock)
    with pytest.raises(NodewrightError, match="disk is full"):
        CloudWriter([cloud], clock, inbox, Ledger(room=1)).act([increase(), DELETE], "L")
    assert cloud.calls == 1
    assert [outcome.action for outcome in inbox.drain()] == [increase()]


def test_groups_that_are_made_and_deleted_are_told() -> None:
    clock, log = FakeClock(100.0), AuditLog()
    cloud = Cloud(clock)
    spec = NewNodeGroup(group_id="a", machine_type="big", max_size=5)
    actions = (
        CreateNodeGroup(group=A, spec=spec, reason="machine type big"),
        IncreaseSize(group=A, expected_target=0, target=2),
        DeleteNodeGroup(group=B, reason="empty for 10m"),
    )
    CloudWriter([cloud], clock, Inbox(), log).act(actions, "loop")
    recorded = [(record.action, record.group, record.target, record.reason, record.outcome) for record in log.records()]
    assert recorded == [
        ("CreateNodeGroup", "p/a", 0, "machine type big", "done"),
        ("IncreaseSize", "p/a", 2, "enforced minimum size", "done"),
        ("DeleteNodeGroup", "p/b", 0, "empty for 10m", "done"),
    ]
