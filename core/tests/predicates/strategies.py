"""Random small clusters with few names, so that objects refer to each other.

Strategies are built once: building them costs more than drawing from them.
"""

from collections.abc import Iterable
from functools import cache
from itertools import product
from os import environ
from typing import Any, TypeVar

import numpy as np
from core.tests.predicates.contexts import contexts
from core.tests.predicates.manifests import NOW
from hypothesis import settings
from hypothesis import strategies as st

from nodewright.model.meta import LabelSelector, ObjectMeta, Requirement
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node, NodeSpec, NodeStatus, Taint
from nodewright.model.pod import (
    Affinity,
    ClaimSource,
    ClaimTemplate,
    Container,
    ContainerPort,
    ElasticBlockStore,
    GcePersistentDisk,
    Iscsi,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Rbd,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from nodewright.model.quantity import Quantity
from nodewright.predicates import feasible
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

# EXAMPLES=1000 looks harder.
SETTINGS = settings(max_examples=int(environ.get("EXAMPLES", "50")))

NODE_NAMES = ("n0", "n1", "n2", "n3", "n4")
NAMESPACES = ("default", "other", "unknown")
CLAIMS = ("c0", "c1", "c2", "p-scratch")
KEYS = (ZONE_LABEL, HOSTNAME_LABEL, "tier", "absent")
VALUES = ("a", "b", "5", "7", "-3", "")
BROKEN = ("bad key!", "-bad", "x" * 300, "a\n")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


T = TypeVar("T")


def _pool(values: Iterable[T]) -> st.SearchStrategy[T]:
    return st.sampled_from(list(values))


def _mostly_none(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.one_of(st.none(), st.none(), strategy)


def amounts(*names: str, largest: int = 4) -> st.SearchStrategy[dict[str, Quantity]]:
    values = st.integers(-1, largest).map(lambda units: Quantity(units * 10**9))
    return st.dictionaries(st.sampled_from(names), values)


@cache
def labels(values: tuple[str, ...] = VALUES) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(KEYS[:3]), st.sampled_from(values), max_size=3)


@cache
def taints() -> st.SearchStrategy[Taint]:
    keys, values = ("dedicated", "node.kubernetes.io/unschedulable"), ("", "a", "5")
    return _pool(Taint(key=k, value=v, effect=e) for k, v, e in product(keys, values, EFFECTS))


@cache
def tolerations() -> st.SearchStrategy[Toleration]:
    keys, operators = ("", "dedicated", "node.kubernetes.io/unschedulable"), ("", "Exists", "Gt", "nonsense")
    parts = product(keys, operators, ("", "a", "4"), ("", "NoSchedule", "NoExecute"))
    return _pool(Toleration(key=k, operator=o, value=v, effect=e) for k, o, v, e in parts)


@cache
def requirements(*more: str) -> st.SearchStrategy[Requirement]:
    values = ((), ("a",), ("5", "b"), ("-3",), ("absent",), *((broken,) for broken in BROKEN))
    parts = product((*KEYS, "bad key!"), (*more, "In", "NotIn", "Exists", "DoesNotExist"), values)
    return _pool(Requirement(key=k, operator=o, values=v) for k, o, v in parts)


@cache
def fields() -> st.SearchStrategy[Requirement]:
    names = ((), ("n0",), ("n1",), ("copy-5",), ("n1", "n2"))
    parts = product(("metadata.name", "metadata.name", "spec.unschedulable"), ("In", "NotIn", "Exists"), names)
    return _pool(Requirement(key=k, operator=o, values=v) for k, o, v in parts)


@cache
def node_selectors() -> st.SearchStrategy[NodeSelector]:
    terms = st.builds(
        NodeSelectorTerm,
        match_expressions=st.lists(requirements("Gt", "Lt", "Near"), max_size=2).map(tuple),
        match_fields=st.lists(fields(), max_size=2).map(tuple),
    )
    return st.builds(NodeSelector, node_selector_terms=st.lists(terms, max_size=3).map(tuple))


@cache
def label_selectors() -> st.SearchStrategy[LabelSelector | None]:
    plain = [LabelSelector(match_labels={"tier": value}) for value in ("a", "a", "b")]
    parts = product(("tier", HOSTNAME_LABEL), ("In", "NotIn", "Exists", "DoesNotExist", "Gt"), ((), ("a",), ("a\n",)))
    odd = [LabelSelector(match_expressions=(Requirement(key=k, operator=o, values=v),)) for k, o, v in parts]
    return _pool([*(plain * 12), *odd, None, LabelSelector()])


@cache
def affinity_terms() -> st.SearchStrategy[PodAffinity]:
    terms = st.builds(
        PodAffinityTerm,
        topology_key=st.sampled_from((*KEYS[:2], *KEYS[:2], *KEYS)),
        label_selector=label_selectors(),
        namespaces=st.sampled_from(((), (), (), ("default",), ("other", "unknown"))),
        namespace_selector=_mostly_none(label_selectors()),
    )
    return st.builds(PodAffinity, required=st.lists(terms, min_size=1, max_size=2).map(tuple))


@cache
def spread_constraints() -> st.SearchStrategy[TopologySpreadConstraint]:
    return st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 2),
        topology_key=st.sampled_from((*KEYS[:2], *KEYS[:2], *KEYS)),
        when_unsatisfiable=st.sampled_from(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        label_selector=label_selectors(),
        min_domains=st.none() | st.integers(0, 3),
        node_affinity_policy=st.sampled_from(("Honor", "Ignore")),
        node_taints_policy=st.sampled_from(("Honor", "Ignore")),
        match_label_keys=st.lists(st.sampled_from(KEYS), max_size=1).map(tuple),
    )


@cache
def volumes() -> st.SearchStrategy[Volume]:
    claims = [Volume(persistent_volume_claim=ClaimSource(claim_name=name)) for name in CLAIMS[:3]]
    disks = [
        disk
        for read_only in (True, False)
        for disk in (
            Volume(gce_persistent_disk=GcePersistentDisk(pd_name="d", read_only=read_only)),
            Volume(iscsi=Iscsi(iqn="i", read_only=read_only)),
            Volume(rbd=Rbd(monitors=("m", "n"), image="i", read_only=read_only)),
            Volume(rbd=Rbd(monitors=("n", "o"), image="i", read_only=read_only)),
            Volume(aws_elastic_block_store=ElasticBlockStore(volume_id="x", read_only=read_only)),
        )
    ]
    return _pool([*claims, *claims, Volume(name="scratch", ephemeral=ClaimTemplate()), *disks, Volume(name="config")])


@cache
def containers() -> st.SearchStrategy[Container]:
    ports = st.builds(
        ContainerPort,
        host_port=st.integers(0, 2),
        protocol=st.sampled_from(("TCP", "UDP")),
        host_ip=st.sampled_from(("", "0.0.0.0", "10.0.0.1", "::")),  # noqa: S104 - compared, not listened on
    )
    requests = amounts("cpu", "memory", "ephemeral-storage", "example.com/gpu", "foo", largest=2)
    return st.builds(
        Container,
        resources=st.builds(ResourceRequirements, requests=requests),
        ports=st.lists(ports, max_size=1).map(tuple),
        restart_policy=st.sampled_from(("", "Always")),
    )


@cache
def affinities() -> st.SearchStrategy[Affinity]:
    return st.builds(
        Affinity,
        node_affinity=st.none() | st.builds(NodeAffinity, required=st.none() | node_selectors()),
        pod_affinity=st.none() | affinity_terms(),
        pod_anti_affinity=st.none() | affinity_terms(),
    )


FEATURES: dict[str, st.SearchStrategy[Any]] = {
    "containers": st.lists(containers(), max_size=2).map(tuple),
    "init_containers": st.lists(containers(), max_size=1).map(tuple),
    "node_name": st.sampled_from((*NODE_NAMES, "copy-5", "")),
    "node_selector": st.none() | labels(),
    "affinity": affinities(),
    "tolerations": st.lists(tolerations(), max_size=2).map(tuple),
    "topology_spread_constraints": st.lists(spread_constraints(), min_size=1, max_size=2).map(tuple),
    "volumes": st.lists(volumes(), min_size=1, max_size=3).map(tuple),
}


DIGITS = st.integers(0, 9)
ROOMS = st.sampled_from((0, 1, 3, 9))
TAINTS = st.lists(taints(), max_size=2)
SPACES = st.sampled_from((*["default"] * 4, *NAMESPACES))
POD_LABELS: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    ({"tier": "a"}, {"tier": "a"}, {"tier": "b"}, {}, {"tier": "a", ZONE_LABEL: "b"})
)
NODE_ZONES: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    ({ZONE_LABEL: "a"}, {ZONE_LABEL: "b"}, {ZONE_LABEL: "a"}, {ZONE_LABEL: "b"}, {})
)
STEPS = st.sampled_from((*["place"] * 6, "unplace", "ask", "fork", "copies", "remove", "many"))


@st.composite
def pods(draw: st.DrawFn, *features: str) -> Pod:
    """A pod with some of the named fields of its spec filled in."""
    spec: dict[str, Any] = {feature: draw(FEATURES[feature]) for feature in features}
    metadata = ObjectMeta(
        name="p",
        namespace=draw(SPACES),
        labels=draw(POD_LABELS),
        deletion_timestamp=NOW if draw(DIGITS) == 0 else None,
    )
    return Pod(metadata=metadata, spec=PodSpec(**spec))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    offered = draw(amounts("cpu", "memory", "example.com/gpu", "foo"))
    room = Quantity(draw(ROOMS) * 10**9)
    return Node(
        metadata=ObjectMeta(name=name, labels={HOSTNAME_LABEL: name, **draw(NODE_ZONES), **draw(labels())}),
        spec=NodeSpec(taints=tuple(draw(TAINTS)), unschedulable=draw(DIGITS) < 2),
        status=NodeStatus(allocatable={**offered, "pods": room}),
    )


@st.composite
def worlds(draw: st.DrawFn, *features: str, length: int = 18) -> tuple[Snapshot, list[PodClass]]:
    """A snapshot after some history, and a few classes, of which some have pods on it."""
    snapshot = Snapshot(draw(contexts(labels(("a", "b")), volumes="volumes" in features)))
    snapshot.add_nodes([draw(nodes(name)) for name in NODE_NAMES[draw(DIGITS) % len(NODE_NAMES) :]])
    classes = [snapshot.class_of(draw(pods(*features))) for _ in range(1 + draw(DIGITS) % 4)]
    return draw(futures(snapshot, classes, length)), classes


@st.composite
def futures(draw: st.DrawFn, snapshot: Snapshot, classes: list[PodClass], length: int = 12) -> Snapshot:
    """Let things happen to a snapshot; answers it, or a fork that took its place."""
    for _ in range(draw(DIGITS) * length // 9):
        step = draw(STEPS)
        rows = [row for row, _ in snapshot.nodes()]
        pod = classes[draw(DIGITS) % len(classes)]
        if step == "fork":
            snapshot = snapshot.fork()
        elif step == "ask":
            feasible(snapshot, pod)
        elif step == "copies":
            snapshot.add_copies(draw(nodes("template")), 1 + draw(DIGITS) % 2)
        elif rows:
            _change(draw, snapshot, step, pod, rows[draw(DIGITS) % len(rows)])
    return snapshot


def _change(draw: st.DrawFn, snapshot: Snapshot, step: str, pod: PodClass, row: int) -> None:
    if step == "place":
        snapshot.place(pod, row, 1 + draw(DIGITS) % 2)
    elif step == "many":
        rows = np.array([row for row, _ in snapshot.nodes()])
        snapshot.place_many(pod, rows, np.ones(len(rows), dtype=np.int64))
    elif step == "unplace" and snapshot.rows_of(pod).get(row):
        snapshot.unplace(pod, row)
    elif step == "remove":
        snapshot.remove_node(row)
