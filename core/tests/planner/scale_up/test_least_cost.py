"""The expander least-cost: a mix of groups at the least price, within everything that growth respects."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nodewright.clusterstate.memory import Backoff
from nodewright.model.action import CreateNodeGroup, IncreaseSize
from nodewright.model.capacity_quota import CapacityQuota, CapacityQuotaSpec, QuotaAmounts
from nodewright.model.group import GroupOptions, MachineType, NodeGroup, Price
from nodewright.model.meta import LabelSelector, ObjectMeta
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.plan import Plan
from nodewright.model.pod import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.model.price_book import ReservedInstances
from nodewright.planner.make_plan import find_growth_context
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import may_help_more
from nodewright.snapshot.observation import ProviderSeen
from nodewright.snapshot.pod_class import PodClasses, kind_of
from nodewright.testkit import build_node, build_pod, build_template
from nodewright.testkit.world import PROVIDER, World, grown, ref, settings_with


def add_pods(world: World, name: str, count: int, cpu: str, memory: str, **extras: Any) -> None:
    world.pending += [build_pod(f"{name}-{n}", cpu, memory, owner=("ReplicaSet", name), **extras) for n in range(count)]


def two_kinds() -> World:
    """Return a world with pods of much cpu and pods of much memory, and a group for each besides one for both."""
    world = World()
    world.add_group("both", cpu="8", memory="16Gi", hourly_price=1.0)
    world.add_group("cpu", cpu="8", memory="8Gi", hourly_price=0.5)
    world.add_group("memory", cpu="2", memory="32Gi", hourly_price=0.5)
    add_pods(world, "c", 4, "3", "1Gi")
    add_pods(world, "m", 4, "500m", "15Gi")
    return world


def together(labels: dict[str, str], key: str) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=labels))
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


def planned_pods(plan: Plan) -> dict[str, list[int]]:
    """Return how many pods each planned node has, by group."""
    found: dict[str, list[int]] = {}
    for node in plan.scale_up.nodes:
        found.setdefault(node.group.group_id, []).append(len(node.pods))
    return {group: sorted(counts) for group, counts in found.items()}


def test_one_decision_grows_several_groups_and_says_what_each_node_is_for() -> None:
    plan = two_kinds().plan()
    assert grown(plan) == {"cpu": (0, 2), "memory": (0, 2)}
    assert planned_pods(plan) == {"cpu": [2, 2], "memory": [2, 2]}
    assert plan.scale_up.expander == "least-cost"
    assert plan.scale_up.cost is not None
    assert plan.scale_up.cost.price == pytest.approx(2.0)
    assert plan.scale_up.cost.bound == pytest.approx(1.5, abs=0.5)
    named = {action.group.group_id: action.pod_count for action in plan.actions if isinstance(action, IncreaseSize)}
    assert named == {"cpu": 4, "memory": 4}


def test_with_the_profile_ca_or_another_expander_one_group_is_chosen() -> None:
    for changes in ({"profile": "ca"}, {"expander": "least-waste"}):
        plan = two_kinds().plan(**changes)
        assert len(grown(plan)) == 1
        assert not plan.scale_up.nodes


def test_a_group_without_a_price_passes_the_choice_on() -> None:
    world = two_kinds()
    world.groups[ref("both")] = replace(world.groups[ref("both")], price=None)
    plan = world.plan()
    assert len(grown(plan)) == 1
    assert plan.scale_up.expander == "least-cost,least-waste (one group, since group cloud/both has no price)"


def test_a_group_without_a_price_that_could_help_no_pod_does_not_matter() -> None:
    world = two_kinds()
    world.add_group("tiny", cpu="100m", memory="1Gi")
    assert grown(world.plan()) == {"cpu": (0, 2), "memory": (0, 2)}


def test_maxima_are_respected() -> None:
    world = two_kinds()
    held = world.groups[ref("cpu")]
    world.groups[ref("cpu")] = replace(held, group=NodeGroup(id="cpu", min_size=0, max_size=1))
    assert grown(world.plan()) == {"both": (0, 1), "cpu": (0, 1), "memory": (0, 2)}


def test_a_mix_is_cut_to_the_limit_on_nodes() -> None:
    plan = two_kinds().plan(max_nodes_total=3)
    assert sum(target - current for current, target in grown(plan).values()) == 3
    assert len(plan.scale_up.triggered) == 6
    assert len(plan.scale_up.unhelped) == 2
    assert plan.scale_up.expander == "least-cost"
    assert plan.scale_up.cost is not None
    assert plan.scale_up.cost.price == pytest.approx(1.5)
    assert plan.scale_up.cost.bound is None


def test_under_a_limit_on_nodes_dear_nodes_that_take_more_pods_are_bought() -> None:
    world = World()
    world.add_group("small", cpu="2", memory="8Gi", hourly_price=0.1)
    world.add_group("large", cpu="16", memory="64Gi", hourly_price=2.0)
    add_pods(world, "p", 12, "1", "1Gi")
    assert grown(world.plan()) == {"small": (0, 6)}
    assert grown(world.plan(max_nodes_total=1)) == {"large": (0, 1)}


def test_under_a_limit_on_nodes_dear_nodes_of_several_groups_are_bought() -> None:
    world = World()
    for kind, cpu, memory in (("c", 1, 1), ("m", 0.25, 4)):
        world.add_group(f"small-{kind}", cpu=str(4 * cpu), memory=f"{4 * memory}Gi", hourly_price=0.1)
        world.add_group(f"large-{kind}", cpu=str(16 * cpu), memory=f"{16 * memory}Gi", hourly_price=2.0)
    add_pods(world, "c", 12, "1", "500Mi")
    add_pods(world, "m", 12, "100m", "4Gi")
    assert {group.partition("-")[0] for group in grown(world.plan())} == {"small"}
    plan = world.plan(max_nodes_total=2)
    assert grown(plan) == {"large-c": (0, 1), "large-m": (0, 1)}
    assert len(plan.scale_up.triggered) == 24
    assert plan.scale_up.expander == "least-cost"


def test_a_mix_is_cut_to_a_quota_of_some_nodes() -> None:
    world = two_kinds()
    labelled = build_node("template-cpu", "8", "8Gi", labels={"pool": "c"})
    world.groups[ref("cpu")] = replace(world.groups[ref("cpu")], template=labelled)
    world.groups[ref("both")] = replace(world.groups[ref("both")], group=NodeGroup(id="both", min_size=0, max_size=0))
    world.quotas.append(
        CapacityQuota(
            metadata=ObjectMeta(name="c", uid="1"),
            spec=CapacityQuotaSpec(
                selector=LabelSelector(match_labels={"pool": "c"}),
                limits=QuotaAmounts(resources={"cpu": "8"}),
            ),
        )
    )
    plan = world.plan(capacity_quotas_enabled=True)
    assert grown(plan) == {"cpu": (0, 1), "memory": (0, 2)}
    assert len(plan.scale_up.triggered) == 6


def test_the_group_for_pods_beside_the_mix_is_named_as_chosen() -> None:
    world = World()
    wanted = PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=LabelSelector(match_labels={"app": "x"}))
    friends = Affinity(pod_affinity=PodAffinity(required=(wanted,)))
    world.add_group("small", cpu="2", memory="8Gi", zone="z", hourly_price=0.1)
    world.add_group("large", cpu="8", memory="64Gi", zone="z", hourly_price=2.0)
    add_pods(world, "p", 1, "1", "1Gi")
    add_pods(world, "x", 1, "6", "1Gi", labels={"app": "x"}, affinity=friends)
    plan = world.plan()
    assert grown(plan) == {"small": (0, 1), "large": (0, 1)}
    assert {option.group.group_id for option in plan.scale_up.options if option.chosen} == {"small", "large"}


def test_one_group_is_chosen_if_it_helps_more_pods_within_the_limits() -> None:
    """The mix takes only pods whose place depends on no other node."""
    world = World()
    wanted = PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=LabelSelector(match_labels={"app": "x"}))
    friends = Affinity(pod_affinity=PodAffinity(required=(wanted,)))
    world.add_group("small", cpu="2", memory="8Gi", zone="z", hourly_price=0.1)
    world.add_group("large", cpu="8", memory="64Gi", zone="z", hourly_price=2.0)
    add_pods(world, "p", 1, "1", "1Gi")
    add_pods(world, "x", 4, "1", "1Gi", labels={"app": "x"}, affinity=friends)
    plan = world.plan(max_nodes_total=1)
    assert grown(plan) == {"large": (0, 1)}
    assert plan.scale_up.expander.endswith("(one group, since it helps more pods within the limits)")
    assert len(plan.scale_up.triggered) == 5


def test_a_limit_on_nodes_of_one_plan_leaves_the_rest_to_the_next() -> None:
    plan = two_kinds().plan(max_nodes_per_scaleup=3)
    assert sum(target - current for current, target in grown(plan).values()) == 3
    assert len(plan.scale_up.awaiting) == 2
    assert plan.scale_up.cost is not None
    assert plan.scale_up.cost.bound is None
    assert not plan.scale_up.unhelped


def test_a_group_in_backoff_is_left_out() -> None:
    world = two_kinds()
    backoff = Backoff(until=world.now + 60, duration=300, last_failure=world.now - 5, code="stockout")
    world.memory = replace(world.memory, backoffs={ref("cpu"): backoff})
    assert "cpu" not in grown(world.plan())


def as_a_whole(world: World, group_id: str, size: int) -> None:
    """Let a group have all its machines or none."""
    held = world.groups[ref(group_id)]
    group = NodeGroup(id=group_id, min_size=0, max_size=size)
    world.groups[ref(group_id)] = replace(held, group=group, options=GroupOptions(zero_or_max_node_scaling=True))


def test_a_zero_or_max_group_that_is_too_large_is_left_out() -> None:
    world = two_kinds()
    as_a_whole(world, "cpu", 10)
    plan = world.plan()
    assert "cpu" not in grown(plan)
    assert len(plan.scale_up.triggered) == 8


@pytest.mark.parametrize("price", [0.3, 0.7])
def test_a_zero_or_max_group_is_bought_as_a_whole_where_that_is_cheaper(price: float) -> None:
    """Without it the pods with much memory take nodes of 0.5, and the others two nodes of 0.5."""
    world = two_kinds()
    as_a_whole(world, "cpu", 3)
    world.groups[ref("cpu")] = replace(world.groups[ref("cpu")], price=Price(per_hour=price, source="the test"))
    plan = world.plan()
    cheaper = 3 * price < 2.0
    assert (grown(plan).get("cpu") == (0, 3)) == cheaper
    assert plan.scale_up.expander == "least-cost"
    assert len(plan.scale_up.triggered) == 8
    assert plan.scale_up.cost is not None
    added = {group: target - current for group, (current, target) in grown(plan).items()}
    prices = {"cpu": price, "both": 1.0, "memory": 0.5}
    assert plan.scale_up.cost.price == pytest.approx(sum(prices[group] * count for group, count in added.items()))


def test_what_is_free_on_a_zero_or_max_group_is_filled_first() -> None:
    world = two_kinds()
    as_a_whole(world, "cpu", 4)
    world.groups[ref("cpu")] = replace(
        world.groups[ref("cpu")], template=build_node("t", "8", "8Gi", labels={"a": "b"})
    )
    add_pods(world, "bound", 2, "3", "1Gi", node_selector={"a": "b"})
    plan = world.plan()
    assert grown(plan) == {"cpu": (0, 4), "memory": (0, 2)}
    assert {option.group.group_id: option.nodes for option in plan.scale_up.options} == {"cpu": 4, "memory": 2}
    assert len(plan.scale_up.triggered) == 10


def test_a_zero_or_max_group_beyond_the_limit_on_nodes_is_left_out() -> None:
    world = two_kinds()
    as_a_whole(world, "cpu", 3)
    plan = world.plan(max_nodes_total=4)
    assert grown(plan).get("cpu", (0, 3)) == (0, 3)
    assert sum(target - current for current, target in grown(plan).values()) <= 4


def test_pods_that_depend_on_others_use_the_idle_machines_of_a_zero_or_max_group() -> None:
    world = World()
    world.add_group("w", cpu="4", memory="16Gi", zone="z", hourly_price=0.1)
    as_a_whole(world, "w", 3)
    wanted = PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=LabelSelector(match_labels={"app": "x"}))
    friends = Affinity(pod_affinity=PodAffinity(required=(wanted,)))
    add_pods(world, "p", 1, "3", "1Gi")
    add_pods(world, "x", 2, "3", "1Gi", labels={"app": "x"}, affinity=friends)
    plan = world.plan()
    assert grown(plan) == {"w": (0, 3)}
    assert len(plan.scale_up.triggered) == 3


def made_on_demand(world: World, **prices: float) -> None:
    """Let the provider make groups of such machine types, each with its price."""
    kinds = tuple(
        MachineType(
            name=name, template=build_template(cpu=cpu, memory=memory), price=Price(per_hour=prices[name], source="")
        )
        for name, cpu, memory in (("cpu", "8", "8Gi"), ("memory", "2", "32Gi"))
    )
    world.provider = ProviderSeen(name=PROVIDER, machine_types=kinds)


def test_groups_that_do_not_exist_yet_take_part() -> None:
    world = World()
    world.add_group("both", cpu="8", memory="16Gi", hourly_price=1.0)
    add_pods(world, "c", 4, "3", "1Gi")
    add_pods(world, "m", 4, "500m", "15Gi")
    made_on_demand(world, cpu=0.5, memory=0.5)
    plan = world.plan(node_autoprovisioning_enabled=True)
    kinds = [action.spec.machine_type for action in plan.actions if isinstance(action, CreateNodeGroup)]
    assert sorted(kinds) == ["cpu", "memory"]
    assert sorted(target for _, target in grown(plan).values()) == [2, 2]
    assert plan.scale_up.expander == "least-cost"


def test_a_mix_makes_no_more_groups_than_may_be_made() -> None:
    world = World()
    add_pods(world, "c", 4, "3", "1Gi")
    add_pods(world, "m", 6, "500m", "15Gi")
    made_on_demand(world, cpu=0.5, memory=0.5)
    plan = world.plan(node_autoprovisioning_enabled=True, max_autoprovisioned_node_group_count=1)
    [made] = [action for action in plan.actions if isinstance(action, CreateNodeGroup)]
    assert made.spec.machine_type == "memory"
    assert len(plan.scale_up.triggered) == 6


def test_a_group_that_exists_goes_before_one_of_the_same_price_that_does_not() -> None:
    world = World()
    world.add_group("cpu", cpu="8", memory="8Gi", hourly_price=0.5)
    add_pods(world, "c", 4, "3", "1Gi")
    made_on_demand(world, cpu=0.5, memory=0.5)
    assert grown(world.plan(node_autoprovisioning_enabled=True)) == {"cpu": (0, 2)}


def test_machines_that_are_paid_already_come_first() -> None:
    world = two_kinds()
    world.groups[ref("both")] = replace(world.groups[ref("both")], reserved=ReservedInstances("r", 1))
    plan = world.plan()
    assert grown(plan)["both"] == (0, 1)
    assert plan.scale_up.cost is not None
    assert plan.scale_up.cost.price < 2.0


def test_a_price_of_zero_is_none() -> None:
    world = two_kinds()
    world.add_group("free", cpu="8", memory="16Gi", hourly_price=0.0)
    assert world.plan().scale_up.expander == "least-cost,least-waste (one group, since group cloud/free has no price)"


def test_alike_groups_are_balanced_if_that_is_wanted() -> None:
    world = World()
    for zone in ("a", "b"):
        world.add_group(zone, cpu="4", memory="16Gi", zone=zone, hourly_price=1.0)
    add_pods(world, "p", 4, "3", "1Gi")
    assert grown(world.plan(balance_similar_node_groups=True)) == {"a": (0, 2), "b": (0, 2)}
    assert grown(world.plan()) == {"a": (0, 4)}


def test_pods_that_repel_each_other_get_a_node_each() -> None:
    world = World()
    world.add_group("large", cpu="16", memory="64Gi", hourly_price=1.0)
    world.add_group("small", cpu="2", memory="8Gi", hourly_price=0.2)
    add_pods(world, "p", 3, "1", "1Gi", labels={"app": "p"}, affinity=together({"app": "p"}, HOSTNAME_LABEL))
    assert grown(world.plan()) == {"small": (0, 3)}


@pytest.mark.parametrize(
    ("running_in_a", "expected"),
    [(0, {"a": [2], "b": [2], "c": [2]}), (2, {"a": [1], "b": [1, 2], "c": [2]})],
)
def test_pods_are_spread_over_zones(running_in_a: int, expected: dict[str, list[int]]) -> None:
    world = World()
    for zone in ("a", "b", "c"):
        world.add_group(zone, 1, cpu="4", memory="16Gi", zone=zone, hourly_price=1.0 if zone == "a" else 1.5)
    world.running = [build_pod(f"full-{zone}", "4", "1Gi", node_name=f"{zone}-0") for zone in ("a", "b", "c")]
    spread = TopologySpreadConstraint(
        topology_key=ZONE_LABEL,
        max_skew=1,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "p"}),
    )
    add_pods(world, "p", 6, "2", "1Gi", labels={"app": "p"}, topology_spread_constraints=(spread,))
    world.add_group("old", 1, cpu="4", zone="a", max_size=1)
    world.running += [
        build_pod(f"old-{n}", "2", "1Gi", labels={"app": "p"}, node_name="old-0") for n in range(running_in_a)
    ]
    world.running += [build_pod(f"full-old-{n}", "2", node_name="old-0") for n in range(2 - running_in_a)]
    plan = world.plan()
    assert len(plan.scale_up.triggered) == 6
    assert planned_pods(plan) == expected


def test_groups_that_cannot_help_more_pods_within_the_limits_are_told_apart() -> None:
    world = World()
    world.add_group("small", cpu="4", memory="16Gi", hourly_price=1.0)
    world.add_group("large", cpu="16", memory="16Gi", hourly_price=5.0)
    add_pods(world, "p", 20, "1", "2Gi")
    settings = settings_with(max_nodes_total=2)
    context = find_growth_context(world.state(settings), settings, Random(1))
    assert context is not None
    fit = NodeGroupFit(context.snapshot, context.templates, {})
    pods = Counter(map(context.snapshot.class_of, world.pending))
    found = [may_help_more(context, fit, context.templates, pods, helped) for helped in (7, 8, 15, 16)]
    assert found == [{ref("small"), ref("large")}, {ref("large")}, {ref("large")}, set()]


def test_no_node_is_bought_in_a_zone_that_has_room_until_another_zone_has_a_node() -> None:
    """One pod each fits in a and b now. The others may follow once c has a node."""
    world = World()
    for zone in ("a", "b"):
        world.add_group(zone, 1, cpu="8", memory="32Gi", zone=zone, hourly_price=1.0)
    world.add_group("c", cpu="8", memory="32Gi", zone="c", hourly_price=1.0)
    world.nodes.append(build_node("full", cpu="0", zone="c"))
    spread = TopologySpreadConstraint(
        topology_key=ZONE_LABEL,
        max_skew=1,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "p"}),
    )
    add_pods(world, "p", 9, "2", "1Gi", labels={"app": "p"}, topology_spread_constraints=(spread,))
    plan = world.plan()
    assert len(plan.fitting) == 2
    assert grown(plan) == {"c": (0, 1)}
    assert len(plan.scale_up.triggered) == 7


def test_pods_that_depend_on_others_are_packed_beside_the_mix() -> None:
    world = two_kinds()
    wanted = PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=LabelSelector(match_labels={"app": "x"}))
    friends = Affinity(pod_affinity=PodAffinity(required=(wanted,)))
    for held in list(world.groups.values()):
        labels = {ZONE_LABEL: "z"}
        template = held.template
        assert template is not None
        node = build_node(
            template.name,
            template.status.capacity["cpu"].milli // 1000,
            f"{template.status.capacity['memory'].value}",
            labels=labels,
        )
        world.groups[held.ref] = replace(held, template=node)
    add_pods(world, "x", 2, "5", "1Gi", labels={"app": "x"}, affinity=friends)
    plan = world.plan()
    assert len(plan.scale_up.triggered) + len(plan.scale_up.awaiting) == 10
    assert not plan.scale_up.unhelped
    assert sum(target - current for current, target in grown(plan).values()) > len(plan.scale_up.nodes)
    writes = [action.group for action in plan.actions]
    assert len(writes) == len(set(writes))


def test_the_next_loops_follow_the_mix_while_its_machines_are_under_way() -> None:
    world = World()
    # First fit by size fills the large nodes otherwise, and leaves pods for a third node.
    world.add_group("g", cpu="10", memory="100Gi", hourly_price=1.0)
    for name, cpu in (("a", "6"), ("b", "5"), ("c", "3"), ("d", "2")):
        add_pods(world, name, 1, cpu, "1Gi")
    add_pods(world, "e", 2, "2", "1Gi")
    plan, memory = world.plan_and_memory()
    assert grown(plan) == {"g": (0, 2)}
    world.memory = memory.put_into(world.memory)
    world.groups[ref("g")] = replace(world.groups[ref("g")], target=2)
    world.now += 10
    later, memory = world.plan_and_memory()
    assert grown(later) == {}
    assert len(later.fitting) == 6
    # A node of another came, and all of these pods are bound: what was planned is forgotten after a minute.
    world.pending, world.groups[ref("g")] = [], replace(world.groups[ref("g")], target=0)
    world.memory = memory.put_into(world.memory)
    world.now += 120
    assert world.plan_and_memory()[1].planned_pods == {}


def test_what_a_node_is_remembered_for_are_the_pods_that_kept_their_place_on_it() -> None:
    world = World()
    world.add_group("g", cpu="8", memory="16Gi", hourly_price=1.0)
    add_pods(world, "shy", 2, "2", "1Gi", affinity=together({"app": "loud"}, HOSTNAME_LABEL))
    add_pods(world, "loud", 2, "2", "1Gi", labels={"app": "loud"})
    plan, memory = world.plan_and_memory()
    nodes, kinds = plan.scale_up.nodes, {kind_of(PodClasses().of(pod)): pod.name[:3] for pod in world.pending}
    assert [{kinds[kind]: count for kind, count in node.kinds} for node in nodes] == [{"lou": 2}]
    assert [dict(one.pods) for one in memory.planned_pods[ref("g")]] == [dict(node.kinds) for node in nodes]
    assert len(plan.scale_up.triggered) == 4
    assert grown(plan) == {"g": (0, 2)}
