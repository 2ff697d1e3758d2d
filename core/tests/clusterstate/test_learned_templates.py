"""What real nodes teach about a group's template (docs/adr/0035-learned-templates.md)."""

import zlib
from collections import Counter
from dataclasses import replace
from typing import Any

from msgspec import structs

from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.clusterstate.learned_templates import DAY, describe, find_differences
from nodewright.clusterstate.memory import Correction, LearnedTemplate, Memory, ShownNode
from nodewright.model.cluster import DaemonSet, DaemonSetSpec, PodTemplateSpec
from nodewright.model.group import GroupRef
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import Node
from nodewright.model.settings import LoopSettings, Settings, TemplateSettings
from nodewright.planner.scale_up.templates import make_templates
from nodewright.snapshot.requests import exact_requests
from nodewright.testkit.builders import build_node, build_pod, build_taint
from nodewright.testkit.world import World, ref


def world_of(said: Node, size: int = 1, **real: Any) -> World:
    """A world with one group whose nodes differ from what its provider says of them; they have been there for long."""
    world = World()
    world.add_group("g", size=size, **real)
    tell(world, said)
    return world


def tell(world: World, said: Node) -> None:
    world.groups[ref("g")] = replace(world.groups[ref("g")], template=said)


def look(world: World) -> LearnedTemplate:
    """One loop, after which the memory is saved and read as over a restart."""
    world.memory = decode_memory(encode_memory(world.state().memory))
    return world.memory.learned[ref("g")]


def empty(world: World) -> None:
    world.nodes.clear()
    world.groups[ref("g")] = replace(world.groups[ref("g")], instances=(), target=0)


def planned(world: World) -> Node:
    return make_templates(world.state(), TemplateSettings())[ref("g")].node


def test_what_nodes_showed_holds_over_a_restart_when_they_are_gone() -> None:
    said = build_node("t", cpu="4", memory="16Gi", labels={"disk": "ssd"}, taints=[build_taint("agent")])
    world = world_of(said, cpu="4", memory="14Gi", labels={"disk": "hdd", "cpu-model": "x"})
    learned = look(world)
    empty(world)
    node = planned(world)
    assert node.allocatable["memory"].value == 14 * 2**30
    assert (node.metadata.labels["disk"], node.metadata.labels["cpu-model"]) == ("hdd", "x")
    assert node.spec.taints == ()
    assert [one.subject for one in find_differences(learned)] == ["memory", "label disk", "taint agent:NoSchedule"]
    assert str(next(find_differences(learned))) == "memory: the provider says 16Gi, real nodes have 14Gi (-12%)"


def test_the_labels_of_a_nodes_place_are_learned_before_its_many_features() -> None:
    place = "topology.cinder.csi.openstack.org/zone"
    features = {f"feature.node.kubernetes.io/cpu-cpuid.F{number:02}": "true" for number in range(40)}
    world = world_of(build_node("t"), labels={place: "a", **features})
    look(world)
    empty(world)
    labels = planned(world).metadata.labels
    assert labels[place] == "a"
    assert len(labels.keys() & features.keys()) == 31


def test_a_difference_is_told_once_and_small_ones_are_not() -> None:
    world = world_of(build_node("t", cpu="4", memory="1600Mi"), cpu="4", memory="1590Mi")
    assert world.state().wrong_templates == {}
    tell(world, build_node("t", cpu="8", memory="1600Mi"))
    world.memory = Memory()
    [told] = world.state().wrong_templates[ref("g")]
    assert told == "cpu: the provider says 8, real nodes have 4 (-50%)"
    look(world)
    assert world.state().wrong_templates == {}


def test_a_changed_label_leaves_other_corrections_and_a_changed_amount_drops_those_of_amounts() -> None:
    said = build_node("t", cpu="8", labels={"disk": "ssd", "version": "1"})
    world = world_of(said, cpu="4", labels={"disk": "hdd", "version": "1"})
    look(world)
    tell(world, build_node("t", cpu="8", labels={"disk": "ssd", "version": "2"}))
    node = planned(world)
    assert node.allocatable["cpu"].value == 4
    assert (node.metadata.labels["disk"], node.metadata.labels["version"]) == ("hdd", "2")
    tell(world, build_node("t", cpu="16", labels={"disk": "ssd", "version": "2"}))
    node = planned(world)
    assert node.allocatable["cpu"].value == 16
    assert node.metadata.labels["disk"] == "hdd"


def test_the_provider_is_believed_again_a_week_after_the_last_node() -> None:
    world = world_of(build_node("t", cpu="8"), cpu="4")
    look(world)
    empty(world)
    world.now += 7 * DAY
    assert planned(world).allocatable["cpu"].value == 4
    world.now += DAY
    look(world)
    assert planned(world).allocatable["cpu"].value == 8


def test_the_lack_of_a_device_is_believed_for_a_day() -> None:
    gpu = {"example.com/gpu": 1}
    world = world_of(build_node("t", extended=gpu))
    assert look(world).nodes[0].amounts == {"example.com/gpu": Correction("1", None)}
    empty(world)
    assert "example.com/gpu" not in planned(world).allocatable
    world.now += 2 * DAY
    look(world)
    assert planned(world).allocatable["example.com/gpu"].value == 1


def test_what_settled_nodes_showed_is_held_until_they_or_the_template_change() -> None:
    world = world_of(build_node("t", cpu="4", memory="16Gi"), size=2, cpu="4", memory="14Gi")
    first = world.memory = world.state().memory
    world.now += 10
    second = world.memory = world.state().memory
    assert second.learned[ref("g")] is first.learned[ref("g")]
    world.nodes[0] = structs.replace(world.nodes[0], status=build_node("x", cpu="4", memory="13Gi").status)
    assert planned(world).allocatable["memory"].value == 13 * 2**30
    world.memory = second
    tell(world, build_node("t", cpu="4", memory="32Gi"))
    assert world.state().memory.learned[ref("g")].machine != first.learned[ref("g")].machine


def test_the_least_of_the_last_three_nodes_counts() -> None:
    world = world_of(build_node("t", memory="16Gi"), size=3, memory="15Gi")
    node = world.nodes[1]
    status = build_node("x", memory="14Gi").status
    world.nodes[1] = structs.replace(node, status=structs.replace(node.status, allocatable=status.allocatable))
    look(world)
    assert planned(world).allocatable["memory"].value == 14 * 2**30


def test_a_taint_of_readiness_on_the_only_node_is_not_that_of_new_ones() -> None:
    world = world_of(build_node("t"), taints=[build_taint("readiness.k8s.io/network"), build_taint("dedicated")])
    look(world)
    assert [taint.key for taint in planned(world).spec.taints] == ["dedicated"]


def test_profile_ca_learns_nothing() -> None:
    world = world_of(build_node("t", cpu="8"), cpu="4")
    assert world.state(Settings(loop=LoopSettings(profile="ca"))).memory.learned == {}


def test_a_thousand_groups_that_differ_fit_into_the_saved_state() -> None:
    def learned(number: int) -> LearnedTemplate:
        amounts = {name: Correction("17179869184", str(15_500_000_000 + number * 7919)) for name in ("memory", "cpu")}
        labels = {f"label feature.example.com/{n}": Correction(None, f"value-{n}") for n in range(32)}
        names = [f"ip-10-{number % 250}-{number * 31 % 250}-{n}.ec2.internal" for n in range(3)]
        nodes = tuple(ShownNode(name, 1e9 + number, amounts) for name in names)
        print_of = f"{number * 2_654_435_761 % 2**48:012x}"
        return LearnedTemplate(
            machine=print_of, marks=print_of[::-1], nodes=nodes, corrections=labels, told=("memory",)
        )

    memory = Memory(learned={GroupRef("cloud", f"pool-{n:04}"): learned(n) for n in range(1000)})
    assert len(zlib.compress(encode_memory(memory))) < 256 * 1024


def daemons_of(cpu: str, template_version: str = "1") -> DaemonSet:
    """A DaemonSet whose pods request so much by its template."""
    meta = ObjectMeta(
        name="agent",
        namespace="default",
        uid="uid-DaemonSet-agent",
        annotations={"deprecated.daemonset.template.generation": template_version},
    )
    return DaemonSet(metadata=meta, spec=DaemonSetSpec(template=PodTemplateSpec(spec=build_pod("x", cpu=cpu).spec)))


def overhead(world: World) -> dict[str, int]:
    """What the pods of the group's next node request together, in millicores and bytes."""
    found = make_templates(world.state(), TemplateSettings())[ref("g")]
    total = Counter[str]()
    for pod in found.pods:
        total.update({name: nano // 10**6 for name, nano in exact_requests(pod, placed=True).items()})
    return {"cpu": total["cpu"], "memory": total["memory"] // 1000}


def test_the_overhead_of_daemon_sets_is_that_of_real_nodes() -> None:
    """A webhook adds to the pods of one DaemonSet, and the pods of another owner have no DaemonSet of Kubernetes."""
    world = world_of(build_node("t", cpu="4", memory="16Gi"), cpu="4", memory="16Gi")
    world.daemon_sets = [daemons_of("100m")]
    world.running = [
        build_pod("agent-1", cpu="350m", memory="164Mi", node_name="g-0", owner=("DaemonSet", "agent")),
        build_pod("other-1", cpu="50m", memory="36Mi", node_name="g-0", owner=("DaemonSet", "kruise")),
        build_pod("web", cpu="1", node_name="g-0"),
    ]
    learned = look(world)
    assert learned.daemon_extra == {"cpu": "300m", "memory": "104857600"}
    assert list(describe(learned)) == ["DaemonSet pods request cpu 300m, memory 0.1Gi more than their DaemonSets say"]
    real = overhead(world)
    empty(world)
    world.running = []
    assert overhead(world) == real == {"cpu": 400, "memory": 200 * 2**20}


def test_a_pod_that_a_rolling_update_is_still_to_replace_tells_nothing_of_its_daemon_set() -> None:
    world = world_of(build_node("t", cpu="4"), cpu="4")
    world.daemon_sets = [daemons_of("100m", "2")]
    for version, extra in (("1", {}), ("2", {"cpu": "250m"})):
        labels, owner = {"pod-template-generation": version}, ("DaemonSet", "agent")
        world.running = [build_pod("agent-1", cpu="350m", labels=labels, owner=owner, node_name="g-0")]
        assert look(world).daemon_extra == extra


def test_pods_that_the_kubelet_makes_itself_are_part_of_the_overhead() -> None:
    world = world_of(build_node("t", cpu="4"), cpu="4")
    mirror = {"kubernetes.io/config.mirror": "hash"}
    world.running = [build_pod("proxy", cpu="100m", node_name="g-0", annotations=mirror)]
    assert look(world).static_pods == {"cpu": "100m", "memory": "104857600"}
    empty(world)
    world.running = []
    assert overhead(world)["cpu"] == 100
