"""Values that providers return: node groups, their machines and failures to create machines."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import structs

from nodewright.model.capability import Capability
from nodewright.model.devices import ResourcePool, ResourceSlice, ResourceSliceSpec
from nodewright.model.meta import ObjectMeta, Resources
from nodewright.model.node import HOSTNAME_LABEL, Node, NodeCondition, NodeSpec, NodeStatus, Taint
from nodewright.model.settings_base import Help

# Label key → the deprecated key with the same value, by which pods may still select nodes.
_DEPRECATED = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
DEPRECATED_LABELS = frozenset(_DEPRECATED.values())
# Prefixes of labels that differ from node to node of one group.
PLACE_PREFIXES = ("topology.", "failure-domain.beta.")


class GroupRef(NamedTuple):
    """The reference of a node group: its provider and its id."""

    provider: str
    group_id: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.group_id}"


# A machine: its group and the id of its instance.
Machine = tuple[GroupRef, str]


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the frozen values that cross the provider contract."""


class NodeGroup(Value, frozen=True, kw_only=True):
    """A set of machines of one kind, whose size the cloud maintains; sizes count machines.

    ``switched_off`` names the capabilities of the provider that do not work for this group, with the reason (a missing
    permission, the kind of group, a setting). ``autoprovisioned`` is the machine type of a group that the core created;
    empty: the core did not create the group and never deletes it. ``made_from`` names what new machines are made from, such
    as a launch template with its version, or an image; empty: it is not known. ``buckets`` names the quotas and the pools of
    capacity on which each new machine of the group draws, in words of the provider.
    """

    id: str
    min_size: int
    max_size: int
    switched_off: Mapping[Capability, str] = {}
    autoprovisioned: str = ""
    made_from: str = ""
    buckets: frozenset[str] = frozenset()


class GroupOptions(Value, frozen=True, kw_only=True):
    """Settings that may differ from group to group. A provider is given the defaults and returns those of a group."""

    max_node_provision_seconds: Annotated[
        float, Help("A machine of the group that is not a node after this time is overdue.", unit="seconds")
    ] = 900.0
    max_node_startup_seconds: Annotated[
        float, Help("A node of the group younger than this that is not ready is starting.", unit="seconds")
    ] = 900.0
    zero_or_max_node_scaling: Annotated[
        bool,
        Help(
            "The group has no machines or its maximum: it grows to the maximum at once, and all its nodes go together."
        ),
    ] = False
    allow_non_atomic_scale_up_to_max: Annotated[
        bool,
        Help(
            "Of a zero-or-max group of which only some machines failed or never came, --size-correction=ca (and --profile=ca) "
            "deletes none, as cluster-autoscaler does; without it, all. The other rules always delete what failed and keep "
            "the rest."
        ),
    ] = False
    scale_down_unneeded_seconds: Annotated[
        float, Help("How long a ready node of the group must be unneeded before it is removed.", unit="seconds")
    ] = 600.0
    scale_down_unready_seconds: Annotated[
        float, Help("How long an unready node of the group must be unneeded before it is removed.", unit="seconds")
    ] = 1200.0
    scale_down_utilization_threshold: Annotated[
        float,
        Help("A node of the group is examined for removal only if its utilization is not above this.", unit="share"),
    ] = 0.5
    scale_down_gpu_utilization_threshold: Annotated[
        float, Help("The same for a node of the group that has GPUs.", unit="share")
    ] = 0.5
    ignore_daemonsets_utilization: Annotated[
        bool, Help("Leave pods of DaemonSets out of the utilization of the group's nodes.")
    ] = False


class NodeTemplate(Value, frozen=True, kw_only=True):
    """The node that a new machine of a group becomes.

    ``capacity`` defaults to ``allocatable``. Resource names and quantities are those of a Node's status, and must
    include cpu, memory and pods. ``slices`` are the devices that drivers of dynamic resource allocation will publish for
    the node: drivers, devices and shared counters. Pools, nodes and generations in them are ignored except for the name of
    the pool, which tells the pools of one driver apart.
    """

    allocatable: Resources
    capacity: Resources = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    slices: tuple[ResourceSliceSpec, ...] = ()


class Price(Value, frozen=True, kw_only=True):
    """The price of one machine for an hour.

    ``currency`` is its code in ISO 4217. ``as_of`` is when the source stated the price, in seconds since the epoch; None: it
    holds until the source changes it, as a price that an operator configured. ``source`` names the list or the call, for
    people ("AWS price list, bundled"). ``spot``: machines are bought at the price of spare capacity, which changes.
    """

    per_hour: float
    source: str
    currency: str = "USD"
    as_of: float | None = None
    spot: bool = False


class MachineType(Value, frozen=True, kw_only=True):
    """A machine type from which a node group can be created.

    ``template`` is the node of a group without own labels and taints. ``price`` is None if it is not known. The id of
    a group of this type begins with ``id_prefix``. ``takes_labels`` says whether its nodes can have own labels and taints.
    """

    name: str
    template: NodeTemplate
    price: Price | None = None
    id_prefix: str = "nap-"
    takes_labels: bool = True


class NewNodeGroup(Value, frozen=True, kw_only=True):
    """A node group that the core asks a provider to create, with the id ``group_id``.

    Its nodes have these labels and taints in addition to those of the machine type.
    """

    group_id: str
    machine_type: str
    max_size: int
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()


class InstanceState(StrEnum):
    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"


class Instance(Value, frozen=True, kw_only=True):
    """A machine of the cloud; ``id`` equals the providerID of the node that it becomes.

    ``made_from`` names what it was made from, in the words of the group's ``made_from``; empty: it is not known.
    """

    id: str
    state: InstanceState = InstanceState.RUNNING
    made_from: str = ""


class ErrorClass(StrEnum):
    """The reason for which machines could not be created. The class decides the events and which groups back off."""

    OUT_OF_RESOURCES = "out_of_resources"
    QUOTA = "quota"
    OTHER = "other"


class FailureScope(StrEnum):
    """The reach of a failure: it also applies to all groups that share the scope."""

    GROUP = "group"
    ZONE = "zone"
    INSTANCE_TYPE = "instance_type"
    ACCOUNT = "account"


class FailedInstance(Value, frozen=True, kw_only=True):
    """One failure to create machines.

    ``failure_id`` is unique over time, because clouds reuse machine ids. ``instance_id`` is None if the cloud names no
    machine; ``count`` is then the number of machines that could not be created. ``bucket`` names the quota or the pool of
    capacity that is used up: the failure applies to the groups that draw on it, and not to those of ``scope``. If ``bucket``
    is empty, it applies to those of ``scope``. If the group that failed does not list ``bucket``, it applies to both.
    """

    failure_id: str
    instance_id: str | None = None
    count: int = 1
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    code: str = ""
    message: str = ""
    bucket: str = ""


class ProviderInfo(Value, frozen=True, kw_only=True):
    """The name and the abilities of a plugin.

    ``spec_version`` is the oldest contract (major, minor) that the plugin works with. ``parallel_calls``: calls may
    overlap. ``ignores_id_case``: instance ids are compared without regard to case. ``settles_after``: how many seconds a
    write takes to show in the cloud's listings (at most 60). The core reads the cloud no sooner after a write, the last one
    of a former process included.
    ``remembers_writes``: the plugin itself corrects late listings by the writes that it made, and a write that is repeated
    although it took effect changes nothing. The core then waits only after its own start.
    """

    name: str
    spec_version: tuple[int, int] = (1, 0)
    capabilities: frozenset[Capability] = frozenset()
    parallel_calls: bool = False
    ignores_id_case: bool = False
    settles_after: float = 0.0
    remembers_writes: bool = False


def make_template_node(ref: GroupRef, template: NodeTemplate) -> Node:
    """Return a ready, empty node named ``template-node-for-<group>``."""
    name = f"template-node-for-{ref.group_id}"
    copies = {old: template.labels[new] for new, old in _DEPRECATED.items() if new in template.labels}
    labels = {**copies, **template.labels, HOSTNAME_LABEL: name}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=dict(template.annotations)),
        spec=NodeSpec(taints=template.taints),
        status=NodeStatus(
            capacity=template.capacity or template.allocatable,
            allocatable=template.allocatable,
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
        device_slices=slices_for(name, template.slices),
    )


def slices_for(node: str, slices: Iterable[ResourceSliceSpec]) -> tuple[ResourceSlice, ...]:
    """Return slices as a simulated node has them: in complete pools of its own, whose names no real pool has."""
    slices = tuple(slices)
    sizes = Counter((one.driver, one.pool.name) for one in slices)
    found = []
    for index, one in enumerate(slices):
        count = sizes[one.driver, one.pool.name]
        pool = ResourcePool(name=f"{node}/{one.pool.name}", generation=1, resource_slice_count=count)
        spec = structs.replace(one, pool=pool, node_name=node, node_selector=None, all_nodes=False)
        found.append(ResourceSlice(metadata=ObjectMeta(name=f"{node}-{index:03}"), spec=spec))
    return tuple(found)
