"""Notices of AWS: events in a queue, which stay there until their instance is gone, and scheduled events."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from attached import Stage
from awscloud import AwsCloud
from cloud_world import START
from nodewright.spec import AccessDenied, FailureScope, Interruption, InterruptionKind, ProviderError
from nodewright_aws.interruptions import Notices, read_event
from nodewright_aws.options import Options
from nodewright_aws.shapes import Message, ScheduledEvent

Attach = Callable[..., Any]
AT = "2026-05-28T20:26:40Z"  # START


def event(kind: str, **detail: Any) -> dict[str, Any]:
    return {"id": f"id of {kind}", "detail-type": kind, "time": AT, "detail": detail}


SPOT = event("EC2 Spot Instance Interruption Warning", **{"instance-id": "i-1", "instance-action": "terminate"})
REBALANCE = event("EC2 Instance Rebalance Recommendation", **{"instance-id": "i-1"})
STOPPING = event("EC2 Instance State-change Notification", **{"instance-id": "i-1", "state": "stopping"})
RUNNING = event("EC2 Instance State-change Notification", **{"instance-id": "i-1", "state": "running"})
HEALTH = event(
    "AWS Health Event",
    service="EC2",
    eventTypeCategory="scheduledChange",
    startTime="Fri, 29 May 2026 20:26:40 GMT",
    affectedEntities=[{"entityValue": "i-1"}, {"entityValue": "i-2"}],
)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (SPOT, [("i-1", InterruptionKind.RECLAIM, 120.0, FailureScope.GROUP)]),
        (REBALANCE, [("i-1", InterruptionKind.REBALANCE, None, FailureScope.GROUP)]),
        (STOPPING, [("i-1", InterruptionKind.RECLAIM, 30.0, None)]),
        (RUNNING, []),
        (HEALTH, [(name, InterruptionKind.MAINTENANCE, 86400.0, None) for name in ("i-1", "i-2")]),
        (event("AWS Health Event", service="RDS", eventTypeCategory="scheduledChange"), []),
        (event("Something else"), []),
    ],
)
def test_events_are_read(told: dict[str, Any], expected: list[Any]) -> None:
    found = read_event(json.dumps(told))
    shown = [(one.instance_id, one.kind, one.deadline and one.deadline - START, one.scope) for one in found]
    assert shown == expected
    assert len({one.id for one in found}) == len(found)


@pytest.mark.parametrize("body", ["", "{", "[]", '{"detail": 5}', '{"detail-type": "x", "time": "yesterday"}'])
def test_what_is_no_event_is_no_notice(body: str) -> None:
    assert read_event(body) == ()


@pytest.fixture
def stage(cloud: AwsCloud, attach: Attach) -> Stage[AwsCloud]:
    name = cloud.add_group(size=2)
    cloud.add_queue(name)
    found: Stage[AwsCloud] = attach(f"0:10:{name}", refresh_interval=0, interruption_queue=name)
    return found


def group_of(stage: Stage[AwsCloud]) -> str:
    (group,) = stage.client.node_groups()
    return group.id


def test_a_message_stays_until_its_instance_is_gone(stage: Stage[AwsCloud]) -> None:
    name = group_of(stage)
    machine = min(stage.cloud.machines(name))
    stage.cloud.interrupt(name, machine.rpartition("/")[2])
    for _ in range(2):
        stage.later(1)
        (notice,) = stage.client.interruptions() or ()
        assert (notice.instance_id, notice.kind) == (machine, InterruptionKind.RECLAIM)
        assert notice.deadline is not None
        assert 110 < notice.deadline - stage.clock.now() <= 120
        assert stage.cloud.messages(name) == 1
    stage.client.delete_instances(name, [machine], expected_target=2)
    stage.later(301)
    assert stage.client.interruptions() == ()
    assert stage.cloud.messages(name) == 0


def test_many_messages_are_read_at_once(stage: Stage[AwsCloud]) -> None:
    name = group_of(stage)
    for number in range(25):
        stage.cloud.interrupt(name, f"i-{number:017}")
    assert stage.client.await_interruption(1) is True
    assert stage.cloud.messages(name) == 25
    assert stage.client.await_interruption(1) is False


def test_messages_about_other_instances_go_after_a_while(stage: Stage[AwsCloud]) -> None:
    name = group_of(stage)
    stage.cloud.interrupt(name, "i-00000000000000000")
    stage.later(1)
    assert (stage.client.interruptions(), stage.cloud.messages(name)) == ((), 1)
    stage.later(301)
    assert stage.cloud.messages(name) == 0


def test_a_dry_run_leaves_the_messages_to_the_process_that_manages_the_groups(
    stage: Stage[AwsCloud], attach: Attach
) -> None:
    name = group_of(stage)
    machine = min(stage.cloud.machines(name))
    stage.cloud.interrupt(name, machine.rpartition("/")[2])
    beside = attach(f"0:10:{name}", dry_run=True, refresh_interval=0, interruption_queue=name)
    assert beside.client.interruptions() == ()
    assert [notice.instance_id for notice in _later(stage)] == [machine]


def _later(stage: Stage[AwsCloud]) -> Sequence[Interruption]:
    stage.later(1)
    return stage.client.interruptions() or ()


def test_without_the_queue_groups_are_still_read(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", interruption_queue="no-such-queue")
    assert stage.client.target_size(name) == 1
    with pytest.raises(ProviderError):
        stage.client.interruptions()


class Answers:
    """An Api with scheduled events, and perhaps messages that may not be hidden."""

    def __init__(self, *events: ScheduledEvent, messages: Sequence[Message] = ()) -> None:
        self._events = events
        self._messages = list(messages)

    def queue_url(self, name: str) -> str:
        return name

    def receive_messages(self, *_: object) -> list[Message]:
        found, self._messages = self._messages, []
        return found

    def hide_message(self, *_: object) -> None:
        raise AccessDenied("no permission sqs:ChangeMessageVisibility")

    def scheduled_events(self) -> tuple[ScheduledEvent, ...]:
        return self._events


def test_scheduled_events_are_maintenance_unless_they_are_over(clock: Any) -> None:
    at = datetime.fromtimestamp(START + 3600, UTC)
    due = ScheduledEvent(instance_id="i-1", code="instance-stop", instance_event_id="e-1", not_before=at)
    over = ScheduledEvent(instance_id="i-2", code="system-reboot", description="[Completed] a reboot")
    api: Any = Answers(due, over)
    notices = Notices(api, Options(interruption_queue="q"), clock)
    machines = {"i-1": "aws:///a/i-1", "i-2": "aws:///a/i-2"}
    notices.refresh(machines)
    (notice,) = notices.told(machines)
    assert (notice.instance_id, notice.kind) == ("aws:///a/i-1", InterruptionKind.MAINTENANCE)
    assert notice.deadline == START + 3600


def test_a_message_that_cannot_be_hidden_keeps_back_no_other_notice(clock: Any) -> None:
    told = (REBALANCE, SPOT)
    messages = [Message(message_id=one["id"], receipt_handle="r", body=json.dumps(one)) for one in told]
    api: Any = Answers(messages=messages)
    notices = Notices(api, Options(interruption_queue="q"), clock)
    notices.refresh({"i-1": "aws:///a/i-1"})
    found = [notice.kind for notice in notices.told({"i-1": "aws:///a/i-1"})]
    assert found == [InterruptionKind.REBALANCE, InterruptionKind.RECLAIM]
