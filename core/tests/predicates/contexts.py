"""Random namespaces, claims, volumes and classes.

Objects come from pools made once by a seeded generator: drawing every field would take most of the tests' time.
"""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from core.tests.predicates.manifests import NOW
from hypothesis import strategies as st

from nodewright.model.cluster import (
    ClaimReference,
    CsiDriver,
    CsiDriverSpec,
    CsiStorageCapacity,
    CsiVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    TopologyRequirement,
    TopologyTerm,
    VolumeNodeAffinity,
    VolumePhase,
)
from nodewright.model.meta import LabelSelector, ObjectMeta, OwnerReference, Requirement, Resources
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, CsiAllocatable, CsiNode, CsiNodeDriver, CsiNodeSpec
from nodewright.model.pod import NodeSelector, NodeSelectorTerm, ResourceRequirements
from nodewright.model.quantity import Quantity
from nodewright.snapshot.context import Context

T = TypeVar("T")
NODES = ("n0", "n1", "n2", "n3", "n4", "copy-5")
CLAIMS = ("default/c0", "default/c1", "default/c2", "default/p-scratch", "other/c0", "other/p-scratch")
VOLUMES = ("v0", "v1", "v2")
CLASSES = ("wait", "static", "now")


def _sized(random: Random, largest: int) -> Resources:
    return random.choice(({}, *({"storage": Quantity(units * 10**9)} for units in range(largest + 1))))


def _make_claim(random: Random, key: str) -> PersistentVolumeClaim:
    namespace, _, name = key.partition("/")
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if random.random() < 0.9 else {}
    chosen = {"volume.kubernetes.io/selected-node": random.choice(NODES)} if random.random() < 0.2 else {}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            annotations={**bound, **chosen},
            owner_references=(OwnerReference(kind="Pod", name="p", controller=True),),
            deletion_timestamp=NOW if random.random() < 0.05 else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=random.choice((("ReadWriteOnce",), ("ReadWriteOnce",), ("ReadWriteOncePod",))),
            resources=ResourceRequirements(requests=_sized(random, 2)),
            storage_class_name=random.choice((*["wait", "static"] * 5, None, "now", "gone")),
            volume_name=random.choice(("", "", "", *VOLUMES)),
            selector=LabelSelector(match_labels={"tier": "a"}) if random.random() < 0.2 else None,
        ),
        status=VolumePhase(phase="Lost" if random.random() < 0.05 else "Bound"),
    )


def _make_volume(random: Random, name: str) -> PersistentVolume:
    reference = ClaimReference(name="c0", namespace="default") if random.random() < 0.2 else None
    zones = random.choice(
        (
            {},
            {ZONE_LABEL: "a__b"},
            {ZONE_LABEL: "a"},
            {ZONE_LABEL: "a__"},
            {"failure-domain.beta.kubernetes.io/zone": "a"},
        )
    )
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels={**zones, "tier": random.choice("ab")}),
        spec=PersistentVolumeSpec(
            capacity=_sized(random, 3),
            access_modes=("ReadWriteOnce", "ReadWriteOncePod"),
            storage_class_name="static",
            claim_ref=reference,
            node_affinity=VolumeNodeAffinity(required=_make_place(random)) if random.random() < 0.7 else None,
            csi=CsiVolume(driver="csi", volume_handle=random.choice("hk")) if random.random() < 0.7 else None,
        ),
        status=VolumePhase(phase=random.choice(("Available", "Available", "Released"))),
    )


def _make_place(random: Random) -> NodeSelector | None:
    key, values = random.choice(((ZONE_LABEL, ("a",)), (ZONE_LABEL, ("a", "b")), (HOSTNAME_LABEL, ("n1", "n2"))))
    operator = random.choice(("In", "In", "NotIn", "Exists", "Near"))
    where = Requirement(key=key, operator=operator, values=values)
    named = Requirement(key="metadata.name", operator="In", values=("n1",))
    term = NodeSelectorTerm(match_expressions=(where,), match_fields=(named,) if random.random() < 0.2 else ())
    return NodeSelector(node_selector_terms=random.choice(((term,), (NodeSelectorTerm(), term), ())))


def _make_class(random: Random, name: str) -> StorageClass:
    zone = TopologyRequirement(key=ZONE_LABEL, values=random.choice((("a",), ("a", "b"), (), ("bad value!",))))
    host = TopologyRequirement(key=HOSTNAME_LABEL, values=("n1", "n2"))
    terms = [TopologyTerm(match_label_expressions=random.choice(((zone,), (zone, host), ()))) for _ in range(2)]
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner="kubernetes.io/no-provisioner" if name == "static" else "csi",
        volume_binding_mode="Immediate" if name == "now" else "WaitForFirstConsumer",
        allowed_topologies=tuple(terms[: random.randint(0, 2)]),
    )


def _make_csi_node(random: Random, name: str) -> CsiNode:
    counts = {driver: random.choice((None, 0, 1, 2)) for driver in ("csi", "ebs.csi.aws.com", "pd.csi.storage.gke.io")}
    migrated = random.choice(("", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"))
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    drivers = (CsiNodeDriver(name=driver, allocatable=CsiAllocatable(count=n)) for driver, n in counts.items())
    return CsiNode(metadata=ObjectMeta(name=name, annotations=annotations), spec=CsiNodeSpec(drivers=tuple(drivers)))


def _pools(make: Callable[[Random, str], T], names: tuple[str, ...]) -> dict[str, st.SearchStrategy[T | None]]:
    """For every name many objects, and none at all now and then."""
    random = Random(7)
    return {name: st.sampled_from([None, *(make(random, name) for _ in range(40))]) for name in names}


_CLAIMS = _pools(_make_claim, CLAIMS)
_VOLUMES = _pools(_make_volume, VOLUMES)
_CLASSES = _pools(_make_class, CLASSES)
_CSI_NODES = _pools(_make_csi_node, NODES)
_SOME = st.booleans()
_SIZES = st.sampled_from([None, Quantity.of("1"), Quantity.of("10Gi"), Quantity.of("1Ti")])
_ZONE = LabelSelector(match_labels={"topology.kubernetes.io/zone": "a"})
_CAPACITIES = st.lists(
    st.builds(
        CsiStorageCapacity,
        node_topology=st.sampled_from([None, LabelSelector(), _ZONE]),
        storage_class_name=st.sampled_from(CLASSES),
        capacity=_SIZES,
        maximum_volume_size=_SIZES,
    ),
    max_size=3,
).map(tuple)


@st.composite
def contexts(draw: st.DrawFn, labels: st.SearchStrategy[dict[str, str]], *, volumes: bool) -> Context:
    """Objects in every state, some missing; claims and what belongs to them only where they matter."""
    namespaces = {name: draw(labels) for name in ("default", "other") if draw(_SOME)}
    if not volumes:
        return Context(namespaces=namespaces)

    def chosen(pools: dict[str, st.SearchStrategy[T | None]]) -> dict[str, T]:
        drawn = ((name, draw(pool)) for name, pool in pools.items())
        return {name: found for name, found in drawn if found is not None}

    driver = CsiDriver(spec=CsiDriverSpec(storage_capacity=True))
    return Context(
        namespaces=namespaces,
        claims=chosen(_CLAIMS),
        volumes=chosen(_VOLUMES),
        storage_classes=chosen(_CLASSES),
        csi_nodes=chosen(_CSI_NODES),
        csi_drivers={"csi": driver} if draw(_SOME) else {},
        storage_capacities=draw(_CAPACITIES),
    )
