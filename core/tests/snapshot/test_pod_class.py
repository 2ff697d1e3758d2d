"""Which pods are alike, and how long a class is remembered."""

import gc
from typing import Any

import msgspec
from core.tests.predicates.manifests import pod

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
    changed = msgspec.structs.replace(first, metadata=msgspec.structs.replace(first.metadata, labels={"a": "b"}))
    assert snapshot.class_of(first) is not snapshot.class_of(changed)


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
