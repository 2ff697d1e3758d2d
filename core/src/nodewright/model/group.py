"""Node groups, the machines in them and how those fail: what providers answer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from nodewright.model.capability import Capability
from nodewright.model.meta import Resources
from nodewright.model.node import Taint
from nodewright.model.settings_base import Help


class GroupRef(NamedTuple):
    """A node group among all providers."""

    provider: str
    group_id: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.group_id}"


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the frozen values that cross the provider contract."""


class NodeGroup(Value, frozen=True, kw_only=True):
    """A set of machines of one kind whose size the cloud keeps; sizes count machines.

    ``switched_off`` names capabilities that the provider has but that do not hold for this group, with
    the reason (a missing permission, the kind of group, a setting). ``autoprovisioned`` is the machine type of which
    the core had the group made; empty: somebody else made it, and it is never deleted.
    """

    id: str
    min_size: int
    max_size: int
    switched_off: Mapping[Capability, str] = {}
    autoprovisioned: str = ""


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
        bool, Help("It has no effect in nodewright; cluster-autoscaler keeps what came of a zero-or-max group.")
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
    """What a new machine of a group will look like as a node.

    ``capacity`` defaults to ``allocatable``. Resource names and quantities are as in a Node's status and
    must include cpu, memory and pods.
    """

    allocatable: Resources
    capacity: Resources = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()


class MachineType(Value, frozen=True, kw_only=True):
    """A kind of machine from which a node group can be made.

    ``template`` is the node that it becomes in a group without labels and taints of its own, ``hourly_price`` is USD,
    None where unknown. The id of a group made of it begins with ``id_prefix``; ``takes_labels``: its nodes can have labels
    and taints of their own.
    """

    name: str
    template: NodeTemplate
    hourly_price: float | None = None
    id_prefix: str = "nap-"
    takes_labels: bool = True


class NewNodeGroup(Value, frozen=True, kw_only=True):
    """A node group that the core asks a provider to create, under this id; its nodes have these labels and taints
    beside those of the machine type.
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
    """A machine of the cloud; ``id`` equals the providerID of the node that it becomes."""

    id: str
    state: InstanceState = InstanceState.RUNNING


class ErrorClass(StrEnum):
    """Why machines could not be had; decides who is told and which groups back off."""

    OUT_OF_RESOURCES = "out_of_resources"
    QUOTA = "quota"
    OTHER = "other"


class FailureScope(StrEnum):
    """How far a failure reaches: every group that shares the scope meets it too."""

    GROUP = "group"
    ZONE = "zone"
    INSTANCE_TYPE = "instance_type"
    ACCOUNT = "account"


class FailedInstance(Value, frozen=True, kw_only=True):
    """One failure to create machines.

    ``failure_id`` is unique over time (clouds reuse machine ids); ``instance_id`` is absent where the cloud
    has no machine to name, and then ``count`` says how many it stands for.
    """

    failure_id: str
    instance_id: str | None = None
    count: int = 1
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    code: str = ""
    message: str = ""


class ProviderInfo(Value, frozen=True, kw_only=True):
    """What a plugin is and can do.

    ``spec_version`` is the oldest contract (major, minor) that the plugin can live with. ``parallel_calls``
    says that calls may overlap. ``ignores_id_case`` says that instance ids compare without case.
    """

    name: str
    spec_version: tuple[int, int] = (1, 0)
    capabilities: frozenset[Capability] = frozenset()
    parallel_calls: bool = False
    ignores_id_case: bool = False
