"""The hookspecs, one Protocol class per capability. pluggy, mypy and the plugin guide all use these classes.

Rules for every hook:

- Reads return values of the last ``refresh`` and do no I/O, except ``diagnose``.
- No hook returns None.
- A hook raises NodeGroupNotFound for an unknown group.
- A write that returns was *accepted* by the cloud. It need not be finished.
- The plugin translates every SDK error into an error of ``nodewright.model.errors``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from nodewright.model.capability import Capability
from nodewright.model.clock import Clock
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    MachineType,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
    Value,
)
from nodewright.model.interruption import Interruption
from nodewright.model.quantity import Quantity
from nodewright.spec.diagnosis import DiagnosisHooks
from nodewright.spec.exchanges import Exchanges
from nodewright.spec.markers import hookspec
from nodewright.spec.simulation import SimulationHooks

ENTRY_POINT_GROUP = "nodewright.providers.v1"
SPEC_VERSION = (1, 0)

# Hooks that a provider may leave out although it declares their capability.
OPTIONAL_HOOKS = frozenset({"await_interruption"})

# The hooks that change a cloud.
WRITE_HOOKS = frozenset(
    {
        "increase_size",
        "atomic_increase_size",
        "decrease_target_size",
        "delete_instances",
        "force_delete_instances",
        "create_node_group",
        "delete_node_group",
        "provision",
    }
)


class CloudProvisioningClass(Value, frozen=True, kw_only=True):
    """A class of ProvisioningRequests that the provider itself provisions."""

    name: str
    description: str = ""


class CloudProvisioningRequest(Value, frozen=True, kw_only=True):
    """One ProvisioningRequest for the provider.

    ``key`` is unique: a later request of the same name has another key. ``resources`` is the sum of what all
    ``pod_count`` pods request.
    """

    key: str
    class_name: str
    pod_count: int
    parameters: Mapping[str, str] = {}
    resources: Mapping[str, Quantity] = {}


class ProvisioningVerdict(Value, frozen=True, kw_only=True):
    """The provider's answer to a request.

    ``accepted`` is true if there is capacity now for every pod. ``reason`` (letters, digits and underscores, a letter
    first) and ``message`` go into the request's condition.
    """

    accepted: bool
    reason: str
    message: str = ""


class RequiredHooks(Protocol):
    """The hooks that every provider must implement."""

    @hookspec(firstresult=True)
    def provider_info(self) -> ProviderInfo:
        """Return the provider's name, contract version and capabilities. Called once, before all other hooks."""

    @hookspec(firstresult=True)
    def refresh(self, wanted: frozenset[str]) -> bool:
        """Read the state of the cloud, which the other reads return. Return True.

        Groups in ``wanted`` have operations in progress: read them from the cloud, not from a cache.
        """

    @hookspec(firstresult=True)
    def node_groups(self) -> Sequence[NodeGroup]:
        """Return all groups, in a stable order."""

    @hookspec(firstresult=True)
    def target_size(self, group_id: str) -> int:
        """Return the number of machines that the group is asked to have.

        A write through this provider changes it at once, without a ``refresh``.
        """

    @hookspec(firstresult=True)
    def instances(self, group_id: str) -> Sequence[Instance]:
        """Return every machine of the group that exists: being created, running or being deleted."""

    @hookspec(firstresult=True)
    def template_node(self, group_id: str) -> NodeTemplate:
        """Return a description of the node that the group's next machine becomes, also for an empty group."""

    @hookspec(firstresult=True)
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Raise the target from ``expected_target`` to ``target``. Return the number of machines accepted.

        Never go beyond the group's maximum. Raise TargetChanged if the target in the cloud is not ``expected_target``.
        Raise OutOfCapacity or QuotaExceeded, with the scope that the cloud names, if the cloud refuses at once. Raise
        Throttled or OperationInProgress if the cloud is busy and has changed nothing.
        """

    @hookspec(firstresult=True)
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Lower the target by requested machines that do not exist yet. Return the number withdrawn.

        Never remove a machine, not even one that arrived since the last refresh. Return 0 if the cloud cannot
        guarantee this. Raise TargetChanged as ``increase_size`` does.
        """

    @hookspec(firstresult=True)
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        """Delete exactly these machines and lower the target by their number. Return the ids accepted.

        Accept the ids that ``instances`` and ``failed_instances`` returned. A failure without a machine is deleted by
        its ``failure_id``, which lowers the target by its ``count``. Skip ids that are gone. Raise TargetChanged as
        ``increase_size`` does.
        """


class FastFailureHooks(Protocol):
    """FAST_FAILURE_DETECTION: the cloud reports which machines it could not create."""

    @hookspec(firstresult=True)
    def failed_instances(self, group_id: str) -> Sequence[FailedInstance]:
        """Return the failures known at the last refresh and not yet deleted.

        A machine that ran is never a failed creation, even if it has failed since: it stays in ``instances``.
        """


class AtomicResizeHooks(Protocol):
    """ATOMIC_RESIZE: the cloud grants all machines of an increase or none."""

    @hookspec(firstresult=True)
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Raise the target as ``increase_size`` does. The cloud grants all of the machines or none."""


class GroupOptionsHooks(Protocol):
    """GROUP_OPTIONS: settings of single groups."""

    @hookspec(firstresult=True)
    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        """Return the options of this group: ``defaults``, with the group's own options in place of them."""


class PricingHooks(Protocol):
    """PRICING: the price of machines."""

    @hookspec(firstresult=True)
    def node_price(self, group_id: str) -> Price:
        """Return the price of the group's next machine, for its machine type and zone.

        It is the spot price if the group buys spot machines, else the on-demand price; both without discounts of the
        account. If the cloud chooses among several zones or machine types, return the highest of their prices. Raise a
        ProviderError if the price is not known: the group is then planned without one.
        """


class ForceDeleteHooks(Protocol):
    """FORCE_DELETE: deletion without the cloud's own checks and waiting times."""

    @hookspec(firstresult=True)
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        """Delete as ``delete_instances`` does, without a check of the minimum size and without waiting."""


class AutoprovisioningHooks(Protocol):
    """AUTOPROVISIONING: the core creates and deletes node groups on demand."""

    @hookspec(firstresult=True)
    def machine_types(self) -> Sequence[MachineType]:
        """Return the machine types from which groups can be created, each name once."""

    @hookspec(firstresult=True)
    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup:
        """Create an empty group with the id ``spec.group_id`` and mark it in the cloud as autoprovisioned. Return it.

        ``node_groups`` lists the group from now on. If this provider already created a group with this id (for example
        before a restart), create no second one and return the first. Raise a ProviderError if the id belongs to a
        group that this provider did not create.
        """

    @hookspec(firstresult=True)
    def delete_node_group(self, group_id: str) -> bool:
        """Delete an empty group that ``create_node_group`` created. Return True if the group is gone.

        Do not delete a group without the mark, or a group that has machines, even if they arrived after the last
        refresh.
        """


class GpuHooks(Protocol):
    """GPU: the labels and resources of nodes with accelerators."""

    @hookspec(firstresult=True)
    def gpu_label(self) -> str:
        """Return the label key whose value names the accelerator of a node."""

    @hookspec(firstresult=True)
    def gpu_types(self) -> Sequence[str]:
        """Return the values that the label may have, as of the last refresh.

        A limit may name a type before a node of it exists: a CapacityQuota for a listed type is enforced, and ``doctor``
        warns of a ``--gpu-total`` limit for a type that is not listed. ``serve-externalgrpc`` passes them on.
        """

    @hookspec(firstresult=True)
    def gpu_resources(self) -> Sequence[str]:
        """Return the names of the extended resources that are accelerators."""


class SimilarityHooks(Protocol):
    """SIMILARITY: the labels that decide which groups are similar, for balancing."""

    @hookspec(firstresult=True)
    def ignored_labels(self) -> Sequence[str]:
        """Return the label keys that may differ between similar groups of this cloud."""

    @hookspec(firstresult=True)
    def same_group_labels(self) -> Sequence[str]:
        """Return the label keys for which an equal, non-empty value alone makes two groups similar."""


class ProvisioningClassHooks(Protocol):
    """PROVISIONING_CLASSES: classes of ProvisioningRequests that the provider itself provisions."""

    @hookspec(firstresult=True)
    def provisioning_classes(self) -> Sequence[CloudProvisioningClass]:
        """Return the classes, each name once."""

    @hookspec(firstresult=True)
    def provision(self, request: CloudProvisioningRequest) -> ProvisioningVerdict:
        """Start to provision a request, or return its present state.

        The core calls this again with the same key, with growing pauses and also after a restart, until the request is
        accepted: create nothing twice. The machines belong to the provider's node groups. Once the request is accepted,
        the core reserves the capacity for the request's pods.
        """


class InterruptionHooks(Protocol):
    """INTERRUPTION: the cloud gives notice before it takes, moves or replaces a machine."""

    @hookspec(firstresult=True)
    def interruptions(self) -> Sequence[Interruption]:
        """Return the notices known at the last refresh whose machines still exist.

        Return a notice until its machine is gone or the cloud takes the notice back. If notices come in messages, do not
        delete a message earlier: a process that has just read it may crash.
        """

    @hookspec(firstresult=True)
    def await_interruption(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for a new notice; return whether one came.

        Optional. The core calls this hook in a thread of its own, at the same time as other hooks, and starts a loop as
        soon as it returns True. ``interruptions`` must return the notice after the next refresh.
        """


CAPABILITY_HOOKS: Mapping[Capability, type] = {
    Capability.FAST_FAILURE_DETECTION: FastFailureHooks,
    Capability.ATOMIC_RESIZE: AtomicResizeHooks,
    Capability.GROUP_OPTIONS: GroupOptionsHooks,
    Capability.PRICING: PricingHooks,
    Capability.FORCE_DELETE: ForceDeleteHooks,
    Capability.AUTOPROVISIONING: AutoprovisioningHooks,
    Capability.GPU: GpuHooks,
    Capability.SIMILARITY: SimilarityHooks,
    Capability.PROVISIONING_CLASSES: ProvisioningClassHooks,
    Capability.INTERRUPTION: InterruptionHooks,
    Capability.DIAGNOSIS: DiagnosisHooks,
    Capability.SIMULATION: SimulationHooks,
}


@dataclass(frozen=True, kw_only=True)
class ProviderContext:
    """The argument of the entry point that builds a provider.

    ``options`` is the provider's own part of the configuration. The core does not check it: the plugin raises
    ConfigError for unknown keys. ``node_group_specs`` are the values of ``--nodes``, and ``auto_discovery_specs`` are
    the values of ``--node-group-auto-discovery``. A provider takes time only from ``clock`` and random numbers only
    from ``random``. In a ``dry_run`` another process manages the groups: the provider takes nothing from it, such as messages
    of a queue that has one reader. ``exchanges`` is set while requests to the cloud's API are recorded or replayed
    (``nodewright.spec.exchanges``); a provider may ignore it.
    """

    clock: Clock
    random: Random = field(default_factory=lambda: Random(0))
    options: Mapping[str, Any] = field(default_factory=dict)
    node_group_specs: tuple[str, ...] = ()
    auto_discovery_specs: tuple[str, ...] = ()
    dry_run: bool = False
    exchanges: Exchanges | None = None
