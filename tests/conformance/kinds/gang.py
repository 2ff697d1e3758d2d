"""Kind ``gang``: how many nodes of one group are bought for gangs, which kube-scheduler places whole or not at all."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from nodewright.model.action import IncreaseSize
from nodewright.model.decode import convert_object
from nodewright.model.gang import SchedulingPodGroup
from nodewright.model.group import NodeGroup
from nodewright.model.node import Node
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod, PodCondition
from nodewright.snapshot.observation import GroupSeen
from nodewright.testkit.world import World, ref

_GROUP = "new"


def check(case: Mapping[str, Any]) -> list[str]:
    """Return what differs: the number of nodes that are bought, and how many pods of each PodGroup then have room."""
    given, expected = case["input"], case["expected"]
    plan = _world(given, expected["now"]).plan()
    bought = sum(one.target - one.expected_target for one in plan.actions if isinstance(one, IncreaseSize))
    differences = []
    if bought != expected["buy"]:
        differences.append(f"{bought} nodes are bought, observed {expected['buy']}")
    placed = Counter(_group_of(pod) for pod in _with_room(plan))
    for name, count in expected["perGroupAfter"].items():
        if placed[name] != count:
            differences.append(f"{placed[name]} pods of {name or 'no group'} have room, observed {count}")
    return differences


def _world(given: Mapping[str, Any], now: Mapping[str, Any]) -> World:
    world = World()
    world.nodes = [convert_object(Node, node) for node in given["nodes"]]
    world.running = [convert_object(Pod, pod) for pod in given.get("scheduledPods", [])]
    world.pod_groups = [
        convert_object(SchedulingPodGroup, group) for group in given.get("objects", {}).get("podGroups", [])
    ]
    basic = {group.name for group in world.pod_groups if group.spec.scheduling_policy.gang is None}
    world.pending = [_pending(convert_object(Pod, pod), now["podConditions"], basic) for pod in given["pods"]]
    world.groups[ref(_GROUP)] = GroupSeen(
        ref=ref(_GROUP),
        group=NodeGroup(id=_GROUP, min_size=0, max_size=given["maxNodes"]),
        target=0,
        instances=(),
        template=convert_object(Node, given["template"]),
    )
    return world


def _pending(pod: Pod, conditions: Mapping[str, Any], basic: Container[str]) -> Pod:
    """Return the pod with the condition that kube-scheduler gave it; none if it gave none.

    It gives none to pods that it places, which are to be placed here: one of no gang is unschedulable until then.
    """
    said = conditions.get(pod.name)
    if said is None and (pod.spec.scheduling_group is None or pod.spec.scheduling_group.pod_group_name in basic):
        said = {"status": "False", "reason": "Unschedulable"}
    if said is None:
        return pod
    condition = PodCondition(type="PodScheduled", status=said["status"], reason=said.get("reason", ""))
    return replace(pod, status=replace(pod.status, conditions=(condition,)))


def _with_room(plan: Plan) -> Iterator[Pod]:
    yield from plan.fitting
    for report in (plan.scale_up, *plan.salvo):
        yield from report.triggered


def _group_of(pod: Pod) -> str:
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else ""
