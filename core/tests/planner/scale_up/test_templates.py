"""The nodes that groups would add (docs/behaviour/scale-up.md, edge cases 109 and 110)."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nodewright.clusterstate.memory import LearnedTemplate
from nodewright.estimator.binpacking import Template
from nodewright.model.cluster import CsiDriver, DaemonSet, DaemonSetSpec, PodTemplateSpec
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import HOSTNAME_LABEL, CsiAllocatable, CsiNode, CsiNodeDriver, CsiNodeSpec
from nodewright.model.settings import TemplateSettings
from nodewright.planner.scale_up.templates import TEMPLATE_LABEL, make_templates
from nodewright.predicates.in_tree_volumes import migrated_plugins
from nodewright.snapshot.context import Context
from nodewright.testkit.builders import build_node, build_pod, build_taint
from nodewright.testkit.world import World, ref


def daemon_set(name: str, **pod: Any) -> DaemonSet:
    spec = build_pod("x", **pod).spec
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-DaemonSet-{name}")
    return DaemonSet(metadata=meta, spec=DaemonSetSpec(template=PodTemplateSpec(spec=spec)))


def template(world: World, settings: TemplateSettings | None = None) -> Template:
    return make_templates(world.state(), settings or TemplateSettings())[ref("g")]


def owners(found: Template) -> list[str]:
    controllers = [pod.metadata.controller for pod in found.pods]
    return [controller.name for controller in controllers if controller is not None]


def test_a_real_node_loses_what_is_its_own() -> None:
    taints = [
        build_taint("startup-taint.cluster-autoscaler.kubernetes.io/agent"),
        build_taint("status-taint.cluster-autoscaler.kubernetes.io/x"),
        build_taint("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"),
        build_taint("node.kubernetes.io/unreachable", "NoExecute"),
        build_taint("mine"),
        build_taint("dedicated"),
    ]
    world = World()
    world.add_group("g", template=None, size=1, taints=taints, unschedulable=True)
    found = template(world, TemplateSettings(startup_taint=("mine",)))
    assert [taint.key for taint in found.node.spec.taints] == ["dedicated"]
    assert found.node.spec.unschedulable
    assert found.node.metadata.labels[HOSTNAME_LABEL] == found.node.name != "g-0"
    assert found.node.metadata.labels[TEMPLATE_LABEL] == "true"
    opened = template(world, TemplateSettings(scale_from_unschedulable=True))
    assert not opened.node.spec.unschedulable


def test_a_new_node_has_not_the_age_of_the_node_that_it_is_copied_from() -> None:
    world = World()
    world.add_group("g", 1, created_at=world.now - 1000)
    assert world.nodes[0].created
    assert template(world).node.metadata.creation_timestamp is None


def test_a_good_node_wins_over_the_providers_description() -> None:
    world = World()
    world.add_group("g", size=1, cpu="4")
    world.groups[ref("g")] = replace(world.groups[ref("g")], template=build_node("described", cpu="8"))
    assert template(world).node.allocatable["cpu"].value == 4


def test_without_a_good_node_the_description_stands() -> None:
    world = World()
    world.add_group("g", size=1, cpu="4", ready=False)
    world.groups[ref("g")] = replace(world.groups[ref("g")], template=build_node("described", cpu="8"))
    assert template(world).node.allocatable["cpu"].value == 8


def test_what_a_good_node_showed_is_remembered_when_the_group_is_empty_until_the_description_changes() -> None:
    world = World()
    world.add_group("g", size=1, cpu="4")
    world.groups[ref("g")] = replace(world.groups[ref("g")], template=build_node("described", cpu="8"))
    world.memory = world.state().memory
    world.nodes.clear()
    world.groups[ref("g")] = replace(world.groups[ref("g")], instances=(), target=0)
    assert template(world).node.allocatable["cpu"].value == 4
    world.groups[ref("g")] = replace(world.groups[ref("g")], template=build_node("described", cpu="16"))
    assert template(world).node.allocatable["cpu"].value == 16


def test_a_pod_of_a_daemon_set_has_the_metadata_of_its_template() -> None:
    world = World()
    world.add_group("g")
    own = daemon_set("agent")
    meta = structs.replace(own.spec.template.metadata, labels={"app": "agent"}, annotations={"checksum": "1"})
    pod_template = structs.replace(own.spec.template, metadata=meta)
    world.daemon_sets = [structs.replace(own, spec=structs.replace(own.spec, template=pod_template))]
    [pod] = template(world).pods
    assert (pod.metadata.labels, pod.metadata.annotations) == ({"app": "agent"}, {"checksum": "1"})
    assert (pod.metadata.name, pod.metadata.namespace) == ("agent-pod", own.metadata.namespace)


def test_a_description_gets_every_daemon_set_that_would_run() -> None:
    world = World()
    world.add_group("g", labels={"disk": "ssd"}, taints=[build_taint("dedicated")])
    tolerating = structs.replace(build_pod("x").spec, tolerations=())
    assert not tolerating.tolerations
    world.daemon_sets = [
        daemon_set("everywhere"),
        daemon_set("on-ssd", node_selector={"disk": "ssd"}),
        daemon_set("on-hdd", node_selector={"disk": "hdd"}),
    ]
    assert owners(template(world)) == []
    world.groups.clear()
    world.add_group("g", labels={"disk": "ssd"}, taints=[build_taint("node.kubernetes.io/disk-pressure")])
    assert owners(template(world)) == ["everywhere", "on-ssd"]


def test_a_real_node_keeps_its_daemon_pods_and_gets_no_others() -> None:
    world = World()
    world.add_group("g", size=1)
    world.running = [
        build_pod("agent-1", owner=("DaemonSet", "agent"), node_name="g-0"),
        build_pod("web-1", node_name="g-0"),
        build_pod("static", owner=None, annotations={"kubernetes.io/config.mirror": "x"}, node_name="g-0"),
    ]
    world.daemon_sets = [daemon_set("agent"), daemon_set("new")]
    found = template(world)
    assert [pod.name for pod in found.pods] == ["agent-1", "static"]
    forced = template(world, TemplateSettings(force_ds=True))
    assert owners(forced) == ["agent", "new"]


def test_node_critical_daemon_sets_are_always_there() -> None:
    world = World()
    world.add_group("g", size=1)
    critical = daemon_set("critical")
    spec = structs.replace(critical.spec.template.spec, priority_class_name="system-node-critical")
    world.daemon_sets = [
        structs.replace(critical, spec=DaemonSetSpec(template=PodTemplateSpec(spec=spec))),
        daemon_set("plain"),
    ]
    assert owners(template(world)) == ["critical"]


def test_a_new_node_has_the_csi_drivers_and_limits_of_a_real_one() -> None:
    world = World()
    world.add_group("g", 1)
    installed = CsiNode(
        metadata=ObjectMeta(name="g-0"),
        spec=CsiNodeSpec(drivers=(CsiNodeDriver(name="csi", allocatable=CsiAllocatable(count=25)),)),
    )
    driver = CsiDriver(metadata=ObjectMeta(name="other"))
    assert template(world).node.csi_node is None
    world.context = Context(csi_nodes={"g-0": installed}, csi_drivers={"other": driver})
    assert template(world).node.csi_node == installed
    world.context = Context(csi_drivers={"other": driver})
    assert template(world).node.csi_node == CsiNode(spec=CsiNodeSpec(drivers=(CsiNodeDriver(name="other"),)))


def test_the_drivers_of_a_last_real_node_serve_the_volumes_of_in_tree_plugins() -> None:
    world = World()
    world.add_group("g", 0, template=build_node("t"))
    world.context = Context(csi_drivers={"other": CsiDriver(metadata=ObjectMeta(name="other"))})
    drivers = (CsiNodeDriver(name="ebs.csi.aws.com", allocatable=CsiAllocatable(count=25)),)
    state = world.state()
    state = replace(state, memory=replace(state.memory, learned={ref("g"): LearnedTemplate(csi_drivers=drivers)}))
    csi_node = make_templates(state, TemplateSettings())[ref("g")].node.csi_node
    assert csi_node is not None
    assert csi_node.spec.drivers == drivers
    assert migrated_plugins(csi_node) == {"kubernetes.io/aws-ebs"}


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({"topology.kubernetes.io/zone": "a"}, "a"),
        ({"topology.kubernetes.io/zone": "a", "topology.ebs.csi.aws.com/zone": "b"}, "b"),
        ({}, None),
    ],
)
def test_the_drivers_of_a_last_real_node_give_a_new_one_their_zone_labels(
    labels: dict[str, str], zone: str | None
) -> None:
    """Volumes of in-tree plugins ask for them. The provider need not know them."""
    world = World()
    world.add_group("g", 0, template=build_node("t", labels=labels))
    world.context = Context(csi_drivers={"other": CsiDriver(metadata=ObjectMeta(name="other"))})
    drivers = (CsiNodeDriver(name="ebs.csi.aws.com"), CsiNodeDriver(name="file.csi.azure.com"))
    state = world.state()
    state = replace(state, memory=replace(state.memory, learned={ref("g"): LearnedTemplate(csi_drivers=drivers)}))
    found = make_templates(state, TemplateSettings())[ref("g")].node.metadata.labels
    assert found.get("topology.ebs.csi.aws.com/zone") == zone
    assert "topology.gke.io/zone" not in found
