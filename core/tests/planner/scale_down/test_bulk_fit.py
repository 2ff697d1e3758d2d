"""Pods for which the bulk check finds room have it one after the other, in any order."""

from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodewright.model.pod import ContainerStatus, Pod, PodCondition, PodStatus, ResourceRequirements, Toleration
from nodewright.model.quantity import Quantity
from nodewright.planner.scale_down.simulation import BulkFit
from nodewright.predicates import explain
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod, build_taint

SHAPES: Any = st.sampled_from(
    [
        {},
        {},
        {"memory": "6Gi"},
        {"tolerations": [Toleration(key="own", operator="Exists")]},
        {"node_selector": {"disk": "ssd"}},
        {"extended": {"acme.com/gpu": 1}},
    ]
)
NODES: Any = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(
            [
                {},
                {},
                {"taints": [build_taint("own")]},
                {"labels": {"disk": "ssd"}},
                {"unschedulable": True},
                {"extended": {"acme.com/gpu": 2}},
            ]
        ),
    ),
    min_size=1,
    max_size=4,
)
# Where each goes, quarters of a core, what else it asks for, and what a resize that is under way has given it.
COMING: Any = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), SHAPES, st.sampled_from(["", "", "", "100m", "1500m"])), max_size=8
)
# Where each is, and what it asks for: also more than there is.
RUNNING: Any = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), SHAPES), max_size=6)


def resized(pod: Pod, given_now: str) -> Pod:
    """A pod whose resize to what its spec says does not fit where it runs."""
    amounts = ResourceRequirements(requests={"cpu": Quantity.of(given_now)})
    refused = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    name = pod.spec.containers[0].name
    status = PodStatus(conditions=(refused,), container_statuses=(ContainerStatus(name=name, resources=amounts),))
    return replace(pod, status=status)


@settings(max_examples=300)
@given(NODES, RUNNING, COMING)
def test_who_has_room_together_has_it_one_after_the_other(
    nodes: list[tuple[int, dict[str, Any]]], running: list[Any], coming: list[Any]
) -> None:
    snapshot, asked = Snapshot(), dict[PodClass, list[int]]()
    snapshot.add_nodes([build_node(f"n{at}", cpu=cores, pods=6, **extras) for at, (cores, extras) in enumerate(nodes)])
    pods = [
        build_pod(f"r{k}", f"{quarters * 250}m", node_name="x", **extras)
        for k, (_, quarters, extras) in enumerate(running)
    ]
    for pod, (at, *_) in zip(pods, running, strict=True):
        snapshot.place(snapshot.class_of(pod, placed=True), at % len(nodes), pod=pod)
    for k, (at, quarters, extras, given_now) in enumerate(coming):
        pod = build_pod(f"p{k}", f"{quarters * 250}m", node_name="x", **extras)
        pod_class = snapshot.class_of(resized(pod, given_now) if given_now else pod, placed=True)
        asked.setdefault(pod_class, []).append(at % len(nodes))
    # Where what a pod holds and what it asks for differ, the larger counts.
    doubtful = {at % len(nodes) for at, *_, given_now in coming if given_now}
    found = BulkFit().rows_fitting_all(snapshot, asked)
    for row in set(chain.from_iterable(asked.values())):
        guests = [pod_class for pod_class, rows in asked.items() for _ in range(rows.count(row))]
        fits = [all_fit(snapshot.fork(), row, order) for order in (guests, guests[::-1])]
        if row in found:
            assert all(fits)
        elif row not in doubtful:
            assert not any(fits)


def all_fit(snapshot: Snapshot, row: int, guests: list[PodClass]) -> bool:
    for pod_class in guests:
        if explain(snapshot, pod_class, row) is not None:
            return False
        snapshot.place(pod_class, row)
    return True
