"""The independent check refuses deletions that the node contradicts, independent of the plan."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from nodewright.model.action import DeleteInstances, DeletionCause
from nodewright.model.group import FailedInstance
from nodewright.model.node import Node, NodeCondition
from nodewright.testkit import build_node, build_pod
from nodewright.testkit.world import NOW, World, ref, settings_with
from nodewright.validate import check_actions

ID = "cloud:///g/0"
FAILED, LATE, RESERVED, REMOVED = (
    DeletionCause.FAILED_CREATION,
    DeletionCause.UNREGISTERED,
    DeletionCause.RESERVATION,
    DeletionCause.REMOVAL,
)


def never_ready() -> Node:
    node = build_node("g-0", provider_id=ID, created_at=NOW - 100)
    created = datetime.fromtimestamp(NOW - 100, UTC)
    said = NodeCondition(type="Ready", status="False", last_transition_time=created + timedelta(seconds=1))
    return replace(node, status=replace(node.status, conditions=(said,)))


def was_ready(after: float = 50.0) -> Node:
    node = never_ready()
    said = node.status.conditions[0]
    assert said.last_transition_time is not None
    later = replace(said, last_transition_time=said.last_transition_time + timedelta(seconds=after))
    return replace(node, status=replace(node.status, conditions=(later,)))


def rules(cause: DeletionCause, node: Node | None, *, pod: bool = False, rule: str = "prompt") -> list[str]:
    """What is wrong with deleting a machine that is this node."""
    world = World(nodes=[node] if node is not None else [])
    reported = (FailedInstance(failure_id="f", instance_id=ID),) if cause == FAILED else ()
    world.add_group("g", 0, target=1, instances=(), failed=reported)
    if cause != FAILED:
        world.add_group("g", 1)
        world.nodes = world.nodes[:-1]
    if pod:
        world.running = [build_pod("p", node_name="g-0")]
    action = DeleteInstances(
        group=ref("g"),
        expected_target=1,
        instance_ids=(ID,),
        cause=cause,
        failure_ids=("f",) if reported else (),
        reason="",
    )
    state = world.state(settings_with(size_correction="ca"))  # the observation as the cloud told it
    return [one.rule for one in check_actions(state.observation, [action], settings_with(size_correction=rule))]


def test_a_node_that_is_ready_or_was_is_refused() -> None:
    ready = build_node("g-0", provider_id=ID), build_node("g-0", provider_id=ID.upper())
    for node in (*ready, was_ready(), was_ready(-60.0)):
        assert rules(REMOVED, node) == [f"machine {ID} is node g-0, which is ready or was"]
    assert rules(REMOVED, never_ready()) == []
    assert rules(REMOVED, None) == []


@pytest.mark.parametrize("cause", [FAILED, LATE])
def test_a_machine_that_is_a_node_did_register(cause: DeletionCause) -> None:
    for node in (never_ready(), build_node("g-0", provider_id=ID), build_node("g-0", provider_id=ID.upper())):
        assert rules(cause, node) == [f"machine {ID} is node g-0, so it did register"]
    assert rules(cause, None) == []


def test_a_reservation_gives_back_empty_nodes_only() -> None:
    node = build_node("g-0", provider_id=ID)
    assert rules(RESERVED, node, pod=True) == [f"machine {ID} is node g-0, and pod default/p runs on it"]
    assert rules(RESERVED, node) == []


def test_a_node_that_never_became_ready_goes_when_it_is_overdue_and_empty() -> None:
    young, overdue = never_ready(), aged(never_ready(), 901)
    assert rules(DeletionCause.NEVER_READY, young) == [f"machine {ID} is node g-0, which may still become ready"]
    assert rules(DeletionCause.NEVER_READY, aged(was_ready(), 901)) == [
        f"machine {ID} is node g-0, which is ready or was"
    ]
    assert rules(DeletionCause.NEVER_READY, overdue) == []
    assert rules(DeletionCause.NEVER_READY, overdue, pod=True) == [
        f"machine {ID} is node g-0, and pod default/p runs on it"
    ]


def aged(node: Node, seconds: float) -> Node:
    """Return the node, created so long ago, with its status as long after its creation as before."""
    (said,), earlier = node.status.conditions, timedelta(seconds=seconds)
    assert said.last_transition_time is not None
    assert node.metadata.creation_timestamp is not None
    meta = replace(node.metadata, creation_timestamp=node.metadata.creation_timestamp - earlier)
    condition = replace(said, last_transition_time=said.last_transition_time - earlier)
    return replace(node, metadata=meta, status=replace(node.status, conditions=(condition,)))


def test_mode_ca_deletes_what_the_cloud_reports() -> None:
    assert rules(FAILED, build_node("g-0", provider_id=ID), rule="ca") == []
