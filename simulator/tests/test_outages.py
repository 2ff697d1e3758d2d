"""Nodes that are not ready for a while or touched by hand, and restarts of the engine, in a scenario file."""

import pytest
from msgspec.structs import replace

from nodewright.engine.ports import ClusterObservation
from nodewright.model.gang import PodGroups
from nodewright.model.node import HOSTNAME_LABEL, TO_BE_DELETED_TAINT, Node, Taint
from nodewright.snapshot.snapshot import Snapshot
from nodewright_simulator.api_server import EMPTY_NODES, HALF_OF_THE_PODS, NO_PODS, STALE, STALE_NODES, Misreads
from nodewright_simulator.build import build_simulation
from nodewright_simulator.journal import What
from nodewright_simulator.node_faults import renamed_copy
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario_file import read_scenario
from nodewright_simulator.workloads import pod_group

SCENARIO = """
name: Trouble
duration: 20m
providers: {fake: {groups: [{name: a, cpu: 1, size: 2}]}}
deployments: [{name: web, at: 6m, replicas: 1, pod: {cpu: 1}}]
timeline: [%s]
"""


def run(happening: str) -> SimulationResult:
    return build_simulation(read_scenario(SCENARIO % happening, "test")).run()


def started(result: SimulationResult) -> float:
    return next(fact.at for fact in result.journal if fact.what == What.POD_STARTED)


def test_a_pod_waits_for_nodes_that_are_not_ready() -> None:
    assert started(run("{at: 5m, do: unready, nodes: 1, for: 3m}")) == 360
    assert started(run("{at: 5m, do: unready, nodes: 2, for: 75s}")) == 375


def test_the_engine_restarts() -> None:
    result = run("{at: 5m, do: restart, down: 1m}")
    times = [(fact.at, fact.what) for fact in result.journal if fact.what.startswith("engine")]
    assert times == [(0, What.ENGINE_STARTED), (300, What.ENGINE_CRASHED), (360, What.ENGINE_STARTED)]


def nodes_at(minutes: int, how: str) -> dict[str, Node]:
    """Return the nodes of two machines so long after the start, of which one is touched after 5 minutes, for 3."""
    text = (
        SCENARIO.replace("duration: 20m", f"duration: {minutes}m") % f"{{at: 5m, do: touch_nodes, how: {how}, for: 3m}}"
    )
    simulation = build_simulation(read_scenario(text, "test"))
    simulation.run()
    return {node.name: node for _, node in simulation.cluster.live.nodes()}


def is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def test_a_kubelet_that_registers_again_knows_no_taint_of_an_autoscaler() -> None:
    [node] = [one for name, one in nodes_at(4, "delete").items() if name.endswith("0")]
    marked = (Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule"), Taint(key="dedicated", effect="NoSchedule"))
    copy = renamed_copy(replace(node, spec=replace(node.spec, taints=marked)), node.name, 300.0)
    assert [taint.key for taint in copy.spec.taints] == ["dedicated"]


def test_a_renamed_node_is_gone_and_its_machine_registers_under_another_name() -> None:
    before, meanwhile, after = (nodes_at(minutes, "rename") for minutes in (4, 7, 9))
    [old] = before.keys() - meanwhile.keys()
    [new] = after.keys() - meanwhile.keys()
    assert new != old
    assert after[new].spec.provider_id == before[old].spec.provider_id
    assert after[new].metadata.labels[HOSTNAME_LABEL] == new


@pytest.mark.parametrize(("how", "ready"), [("double", False), ("twin", True)])
def test_a_machine_has_a_second_node_object_for_a_while(how: str, *, ready: bool) -> None:
    before, meanwhile, after = (nodes_at(minutes, how) for minutes in (4, 7, 9))
    [second] = meanwhile.keys() - before.keys()
    assert is_ready(meanwhile[second]) == ready
    machine = meanwhile[second].spec.provider_id
    assert [node.spec.provider_id for node in meanwhile.values()].count(machine) == 2
    assert after.keys() == before.keys()


def test_a_label_is_set_by_hand_and_taken_off() -> None:
    before, meanwhile, after = (nodes_at(minutes, "label") for minutes in (4, 7, 9))
    [changed] = [name for name in before if before[name].metadata.labels != meanwhile[name].metadata.labels]
    assert meanwhile[changed].metadata.labels["example.com/by-hand"] == "true"
    assert after[changed].metadata.labels == before[changed].metadata.labels


def pauses(*happenings: str) -> list[tuple[float, What]]:
    journal = run(", ".join(happenings)).journal
    return [(fact.at, fact.what) for fact in journal if fact.what in (What.PAUSED, What.RESUMED)]


def test_a_pause_ends_when_its_time_is_over_or_earlier() -> None:
    assert pauses("{at: 2m, do: pause, for: 3m}") == [(120, What.PAUSED), (300, What.RESUMED)]
    early = pauses("{at: 2m, do: pause, for: 3m}", "{at: 4m, do: resume}")
    assert early == [(120, What.PAUSED), (240, What.RESUMED)]
    replaced = pauses("{at: 2m, do: pause, for: 3m}", "{at: 4m, do: pause, for: 5m}")
    assert replaced == [(120, What.PAUSED), (240, What.PAUSED), (540, What.RESUMED)]


@pytest.mark.parametrize("shows", [NO_PODS, HALF_OF_THE_PODS, STALE, STALE_NODES, EMPTY_NODES])
def test_a_wrong_list_of_pods_and_nodes_leaves_the_other_objects(shows: str) -> None:
    group = pod_group("train", "default", 4)
    seen = ClusterObservation(snapshot=Snapshot(), pod_groups=PodGroups(kubernetes={group.key: group}))
    misreads = Misreads()
    misreads.begin(shows, 60.0)
    assert misreads.apply(seen, 0.0).pod_groups == seen.pod_groups
