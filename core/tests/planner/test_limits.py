"""Limits of the cluster: the flags' totals and CapacityQuotas."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from nodewright.clusterstate.accelerators import NO_ACCELERATORS
from nodewright.model.capacity_quota import QUOTA_VALID, RECONCILED, CapacityQuota, CapacityQuotaSpec, QuotaAmounts
from nodewright.model.group import GroupOptions
from nodewright.model.limits import ResourceLimits
from nodewright.model.meta import LabelSelector, ObjectMeta, Requirement
from nodewright.planner.limits import CLUSTER_WIDE, Exceeded, Quota, read_quotas
from nodewright.snapshot.observation import ProviderSeen
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_group, build_node, build_pod
from nodewright.testkit.world import NOW, World, grown, ref, settings_with

GPU = ProviderSeen(name="cloud", gpu_label="accelerator", gpu_resources=("example.com/gpu",))


CORES = Exceeded(CLUSTER_WIDE, ("cpu",))


def test_cores_count_whole_and_virtual_kubelets_not_at_all() -> None:
    snapshot = Snapshot()
    snapshot.add_nodes([build_node("a", cpu="1500m"), build_node("v", cpu="100", labels={"type": "virtual-kubelet"})])
    quota = Quota(snapshot, ResourceLimits(max_cores=10), NO_ACCELERATORS)
    assert quota.allowed(build_node("n", cpu="4"), 5) == (2, (CORES,))
    quota.consume(build_node("n", cpu="4"), 2)
    assert quota.allowed(build_node("n", cpu="4"), 1) == (0, (CORES,))


def test_an_exceeded_limit_allows_nothing_more() -> None:
    snapshot = Snapshot()
    snapshot.add_node(build_node("a", cpu="20"))
    quota = Quota(snapshot, ResourceLimits(max_cores=10), NO_ACCELERATORS)
    assert quota.allowed(build_node("n", cpu="1"), 3) == (0, (CORES,))


@pytest.mark.parametrize(("limit", "expected"), [("t4:0:4", (0, 2)), ("t4:0:3", (0, 1)), ("a100:0:0", (0, 3))])
def test_gpu_limits_by_type(limit: str, expected: tuple[int, int]) -> None:
    world = World(pending=[build_pod(f"p{k}", extended={"example.com/gpu": 2}) for k in range(3)], provider=GPU)
    world.add_group("g", extended={"example.com/gpu": 2}, labels={"accelerator": "t4"})
    assert grown(world.plan(gpu_total=(limit,))) == {"g": expected}


def test_the_resource_that_stands_in_the_way_is_named() -> None:
    world = World(pending=[build_pod("p", extended={"example.com/gpu": 2})], provider=GPU)
    world.add_group("g", extended={"example.com/gpu": 2}, labels={"accelerator": "t4"})
    plan = world.plan(gpu_total=("t4:0:1",), memory_total="0:1")
    assert str(plan.scale_up.skipped[ref("g")]) == 'exceeded quota: "cluster-wide", resources: memory, t4'


def unreported(*, age: float = 60, **labels: str) -> World:
    """One node of two devices whose device plugin has not reported any, and pods for six devices more."""
    world = World(pending=[build_pod(f"p{k}", extended={"example.com/gpu": 2}) for k in range(3)], provider=GPU)
    labels = {"accelerator": "t4", **labels}
    world.add_group("g", 1, max_size=9, extended={"example.com/gpu": 2}, labels=labels)
    world.nodes = [build_node("g-0", provider_id="cloud:///g/0", labels=labels, created_at=world.now - age)]
    return world


@pytest.mark.parametrize("age", [60, 901, 90_000])
def test_devices_that_have_not_appeared_count_as_the_template_says(age: float) -> None:
    """As CA counts them: four were allowed and six bought."""
    assert grown(unreported(age=age).plan(gpu_total=("t4:0:4",))) == {"g": (1, 2)}


def test_they_count_in_quotas_and_in_what_is_told_of_them() -> None:
    world = unreported(age=901, team="a")
    limits = QuotaAmounts(resources={"t4": 4})
    selector = LabelSelector(match_labels={"team": "a"})
    world.quotas = [
        CapacityQuota(metadata=ObjectMeta(name="q"), spec=CapacityQuotaSpec(selector=selector, limits=limits))
    ]
    plan = world.plan(capacity_quotas_enabled=True)
    assert grown(plan) == {"g": (1, 2)}
    (told,) = plan.quotas
    assert told.status.used == QuotaAmounts(resources={"t4": "2"})


def test_the_node_of_no_group_counts_what_it_offers() -> None:
    world = unreported(age=901)
    world.nodes = [build_node("stranger", labels={"accelerator": "t4"}, created_at=world.now - 901)]
    world.groups[ref("g")] = replace(world.groups[ref("g")], target=0, instances=())
    assert grown(world.plan(gpu_total=("t4:0:4",))) == {"g": (0, 2)}


ON = {"capacity_quotas_enabled": True}


TEAM = LabelSelector(match_labels={"team": "a"})


def quota(name: str = "a", selector: LabelSelector | None = TEAM, **amounts: Any) -> CapacityQuota:
    limits = QuotaAmounts(resources={key.replace("gpu", "example.com/gpu"): text for key, text in amounts.items()})
    meta = ObjectMeta(name=name, generation=3)
    return CapacityQuota(metadata=meta, spec=CapacityQuotaSpec(selector=selector, limits=limits))


def world(*quotas: CapacityQuota, pods: int = 5, size: int = 1) -> World:
    """Two groups of machines with 4 cpu, of which pods take one each: ``a`` of team a is tried first."""
    made = World(pending=[build_pod(f"p{number}", cpu="4") for number in range(pods)], quotas=list(quotas))
    made.add_group("a", size, labels={"team": "a"}, cpu="4", memory="8Gi", hourly_price=0.1)
    made.add_group("b", 0, labels={"team": "b"}, cpu="4", memory="8Gi", hourly_price=0.2)
    return made


@pytest.mark.parametrize(
    ("amounts", "target"),
    [
        ({"nodes": 3}, 3),
        ({"cpu": "15"}, 3),
        ({"memory": "17Gi"}, 2),
        ({"cpu": "15", "memory": "17Gi"}, 2),
        ({"nodes": 100}, 5),
        ({"ephemeral-storage": 1}, 5),
    ],
)
def test_what_it_allows(amounts: dict[str, Any], target: int) -> None:
    """One node of the team is there, with room for one of the five pods."""
    assert grown(world(quota(**amounts)).plan(expander="price", **ON)) == {"a": (1, target)}


def test_the_strictest_of_several_holds() -> None:
    several = (quota("a", nodes=4), quota("b", None, nodes=2), quota("c", LabelSelector(), cpu=1000))
    assert grown(world(*several).plan(expander="price", **ON)) == {"a": (1, 2)}


def test_a_group_without_room_for_one_node_is_left_out_and_the_quota_is_named() -> None:
    plan = world(quota(nodes=1), quota("all", None, cpu=100)).plan(expander="price", **ON)
    assert grown(plan) == {"b": (0, 4)}
    assert str(plan.scale_up.skipped[ref("a")]) == 'exceeded quota: "CapacityQuota/a", resources: nodes'
    assert plan.scale_up.skipped[ref("a")].resources == ("nodes",)


def test_every_quota_in_the_way_is_named() -> None:
    plan = world(quota("a", nodes=1, cpu=4), quota("z", None, nodes=1)).plan(expander="price", cores_total="0:5", **ON)
    said = str(plan.scale_up.skipped[ref("a")])
    assert said == (
        'exceeded quota: "cluster-wide", resources: cpu; exceeded quota: "CapacityQuota/a", resources: nodes, cpu; '
        'exceeded quota: "CapacityQuota/z", resources: nodes'
    )
    assert all(said in str(unhelped.reasons[ref("a")]) for unhelped in plan.scale_up.unhelped)


def test_without_the_flag_there_are_none() -> None:
    plan = world(quota(nodes=1)).plan(expander="price")
    assert grown(plan) == {"a": (1, 5)}
    assert plan.quotas == ()


def test_machines_on_their_way_count() -> None:
    made = world(quota(nodes=3), pods=5)
    made.groups[ref("a")] = replace(made.groups[ref("a")], target=2)
    assert grown(made.plan(expander="price", **ON)) == {"a": (2, 3)}


def test_minimum_sizes_keep_to_it() -> None:
    made = world(quota(nodes=2), pods=0)
    made.groups[ref("a")] = replace(made.groups[ref("a")], group=build_group("a", min_size=4))
    assert grown(made.plan(enforce_node_group_min_size=True, **ON)) == {"a": (1, 2)}


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({}, 'exceeded quota: "CapacityQuota/a", resources: nodes'),
        ({"max_nodes_total": 9}, "atomic scale-up exceeds cluster node count limit"),
    ],
)
def test_a_group_that_grows_whole_must_fit_whole(limits: dict[str, Any], says: str) -> None:
    made = world(quota(nodes=9))
    whole = GroupOptions(zero_or_max_node_scaling=True)
    made.groups[ref("a")] = replace(made.groups[ref("a")], options=whole)
    plan = made.plan(expander="price", **ON, **limits)
    assert grown(plan) == {"b": (0, 4)}
    assert str(plan.scale_up.skipped[ref("a")]) == says


@pytest.mark.parametrize(("amounts", "target"), [({"gpu": 4}, 2), ({"t4": 4}, 2), ({"t4": 7}, 3), ({"gpu": 0}, 0)])
def test_accelerators_by_their_resource_and_by_their_type(amounts: dict[str, int], target: int) -> None:
    made = World(pending=[build_pod(f"p{k}", extended={"example.com/gpu": 2}) for k in range(3)], provider=GPU)
    made.add_group("g", extended={"example.com/gpu": 2}, labels={"accelerator": "t4"})
    made.quotas = [quota("gpus", None, **amounts)]
    assert grown(made.plan(**ON)) == ({"g": (0, target)} if target else {})


def status_of(made: World, name: str = "a") -> dict[str, str]:
    """Condition → ``status: message``, and what is used."""
    (fresh,) = [one for one in made.plan(**ON).quotas if one.name == name]
    used = {} if fresh.status.used is None else fresh.status.used.resources
    said = {one.type: f"{one.status}: {one.message}" for one in fresh.status.conditions}
    return {**said, **{name: str(amount) for name, amount in used.items()}}


def test_status_counts_exactly_and_only_what_is_there() -> None:
    made = World(quotas=[quota(cpu=100, nodes=100, memory="100Gi")])
    labels = {"team": "a"}
    made.nodes += [build_node("x", cpu="1500m", memory="1Gi", labels=labels), build_node("y", cpu="2", labels={})]
    made.nodes += [build_node("v", cpu="64", labels={**labels, "type": "virtual-kubelet"})]
    said = status_of(made)
    assert (said["cpu"], said["nodes"], said["memory"]) == ("1500m", "1", str(2**30))
    assert said[QUOTA_VALID] == "True: it is enforced"
    assert said[RECONCILED] == "True: CapacityQuota successfully reconciled"


def test_status_is_written_only_when_it_changes() -> None:
    made = world(quota(nodes=3))
    (fresh,) = made.plan(**ON).quotas
    assert fresh.status.observed_generation == 3
    assert fresh.status.conditions[0].last_transition_time == datetime.fromtimestamp(NOW, tz=UTC)
    made.quotas, made.now = [fresh], NOW + 60
    assert made.plan(**ON).quotas == ()
    made.nodes.append(build_node("more", labels={"team": "a"}))
    (again,) = made.plan(**ON).quotas
    assert again.status.used == QuotaAmounts(resources={"nodes": "2"})
    assert again.status.conditions == fresh.status.conditions


BAD_KEY = LabelSelector(match_labels={"no key!": "x"})


BAD_OPERATOR = LabelSelector(match_expressions=(Requirement(key="team", operator="Like", values=("a",)),))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (quota(selector=BAD_KEY, nodes=0), "spec.selector is not a valid label selector"),
        (quota(selector=BAD_OPERATOR, nodes=0), "spec.selector is not a valid label selector"),
        (quota(nodes=-1), "nodes: '-1' is not a whole number of at least 0"),
        (quota(nodes="-1"), "nodes: '-1' is not a whole number of at least 0"),
        (quota(cpu="500m"), "cpu: '500m' is not a whole number of at least 0"),
        (quota(nodes="many"), "nodes: 'many' is not a quantity"),
        (
            quota(cores=1),
            "cores: is neither cpu, memory, nodes, a resource that nodes offer nor a type of accelerators",
        ),
        (quota(), "it limits nothing"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_else_stops(bad: CapacityQuota, says: str) -> None:
    made = world(bad, quota("good", nodes=3))
    said = status_of(made)
    assert says in said[QUOTA_VALID]
    assert said[QUOTA_VALID].startswith("False: ")
    assert said[RECONCILED].startswith("False: ")
    assert "nodes" not in said
    assert grown(made.plan(expander="price", **ON)) == {"a": (1, 3)}


def test_it_is_enforced_again_in_the_very_loop_in_which_it_is_right() -> None:
    made = world(quota(nodes=-1))
    (told,) = made.plan(**ON).quotas
    made.quotas = [changed(told, spec=quota(nodes=1).spec)]
    plan = made.plan(expander="price", **ON)
    assert grown(plan) == {"b": (0, 4)}
    assert plan.quotas[0].condition(QUOTA_VALID) != told.condition(QUOTA_VALID)


@pytest.mark.parametrize("silent", [True, False])
def test_a_type_of_accelerators_is_not_unknown_while_somebody_cannot_be_asked(silent: bool) -> None:
    """Else a cloud that is silent for a moment would lift the limits of a quota."""
    made = world(quota(nodes=1, a100=4))
    made.provider = ProviderSeen(name="cloud", problem="no answer" if silent else "")
    (read,) = read_quotas(made.state().observation, settings_with(**ON).limits)
    assert (read.limit is not None) == silent


@pytest.mark.parametrize(("listed", "label"), [(True, "accelerator"), (True, ""), (False, "accelerator")])
def test_a_type_of_accelerators_that_no_node_has_is_known_if_a_provider_lists_it(listed: bool, label: str) -> None:
    """Else the first nodes of a type that a group is created for would have no limit."""
    made = world(quota(nodes=1, a100=4))
    made.provider = replace(GPU, gpu_label=label, gpu_types=("a100",) if listed else ("t4",))
    (read,) = read_quotas(made.state().observation, settings_with(**ON).limits)
    assert (read.limit is not None) == (listed and bool(label))


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), max_size=8),
    st.dictionaries(st.sampled_from(["cpu", "memory", "nodes"]), st.integers(0, 40), min_size=1),
    st.integers(0, 3),
)
def test_never_more_than_the_quota_whoever_takes_in_whatever_order(
    steps: list[tuple[str, int]], amounts: dict[str, int], there: int
) -> None:
    """What is allowed and then taken never exceeds a limit that held before; the rest of the cluster is not its business."""
    limits: dict[str, Any] = {**amounts, "memory": f"{amounts.get('memory', 40)}Gi"}
    made = world(quota(**limits), pods=0, size=there)
    (read,) = read_quotas(made.state().observation, settings_with(**ON).limits)
    assert read.limit is not None
    room = Quota(made.state().observation.snapshot, ResourceLimits(), NO_ACCELERATORS, [read.limit])
    node = {team: build_node(team, cpu="4", memory="8Gi", labels={"team": team}) for team in "ab"}
    taken = {"a": there, "b": 0}
    for team, wanted in steps:
        allowed, exceeded = room.allowed(node[team], wanted)
        assert (allowed < wanted) == bool(exceeded)
        assert allowed == wanted or team == "a"
        room.consume(node[team], allowed)
        taken[team] += allowed
        each = {"cpu": 4, "memory": 8 * 2**30, "nodes": 1}
        for name, limit in read.limit.most.items():
            assert taken["a"] * each[name] <= max(limit, there * each[name])
