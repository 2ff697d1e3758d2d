"""What is said of groups that wait because machines did not take the pods they were bought for."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import Purchase
from nodewright.clusterstate.purchases import DAY
from nodewright.model.duration import format_moment
from nodewright.model.node import NodeCondition
from nodewright.planner import find_growth_context
from nodewright.snapshot.pod_class import kind_of
from nodewright.testkit import build_pod
from nodewright.testkit.world import NOW, World, ref, settings_with

NAMES = ("a", "b", "c", "d")
LABELS = {"kind": "web"}
IN_VAIN = "nodes that were added for such pods did not take them"
ONE_GROUP = "only a group grows that has a node which takes them"


def waiting(misfits: int) -> World:
    """A pod for which groups grew in vain lately, one that never did, and one of which a node takes such pods."""
    world = World()
    pod = build_pod("p", "1", node_selector=LABELS)
    world.pending = [pod]
    for name in (*NAMES, "never"):
        world.add_group(name, 0, cpu="2", labels=LABELS)
    world.add_group("sound", 1, cpu="2", labels=LABELS)
    world.running = [build_pod("full", "1500m", node_name="sound-0")]
    kind = kind_of(world.state().observation.snapshot.class_of(pod))
    purchases = {
        ref(name): {kind: Purchase(misfits=(NOW - 3600 * number,), until=NOW + 3600, reason="Insufficient cpu")}
        for number, name in enumerate(NAMES[:misfits], 1)
    }
    world.memory = replace(world.memory, purchases=purchases)
    return world


@pytest.mark.parametrize(
    ("misfits", "text"),
    [
        (2, f"{IN_VAIN}, twice within a day; a group comes first that has a node which takes them"),
        (3, f"{IN_VAIN}, three times within a day; before TIME {ONE_GROUP}, or a new description"),
        (4, f"{IN_VAIN}, more than three times within a day; before TIME {ONE_GROUP}"),
    ],
)
def test_each_number_of_vain_purchases_has_its_own_text(misfits: int, text: str) -> None:
    world = waiting(misfits)
    assert said(world)["never"] == text.replace("TIME", format_moment(NOW - 3 * 3600 + DAY))


def test_no_time_is_told_while_a_new_node_may_still_take_such_pods() -> None:
    """The third vain purchase is in doubt: the label may still come to the new node."""
    world = waiting(2)
    world.add_group("late", 1, cpu="2", created_at=NOW - 60)
    *others, late = world.nodes
    ready = NodeCondition(type="Ready", status="True", last_transition_time=datetime.fromtimestamp(NOW - 10, UTC))
    world.nodes = [*others, changed(late, status=changed(late.status, conditions=(ready,)))]
    kind = next(iter(world.memory.purchases[ref("a")]))
    bought = {**world.memory.purchases, ref("late"): {kind: Purchase(asked=NOW - 90)}}
    world.memory = replace(world.memory, purchases=bought)
    assert "may lack devices" in said(world)["late"]
    assert said(world)["never"] == f"{IN_VAIN}, three times within a day; for now {ONE_GROUP}, or a new description"


def said(world: World) -> dict[str, str]:
    """Why each group is not grown for the pod."""
    context = find_growth_context(world.state(), settings_with(), Random(1))
    assert context is not None
    (reasons,) = context.barred.values()
    return {group.group_id: reason.message for group, reason in reasons.items()}
