"""How much of a node is asked for: rows 1 to 11 of the edge cases (docs/behaviour/edge-cases.md)."""

from collections.abc import Sequence
from math import inf, isnan, nan
from typing import Any

import msgspec
import numpy as np
import pytest
from core.tests.predicates.dra.devices import DRIVER, allocated, asks, claim, context, gpu, slice_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.clusterstate.accelerators import Accelerators
from nodewright.model.node import Node
from nodewright.model.pod import MIRROR_ANNOTATION, Pod, ResourceRequirements
from nodewright.model.quantity import Quantity
from nodewright.planner.scale_down.utilization import Measure, Utilization, utilization_of, utilizations
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod, build_resources

NOW = 1_000_000.0
GPU = "vendor.example/gpu"
ACCELERATORS = Accelerators(("example.com/accelerator",), (GPU, "vendor.example/other"))
GPU_LABEL = {"example.com/accelerator": "t4"}
CA = Measure(now=NOW, accelerators=ACCELERATORS, divides_by_zero=True)
OURS = Measure(now=NOW, accelerators=ACCELERATORS)


def make_snapshot(node: Node, pods: Sequence[Pod]) -> Snapshot:
    snapshot = Snapshot()
    row = snapshot.add_node(node)
    for pod in pods:
        snapshot.place(snapshot.class_of(pod, placed=True), row, pod=pod)
    return snapshot


def at(snapshot: Snapshot, measure: Measure, *, ignore: bool) -> Utilization:
    """By columns."""
    found = utilizations(snapshot, np.array([0]), measure, np.array([ignore]))
    return Utilization(
        float(found.ratios[0]), found.resources[found.resource_ids[0]], found.problems[found.problem_ids[0]]
    )


def same(one: Utilization, other: Utilization) -> bool:
    """Equal, NaN being equal to itself; without a ratio only the problem counts."""
    if one.problem or other.problem:
        return one.problem == other.problem
    ratios = one.ratio == other.ratio or (isnan(one.ratio) and isnan(other.ratio))
    return ratios and one.resource == other.resource


def measured(node: Node, pods: Sequence[Pod], measure: Measure = CA, *, ignore_daemonsets: bool = False) -> Utilization:
    """Both ways, which must agree."""
    snapshot = make_snapshot(node, pods)
    exact = utilization_of(snapshot, 0, measure, ignore_daemonsets=ignore_daemonsets)
    assert same(at(snapshot, measure, ignore=ignore_daemonsets), exact)
    return exact


def daemon(cpu: str = "0", memory: str = "0", **extras: Any) -> Pod:
    return build_pod("ds", cpu=cpu, memory=memory, owner=("DaemonSet", "ds"), **extras)


def without(node: Node, *names: str) -> Node:
    left = {name: amount for name, amount in node.status.allocatable.items() if name not in names}
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=left))


def test_8_a_node_with_devices_is_measured_by_the_pool_that_claims_use_most() -> None:
    slices = [slice_of("n", gpu("a"), gpu("b"), gpu("c"), gpu("d")), slice_of("n", gpu("a"), gpu("b"), pool="other")]
    snapshot = make_snapshot(build_node("n"), [build_pod("p", cpu="4")])
    snapshot.add_node(build_node("plain"))
    for used, ratio in (([], 0.0), (["a"], 0.25), (["a", "b", "c"], 0.75)):
        snapshot.context = context(slices, claims=[claim("c", asks(1), allocated("n", *used))])
        assert utilization_of(snapshot, 0, OURS) == Utilization(ratio, DRIVER)
        assert at(snapshot, OURS, ignore=False) == Utilization(ratio, DRIVER)
        assert utilizations(snapshot, np.array([0, 1]), OURS, np.array([False, False])).has_gpu.tolist() == [
            True,
            False,
        ]


NODE = build_node("n", cpu="4", memory="8Gi")


def test_the_larger_one_of_cpu_and_memory_counts() -> None:
    assert measured(NODE, [build_pod("p", cpu="1", memory="2Gi")]) == (0.25, "memory", ""), "a tie is memory's"
    assert measured(NODE, [build_pod("p", cpu="2", memory="2Gi")]) == (0.5, "cpu", "")
    assert measured(NODE, []) == (0.0, "memory", "")


def test_row_2_daemonsets_take_all_and_nothing_else_is_there() -> None:
    pods = [daemon("4", "8Gi")]
    found = measured(NODE, pods, ignore_daemonsets=True)
    assert (isnan(found.ratio), found.resource) == (True, "memory")
    assert measured(NODE, pods, OURS, ignore_daemonsets=True) == (0.0, "memory", "")


@pytest.mark.parametrize("measure", [CA, OURS])
def test_row_3_daemonsets_take_all_cpu_and_another_pod_wants_some(measure: Measure) -> None:
    pods = [daemon("4"), build_pod("p", cpu="100m", memory="0")]
    assert measured(NODE, pods, measure, ignore_daemonsets=True) == (inf, "cpu", "")


def test_row_4_daemonsets_ask_for_more_than_there_is() -> None:
    pods = [daemon("5", "9Gi"), build_pod("p", cpu="100m", memory="1Gi")]
    found = measured(NODE, pods, ignore_daemonsets=True)
    assert (found.ratio, found.resource) == (-0.1, "cpu"), "eligible for CA"
    assert measured(NODE, pods, OURS, ignore_daemonsets=True).ratio == inf, "the node is more than full"


def test_row_5_not_a_number_of_memory_hides_a_busy_cpu_from_ca_alone() -> None:
    pods = [daemon("0", "8Gi"), build_pod("p", cpu="3800m", memory="0")]
    found = measured(NODE, pods, ignore_daemonsets=True)
    assert (isnan(found.ratio), found.resource) == (True, "memory")
    assert measured(NODE, pods, OURS, ignore_daemonsets=True) == (0.95, "cpu", "")


def test_not_a_number_of_cpu_yields_memory() -> None:
    pods = [daemon("4", "0"), build_pod("p", cpu="0", memory="2Gi")]
    assert measured(NODE, pods, ignore_daemonsets=True) == (0.25, "memory", "")


@pytest.mark.parametrize("memory", ["0", "0.0000000000"])
def test_row_6_a_node_that_offers_no_memory_cannot_be_measured(memory: str) -> None:
    assert measured(build_node("n", memory=memory), []).problem == "it offers no memory"
    assert measured(without(NODE, "cpu"), []).problem == "it offers no cpu"
    assert measured(without(NODE, "memory"), []).problem == "it offers no memory"
    assert measured(build_node("n", cpu="0", memory="0"), []).problem == "it offers no cpu"


def test_row_7_a_gpu_node_without_devices_is_used_by_nobody() -> None:
    busy = [build_pod("p", cpu="3600m")]
    assert measured(build_node("n", labels=GPU_LABEL), busy) == (0.0, GPU, "")
    assert measured(build_node("n", labels=GPU_LABEL, extended={GPU: 0}), busy) == (0.0, GPU, "")
    assert measured(build_node("n"), busy) == (0.9, "cpu", "")


def test_of_a_gpu_node_only_gpus_count() -> None:
    node = build_node("n", labels=GPU_LABEL, extended={GPU: 8})
    pods = [build_pod("p", cpu="3600m", extended={GPU: 2})]
    assert measured(node, pods) == (0.25, GPU, "")
    assert measured(without(node, "cpu", "memory"), pods) == (0.25, GPU, "")
    assert measured(node, pods, Measure(now=NOW)) == (0.9, "cpu", ""), "where no provider knows of GPUs"
    other = build_node("n", labels=GPU_LABEL, extended={"vendor.example/other": 4})
    assert measured(other, [build_pod("p", extended={"vendor.example/other": 3})]).ratio == 0.75


@pytest.mark.parametrize(("ago", "ratio"), [(61.0, 0.0), (60.0, 0.5), (59.0, 0.5)])
def test_row_10_a_pod_that_should_long_be_gone_does_not_count(ago: float, ratio: float) -> None:
    assert measured(NODE, [build_pod("p", cpu="2", deleted_at=NOW - ago)]).ratio == ratio


def test_row_11_a_declared_daemonset_pod_is_left_out() -> None:
    declared = build_pod(
        "p", cpu="2", owner=None, annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}
    )
    pods = [declared, build_pod("q", cpu="1")]
    assert measured(NODE, pods).ratio == 0.75
    assert measured(NODE, pods, ignore_daemonsets=True).ratio == 0.5


def test_a_daemonset_pod_is_left_out_also_when_it_should_long_be_gone() -> None:
    pods = [daemon("2", deleted_at=NOW - 1000), build_pod("q", cpu="1")]
    assert measured(NODE, pods).ratio == 0.25
    assert measured(NODE, pods, ignore_daemonsets=True).ratio == 0.5


def test_mirror_pods_are_left_out_if_asked() -> None:
    pods = [build_pod("m", cpu="2", annotations={MIRROR_ANNOTATION: ""}), build_pod("q", cpu="1")]
    assert measured(NODE, pods).ratio == 0.75
    assert measured(NODE, pods, Measure(now=NOW, ignore_mirrors=True)).ratio == 0.5


def test_fractions_are_summed_before_they_are_rounded() -> None:
    pods = [build_pod(f"p{n}", cpu="100200u", memory="0") for n in range(10)]
    assert measured(build_node("n", cpu="2"), pods).ratio == 1002 / 2000


def test_a_node_may_offer_fractions() -> None:
    assert measured(build_node("n", memory="1500m"), [build_pod("p", cpu="0", memory="1")]).ratio == 1000 / 1500


def test_pods_known_by_number_alone_count() -> None:
    snapshot = make_snapshot(NODE, [build_pod("p", cpu="1", deleted_at=NOW - 1000)])
    snapshot.place(snapshot.class_of(build_pod("q", cpu="1")), 0, 2)
    assert utilization_of(snapshot, 0, CA).ratio == 0.5
    assert at(snapshot, CA, ignore=False).ratio == 0.5


def test_what_is_remembered_follows_the_pods() -> None:
    snapshot = make_snapshot(NODE, [daemon("2")])
    more = build_pod("q", cpu="500m")
    assert at(snapshot, CA, ignore=True).ratio == 0.0
    forked = snapshot.fork()
    forked.place(forked.class_of(more, placed=True), 0, pod=more)
    another = daemon("1")
    forked.place(forked.class_of(another, placed=True), 0, pod=another)
    assert at(forked, CA, ignore=True).ratio == 0.5
    assert at(snapshot, CA, ignore=True).ratio == 0.0


_CPU = st.sampled_from(["0", "100m", "1", "2", "4", "100500u", "0.0001", "-1"])
_MEMORY = st.sampled_from(["0", "1Gi", "4Gi", "8Gi", "1500m", "9000000000000000", "-5", "1"])
_OWNERS = st.sampled_from([("ReplicaSet", "rs"), ("DaemonSet", "ds"), None])
_DELETED = st.sampled_from([None, NOW - 60, NOW - 61, NOW - 30])


@st.composite
def _pods(draw: st.DrawFn) -> list[Pod]:
    pods = []
    for number in range(draw(st.integers(0, 5))):
        deleted, mirror = draw(_DELETED), draw(st.booleans())
        extras: dict[str, Any] = {} if deleted is None else {"deleted_at": deleted}
        if mirror:
            extras["annotations"] = {MIRROR_ANNOTATION: "x"}
        devices = draw(st.sampled_from([0, 1, 3]))
        pods.append(
            build_pod(
                f"p{number}",
                cpu=draw(_CPU),
                memory=draw(_MEMORY),
                owner=draw(_OWNERS),
                extended={GPU: devices} if devices else {},
                **extras,
            )
        )
    return pods


@st.composite
def _nodes(draw: st.DrawFn) -> Node:
    offers = {GPU: draw(st.sampled_from([0, 1, 8]))} if draw(st.booleans()) else {}
    node = build_node(
        "n",
        cpu=draw(st.sampled_from(["4", "0", "3500500u", "0.1", "-1"])),
        memory=draw(st.sampled_from(["8Gi", "0", "1500m", "20000000000000000", "1"])),
        labels=GPU_LABEL if draw(st.booleans()) else {},
        extended=offers,
    )
    return without(node, draw(st.sampled_from(["", "", "", "cpu", "memory"])))


@settings(max_examples=300)
@given(_nodes(), _pods(), st.booleans(), st.booleans(), st.booleans())
def test_columns_say_what_counting_pod_by_pod_says(
    node: Node, pods: list[Pod], ignore_daemonsets: bool, ignore_mirrors: bool, divides_by_zero: bool
) -> None:
    measure = Measure(
        now=NOW, accelerators=ACCELERATORS, ignore_mirrors=ignore_mirrors, divides_by_zero=divides_by_zero
    )
    found = measured(node, pods, measure, ignore_daemonsets=ignore_daemonsets)
    if not found.problem:
        assert same(found, _by_the_book(node, pods, measure, ignore_daemonsets=ignore_daemonsets))
        assert divides_by_zero or found.ratio >= 0


def _by_the_book(node: Node, pods: Sequence[Pod], measure: Measure, *, ignore_daemonsets: bool) -> Utilization:
    """A5 word for word; these pods have one container each and no overhead."""
    if "example.com/accelerator" in node.metadata.labels:
        held = node.allocatable.get(GPU, Quantity(0)).milli
        return Utilization(_book_ratio(node, pods, GPU, measure, ignore=ignore_daemonsets) if held else 0.0, GPU)
    cpu = _book_ratio(node, pods, "cpu", measure, ignore=ignore_daemonsets)
    memory = _book_ratio(node, pods, "memory", measure, ignore=ignore_daemonsets)
    return Utilization(cpu, "cpu") if cpu > memory else Utilization(memory, "memory")


def _book_ratio(node: Node, pods: Sequence[Pod], name: str, measure: Measure, *, ignore: bool) -> float:
    counted = excluded = 0
    for pod in pods:
        asked = pod.spec.containers[0].resources.requests.get(name, Quantity(0)).nano
        gone = pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_timestamp.timestamp() + 60 < NOW
        if (ignore and pod.is_daemonset_pod) or (measure.ignore_mirrors and pod.is_mirror):
            excluded += asked
        elif not gone:
            counted += asked
    asked, room = Quantity(counted).milli, node.allocatable[name].milli - Quantity(excluded).milli
    if measure.divides_by_zero and room == 0:
        return nan if asked == 0 else inf if asked > 0 else -inf
    if not measure.divides_by_zero and (asked <= 0 or room <= 0):
        return 0.0 if asked <= 0 else inf
    return float(asked) / float(room)  # each rounded first, as in Go


def test_an_in_place_resize_counts_as_it_is() -> None:
    pod = build_pod("p", cpu="1")
    status = msgspec.convert(
        {"containerStatuses": [{"name": "main", "resources": {"requests": {}}, "allocatedResources": {}}]},
        type(pod.status),
    )
    held = msgspec.structs.replace(
        status.container_statuses[0], resources=ResourceRequirements(requests=build_resources(cpu="3"))
    )
    resized = msgspec.structs.replace(pod, status=msgspec.structs.replace(status, container_statuses=(held,)))
    assert measured(NODE, [resized]).ratio == 0.75
