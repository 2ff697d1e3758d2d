"""Which nodes wait for their devices."""

from datetime import UTC, datetime

import pytest
from core.tests.predicates.dra.devices import context, gpu, slice_of
from core.tests.predicates.manifests import node
from msgspec.structs import replace

from nodewright.clusterstate.late_devices import find_late_nodes
from nodewright.clusterstate.memory import LearnedTemplate
from nodewright.model.cluster import CsiDriver, CsiDriverSpec
from nodewright.model.devices import ResourcePool, ResourceSlice
from nodewright.model.group import GroupRef, NodeGroup, NodeTemplate, make_template_node
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import CsiNode, CsiNodeDriver, CsiNodeSpec
from nodewright.snapshot.context import Context
from nodewright.snapshot.observation import GroupSeen

REF = GroupRef("fake", "cards")


def late(*slices: ResourceSlice, promised: bool = False, sample: str = "") -> frozenset[str]:
    """Return which of the nodes m and n of a group are late."""
    template = NodeTemplate(allocatable={}, slices=(slice_of("", gpu("a")).spec,) if promised else ())
    seen = GroupSeen(
        ref=REF, group=NodeGroup(id="cards", min_size=0, max_size=9), template=make_template_node(REF, template)
    )
    samples = {REF: sample} if sample else {}
    return find_late_nodes({REF: [node("m"), node("n")]}, {REF: seen}, samples, {}, context(slices), 0.0)


def test_without_devices_nothing_is_late() -> None:
    assert late() == frozenset()
    assert late(slice_of("m", gpu("a"))) == frozenset()


def test_a_node_waits_for_each_driver_of_the_template() -> None:
    assert late(promised=True) == {"m", "n"}
    assert late(slice_of("m", gpu("a")), promised=True) == {"n"}


def test_a_node_waits_for_each_driver_of_the_sample_node() -> None:
    assert late(slice_of("m", gpu("a")), sample="m") == {"n"}


def test_a_node_waits_for_every_slice_of_a_pool() -> None:
    half = slice_of("n", gpu("a"))
    torn = replace(half, spec=replace(half.spec, pool=ResourcePool(name="n", generation=2, resource_slice_count=2)))
    assert late(slice_of("m", gpu("a")), torn, promised=True) == {"n"}
    old = replace(half, metadata=replace(half.metadata, name="old"))
    assert late(slice_of("m", gpu("a")), torn, old, promised=True) == {"n"}


@pytest.mark.parametrize(("young_since", "is_late"), [(-1.0, True), (1.0, False)])
def test_only_a_young_node_waits_for_a_driver_that_the_last_nodes_had(*, young_since: float, is_late: bool) -> None:
    """A driver may be uninstalled: then no node that runs is unready for it."""
    seen = GroupSeen(ref=REF, group=NodeGroup(id="cards", min_size=0, max_size=9))
    learned = {REF: LearnedTemplate(slices=(slice_of("", gpu("a")).spec,))}
    found = find_late_nodes({REF: [node("m")]}, {REF: seen}, {}, learned, context(()), young_since)
    assert found == ({"m"} if is_late else frozenset())


@pytest.mark.parametrize(
    ("must_be_there", "age", "is_late"), [(True, 60, True), (True, 2000, False), (False, 60, False)]
)
def test_a_young_node_waits_for_csi_drivers_without_which_no_pod_comes(
    *, must_be_there: bool, age: float, is_late: bool
) -> None:
    spec = CsiDriverSpec(prevent_pod_scheduling_if_missing=must_be_there)
    installed = CsiNode(metadata=ObjectMeta(name="m"), spec=CsiNodeSpec(drivers=(CsiNodeDriver(name="csi"),)))
    known = Context(
        csi_drivers={"csi": CsiDriver(metadata=ObjectMeta(name="csi"), spec=spec)},
        csi_nodes={"m": installed, "n": CsiNode(metadata=ObjectMeta(name="n"))},
    )
    new = node("n")
    new = replace(new, metadata=replace(new.metadata, creation_timestamp=datetime.fromtimestamp(5000 - age, UTC)))
    seen = GroupSeen(ref=REF, group=NodeGroup(id="cards", min_size=0, max_size=9))
    late = find_late_nodes({REF: [node("m"), new]}, {REF: seen}, {REF: "m"}, {}, known, 5000 - 900)
    assert late == ({"n"} if is_late else frozenset())
