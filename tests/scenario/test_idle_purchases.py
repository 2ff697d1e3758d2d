"""Pending pods that must not buy more nodes than they use: neighbours that depend on one another, pods that no group helps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.scenario.story import Story

from nodewright.model.meta import LabelSelector, Requirement
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.snapshot.context import Context
from nodewright.testkit import build_pod
from nodewright_simulator.cluster import SimulatedPod
from nodewright_simulator.journal import What

GROUPS: tuple[dict[str, Any], ...] = (
    {"name": "small", "zone": "a", "cpu": 4, "memory": "16Gi"},
    {"name": "large", "zone": "b", "cpu": 16, "memory": "64Gi"},
    {"name": "huge", "zone": "c", "cpu": 8, "memory": "32Gi"},
)
LABELS = Context(namespaces={"default": {}, "other": {"team": "x"}})
Build = Callable[[], list[Pod]]


def pods_of(name: str, count: int = 1, **extras: Any) -> list[Pod]:
    """Pods that the scheduler has not tried yet."""
    return [build_pod(f"{name}-{n}", unschedulable=False, owner=None, **extras) for n in range(count)]


def term(key: str, **more: Any) -> PodAffinity:
    return PodAffinity(required=(PodAffinityTerm(topology_key=key, **more),))


def spread(key: str, min_domains: int | None = None) -> TopologySpreadConstraint:
    selector = LabelSelector(match_labels={"app": "w"})
    return TopologySpreadConstraint(max_skew=1, topology_key=key, label_selector=selector, min_domains=min_domains)


def spread_by_zone_and_host() -> list[Pod]:
    constraints = [spread(ZONE_LABEL, 3), spread(HOSTNAME_LABEL)]
    return pods_of("w", 6, cpu="500m", labels={"app": "w"}, topology_spread_constraints=constraints)


def beside_a_pod_of_another_namespace() -> list[Pod]:
    """The one that seeks company comes first, as it does where both were created within a second."""
    wanted = term(
        ZONE_LABEL,
        label_selector=LabelSelector(match_labels={"app": "db"}),
        namespace_selector=LabelSelector(match_labels={"team": "x"}),
    )
    seeks = pods_of("p", cpu="7500m", affinity=Affinity(pod_affinity=wanted))
    company = pods_of("db", cpu="500m", namespace="other", labels={"app": "db"}, node_selector={ZONE_LABEL: "c"})
    return seeks + company


def apart_from_other_tenants() -> list[Pod]:
    """As they are read from the API server, which merges ``mismatchLabelKeys`` into the selector."""

    def tenant(name: str, tenant: str) -> Pod:
        others = (
            Requirement(key="tenant", operator="Exists"),
            Requirement(key="tenant", operator="NotIn", values=(tenant,)),
        )
        unwanted = term(
            ZONE_LABEL, label_selector=LabelSelector(match_expressions=others), mismatch_label_keys=("tenant",)
        )
        return pods_of(name, cpu="500m", labels={"tenant": tenant}, affinity=Affinity(pod_anti_affinity=unwanted))[0]

    return [tenant("a1", "a"), tenant("b1", "b"), tenant("a2", "a")]


def run(build: Build, provision: str, minutes: float = 10, settings: dict[str, Any] | None = None) -> Story:
    shapes = [{**group, "provision_delay": provision} for group in GROUPS]
    chosen = {"expander": "least-waste", "scale-down-enabled": False, **(settings or {})}
    story = Story(*shapes, settings=chosen, minutes=minutes)
    story.simulation.cluster.live.context = LABELS

    def arrive(at: float) -> None:
        for pod in build():
            story.simulation.cluster.submit(SimulatedPod(pod=pod, arrived=at))

    story.simulation.agenda.at(5.0, arrive)
    return story


def idle_nodes(story: Story) -> set[str]:
    """Nodes on which nothing ever ran."""
    journal = story.result.journal
    nodes = {fact.name for fact in journal if fact.what == What.NODE_ADDED}
    return nodes - {fact.where for fact in journal if fact.what == What.POD_STARTED}


@pytest.mark.parametrize("provision", ["1s", "12s", "45s", "3m"])
@pytest.mark.parametrize(
    "build", [spread_by_zone_and_host, beside_a_pod_of_another_namespace, apart_from_other_tenants]
)
def test_pods_that_depend_on_one_another_leave_no_node_idle(build: Build, provision: str) -> None:
    story = run(build, provision, minutes=20)
    assert story.result.final.pending == 0
    assert idle_nodes(story) == set()


def test_pods_of_a_namespace_that_is_being_deleted_get_no_node() -> None:
    """The API server binds nothing there: a node for them is never used."""
    story = run(partial(pods_of, "p", namespace="dying"), "1s")
    live = story.simulation.cluster.live
    live.context = Context(ending_namespaces=frozenset({"dying"}))
    assert story.writes() == []
    ca_run = run(partial(pods_of, "p", namespace="dying"), "1s", settings={"profile": "ca"})
    ca_run.simulation.cluster.live.context = Context(ending_namespaces=frozenset({"dying"}))
    assert [write[1] for write in ca_run.writes()] == ["increase"]


FAMILIES: tuple[dict[str, Any], ...] = (
    {"name": "general", "zone": "a", "cpu": 4, "memory": "16Gi"},
    {"name": "compute", "zone": "b", "cpu": 8, "memory": "16Gi"},
    {"name": "memory", "zone": "c", "cpu": 4, "memory": "32Gi"},
)


def test_what_one_group_was_bought_for_is_not_bought_again_beside_another() -> None:
    """100 pods that go anywhere were planned onto the compute machines: they take no room of the memory machines."""
    shapes = [{**family, "provision_delay": "5m"} for family in FAMILIES]
    story = Story(*shapes, settings={"expander": "least-waste", "scale-down-enabled": False}, minutes=4)

    def arrive(at: float) -> None:
        pods = pods_of("any", 100, cpu="500m", memory="1Gi")
        pods += pods_of("compute", 100, cpu="1", memory="1500Mi", node_selector={ZONE_LABEL: "b"})
        pods += pods_of("memory", 100, cpu="500m", memory="5Gi", node_selector={ZONE_LABEL: "c"})
        for pod in pods:
            story.simulation.cluster.submit(SimulatedPod(pod=pod, arrived=at))

    story.simulation.agenda.at(5.0, arrive)
    assert [(what, group, after) for _, what, group, _, after in story.writes()] == [
        ("increase", "compute", 19),
        ("increase", "memory", 17),
    ]
