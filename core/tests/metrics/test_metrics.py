"""The metrics of CA's dashboards have the values of the loop."""

from dataclasses import replace

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodewright.adapters.metrics import LeaseCounts, Metrics, ProviderCalls, Sources
from nodewright.adapters.metrics.collectors import taint_type
from nodewright.engine.report import LoopReport
from nodewright.model.action import Done, Failed, IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import Price
from nodewright.model.interruption import Interruption, InterruptionKind
from nodewright.model.move import Move, MoveStage
from nodewright.model.plan import OutdatedNode, Plan, ScaleDownReport, ScaleUpReport
from nodewright.model.reason import SkipCode, SkipReason, Unhelped
from nodewright.model.settings import ServingSettings, Settings, TemplateSettings
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World, ref


def read(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name and labels."""
    found = {}
    for family in text_string_to_metric_families(metrics.page().decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()) if value)
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def make_report(problem: str = "") -> LoopReport:
    world = World()
    world.add_group("a", 2)
    grow = IncreaseSize(group=ref("a"), expected_target=2, target=5)
    outcomes = (
        Done(action=grow, started=NOW, accepted=3),
        Failed(action=grow, started=NOW, code="outOfResources", message="sold out"),
    )
    state = None if problem else world.state()
    return LoopReport(started=NOW, finished=NOW + 0.5, state=state, plan=Plan(), outcomes=outcomes, problem=problem)


def test_a_loop_in_the_words_of_ca() -> None:
    metrics = Metrics(Settings(serving=ServingSettings(emit_per_nodegroup_metrics=True)))
    metrics.observe(make_report())
    metrics.observe(make_report())
    found = read(metrics)
    prefix = "cluster_autoscaler_"
    assert found[f"{prefix}cluster_safe_to_autoscale"] == 1
    assert found[f"{prefix}nodes_count{{state=ready}}"] == 2
    assert found[f"{prefix}nodes_count{{state=longUnregistered}}"] == 0
    assert found[f"{prefix}scaled_up_nodes_total"] == 6
    assert found[f"{prefix}failed_scale_ups_total{{reason=outOfResources}}"] == 2
    assert found[f"{prefix}last_activity{{activity=mainSuccessful}}"] == NOW + 0.5
    assert found[f"{prefix}node_group_target_count{{node_group=a}}"] == 2
    assert found[f"{prefix}cpu_limits_cores{{direction=maximum}}"] == 320_000
    assert found[f"{prefix}function_duration_seconds_count{{function=main}}"] == 2
    assert found[f"{prefix}errors_total{{type=apiCallError}}"] == 0


def test_groups_that_a_limit_of_resources_leaves_out_are_counted_by_resource_and_not_by_the_name_of_a_quota() -> None:
    metrics = Metrics(Settings())
    text = 'exceeded quota: "CapacityQuota/much-memory", resources: cpu'
    skipped = SkipReason(code=SkipCode.RESOURCE_LIMIT, message=text, resources=("cpu",))
    plan = Plan(scale_up=ScaleUpReport(skipped={ref("a"): skipped}))
    metrics.observe(LoopReport(started=NOW, finished=NOW, plan=plan))
    found = read(metrics)
    prefix = "cluster_autoscaler_skipped_scale_events_count{direction=up,reason="
    assert (found[f"{prefix}CpuResourceLimit}}"], found[f"{prefix}MemoryResourceLimit}}"]) == (1, 0)


def test_each_pod_that_finds_no_node_counts_once_over_all_rounds() -> None:
    pods = first, second, third, member, other = [
        build_pod(name) for name in ("first", "second", "third", "member", "other")
    ]
    plan = Plan(
        scale_up=ScaleUpReport(
            triggered=(first,),
            awaiting=(second,),
            unhelped=(Unhelped(pod=second, reasons={}), Unhelped(pod=third, reasons={})),
        ),
        salvo=(
            ScaleUpReport(triggered=(second,)),
            ScaleUpReport(unhelped=tuple(Unhelped(pod=pod, reasons={}) for pod in (member, other))),
        ),
    )
    metrics = Metrics(Settings())
    metrics.observe(replace(make_report(), plan=plan))
    found = read(metrics)
    assert found["cluster_autoscaler_unschedulable_pods_count{type=unschedulable}"] == len(pods)
    assert found["nodewright_unhelped_pods"] == 3


def test_a_loop_that_failed() -> None:
    metrics = Metrics(Settings())
    metrics.observe(make_report("KubeApiError: no answer"))
    found = read(metrics)
    assert found["cluster_autoscaler_errors_total{type=apiCallError}"] == 1
    assert "cluster_autoscaler_last_activity{activity=mainSuccessful}" not in found
    assert not [name for name in found if "node_group_" in name]


def test_a_provider_that_cannot_be_read() -> None:
    """The loop goes on without it: CA's would have failed, and people have alerts on this."""
    world, metrics = World(), Metrics(Settings())
    world.provider = ProviderSeen(name="fake", problem="no answer")
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=world.state()))
    found = read(metrics)
    assert found["cluster_autoscaler_errors_total{type=cloudProviderError}"] == 1
    assert found["cluster_autoscaler_last_activity{activity=mainSuccessful}"] == NOW


def test_pods_that_wait_count_also_while_nothing_is_planned() -> None:
    metrics = Metrics(Settings())
    pending = [
        build_pod("early", created_at=NOW - 4 * 3600),
        build_pod("late", created_at=NOW - 60),
        build_pod("gated", unschedulable=False, created_at=NOW - 9 * 3600),
        build_pod("of-every-node", owner=("DaemonSet", "ds"), created_at=NOW - 9 * 3600),
        build_pod("ahead-of-time", created_at=NOW + 60),
    ]
    halted = LoopReport(started=NOW, finished=NOW, state=World(pending=pending).state(), plan=Plan(halted="unhealthy"))
    metrics.observe(halted)
    found = read(metrics)
    assert found["nodewright_pending_pods"] == 3
    assert found["nodewright_longest_pending_seconds"] == 4 * 3600
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=World().state(), plan=Plan()))
    found = read(metrics)
    assert (found["nodewright_pending_pods"], found["nodewright_longest_pending_seconds"]) == (0, 0)


def test_groups_beyond_the_limit_are_added_up() -> None:
    settings = Settings(serving=ServingSettings(emit_per_nodegroup_metrics=True, max_groups_in_metrics=1))
    world, metrics = World(), Metrics(settings)
    for name, size in (("a", 1), ("b", 2), ("c", 3)):
        world.add_group(name, size, hourly_price=0.5)
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=world.state()))
    found = read(metrics)
    assert {name: value for name, value in found.items() if "_target_" in name} == {
        "nodewright_group_target_size{group=cloud/a}": 1,
        "nodewright_group_target_size{group=others}": 5,
        "cluster_autoscaler_node_group_target_count{node_group=a}": 1,
    }
    assert found["nodewright_cost_per_hour{group=others}"] == 2.5
    assert found["nodewright_group_ready_nodes{group=others}"] == 5


def test_groups_that_are_gone_are_no_longer_on_the_page() -> None:
    metrics = Metrics(Settings(serving=ServingSettings(emit_per_nodegroup_metrics=True)))
    metrics.observe(make_report())
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=World().state()))
    assert not [name for name in read(metrics) if "_target_" in name or "_healthiness" in name]


def test_groups_of_a_provider_that_cannot_be_read_are_unknown_though_their_last_size_is_kept() -> None:
    world, metrics = World(), Metrics(Settings())
    world.add_group("a", 2)
    known = world.state()
    lost = {name: replace(group, target=None, instances=None) for name, group in known.observation.groups.items()}
    silent = {
        "cloud": ProviderSeen(name="cloud", problem="timeout"),
        "other": ProviderSeen(name="other", problem="timeout"),
        "empty": ProviderSeen(name="empty"),
    }
    seen = replace(known.observation, groups=lost, providers=silent)
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=replace(known, observation=seen)))
    found = read(metrics)
    assert found["nodewright_unknown_groups"] == 2  # the group, and the provider that has never listed one
    assert "nodewright_group_target_size{group=cloud/a}" not in found


def test_a_cluster_that_is_left_alone_is_not_safe() -> None:
    metrics = Metrics(Settings())
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=World().state(), plan=Plan(halted="no ready nodes")))
    assert read(metrics)["cluster_autoscaler_cluster_safe_to_autoscale"] == 0


def test_nodes_that_go_for_their_machine_or_their_age_are_counted_by_kind_and_reason() -> None:
    world = World()
    world.add_group("a", 2)
    told = Interruption(id="one", instance_id="cloud:///a/0", kind=InterruptionKind.RECLAIM, deadline=NOW + 120)
    world.provider = replace(world.provider, interruptions=(told,))
    state = world.state()
    old = OutdatedNode(node="a-1", group=ref("a"), reason=DisruptionReason.EXPIRED, why="it is old")
    metrics, report = Metrics(Settings()), make_report()
    metrics.observe(replace(report, state=state, plan=Plan(outdated=(old,))))
    # The next loop sees the same notice again.
    world.now, world.memory = NOW + 10, state.memory
    metrics.observe(replace(report, state=world.state(), plan=Plan()))
    found = read(metrics)
    assert found["nodewright_interrupted_nodes{kind=reclaim}"] == 1
    assert found["nodewright_interrupted_nodes{kind=rebalance}"] == 0
    assert found["nodewright_interruption_notices_total{kind=reclaim}"] == 1
    assert found["nodewright_outdated_nodes{reason=expired}"] == 0
    metrics.observe(replace(report, state=world.state(), plan=Plan(outdated=(old,))))
    assert read(metrics)["nodewright_outdated_nodes{reason=expired}"] == 1


def test_moves_are_counted_with_what_they_save() -> None:
    begun = Move(
        id="m", reason=DisruptionReason.REPLACED, sources=("a-0",), started=NOW, deadline=NOW + 60, savings=0.5
    )
    metrics, report = Metrics(Settings()), make_report()
    for stage in (MoveStage.PROPOSED, MoveStage.READY, MoveStage.DONE):
        plan = Plan(moves=(msgspec.structs.replace(begun, stage=stage),))
        metrics.observe(replace(report, state=None, plan=plan))
        assert read(metrics)["nodewright_moves_under_way"] == (stage != MoveStage.DONE)
    found = read(metrics)
    assert [found[f"nodewright_moves_total{{result={result}}}"] for result in ("started", "done", "abandoned")] == [
        1,
        1,
        0,
    ]
    assert found["nodewright_moves_savings_per_hour_total"] == 0.5


def test_engines_do_not_share_their_metrics() -> None:
    first, second = Metrics(Settings()), Metrics(Settings())
    first.observe(make_report())
    assert read(second)["cluster_autoscaler_scaled_up_nodes_total"] == 0


def test_how_long_a_node_was_unneeded_before_it_went() -> None:
    metrics = Metrics(Settings())
    world = World()
    world.add_group("a", 2)
    gone, kept = sorted(node.name for _, node in world.state().observation.snapshot.nodes())
    unneeded = {gone: NOW - 60, kept: NOW - 30}
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=world.state(), plan=plan_with(unneeded)))
    smaller = World()
    smaller.add_group("a", 2)
    state = smaller.state()
    state.observation.snapshot.remove_node(state.observation.snapshot.row(gone))
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=state, plan=plan_with({})))
    found = read(metrics)
    prefix = "cluster_autoscaler_node_removal_latency_seconds"
    assert found[f"{prefix}_sum{{deleted=true}}"] == 60
    assert found[f"{prefix}_sum{{deleted=false}}"] == 30


def plan_with(unneeded: dict[str, float]) -> Plan:
    return Plan(scale_down=ScaleDownReport(unneeded=unneeded))


def test_taints_by_what_they_mean() -> None:
    settings = TemplateSettings(startup_taint=("boot",), status_taint=("ill",))
    kinds = [taint_type(key, settings) for key in ("node.kubernetes.io/not-ready", "boot", "ill", "team")]
    assert kinds == ["node.kubernetes.io/not-ready", "startup-taint", "status-taint", "unlisted"]


def test_counts_that_others_keep() -> None:
    sources = Sources(
        kube_requests=lambda: {("list", "pods", 200): 3},
        lease=lambda: LeaseCounts(5, 1, 12.5),
        cloud_calls=lambda: (ProviderCalls("aws", "Describe", "ok", 4, 0.5),),
    )
    found = read(Metrics(Settings(), sources))
    assert found["nodewright_kube_requests_total{code=200,resource=pods,verb=list}"] == 3
    assert found["nodewright_lease_renewals_total{result=failed}"] == 1
    assert found["nodewright_lease_remaining_seconds"] == 12.5
    assert found["nodewright_cloud_api_calls_seconds_total{operation=Describe,provider=aws,result=ok}"] == 0.5
    assert "nodewright_lease_remaining_seconds" not in read(Metrics(Settings()))


def costly_world() -> World:
    """Return a world whose three nodes hold pods for which one would do."""
    world = World()
    world.add_group("a", 3, cpu="4", hourly_price=0.5)
    world.running = [build_pod(f"p{n}", "1", node_name=f"a-{n}") for n in range(3)]
    return world


def test_the_cost_of_groups_stands_beside_the_least_that_it_could_be() -> None:
    world, metrics = costly_world(), Metrics(Settings())
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=world.state()))
    found = read(metrics)
    assert found["nodewright_cost_per_hour{group=cloud/a}"] == 1.5
    assert found["nodewright_cost_lower_bound_per_hour"] == pytest.approx(3 / 4 * 0.5)


def test_costs_that_are_not_known_are_absent() -> None:
    world, metrics = costly_world(), Metrics(Settings())
    world.add_group("b", 1, cpu="4")
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=world.state()))
    assert [name for name in read(metrics) if "_cost_" in name] == ["nodewright_cost_per_hour{group=cloud/a}"]
    del world.groups[ref("a")], world.groups[ref("b")]
    metrics.observe(LoopReport(started=NOW, finished=NOW, state=world.state()))
    assert not [name for name in read(metrics) if "_cost_" in name]


def test_the_bound_is_computed_once_a_minute_and_costs_in_each_loop() -> None:
    world, metrics, bounds, costs = costly_world(), Metrics(Settings()), [], []
    for _ in range(8):
        metrics.observe(LoopReport(started=world.now, finished=world.now, state=world.state()))
        bounds.append(read(metrics)["nodewright_cost_lower_bound_per_hour"])
        costs.append(read(metrics)["nodewright_cost_per_hour{group=cloud/a}"])
        world.now += 10
        world.pending.append(build_pod(f"w{len(bounds)}", "1"))
        world.groups[ref("a")] = replace(world.groups[ref("a")], price=Price(per_hour=0.5 + len(bounds), source="x"))
    assert bounds == pytest.approx([0.375] * 6 + [9 / 4 * 6.5] * 2)
    assert costs == [3 * (0.5 + number) for number in range(8)]
