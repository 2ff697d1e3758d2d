"""Which pods are alike, and how long a class is remembered."""

import gc
from datetime import UTC, datetime
from typing import Any

from core.tests.predicates.manifests import pod
from msgspec.structs import replace

from nodewright.model.meta import ObjectMeta, OwnerReference
from nodewright.model.pod import (
    Affinity,
    ClaimSource,
    Container,
    Pod,
    PodSpec,
    ResourceClaimReference,
    ResourceRequirements,
    SchedulingGate,
    SchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from nodewright.model.quantity import Quantity
from nodewright.model.sharing import Sharing
from nodewright.snapshot.pod_class import map_alike
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_pod


def test_pods_that_scheduling_cannot_tell_apart_are_of_one_class() -> None:
    snapshot = Snapshot()
    one, other = build_pod("one", cpu="1"), build_pod("other", cpu="1000m", created_at=5)
    assert snapshot.class_of(one) is snapshot.class_of(other)


def test_labels_namespace_and_spec_tell_pods_apart() -> None:
    snapshot = Snapshot()
    pods = [pod(), pod(labels={"a": "b"}), pod(namespace="other"), pod(nodeName="n"), pod(requests={"cpu": "1"})]
    assert len({snapshot.class_of(found) for found in pods}) == len(pods)


def test_a_placed_pod_no_longer_demands_its_node() -> None:
    snapshot, bound = Snapshot(), build_pod("p", node_name="n")
    assert snapshot.class_of(bound).spec.node_name == "n"
    assert snapshot.class_of(bound, placed=True).spec.node_name == ""
    assert snapshot.class_of(bound).spec.node_name == "n"


def test_pods_with_ephemeral_volumes_have_claims_of_their_own() -> None:
    snapshot, volumes = Snapshot(), [{"name": "v", "ephemeral": {}}]
    first, second = (snapshot.class_of(pod(name, volumes=volumes)) for name in ("a", "b"))
    assert first is not second
    assert first.claims == ("default/a-v",)


def test_a_changed_pod_is_classed_anew() -> None:
    snapshot, first = Snapshot(), build_pod("p")
    changed = replace(first, metadata=replace(first.metadata, labels={"a": "b"}))
    assert snapshot.class_of(first) is not snapshot.class_of(changed)


# For each field of a spec one value that is not the usual one.
VALUES: dict[str, Any] = {
    "scheduler_name": "mine",
    "scheduling_group": SchedulingGroup(pod_group_name="g"),
    "scheduling_gates": (SchedulingGate(name="example.com/wait"),),
    "containers": (Container(name="c"),),
    "init_containers": (Container(name="i"),),
    "resources": ResourceRequirements(),
    "overhead": {"cpu": Quantity(10**9)},
    "node_selector": {"a": "b"},
    "affinity": Affinity(),
    "tolerations": (Toleration(key="a"),),
    "topology_spread_constraints": (TopologySpreadConstraint(topology_key="z"),),
    "volumes": (Volume(name="v", persistent_volume_claim=ClaimSource(claim_name="c")),),
    "resource_claims": (ResourceClaimReference(name="r"),),
    "priority": 1,
    "priority_class_name": "high",
    "preemption_policy": "Never",
    "host_network": True,
    "host_users": False,
    "restart_policy": "Never",
    "termination_grace_period_seconds": 1,
}


def test_every_field_tells_pods_that_share_all_others_apart() -> None:
    assert {*VALUES, "node_name"} == set(PodSpec.__struct_fields__)
    usual = build_pod("p", node_name="n")
    changed = [replace(usual, spec=replace(usual.spec, **{field: value})) for field, value in VALUES.items()]
    for placed in (True, False):
        snapshot = Snapshot()
        classes = {snapshot.class_of(found, placed=placed) for found in (usual, *changed)}
        assert len(classes) == 1 + len(VALUES)
        assert snapshot.class_of(replace(usual, spec=replace(usual.spec)), placed=placed) in classes


def test_a_class_of_which_nobody_speaks_is_forgotten() -> None:
    snapshot = Snapshot()
    number = snapshot.class_of(pod(labels={"job": "1"})).id
    gc.collect()
    assert snapshot.class_of(pod(labels={"job": "1"})).id != number


def test_plain_pods() -> None:
    snapshot = Snapshot()
    ports: dict[str, Any] = {"containers": [{"ports": [{"hostPort": 80}]}]}
    spread: dict[str, Any] = {
        "topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    }
    assert snapshot.class_of(pod(volumes=[{"name": "config"}], requests={"cpu": "1"})).is_plain
    assert not snapshot.class_of(pod(**ports)).is_plain
    assert not snapshot.class_of(pod(**spread)).is_plain
    assert not snapshot.class_of(pod(affinity={"podAntiAffinity": {}})).is_plain


def test_a_class_has_only_the_fields_by_which_classes_differ() -> None:
    """A predicate that reads another field would decide by the first pod of the class: it finds the field empty."""
    annotated = build_pod("p", annotations={"a": "b"}, owner=("ReplicaSet", "r"), labels={"c": "d"}, created_at=5)
    seen = Snapshot().class_of(annotated).pod.metadata
    assert seen == ObjectMeta(name="p", namespace="default", labels={"c": "d"})
    terminating = replace(annotated.metadata, deletion_timestamp=annotated.metadata.creation_timestamp)
    assert Snapshot().class_of(replace(annotated, metadata=terminating)).terminating


# For each field of a pod's metadata another value than the usual one; True if it makes another class.
METADATA: dict[str, tuple[Any, bool]] = {
    "name": ("q", False),
    "namespace": ("other", True),
    "uid": ("u", False),
    "labels": ({"a": "b"}, True),
    "annotations": ({"a": "b"}, False),
    "owner_references": ((OwnerReference(kind="Job", name="j"),), False),
    "creation_timestamp": (datetime(2026, 1, 1, tzinfo=UTC), False),
    "deletion_timestamp": (datetime(2026, 1, 1, tzinfo=UTC), True),
    "resource_version": ("7", False),
    "generation": (7, False),
}


def test_classes_found_by_shared_parts_differ_in_the_same_metadata() -> None:
    assert set(METADATA) == set(ObjectMeta.__struct_fields__)
    for field, (value, differs) in METADATA.items():
        for placed in (True, False):
            snapshot, sharing = Snapshot(), Sharing()
            usual = sharing.pod(build_pod("p", node_name="n" if placed else ""))
            changed = sharing.pod(replace(usual, metadata=replace(usual.metadata, **{field: value})))
            assert usual.spec.containers is changed.spec.containers
            first, again = snapshot.class_of(usual, placed=placed), snapshot.class_of(changed, placed=placed)
            assert (first is not again) == differs, field
            one, other = snapshot.vocabulary.classes.of_placed([usual, changed])
            assert (one is not other) == differs, field


def test_pods_of_many_shapes_that_share_their_labels_are_looked_at_once_for_each_shape() -> None:
    sharing, asked = Sharing(), list[str]()
    pods = [sharing.pod(build_pod(f"p{n}", f"{1 + n % 3}", owner=("ReplicaSet", f"rs{n % 3}"))) for n in range(12)]

    def ask(pod: Pod) -> int:
        asked.append(pod.name)
        return len(asked)

    assert [answer for _, answer in map_alike(pods, ask)] == [1, 2, 3] * 4
    assert asked == ["p0", "p1", "p2"]
