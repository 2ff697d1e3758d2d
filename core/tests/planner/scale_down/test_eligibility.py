"""Which candidates are worth a simulation: rows 1 to 16 of the edge cases (docs/behaviour/edge-cases.md)."""

from typing import Any

import msgspec
import pytest
from core.tests.planner.scale_down.loops import context_of

from nodewright.clusterstate.memory import Memory, Recheck, ScaleDownMemory
from nodewright.model.group import GroupOptions
from nodewright.model.node import TO_BE_DELETED_TAINT, Node
from nodewright.model.reason import BlockingCode, Unremovable, UnremovableCode
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED, Eligibility, find_eligible
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_node, build_pod, build_taint
from nodewright.testkit.world import NOW, PROVIDER, World, settings_with

GPU = "vendor.example/gpu"
BLOCKED = Unremovable(
    code=UnremovableCode.BLOCKED_BY_POD,
    message="it has no controller",
    pod="shop/web",
    pod_code=BlockingCode.NOT_REPLICATED,
)
GPUS = ProviderSeen(name=PROVIDER, gpu_label="example.com/accelerator", gpu_resources=(GPU,))


def world_of(cpu: str = "1", **extras: Any) -> World:
    """One node ``g-0`` of four cores, on which ``cpu`` are asked for."""
    world = World()
    world.add_group("g", 1, **extras)
    world.running = [build_pod("p", cpu=cpu, node_name="g-0")]
    return world


def eligible(world: World, *names: str, **changes: Any) -> Eligibility:
    settings = settings_with(**changes)
    state = world.state(settings)
    return find_eligible(context_of(state, settings), names or ("g-0",))


def code_of(found: Eligibility, name: str = "g-0") -> UnremovableCode | None:
    """Why a node stays; None for one that is eligible."""
    assert (name in found.names) != (name in found.unremovable)
    return found.unremovable[name].code if name in found.unremovable else None


def change(world: World, **changes: Any) -> None:
    world.nodes[0] = msgspec.structs.replace(world.nodes[0], **changes)


def taint(world: World, key: str, value: str = "") -> None:
    node = world.nodes[0]
    change(world, spec=msgspec.structs.replace(node.spec, taints=(build_taint(key, value=value),)))


def test_row_1_exactly_the_threshold_is_little_enough() -> None:
    found = eligible(world_of("2"))
    assert (found.names, found.utilization) == (("g-0",), {"g-0": 0.5})
    found = eligible(world_of("2001m"))
    assert code_of(found) == UnremovableCode.NOT_UNDERUTILIZED
    assert found.utilization == {"g-0": 2001 / 4000}
    assert str(found.unremovable["g-0"]) == "cpu 50.1 % is above the threshold of 50 %"


@pytest.mark.parametrize(("profile", "code"), [("ca", None), ("nodewright", UnremovableCode.QUARANTINED)])
def test_of_two_nodes_that_are_one_machine_neither_goes(profile: str, code: UnremovableCode | None) -> None:
    """The one that is left over from a former name is unready and empty; its machine is at work under the other."""
    world = world_of("1")
    world.add_group("h", 1)
    node = world.nodes[0]
    world.nodes.append(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, name="old")))
    found = eligible(world, "g-0", "old", "h-0", profile=profile)
    assert [code_of(found, name) for name in ("g-0", "old", "h-0")] == [code, code, None]


def test_the_reason_is_a_sentence() -> None:
    assert str(eligible(world_of("2480m")).unremovable["g-0"]) == "cpu 62 % is above the threshold of 50 %"


@pytest.mark.parametrize(("profile", "code"), [("ca", None), ("nodewright", UnremovableCode.NOT_UNDERUTILIZED)])
def test_rows_4_and_5_only_ca_takes_what_is_no_ratio_for_little(profile: str, code: UnremovableCode | None) -> None:
    for cpu, memory in (("5", "17Gi"), ("0", "16Gi")):
        world = world_of("3", options=GroupOptions(ignore_daemonsets_utilization=True))
        world.running.append(build_pod("d", cpu, memory, owner=("DaemonSet", "ds"), node_name="g-0"))
        world.running[0] = build_pod("p", cpu="3", memory="0", node_name="g-0")
        assert code_of(eligible(world, profile=profile)) == code


@pytest.mark.parametrize("profile", ["ca", "nodewright"])
def test_row_3_nothing_is_left_of_what_is_asked_for(profile: str) -> None:
    world = world_of("1", options=GroupOptions(ignore_daemonsets_utilization=True))
    world.running.append(build_pod("d", cpu="4", owner=("DaemonSet", "ds"), node_name="g-0"))
    found = eligible(world, profile=profile)
    assert code_of(found) == UnremovableCode.NOT_UNDERUTILIZED
    assert "leave none of it" in str(found.unremovable["g-0"])


def test_row_6_a_node_that_cannot_be_measured_stays() -> None:
    world = world_of()
    world.nodes[0] = build_node("g-0", memory="0", provider_id=world.nodes[0].spec.provider_id)
    found = eligible(world, scale_down_unready_enabled=False)
    assert code_of(found) == UnremovableCode.UNEXPECTED
    assert str(found.unremovable["g-0"]) == "its utilization is unknown: it offers no memory"
    assert found.utilization == {}


def test_row_7_a_gpu_node_without_devices_is_eligible() -> None:
    world = world_of("3600m", labels={"example.com/accelerator": "t4"})
    assert code_of(eligible(world)) == UnremovableCode.NOT_UNDERUTILIZED
    world.provider = GPUS
    found = eligible(world)
    assert (code_of(found), found.utilization) == (None, {"g-0": 0.0})


def test_gpu_nodes_have_a_threshold_of_their_own() -> None:
    options = GroupOptions(scale_down_utilization_threshold=0.1, scale_down_gpu_utilization_threshold=0.3)
    world = world_of("3", labels={"example.com/accelerator": "t4"}, extended={GPU: 4}, options=options)
    world.provider = GPUS
    world.running[0] = build_pod("p", extended={GPU: 1}, node_name="g-0")
    assert code_of(eligible(world)) is None
    world.running[0] = build_pod("p", extended={GPU: 2}, node_name="g-0")
    assert str(eligible(world).unremovable["g-0"]) == f"{GPU} 50 % is above the threshold of 30 %"


def test_row_10_pods_that_should_long_be_gone_do_not_count() -> None:
    world = world_of()
    world.running[0] = build_pod("p", cpu="4", node_name="g-0", deleted_at=NOW - 61)
    assert code_of(eligible(world)) is None
    world.running[0] = build_pod("p", cpu="4", node_name="g-0", deleted_at=NOW - 59)
    assert code_of(eligible(world)) == UnremovableCode.NOT_UNDERUTILIZED


def test_row_12_a_ready_node_with_a_not_ready_taint_is_unready() -> None:
    world = world_of()
    taint(world, "node.kubernetes.io/not-ready")
    assert code_of(eligible(world, scale_down_unready_enabled=False)) == UnremovableCode.UNREADY_DISABLED
    assert code_of(eligible(world)) is None


def test_row_13_a_node_without_a_ready_condition_is_unready() -> None:
    world = world_of()
    change(world, status=msgspec.structs.replace(world.nodes[0].status, conditions=()))
    assert code_of(eligible(world, scale_down_unready_enabled=False)) == UnremovableCode.UNREADY_DISABLED
    world.nodes.append(build_node("other"))
    assert code_of(eligible(world_of(), scale_down_unready_enabled=False)) is None


def test_an_unready_node_is_measured_first_and_not_compared() -> None:
    world = world_of("4")
    taint(world, "node.kubernetes.io/not-ready")
    found = eligible(world, scale_down_unready_enabled=False)
    assert (code_of(found), found.utilization) == (UnremovableCode.UNREADY_DISABLED, {})


@pytest.mark.parametrize("value", ["True", "1", "yes", ""])
def test_row_14_only_true_keeps_a_node(value: str) -> None:
    world = world_of()
    meta = world.nodes[0].metadata
    change(world, metadata=msgspec.structs.replace(meta, annotations={SCALE_DOWN_DISABLED: value}))
    assert code_of(eligible(world)) is None
    change(world, metadata=msgspec.structs.replace(meta, annotations={SCALE_DOWN_DISABLED: "true"}))
    assert code_of(eligible(world)) == UnremovableCode.SCALE_DOWN_DISABLED


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (f"{NOW - 299:.0f}", UnremovableCode.BEING_DELETED),
        (f"{NOW - 300:.0f}", None),
        (f"{NOW + 299:.0f}", UnremovableCode.BEING_DELETED),
    ],
)
def test_row_15_a_taint_for_deletion_holds_for_five_minutes(value: str, code: UnremovableCode | None) -> None:
    world = world_of()
    taint(world, TO_BE_DELETED_TAINT, value)
    assert code_of(eligible(world)) == code


@pytest.mark.parametrize(("profile", "code"), [("ca", UnremovableCode.BEING_DELETED), ("nodewright", None)])
def test_row_15_only_ca_waits_for_a_taint_of_the_future(profile: str, code: UnremovableCode | None) -> None:
    world = world_of()
    taint(world, TO_BE_DELETED_TAINT, f"{NOW + 86400:.0f}")
    assert code_of(eligible(world, profile=profile)) == code


@pytest.mark.parametrize("value", ["abc", "", "1e9", "12.5", "99999999999999999999", "\x00", " 5", "٣", "9" * 5000])
def test_row_15_and_bad_input_a_taint_value_that_is_no_time_does_not_hold(value: str) -> None:
    world = world_of()
    taint(world, TO_BE_DELETED_TAINT, value)
    assert code_of(eligible(world)) is None


def test_row_16_what_could_not_be_emptied_is_left_alone_for_a_while() -> None:
    world = world_of("4")
    world.memory = Memory(
        scale_down=ScaleDownMemory(rechecks={"g-0": Recheck(NOW + 240, BLOCKED), "gone": Recheck(NOW + 1, BLOCKED)})
    )
    found = eligible(world)
    assert code_of(found) == UnremovableCode.RECENTLY_UNREMOVABLE
    assert str(found.unremovable["g-0"]) == (
        "it could not be emptied: BlockedByPod: pod shop/web (NotReplicated): it has no controller; "
        "the next simulation is in 240 s"
    )
    assert found.unremovable["g-0"].found is UnremovableCode.BLOCKED_BY_POD
    assert found.utilization == {}
    world.now = NOW + 240
    assert code_of(eligible(world)) == UnremovableCode.NOT_UNDERUTILIZED, "which has no such memory"
    world.running = []
    assert code_of(eligible(world)) is None


def test_a_node_that_is_not_in_the_picture_is_unexpected() -> None:
    found = eligible(world_of(), "gone", "g-0", "copy-7")
    assert found.names == ("g-0",)
    assert {name: reason.code for name, reason in found.unremovable.items()} == {
        "gone": UnremovableCode.UNEXPECTED,
        "copy-7": UnremovableCode.UNEXPECTED,
    }


def test_bad_input_a_node_without_a_group_stays() -> None:
    world = world_of()
    world.nodes += [build_node("alone", provider_id="cloud:///x/9"), build_node("anonymous")]
    found = eligible(world, "alone", "g-0", "anonymous")
    assert found.names == ("g-0",)
    assert code_of(found, "alone") == code_of(found, "anonymous") == UnremovableCode.NOT_AUTOSCALED
    assert str(found.unremovable["alone"]) == "it belongs to no node group"


def test_a_group_of_which_nothing_is_known_keeps_its_nodes() -> None:
    state = world_of().state()
    lost = type(state)(observation=state.observation, memory=state.memory, groups={}, group_of_node=state.group_of_node)
    found = find_eligible(context_of(lost), ["g-0"])
    assert code_of(found) == UnremovableCode.UNEXPECTED


def test_the_first_condition_that_holds_is_the_reason() -> None:
    """Each step takes the reason above away; A4 has them in this order."""
    world, settings = world_of("4"), {"scale_down_unready_enabled": False}
    world.memory = Memory(scale_down=ScaleDownMemory(rechecks={"g-0": Recheck(NOW + 1, BLOCKED)}))
    fine: Node = world.nodes[0]
    meta = msgspec.structs.replace(fine.metadata, annotations={SCALE_DOWN_DISABLED: "true"})
    spec = msgspec.structs.replace(
        fine.spec,
        taints=(build_taint(TO_BE_DELETED_TAINT, value=f"{NOW:.0f}"), build_taint("node.kubernetes.io/not-ready")),
    )
    change(world, metadata=meta, spec=spec)
    reasons = [code_of(eligible(world, **settings))]
    world.memory = Memory()
    reasons.append(code_of(eligible(world, **settings)))
    change(world, spec=msgspec.structs.replace(spec, taints=spec.taints[1:]))
    reasons.append(code_of(eligible(world, **settings)))
    change(world, metadata=fine.metadata)
    reasons.append(code_of(eligible(world, **settings)))
    reasons.append(code_of(eligible(world)))
    world.running = []
    reasons.append(code_of(eligible(world)))
    assert reasons == [
        UnremovableCode.RECENTLY_UNREMOVABLE,
        UnremovableCode.BEING_DELETED,
        UnremovableCode.SCALE_DOWN_DISABLED,
        UnremovableCode.UNREADY_DISABLED,
        UnremovableCode.NOT_UNDERUTILIZED,
        None,
    ]


def test_thresholds_and_ignored_pods_are_each_groups_own() -> None:
    world = World()
    world.add_group("a", 2)
    world.add_group("b", 2, options=GroupOptions(scale_down_utilization_threshold=0.8))
    world.add_group("c", 2, options=GroupOptions(ignore_daemonsets_utilization=True))
    for node in world.nodes:
        world.running.append(build_pod(f"d-{node.name}", cpu="2", owner=("DaemonSet", "ds"), node_name=node.name))
        world.running.append(build_pod(f"p-{node.name}", cpu="800m", node_name=node.name))
    found = eligible(world, "c-1", "b-0", "a-0", "c-0", "b-1", "a-1")
    assert found.names == ("c-1", "b-0", "c-0", "b-1"), "in the order given"
    assert {name: round(ratio, 3) for name, ratio in found.utilization.items()} == {
        "a-0": 0.7, "a-1": 0.7, "b-0": 0.7, "b-1": 0.7, "c-0": 0.4, "c-1": 0.4,
    }  # fmt: skip
    assert code_of(found, "a-0") == UnremovableCode.NOT_UNDERUTILIZED


def test_no_candidates_no_reasons() -> None:
    assert find_eligible(context_of(world_of().state()), []) == Eligibility()
