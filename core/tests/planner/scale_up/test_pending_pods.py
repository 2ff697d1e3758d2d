"""Which pods wait for room, and which have it already (docs/behaviour/loop.md#pending-pods)."""

import math
from typing import Any

import pytest
from msgspec import structs

from nodewright.adapters.kube.resources import Resource
from nodewright.model.meta import LabelSelector, Requirement
from nodewright.model.node import ZONE_LABEL
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodStatus,
    TopologySpreadConstraint,
)
from nodewright.model.settings import PodSettings, Settings
from nodewright.planner.scale_up.pending_pods import (
    DELAY_ANNOTATION,
    drop_passed_over,
    is_pending,
    split_young,
    take_fitting,
)
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass, PodClasses
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import World, grown

PLAIN = PodSettings()


def with_condition(pod: Pod, reason: str) -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason=reason)
    return structs.replace(pod, status=PodStatus(phase="Pending", conditions=(condition,)))


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (build_pod("waits"), True),
        (build_pod("expendable", priority=-11), False),
        (build_pod("lowest", priority=-10), True),
        (build_pod("untried", unschedulable=False), False),
        (build_pod("ended", phase="Succeeded"), False),
        (with_condition(build_pod("gated"), "SchedulingGated"), False),
    ],
)
def test_only_pods_the_scheduler_gave_up_on_are_pending(pod: Pod, counts: bool) -> None:
    assert is_pending(pod, PLAIN) is counts


def test_pods_of_bypassed_schedulers_count_before_they_are_tried() -> None:
    untried = build_pod("untried", unschedulable=False, phase="Pending")
    settings = PodSettings(bypassed_scheduler_names=("default-scheduler",))
    assert is_pending(untried, settings)
    assert not is_pending(untried, PodSettings(allowed_scheduler_names=("other",)))


@pytest.mark.parametrize(
    ("annotation", "age", "kept"),
    [
        (None, 1, False),
        (None, 31, True),
        ("1m", 31, False),
        ("1m", 61, True),
        ("1s", 29, False),
        ("soon", 31, True),
        (None, -86400, True),
    ],
)
def test_young_pods_wait(annotation: str | None, age: float, kept: bool) -> None:
    annotations = {DELAY_ANNOTATION: annotation} if annotation else {}
    pod = build_pod("p", created_at=1000 - age, annotations=annotations)
    old, young = split_young([pod], PodSettings(new_pod_scale_up_delay=30), 1000)
    assert (bool(old), bool(young)) == (kept, not kept)


def test_namespaces_that_are_being_deleted_are_read_and_get_no_help() -> None:
    resource: Resource[Any] = Resource("Namespace")
    ending = b'{"metadata": {"name": "ending"}, "status": {"phase": "Terminating"}}'
    marked = b'{"metadata": {"name": "marked", "deletionTimestamp": "2027-01-15T08:00:00Z"}}'
    active = b'{"metadata": {"name": "default"}, "status": {"phase": "Active"}}'
    objects = ClusterObjects(namespaces=tuple(map(resource.decode, (ending, marked, active))))
    world = World(context=Context.of(objects))
    world.pending = [build_pod("p", namespace=name, created_at=0) for name in ("ending", "marked")]
    world.add_group("g")
    assert grown(world.plan()) == {}
    assert grown(world.plan(profile="ca")) == {"g": (0, 1)}
    world.pending.append(build_pod("p", created_at=0))
    assert grown(world.plan()) == {"g": (0, 1)}


def test_waiting_pods_are_in_the_plan() -> None:
    world = World(pending=[build_pod("p", created_at=99_990)])
    world.add_group("g")
    plan = world.plan(new_pod_scale_up_delay=30.0)
    assert ([pod.name for pod in plan.waiting], grown(plan)) == (["p"], {})


def test_higher_priorities_take_the_room() -> None:
    snapshot = Snapshot()
    snapshot.add_node(build_node("n", cpu="2"))
    low, high = build_pod("low", cpu="2"), build_pod("high", cpu="2", priority=100)
    fitting, left = take_fitting(snapshot, [low, high])
    assert ([pod.name for pod in fitting], [pod.name for pod in left]) == (["high"], ["low"])


def test_pods_are_dealt_over_nodes_in_turn() -> None:
    snapshot = Snapshot()
    snapshot.add_nodes([build_node(f"n{k}", cpu="4") for k in range(3)])
    take_fitting(snapshot, [build_pod(f"p{k}", cpu="1") for k in range(7)])
    assert snapshot.used[:, 0].tolist() == [3, 2, 2]


def test_cordoned_nodes_take_nothing_even_from_tolerant_pods() -> None:
    snapshot = Snapshot()
    snapshot.add_node(build_node("n", unschedulable=True))
    assert take_fitting(snapshot, [build_pod("p")])[1]


def test_spread_pods_are_placed_one_by_one() -> None:
    snapshot = Snapshot()
    snapshot.add_nodes([build_node("a", zone="a", cpu="8"), build_node("b", zone="b", cpu="1")])
    spread = TopologySpreadConstraint(
        topology_key=ZONE_LABEL, max_skew=1, label_selector=LabelSelector(match_labels={"app": "x"})
    )
    pods = [build_pod(f"p{k}", cpu="1", labels={"app": "x"}, topology_spread_constraints=[spread]) for k in range(5)]
    fitting, left = take_fitting(snapshot, pods)
    assert (len(fitting), len(left)) == (3, 2)


def test_expendable_pods_hold_no_room() -> None:
    snapshot = Snapshot()
    row = snapshot.add_node(build_node("n", cpu="2"))
    snapshot.place(snapshot.class_of(build_pod("cheap", cpu="2", priority=-50)), row)
    drop_passed_over(snapshot, PLAIN, Settings().policy)
    assert take_fitting(snapshot, [build_pod("p", cpu="2")])[1] == []


def test_ca_takes_the_room_of_foreign_schedulers_for_free() -> None:
    """Trap 10.2-i: pods of schedulers that are not allowed are hidden also where they run."""
    world = World()
    world.add_group("g", 1)
    foreign = build_pod("foreign", cpu="4", node_name="g-0")
    world.running = [structs.replace(foreign, spec=structs.replace(foreign.spec, scheduler_name="other"))]
    world.pending = [build_pod("p", cpu="4", created_at=0.0)]
    allowed = {"allowed_scheduler_names": ("default-scheduler",)}
    assert grown(world.plan(**allowed)) == {"g": (1, 2)}
    assert grown(world.plan(profile="ca", **allowed)) == {}


def test_daemon_pods_take_room_and_cause_no_growth() -> None:
    daemon = build_pod("daemon", cpu="3", owner=("DaemonSet", "d"), priority=1000)
    world = World(pending=[build_pod("web", cpu="3"), daemon])
    world.add_group("g", size=1, cpu="4")
    assert grown(world.plan()) == {"g": (1, 2)}
    world.pending = [daemon, build_pod("other", cpu="3", owner=("DaemonSet", "e"))]
    assert grown(world.plan()) == {}


@pytest.mark.parametrize(("condition", "waits"), [("PreemptionByScheduler", True), ("EvictionByEvictionAPI", False)])
def test_pods_wait_for_the_room_of_a_preempted_one_until_it_must_have_ended(condition: str, waits: bool) -> None:
    world = World(pending=[build_pod("waits", cpu="3")])
    world.add_group("g", size=1, cpu="4")
    victim = build_pod("victim", cpu="3", node_name="g-0", deleted_at=world.now + 20)
    said = PodCondition(type="DisruptionTarget", status="True", reason=condition)
    world.running = [structs.replace(victim, status=PodStatus(phase="Running", conditions=(said,)))]
    found = world.plan()
    assert grown(found) == ({} if waits else {"g": (1, 2)})
    assert found.room_by == (world.now + 50 if waits else math.inf)
    assert grown(world.plan(profile="ca")) == {"g": (1, 2)}
    world.now += 51
    assert grown(world.plan()) == {"g": (1, 2)}, "it did not end, and its end is unknown"


def test_pods_that_repel_others_are_placed_together() -> None:
    """Two pods of tenant a on one of two ready nodes leave the other one to tenant b; CA deals them over both."""

    def make_pod(name: str) -> Pod:
        others = (
            Requirement(key="tenant", operator="Exists"),
            Requirement(key="tenant", operator="NotIn", values=(name[0],)),
        )
        term = PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=LabelSelector(match_expressions=others))
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
        return build_pod(name, cpu="500m", labels={"tenant": name[0]}, affinity=affinity)

    world = World(pending=[make_pod(name) for name in ("a-1", "b-1", "a-2")])
    for zone in ("one", "two", "three"):
        world.add_group(f"zone-{zone}", size=int(zone != "three"), zone=zone)
    assert grown(world.plan()) == {}
    assert grown(world.plan(profile="ca")) == {"zone-three": (0, 1)}


class CountingClasses(PodClasses):
    """Counts how often the class of a pod was looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0

    def of(self, pod: Pod, *, placed: bool = False) -> PodClass:
        self.lookups += 1
        return super().of(pod, placed=placed)


def test_a_class_is_looked_up_once_for_each_template_and_not_for_each_pod() -> None:
    snapshot, classes = Snapshot(), CountingClasses()
    snapshot.vocabulary.classes = classes
    snapshot.add_nodes([build_node(f"n-{number}", pods=512) for number in range(10)])
    templates = [build_pod(f"set-{number}", f"{number + 1}m", "1Ki", unschedulable=False) for number in range(4)]
    pods = [
        structs.replace(pod, metadata=structs.replace(pod.metadata, name=f"{pod.name}-{number}"))
        for pod in templates
        for number in range(500)
    ]
    fitting, _ = take_fitting(snapshot, pods)
    assert len(fitting) == len(pods)
    assert classes.lookups <= 2 * len(templates)
    assert [[held.spec for held in snapshot.pod_classes(row)] for row in range(10)] == [
        [pod.spec for pod in snapshot.pods(row)] for row in range(10)
    ]
