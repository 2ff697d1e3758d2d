"""The independent check finds the wrong removals of a faulty planner."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from nodewright.model.disruption import Budget, DisruptionConfig
from nodewright.model.gang import GangPolicy, PodGroupSpec, SchedulingPodGroup, SchedulingPolicy
from nodewright.model.meta import ObjectMeta
from nodewright.model.pod import EmptyDir, HostPath, Pod, SchedulingGroup, Toleration, Volume
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalStage, Removing
from nodewright.testkit.builders import build_budget, build_pod, build_taint
from nodewright.testkit.world import NOW, World, ref, settings_with
from nodewright.validate import check_removals

HOUR = 3600.0
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def removal(node: str = "g-0", *pods: str, instance_id: str = "") -> NodeRemoval:
    group, _, number = node.partition("-")
    return NodeRemoval(
        node=node,
        group=ref(group),
        instance_id=instance_id or f"cloud:///{group}/{number}",
        reason=RemovalReason.UNDERUTILIZED if pods else RemovalReason.EMPTY,
        pods=pods,
    )


def world(*running: Pod, **group: Any) -> World:
    made = World()
    made.add_group("g", size=3, cpu="4", **group)
    made.running += running
    return made


def rules(given: World, *removals: NodeRemoval, places: dict[str, str] | None = None, **changes: object) -> list[str]:
    settings = settings_with(**changes)
    found = check_removals(given.state(settings).observation, removals, places or {}, settings)
    return [violation.rule for violation in found]


def test_a_machine_of_two_nodes_stays() -> None:
    given = world()
    given.nodes.append(changed(given.nodes[0], metadata=changed(given.nodes[0].metadata, name="old")))
    assert rules(given, removal("g-0")) == ["machine cloud:///g/0 has 2 nodes"]
    assert rules(given, removal("g-1")) == []
    assert rules(given, removal("g-0"), profile="ca") == []


def on_node(name: str = "p", cpu: str = "1", **extras: Any) -> Pod:
    return build_pod(name, cpu=cpu, node_name="g-0", **extras)


def moved(pod: Pod, given: World, **changes: object) -> list[str]:
    """The rules against removing the pod's node, where the next node is said to take the pod."""
    return rules(given, removal("g-0", pod.key), places={pod.key: "g-1"}, **changes)


def test_sound_removals() -> None:
    pod = on_node()
    assert moved(pod, world(pod)) == []
    assert rules(world(), removal("g-0"), removal("g-1")) == []


@pytest.mark.parametrize(
    ("planned", "rule"),
    [
        (removal("g-9"), "there is no node g-9"),
        (removal("g-0", instance_id="cloud:///g/1"), "node g-0 is machine cloud:///g/0, not cloud:///g/1"),
    ],
)
def test_a_node_that_is_not_what_it_was_taken_for(planned: NodeRemoval, rule: str) -> None:
    assert rules(world(), planned) == [rule]


def test_a_machine_that_the_group_does_not_list() -> None:
    given = world()
    given.groups[ref("g")] = replace(given.groups[ref("g")], instances=())
    assert rules(given, removal("g-0")) == ["group cloud/g has no machine cloud:///g/0"]


def test_a_group_that_cannot_be_read_loses_nothing() -> None:
    assert rules(world(target=None), removal("g-0")) == ["the size of group cloud/g is unknown"]


def test_a_removal_that_says_itself_where_its_pods_go() -> None:
    pod = on_node(cpu="3")
    given = world(pod, build_pod("full", cpu="2", node_name="g-1"))
    planned = removal("g-0", pod.key)
    assert rules(given, changed(planned, places=("g-2",)), places={pod.key: "g-1"}) == []
    (rule,) = rules(given, changed(planned, places=("g-1",)), places={pod.key: "g-2"})
    assert rule.startswith(f"pod {pod.key} has no place")
    assert rules(given, changed(planned, places=("",)), places={pod.metadata.uid: "g-2"}) == []


def test_a_node_that_is_to_stay() -> None:
    given = world(annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    assert rules(given, removal("g-0")) == ["node g-0 has the annotation scale-down-disabled"]


def test_minimum_sizes_count_what_goes_already() -> None:
    given = world(min_size=1)
    assert rules(given, removal("g-0"), removal("g-1")) == []
    given.removing["g-2"] = Removing(removal=removal("g-2"), stage=RemovalStage.DRAINING, started=NOW)
    assert rules(given, removal("g-0"), removal("g-1")) == ["group cloud/g would fall below its minimum of 1"]


def test_a_node_goes_once() -> None:
    assert rules(world(), removal("g-0"), removal("g-0")) == ["node g-0 is being removed already"]


def test_virtual_nodes_count_for_no_minimum() -> None:
    given = world()
    given.add_group("v", size=1, cpu="100", memory="4Ti", labels={"type": "virtual-kubelet"})
    assert rules(given, removal("v-0"), cores_total="8:100") == []


def test_minima_of_the_cluster() -> None:
    given = world()
    assert rules(given, removal("g-0"), removal("g-1"), cores_total="8:100") == [
        "cpu of the cluster would fall below its minimum of 8"
    ]
    given.removing["g-2"] = Removing(removal=removal("g-2"), stage=RemovalStage.DRAINING, started=NOW)
    assert rules(given, removal("g-0"), cores_total="8:100"), "what goes already counts no more"
    assert rules(given, removal("g-0"), memory_total="20:100") == [
        f"memory of the cluster would fall below its minimum of {20 * 2**30}"
    ]


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (on_node(owner=None), "no controller would create it again"),
        (on_node(owner=("Widget", "w")), "it is unknown whether its owner, a Widget, would create it again"),
        (on_node(annotations={SAFE: "false"}), "it is annotated as not safe to evict"),
        (on_node(annotations={SAFE: "on-completion"}), "it must run to completion (safe-to-evict: on-completion)"),
        (on_node(volumes=[Volume(name="v", host_path=HostPath(path="/x"))]), "it keeps data on its node"),
        (on_node(volumes=[Volume(name="v", empty_dir=EmptyDir())]), "it keeps data on its node"),
        (on_node(namespace="kube-system", created_at=NOW - HOUR), "it is a kube-system pod that started recently"),
        (
            on_node(namespace="kube-system", created_at=NOW - 2 * HOUR, annotations={SAFE: "false"}),
            "it is annotated as not safe to evict",
        ),
        (
            on_node(
                namespace="kube-system", created_at=NOW - 2 * HOUR, volumes=[Volume(name="v", empty_dir=EmptyDir())]
            ),
            "it keeps data on its node",
        ),
    ],
)
def test_pods_that_may_not_be_moved(pod: Pod, why: str) -> None:
    assert moved(pod, world(pod)) == [f"pod {pod.key} may not be moved: {why}"]


@pytest.mark.parametrize(
    "pod",
    [
        on_node(owner=None, annotations={SAFE: "true"}),
        on_node(volumes=[Volume(name="v", empty_dir=EmptyDir(medium="Memory"))]),
        on_node(volumes=[Volume(name="v", empty_dir=EmptyDir())], annotations={f"{SAFE}-local-volumes": "u,v"}),
        on_node(namespace="kube-system", created_at=NOW - HOUR - 1),
        on_node(owner=None, phase="Failed"),
    ],
)
def test_pods_that_may(pod: Pod) -> None:
    assert moved(pod, world(pod)) == []


def test_ca_moves_an_old_system_pod_whatever_keeps_others() -> None:
    pod = on_node(namespace="kube-system", created_at=NOW - 2 * HOUR, annotations={SAFE: "false"})
    assert moved(pod, world(pod), profile="ca") == []


def test_pods_alike_but_for_their_times_are_told_apart() -> None:
    old, young = (
        on_node(name, namespace="kube-system", created_at=NOW - age) for name, age in (("a", 2 * HOUR), ("b", 9))
    )
    gone, terminating = (
        on_node(name, owner=("Job", "j"), deleted_at=NOW - age) for name, age in (("c", 100.0), ("d", 10.0))
    )
    given = world(old, young, gone, terminating)
    pods = [pod.key for pod in (old, young, gone, terminating)]
    assert rules(given, removal("g-0", *pods), places=dict.fromkeys(pods[:3], "g-1")) == [
        "pod kube-system/b may not be moved: it is a kube-system pod that started recently",
        "pod default/d has no place: the plan names no node for it",
    ]


@pytest.mark.parametrize(
    "pod",
    [
        on_node(owner=("DaemonSet", "ds")),
        on_node(owner=None, annotations={"kubernetes.io/config.mirror": "x"}),
        on_node(deleted_at=NOW - 61.0),
        on_node(priority=-11),
    ],
)
def test_pods_that_go_with_their_node(pod: Pod) -> None:
    assert rules(world(pod), removal("g-0")) == []


def test_a_pod_that_came_since() -> None:
    pod, late = on_node(), on_node("late")
    given = world(pod, late)
    places = {pod.key: "g-1", late.key: "g-1"}
    assert rules(given, removal("g-0", pod.key), places=places) == [
        "pods run on the node that the plan does not name: default/late"
    ]


def test_budgets_are_spent_from_node_to_node() -> None:
    """One node may carry more pods than the budget allows: the API server lets them go one by one."""
    two = [on_node("a", labels={"app": "x"}), on_node("b", labels={"app": "x"})]
    other = build_pod("c", node_name="g-1", labels={"app": "x"})
    given = world(*two, other)
    given.budgets.append(build_budget("x", 1, {"app": "x"}))
    places = {pod.key: "g-2" for pod in (*two, other)}
    plans = [removal("g-0", *(pod.key for pod in two)), removal("g-1", other.key)]
    assert rules(given, plans[0], places=places) == []
    assert rules(given, *plans, places=places) == ["disruption budget default/x allows no more: pod default/c"]


@pytest.mark.parametrize(("selected", "counts"), [({"app": "x"}, True), ({"app": "y"}, False)])
def test_budgets_of_others_do_not_matter(selected: dict[str, str], *, counts: bool) -> None:
    pod = on_node(labels={"app": "x"})
    given = world(pod)
    given.budgets += [build_budget("b", 0, selected), build_budget("elsewhere", 0, {"app": "x"}, namespace="other")]
    assert bool(moved(pod, given)) is counts


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (None, "the plan names no node for it"),
        ("g-7", "there is no node g-7"),
        ("g-0", "node g-0 is removed too"),
        ("g-1", "node g-1 has not enough cpu"),
        ("t-0", "node t-0 has the taint dedicated"),
    ],
)
def test_pods_without_a_place(place: str | None, why: str) -> None:
    pod = on_node(cpu="2")
    given = world(pod, build_pod("full", cpu="3", node_name="g-1"))
    given.add_group("t", size=1, taints=[build_taint("dedicated")])
    places = {} if place is None else {pod.key: place}
    assert rules(given, removal("g-0", pod.key), places=places) == [f"pod default/p has no place: {why}"]


def test_a_place_is_given_once() -> None:
    pods = [on_node("a", cpu="3"), on_node("b", cpu="3")]
    planned = removal("g-0", *(pod.key for pod in pods))
    assert rules(world(*pods), planned, places={pod.key: "g-1" for pod in pods}) == [
        "pod default/b has no place: node g-1 has not enough cpu"
    ]
    assert rules(world(*pods), planned, places={pods[0].key: "g-1", pods[1].key: "g-2"}) == []


def test_tolerations_and_selectors() -> None:
    given = world()
    given.add_group("t", size=1, taints=[build_taint("dedicated", value="a")], labels={"disk": "ssd"})
    fits = [Toleration(key="dedicated", operator="Equal", value="a")]
    for pod, broken in (
        (on_node("a", tolerations=fits, node_selector={"disk": "ssd"}), 0),
        (on_node("b", tolerations=fits, node_selector={"disk": "hdd"}), 1),
        (on_node("c", tolerations=[Toleration(key="dedicated", operator="Equal", value="b")]), 1),
        (on_node("d", tolerations=[Toleration(operator="Exists")]), 0),
    ):
        given.running = [pod]
        assert len(rules(given, removal("g-0", pod.key), places={pod.key: "t-0"})) == broken


def test_two_budgets_for_one_pod() -> None:
    """The API server evicts no such pod; CA does not know."""
    pod = on_node(labels={"app": "x"})
    given = world(pod)
    given.budgets += [build_budget("a", 3, {"app": "x"}), build_budget("b", 3)]
    rule = "pod default/p may not be moved: more than one disruption budget selects it"
    assert moved(pod, given) == [rule]
    assert moved(pod, given, profile="ca") == []


def test_a_disruption_budget_counts_what_goes_already() -> None:
    given = world()
    seen = replace(given.state().observation, disruption=DisruptionConfig(disruption=(Budget(nodes=1),)))

    def broken(*removals: NodeRemoval) -> list[str]:
        return [one.rule for one in check_removals(seen, removals, {}, settings_with())]

    assert broken(removal("g-0")) == []
    assert broken(removal("g-0"), removal("g-1")) == ["a disruption budget allows no more nodes"]
    going = Removing(removal=removal("g-2"), stage=RemovalStage.DRAINING, started=NOW)
    seen = replace(seen, removing={"g-2": going})
    assert broken(removal("g-0")) == ["a disruption budget allows no more nodes"]


# Gangs


def gang_world(*nodes: str, least: int = 3) -> World:
    """A gang with a pod on each of these nodes."""
    pods = [build_pod(f"m{number}", cpu="1", node_name=node) for number, node in enumerate(nodes)]
    group = SchedulingGroup(pod_group_name="g")
    made = world(*(changed(pod, spec=changed(pod.spec, scheduling_group=group)) for pod in pods))
    spec = PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=least)))
    made.pod_groups = [SchedulingPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec)]
    return made


def gang_rules(given: World, *nodes: str, **options: object) -> list[str]:
    """The rules against removing these nodes together, where the last node takes all pods."""
    on = {node: [pod.key for pod in given.running if pod.spec.node_name == node] for node in nodes}
    places = {key: "g-2" for keys in on.values() for key in keys}
    return rules(given, *(removal(node, *keys) for node, keys in on.items()), places=places, **options)


def test_a_gang_that_would_be_left_with_too_few_pods() -> None:
    given = gang_world("g-0", "g-1", "g-2")
    assert gang_rules(given, "g-0") == ["gang default/g would keep 2 pods, and needs 3"]
    assert gang_rules(given, "g-0", profile="ca") == []
    assert gang_rules(gang_world("g-0", "g-1", "g-2", least=2), "g-0") == []


def test_removals_of_one_plan_count_together() -> None:
    given = gang_world("g-0", "g-1", "g-2", least=2)
    assert gang_rules(given, "g-0", "g-1") == ["gang default/g would keep 1 pod, and needs 2"] * 2
    assert gang_rules(gang_world("g-0", "g-1", least=2), "g-0", "g-1") == []


def test_removals_under_way_count_for_a_gang() -> None:
    given = gang_world("g-0", "g-1", "g-2", least=2)
    under_way = Removing(removal=removal("g-1", "default/m1"), stage=RemovalStage.DRAINING, started=NOW)
    given.removing = {"g-1": under_way}
    assert gang_rules(given, "g-0") == ["gang default/g would keep 1 pod, and needs 2"]


def test_a_gang_with_too_few_pods_keeps_them_while_others_wait() -> None:
    given = gang_world("g-0", "g-2", least=3)
    assert gang_rules(given, "g-0") == []
    waiting = build_pod("again", cpu="1")
    given.pending = [changed(waiting, spec=changed(waiting.spec, scheduling_group=SchedulingGroup(pod_group_name="g")))]
    assert gang_rules(given, "g-0") == ["gang default/g would keep 1 pod, and needs 2"]


def test_a_gang_ends_as_a_whole() -> None:
    assert gang_rules(gang_world("g-0", "g-0", "g-0"), "g-0") == []
