"""Builders of model values for tests. A test passes only the fields that matter to it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from nodewright.model.cluster import (
    DaemonSet,
    Job,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    TemplatedSpec,
)
from nodewright.model.group import NodeGroup, NodeTemplate
from nodewright.model.meta import LabelSelector, ObjectMeta, OwnerReference, Resources
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node, NodeCondition, NodeSpec, NodeStatus, Taint
from nodewright.model.pod import (
    Affinity,
    Container,
    ContainerPort,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from nodewright.model.quantity import Quantity
from nodewright.snapshot.context import Controller

Amount = str | int | float
Amounts = Mapping[str, Amount]


class NodeExtras(TypedDict, total=False):
    """The less usual arguments of ``build_node``."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: Sequence[Taint]
    zone: str
    extended: Amounts
    unschedulable: bool
    created_at: float


class PodExtras(TypedDict, total=False):
    """The less usual arguments of ``build_pod``."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    extended: Amounts
    node_selector: Mapping[str, str]
    affinity: Affinity
    tolerations: Sequence[Toleration]
    topology_spread_constraints: Sequence[TopologySpreadConstraint]
    volumes: Sequence[Volume]
    host_ports: Sequence[int]
    priority: int
    phase: str
    restart_policy: str
    unschedulable: bool
    created_at: float
    deleted_at: float
    grace_seconds: int


def build_resources(amounts: Amounts | None = None, **more: Amount) -> Resources:
    """Return resources, as in ``build_resources(cpu="500m", memory="1Gi")``; ``amounts`` takes names with a slash."""
    return {name: Quantity.of(amount) for name, amount in {**(amounts or {}), **more}.items()}


def build_node(
    name: str,
    cpu: Amount = "4",
    memory: Amount = "16Gi",
    pods: int = 110,
    *,
    ready: bool = True,
    provider_id: str = "",
    **extras: Unpack[NodeExtras],
) -> Node:
    """Return a node whose whole capacity is allocatable.

    ``extended`` adds resources; ``created_at`` is in seconds since the epoch.
    """
    offered = build_resources(extras.get("extended"), cpu=cpu, memory=memory, pods=pods)
    zone = {ZONE_LABEL: extras["zone"]} if "zone" in extras else {}
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels={HOSTNAME_LABEL: name, **zone, **extras.get("labels", {})},
            annotations=dict(extras.get("annotations", {})),
            creation_timestamp=_moment(extras.get("created_at", 0.0)),
        ),
        spec=NodeSpec(
            provider_id=provider_id,
            taints=tuple(extras.get("taints", ())),
            unschedulable=extras.get("unschedulable", False),
        ),
        status=NodeStatus(
            capacity=offered,
            allocatable=offered,
            conditions=(NodeCondition(type="Ready", status="True" if ready else "False"),),
        ),
    )


def build_pod(
    name: str,
    cpu: Amount = "100m",
    memory: Amount = "100Mi",
    *,
    namespace: str = "default",
    node_name: str = "",
    owner: tuple[str, str] | None = ("ReplicaSet", "rs"),
    **extras: Unpack[PodExtras],
) -> Pod:
    """Return a pod with one container. Without ``node_name`` it is unschedulable, unless ``unschedulable=False``.

    ``owner`` is the kind and name of its controller: pods with the same owner and equal specs are equivalent.
    ``created_at`` and ``deleted_at`` (the start of its termination) are in seconds since the epoch.
    ``grace_seconds`` is its termination grace period.
    """
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            labels=dict(extras.get("labels", {})),
            annotations=dict(extras.get("annotations", {})),
            owner_references=(build_owner(*owner),) if owner else (),
            creation_timestamp=_moment(extras.get("created_at", 0.0)),
            deletion_timestamp=_moment(extras["deleted_at"]) if "deleted_at" in extras else None,
        ),
        spec=_pod_spec(build_resources(extras.get("extended"), cpu=cpu, memory=memory), node_name, extras),
        status=_pod_status(extras, waits=extras.get("unschedulable", not node_name)),
    )


def build_owner(kind: str, name: str) -> OwnerReference:
    """Return an owner reference to a controller."""
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    return OwnerReference(kind=kind, name=name, uid=f"uid-{kind}-{name}", api_version=version, controller=True)


def build_controller(kind: str, name: str, replicas: int | None = 2, *, namespace: str = "default") -> Controller:
    """Return the controller of ``build_pod(owner=(kind, name))``. ``replicas`` is ignored for Jobs and DaemonSets."""
    metadata = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{kind}-{name}")
    if kind == "Job":
        return Job(metadata=metadata)
    if kind == "DaemonSet":
        return DaemonSet(metadata=metadata)
    spec = TemplatedSpec(replicas=replicas)
    if kind == "StatefulSet":
        return StatefulSet(metadata=metadata, spec=spec)
    if kind == "ReplicationController":
        return ReplicationController(metadata=metadata, spec=spec)
    return ReplicaSet(metadata=metadata, spec=spec)


def build_budget(
    name: str, allowed: int, labels: Mapping[str, str] | None = None, *, namespace: str = "default"
) -> PodDisruptionBudget:
    """Return a PodDisruptionBudget for pods with these labels (None: all pods of the namespace).

    ``allowed`` is the number of evictions that it allows now.
    """
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=dict(labels or {}))),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def build_taint(key: str, effect: str = "NoSchedule", value: str = "") -> Taint:
    return Taint(key=key, effect=effect, value=value)


def build_group(group_id: str, min_size: int = 0, max_size: int = 10) -> NodeGroup:
    return NodeGroup(id=group_id, min_size=min_size, max_size=max_size)


def build_template(
    cpu: Amount = "4",
    memory: Amount = "16Gi",
    pods: int = 110,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    extended: Amounts | None = None,
) -> NodeTemplate:
    """Return the template of the next machine of a group."""
    return NodeTemplate(
        allocatable=build_resources(extended, cpu=cpu, memory=memory, pods=pods),
        labels=dict(labels or {}),
        taints=tuple(taints),
    )


def _pod_spec(requests: Resources, node_name: str, extras: PodExtras) -> PodSpec:
    ports = tuple(ContainerPort(host_port=port) for port in extras.get("host_ports", ()))
    selector = extras.get("node_selector")
    return PodSpec(
        node_name=node_name,
        scheduler_name="default-scheduler",
        containers=(Container(name="main", resources=ResourceRequirements(requests=requests), ports=ports),),
        node_selector=dict(selector) if selector else None,
        affinity=extras.get("affinity"),
        tolerations=tuple(extras.get("tolerations", ())),
        topology_spread_constraints=tuple(extras.get("topology_spread_constraints", ())),
        volumes=tuple(extras.get("volumes", ())),
        priority=extras.get("priority"),
        restart_policy=extras.get("restart_policy", ""),
        termination_grace_period_seconds=extras.get("grace_seconds"),
    )


def _pod_status(extras: PodExtras, *, waits: bool) -> PodStatus:
    unscheduled = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    phase = extras.get("phase", "Pending" if waits else "Running")
    return PodStatus(phase=phase, conditions=(unscheduled,) if waits else ())


def _moment(epoch_seconds: float) -> datetime:
    return datetime.fromtimestamp(epoch_seconds, tz=UTC)
