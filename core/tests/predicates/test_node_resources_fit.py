"""NodeResourcesFit: docs/behaviour/scheduling.md#noderesourcesfit, cases 84-89."""

from typing import Any

import msgspec
import pytest
from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.reference import explain_fit
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.model.pod import ContainerStatus, PodStatus, ResourceRequirements
from nodewright.model.quantity import Quantity
from nodewright.predicates import capacity, explain, feasible
from nodewright.predicates.node_resources_fit import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


def _container(cpu: str, **more: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def _asking(cpu: str) -> dict[str, Any]:
    return {"containers": [_container(cpu)]}


@pytest.mark.parametrize(
    ("offers", "spec", "reasons"),
    [
        pytest.param({"cpu": "4"}, {}, "Too many pods", id="84-no-pods-in-allocatable"),
        pytest.param({"pods": "1"}, {"requests": {"foo": "1"}}, None, id="85-unprefixed-name-is-ignored"),
        pytest.param({"pods": "1"}, {"requests": {"x.com/y": "0"}}, None, id="85-zero-passes"),
        pytest.param({"pods": "1"}, {"requests": {"x.com/y": "1"}}, "Insufficient x.com/y", id="85-absent-on-node"),
        pytest.param({"cpu": "4", "pods": "9"}, _asking("4000.5m"), "Insufficient cpu", id="86-rounds-up"),
        pytest.param({"cpu": "4", "pods": "9"}, _asking("4"), None, id="86-exactly-full"),
        pytest.param(
            {"pods": "0"},
            {"requests": {"memory": "1", "cpu": "1"}},
            "Too many pods, Insufficient cpu, Insufficient memory",
            id="89-all-reasons-in-order",
        ),
    ],
)
def test_amounts(offers: dict[str, str], spec: dict[str, Any], reasons: str | None) -> None:
    found = refusals(cluster(node("n", offers=offers)), pod(**spec))
    assert found == ({"n": f"NodeResourcesFit: {reasons}"} if reasons else {})


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        pytest.param(
            {
                "initContainers": [_container("2", restartPolicy="Always"), _container("3")],
                "containers": [_container("1")],
            },
            5,
            id="87-sidecar-before-init",
        ),
        pytest.param(
            {
                "initContainers": [_container("3"), _container("2", restartPolicy="Always")],
                "containers": [_container("2")],
            },
            4,
            id="87-init-before-sidecar",
        ),
        pytest.param({"resources": {"requests": {"cpu": "5"}}, **_asking("1")}, 5, id="88-pod-level"),
        pytest.param({"overhead": {"cpu": "1"}, **_asking("4")}, 5, id="88-overhead"),
    ],
)
def test_a_pod_needs_what_its_parts_need_together(spec: dict[str, Any], needs: int) -> None:
    tight = node("tight", offers={"cpu": f"{needs * 1000 - 1}m", "pods": "9"})
    enough = node("enough", offers={"cpu": str(needs), "pods": "9"})
    assert refusals(cluster(tight, enough), pod(**spec)) == {"tight": "NodeResourcesFit: Insufficient cpu"}


def test_zero_requests_pass_on_an_over_committed_node() -> None:
    snapshot = cluster(node("n", offers={"cpu": "1", "pods": "9"}), placed=[(pod("big", **_asking("8")), "n")])
    assert refusals(snapshot, pod()) == {}
    assert refusals(snapshot, pod(**_asking("1m"))) == {"n": "NodeResourcesFit: Insufficient cpu"}


def test_negative_requests_ask_nothing_and_make_no_room() -> None:
    hostile = pod("hostile", requests={"cpu": "-8", "x.com/y": "-1"})
    snapshot = cluster(node("n", offers={"cpu": "1", "pods": "9"}), placed=[(hostile, "n")])
    assert refusals(snapshot, hostile) == {}
    assert refusals(snapshot, pod(**_asking("2"))) == {"n": "NodeResourcesFit: Insufficient cpu"}


def test_a_resource_that_nobody_knew_is_short_everywhere() -> None:
    snapshot = cluster(node("n"))
    known = snapshot.class_of(pod("first"))
    assert feasible(snapshot, known).all()
    assert refusals(snapshot, pod("new", requests={"x.com/new": "1"})) == {
        "n": "NodeResourcesFit: Insufficient x.com/new"
    }


def test_capacity_counts_a_resized_pod_by_what_it_holds() -> None:
    resized = ContainerStatus(name="c", resources=ResourceRequirements(requests={"cpu": Quantity.of("3")}))
    plain = pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    snapshot = cluster(node("n", offers={"cpu": "8", "pods": "9"}))
    changed = snapshot.class_of(msgspec.structs.replace(plain, status=PodStatus(container_statuses=(resized,))))
    assert capacity(snapshot, changed, slice(0, 1)).tolist() == [3]


def test_capacity_without_requests_is_the_number_of_pods() -> None:
    snapshot = cluster(node("n", offers={"pods": "7"}), node("cordoned", unschedulable=True))
    assert capacity(snapshot, snapshot.class_of(pod()), slice(0, 2)).tolist() == [7, 0]


@given(worlds("containers", "init_containers"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class, explain_fit)


@given(worlds("containers", "node_selector", "tolerations"))
@SETTINGS
def test_capacity_is_how_many_fit_one_after_another(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in (found for found in classes if found.is_plain):
        for row, _ in snapshot.nodes():
            fork, counted = snapshot.fork(), 0
            while explain(fork, pod_class, row) is None:
                fork.place(pod_class, row)
                counted += 1
            assert capacity(snapshot, pod_class, slice(row, row + 1)).tolist() == [counted]
