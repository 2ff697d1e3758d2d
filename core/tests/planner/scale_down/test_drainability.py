"""Which pods may be moved: rows 41 to 58 of the edge cases (docs/behaviour/edge-cases.md), and hostile input."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.meta import OwnerReference
from nodewright.model.pod import (
    MIRROR_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION,
    ClaimTemplate,
    EmptyDir,
    HostPath,
    Pod,
    Volume,
)
from nodewright.model.reason import BlockingCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.drainability import DrainabilityRules, DrainOutcome, PodDrainability, evaluate_pods
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.snapshot.context import Controller, Workloads
from nodewright.testkit.builders import build_budget, build_controller, build_owner, build_pod

NOW = 1_000_000.0
MINUTE, HOUR = 60.0, 3600.0
DAEMONSET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"


def evaluate(
    pod: Pod,
    *,
    controllers: Iterable[Controller] | None = None,
    budgets: Iterable[PodDisruptionBudget] = (),
    applies_all: bool = True,
    **settings: Any,
) -> PodDrainability:
    listed = None if controllers is None else {(type(one).__name__, one.key): one for one in controllers}
    workloads = Workloads(controllers=listed)
    rules = DrainabilityRules(workloads, DisruptionBudgets(budgets), DrainSettings(**settings), NOW, applies_all)
    return rules.evaluate(pod)


def rules_of(budgets: DisruptionBudgets | None = None) -> DrainabilityRules:
    return DrainabilityRules(Workloads(), budgets, DrainSettings(), NOW)


def safe(value: str) -> Mapping[str, str]:
    return {SAFE_TO_EVICT_ANNOTATION: value}


def system_pod(age: float, **extras: Any) -> Pod:
    return build_pod("p", namespace="kube-system", created_at=NOW - age, **extras)


def owned_by(owner: OwnerReference, **extras: Any) -> Pod:
    pod = build_pod("p", owner=None, **extras)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=(owner,)))


LOCAL = (Volume(name="v0", empty_dir=EmptyDir()), Volume(name="v1", empty_dir=EmptyDir()))


def test_row_41_a_bare_pod_moves_only_if_annotated_exactly() -> None:
    assert evaluate(build_pod("p", owner=None)).code == BlockingCode.NOT_REPLICATED
    assert evaluate(build_pod("p", owner=None, annotations=safe("true"))).outcome == DrainOutcome.MOVE
    assert evaluate(build_pod("p", owner=None, annotations=safe("True"))).code == BlockingCode.NOT_REPLICATED


def test_row_42_an_owner_that_is_no_controller_does_not_count() -> None:
    owner = msgspec.structs.replace(build_owner("ReplicaSet", "rs"), controller=False)
    assert evaluate(owned_by(owner)).code == BlockingCode.NOT_REPLICATED
    assert evaluate(owned_by(build_owner("ReplicaSet", "rs"))).outcome == DrainOutcome.MOVE


def test_row_43_pods_of_custom_controllers_are_a_matter_of_the_flag() -> None:
    pod = owned_by(OwnerReference(kind="Game", name="g", api_version="x.io/v1", controller=True))
    verdict = evaluate(pod)
    assert verdict.code == BlockingCode.NOT_REPLICATED
    assert "Game" in verdict.message
    assert "--skip-nodes-with-custom-controller-pods=false" in verdict.message
    assert evaluate(pod, skip_nodes_with_custom_controller_pods=False).outcome == DrainOutcome.MOVE


def test_row_44_a_system_pod_without_a_budget_moves_after_an_hour() -> None:
    verdict = evaluate(system_pod(30 * MINUTE))
    assert verdict.code == BlockingCode.UNMOVABLE_SYSTEM_POD
    assert "wait 1800 s" in verdict.message
    assert evaluate(system_pod(HOUR)).code == BlockingCode.UNMOVABLE_SYSTEM_POD
    assert evaluate(system_pod(HOUR + 1)).outcome == DrainOutcome.MOVE
    assert evaluate(system_pod(0.0), skip_nodes_with_system_pods=False).outcome == DrainOutcome.MOVE


@pytest.mark.parametrize(
    ("extras", "code"),
    [
        ({"annotations": safe("false")}, BlockingCode.NOT_SAFE_TO_EVICT),
        ({"volumes": (Volume(name="h", host_path=HostPath(path="/x")),)}, BlockingCode.LOCAL_STORAGE),
    ],
)
def test_row_45_what_keeps_other_pods_keeps_an_old_system_pod_too(
    extras: Mapping[str, Any], code: BlockingCode
) -> None:
    """CA asks nothing more of a pod that is old enough, so that it loses its data, or is moved against its annotation."""
    assert evaluate(system_pod(2 * HOUR, **extras)).code == code
    assert evaluate(system_pod(2 * HOUR, **extras), applies_all=False).outcome == DrainOutcome.MOVE
    assert evaluate(build_pod("p", **extras), applies_all=False).code == code, "elsewhere CA's rules hold, too"


def test_a_long_patience_keeps_the_nodes_of_system_pods_for_good() -> None:
    """As seed 003 has it: such a pod keeps its node, however old it is, unless a budget is about it."""
    ten_years = 10 * 365 * 24 * HOUR
    assert (
        evaluate(system_pod(ten_years / 2), blocking_system_pod_distruption_timeout=ten_years).outcome
        == DrainOutcome.BLOCK
    )


def test_row_46_a_system_pod_of_unknown_age_never_moves() -> None:
    pod = system_pod(0.0)
    ageless = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=None))
    verdict = evaluate(ageless)
    assert verdict.code == BlockingCode.UNMOVABLE_SYSTEM_POD
    assert "wait" not in verdict.message


def test_row_47_the_budget_of_a_system_pod_decides_alone() -> None:
    used_up = build_budget("b", 0, namespace="kube-system")
    assert evaluate(system_pod(2 * HOUR), budgets=[used_up]).code == BlockingCode.NOT_ENOUGH_PDB
    spare = build_budget("b", 1, namespace="kube-system")
    assert evaluate(system_pod(0.0), budgets=[spare]).outcome == DrainOutcome.MOVE


def test_row_48_a_bare_system_pod_is_not_replicated_first_of_all() -> None:
    assert evaluate(system_pod(2 * HOUR, owner=None)).code == BlockingCode.NOT_REPLICATED


def test_row_49_a_daemonset_pod_is_one_also_if_not_safe_to_evict() -> None:
    pod = build_pod("p", owner=("DaemonSet", "ds"), annotations=safe("false"))
    assert evaluate(pod) == PodDrainability(DrainOutcome.DAEMON, "DaemonSet")


def test_row_11_a_bare_pod_may_be_declared_a_daemonset_pod() -> None:
    assert evaluate(build_pod("p", owner=None, annotations={DAEMONSET_POD: "true"})).outcome == DrainOutcome.DAEMON
    assert evaluate(build_pod("p", owner=None, annotations={DAEMONSET_POD: "yes"})).outcome == DrainOutcome.BLOCK


def test_row_50_a_pod_that_is_safe_to_evict_does_not_ask_its_budget() -> None:
    used_up = build_budget("b", 0)
    assert evaluate(build_pod("p", annotations=safe("true")), budgets=[used_up]).outcome == DrainOutcome.MOVE
    verdict = evaluate(build_pod("p"), budgets=[used_up])
    assert verdict.code == BlockingCode.NOT_ENOUGH_PDB
    assert "default/b" in verdict.message


@pytest.mark.parametrize(
    ("medium", "outcome"), [("Memory", DrainOutcome.MOVE), ("HugePages", DrainOutcome.BLOCK), ("", DrainOutcome.BLOCK)]
)
def test_row_51_an_empty_dir_in_memory_is_not_local_storage(medium: str, outcome: DrainOutcome) -> None:
    pod = build_pod("p", volumes=(Volume(name="v", empty_dir=EmptyDir(medium=medium)),))
    assert evaluate(pod).outcome == outcome
    assert evaluate(pod, skip_nodes_with_local_storage=False).outcome == DrainOutcome.MOVE


@pytest.mark.parametrize(
    ("listed", "blocking"), [("v0,v1", None), ("v0, v1", "v1"), ("v0", "v1"), ("", "v0"), (" v0,v1", "v0")]
)
def test_row_52_local_volumes_are_named_without_spaces(listed: str, blocking: str | None) -> None:
    verdict = evaluate(build_pod("p", volumes=LOCAL, annotations={SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION: listed}))
    assert verdict.code == (BlockingCode.LOCAL_STORAGE if blocking else None)
    assert blocking is None or f"volume {blocking} " in verdict.message


def test_other_volumes_are_not_local() -> None:
    assert evaluate(build_pod("p", volumes=(Volume(name="e", ephemeral=ClaimTemplate()),))).outcome == DrainOutcome.MOVE


@pytest.mark.parametrize(
    ("phase", "policy", "outcome"),
    [
        ("Failed", "Always", DrainOutcome.MOVE),
        ("Succeeded", "Always", DrainOutcome.BLOCK),
        ("Succeeded", "OnFailure", DrainOutcome.MOVE),
        ("Succeeded", "Never", DrainOutcome.MOVE),
        ("Running", "Never", DrainOutcome.BLOCK),
    ],
)
def test_row_53_pods_that_ended_need_no_controller(phase: str, policy: str, outcome: DrainOutcome) -> None:
    assert evaluate(build_pod("p", owner=None, phase=phase, restart_policy=policy)).outcome == outcome


def test_row_54_a_pod_to_wait_for_does_not_block_and_asks_no_budget() -> None:
    pod = build_pod("p", owner=None, annotations=safe("on-completion"))
    verdict = evaluate_pods([pod], rules_of(DisruptionBudgets([build_budget("b", 0)])))
    assert (verdict.pods, verdict.on_completion, verdict.blocking) == ((), (pod,), None)


@pytest.mark.parametrize("value", ["", "any", "{}"])
def test_row_56_a_mirror_pod_is_nothing(value: str) -> None:
    pod = build_pod("p", owner=None, annotations={MIRROR_ANNOTATION: value})
    verdict = evaluate_pods([pod], rules_of())
    assert (verdict.pods, verdict.daemons, verdict.blocking) == ((), (), None)


def test_row_57_an_orphan_blocks_also_if_it_is_safe_to_evict() -> None:
    pod = build_pod("p", owner=("ReplicaSet", "gone"), annotations=safe("true"))
    verdict = evaluate(pod, controllers=[build_controller("ReplicaSet", "other")])
    assert verdict.code == BlockingCode.CONTROLLER_NOT_FOUND
    assert "ReplicaSet gone" in verdict.message
    assert evaluate(pod, controllers=None).outcome == DrainOutcome.MOVE, "no list of controllers"
    assert evaluate(pod, controllers=[], skip_nodes_with_custom_controller_pods=False).outcome == DrainOutcome.MOVE


def test_row_58_a_controller_scaled_to_zero_blocks_only_below_the_minimum() -> None:
    pod = build_pod("p", owner=("ReplicaSet", "rs"))
    zero = [build_controller("ReplicaSet", "rs", 0)]
    assert evaluate(pod, controllers=zero).outcome == DrainOutcome.MOVE
    verdict = evaluate(pod, controllers=zero, min_replica_count=1)
    assert verdict.code == BlockingCode.MIN_REPLICAS_REACHED
    unsaid = [build_controller("ReplicaSet", "rs", None)]
    assert evaluate(pod, controllers=unsaid, min_replica_count=5).outcome == DrainOutcome.MOVE
    few = [build_controller("StatefulSet", "ss", 1)]
    stateful = build_pod("p", owner=("StatefulSet", "ss"))
    assert evaluate(stateful, controllers=few, min_replica_count=5).outcome == DrainOutcome.MOVE, "no minimum for these"


@pytest.mark.parametrize("kind", ["ReplicationController", "ReplicaSet", "StatefulSet", "Job", "DaemonSet"])
def test_every_known_kind_of_controller_must_be_there(kind: str) -> None:
    pod = build_pod("p", owner=(kind, "c"))
    assert evaluate(pod, controllers=[]).code == BlockingCode.CONTROLLER_NOT_FOUND
    assert evaluate(pod, controllers=[build_controller(kind, "c")]).outcome != DrainOutcome.BLOCK
    elsewhere = build_controller(kind, "c", namespace="other")
    assert evaluate(pod, controllers=[elsewhere]).code == BlockingCode.CONTROLLER_NOT_FOUND


@pytest.mark.parametrize(
    ("kind", "version", "outcome"),
    [
        ("DaemonSet", "x.io/v1", DrainOutcome.DAEMON),
        ("DaemonSet", "apps/v1/v2", DrainOutcome.DAEMON),
        ("StatefulSet", "x.io/v1", DrainOutcome.MOVE),
        ("ReplicaSet", "a/b/c", DrainOutcome.MOVE),
        ("ReplicaSet", "", DrainOutcome.BLOCK),
        ("", "", DrainOutcome.BLOCK),
        ("\x00" * 300, "///", DrainOutcome.BLOCK),
    ],
)
def test_bad_input_an_owner_of_an_unknown_kind_or_group(kind: str, version: str, outcome: DrainOutcome) -> None:
    """Never looked up where CA does not; an unknown kind keeps the pod, and the reason says so."""
    verdict = evaluate(
        owned_by(OwnerReference(kind=kind, name="c", api_version=version, controller=True)), controllers=[]
    )
    assert verdict.outcome == outcome
    assert bool(verdict.message) == (outcome == DrainOutcome.BLOCK)


@pytest.mark.parametrize(
    ("grace", "ago", "outcome"),
    [(None, 61.0, DrainOutcome.SKIP), (None, 60.0, DrainOutcome.BLOCK), (600, 61.0, DrainOutcome.BLOCK)],
)
def test_a_pod_that_should_long_be_gone_is_nothing(grace: int | None, ago: float, outcome: DrainOutcome) -> None:
    extras: dict[str, Any] = {} if grace is None else {"grace_seconds": grace}
    assert evaluate(build_pod("p", owner=None, deleted_at=NOW - ago, **extras)).outcome == outcome


def test_lists_hold_what_was_met_before_the_blocker() -> None:
    daemon, moved = build_pod("d", owner=("DaemonSet", "ds")), build_pod("a")
    pods = [daemon, moved, build_pod("bare", owner=None), build_pod("late")]
    verdict = evaluate_pods(pods, rules_of())
    assert (verdict.pods, verdict.daemons) == ((moved,), (daemon,))
    assert verdict.blocking is not None
    assert (verdict.blocking.pod, verdict.blocking.code) == ("default/bare", BlockingCode.NOT_REPLICATED)
    assert not verdict.is_empty


def test_bad_input_contradictory_budgets_block_by_the_strictest() -> None:
    """The API server refuses to evict a pod with several budgets; of those CA asks, the strictest wins."""
    budgets = [build_budget("generous", 5), build_budget("strict", 0, {"app": "a"}), build_budget("below", -3)]
    verdict = evaluate(build_pod("p", labels={"app": "a"}), budgets=budgets)
    assert (verdict.code, "default/strict" in verdict.message) == (BlockingCode.NOT_ENOUGH_PDB, True)
    assert evaluate(build_pod("p"), budgets=budgets[:2]).outcome == DrainOutcome.MOVE
    assert evaluate(build_pod("p"), budgets=budgets[2:]).code == BlockingCode.NOT_ENOUGH_PDB


KINDS = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["default", "kube-system"]),
        "labels": st.sampled_from([{}, {"app": "b"}]),
        "annotations": st.sampled_from([{}, safe("true"), safe("false"), safe("on-completion"), {"own": "x"}]),
        "owner": st.sampled_from([None, ("ReplicaSet", "rs"), ("DaemonSet", "ds"), ("Foo", "f")]),
        "phase": st.sampled_from(["Running", "Failed"]),
        "created_at": st.sampled_from([0.0, NOW - 10]),
    },
    optional={"deleted_at": st.sampled_from([NOW - 500, NOW - 5])},
)


@settings(max_examples=300)
@given(st.lists(KINDS, max_size=8), st.integers(0, 1), st.booleans())
def test_pods_that_are_judged_as_one_kind_are_those_that_are_judged_alike(
    shapes: list[dict[str, Any]], allowed: int, listed: bool
) -> None:
    pods = [build_pod(f"p{number}", node_name="n", **shape) for number, shape in enumerate(shapes)]
    found = {("ReplicaSet", "default/rs"): build_controller("ReplicaSet", "rs")} if listed else None
    rules = DrainabilityRules(
        Workloads(controllers=found),
        DisruptionBudgets([build_budget("b", allowed, {"app": "b"})]),
        DrainSettings(),
        NOW,
    )
    verdict = evaluate_pods(pods, rules)
    alone = [rules.evaluate(pod) for pod in pods]
    stop = next((at for at, one in enumerate(alone) if one.code is not None), len(pods))
    assert (verdict.blocking.pod if verdict.blocking else None) == (pods[stop].key if stop < len(pods) else None)
    if verdict.blocking is not None:
        assert (verdict.blocking.code, verdict.blocking.message) == (alone[stop].code, alone[stop].message)
    lists = {
        DrainOutcome.MOVE: verdict.pods,
        DrainOutcome.DAEMON: verdict.daemons,
        DrainOutcome.AWAIT: verdict.on_completion,
    }
    for outcome, members in lists.items():
        assert list(members) == [pod for pod, one in zip(pods[:stop], alone, strict=False) if one.outcome == outcome]
