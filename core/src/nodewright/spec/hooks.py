"""The hookspecs, one Protocol class per capability: pluggy's spec, mypy's type and the guide's page at once.

Rules for every hook. Reads answer from the last ``refresh`` and do no I/O of their own. No hook answers
None. An unknown group raises NodeGroupNotFound. A write that returns was *accepted*, not finished. Every
SDK error is translated to the tree of ``nodewright.model.errors`` before it leaves the plugin.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from nodewright.model.capability import Capability
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    MachineType,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    ProviderInfo,
    Value,
)
from nodewright.model.quantity import Quantity
from nodewright.spec.diagnosis import DiagnosisHooks
from nodewright.spec.markers import hookspec
from nodewright.spec.simulation import SimulationHooks

ENTRY_POINT_GROUP = "nodewright.providers.v1"
SPEC_VERSION = (1, 0)

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
    """A class of ProvisioningRequests that the provider serves itself."""

    name: str
    description: str = ""


class CloudProvisioningRequest(Value, frozen=True, kw_only=True):
    """One request handed to the provider: how many pods, and what all of them ask for together.

    ``key`` names it and no other, also one of the same name that comes later.
    """

    key: str
    class_name: str
    pod_count: int
    parameters: Mapping[str, str] = {}
    resources: Mapping[str, Quantity] = {}


class ProvisioningVerdict(Value, frozen=True, kw_only=True):
    """The provider's answer to a request: is there a machine now for every pod? ``reason`` (letters, digits and
    underscores, a letter first) and ``message`` go into the condition.
    """

    accepted: bool
    reason: str
    message: str = ""


class RequiredHooks(Protocol):
    """Every provider implements all of these."""

    @hookspec(firstresult=True)
    def provider_info(self) -> ProviderInfo:
        """Name, contract version, capabilities. Asked once, before anything else."""

    @hookspec(firstresult=True)
    def refresh(self, wanted: frozenset[str]) -> bool:
        """Read the cloud; every other read answers from this. Answers True.

        Groups in ``wanted`` have work in flight: for them no interval cache may answer.
        """

    @hookspec(firstresult=True)
    def node_groups(self) -> Sequence[NodeGroup]:
        """All groups, in a stable order."""

    @hookspec(firstresult=True)
    def target_size(self, group_id: str) -> int:
        """How many machines the cloud is asked to keep; reflects our own last write at once."""

    @hookspec(firstresult=True)
    def instances(self, group_id: str) -> Sequence[Instance]:
        """Every machine of the group that exists: creating, running or being deleted."""

    @hookspec(firstresult=True)
    def template_node(self, group_id: str) -> NodeTemplate:
        """What the next machine will look like as a node, also when the group is empty."""

    @hookspec(firstresult=True)
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Raise the target from ``expected_target`` to ``target``; answers how many machines were accepted.

        Raises TargetChanged when the target is not ``expected_target`` any more; OutOfCapacity or QuotaExceeded, with
        the scope that the cloud names, when the cloud refuses at once; Throttled or OperationInProgress when it is
        busy, and then nothing has changed. Never goes beyond the group's maximum.
        """

    @hookspec(firstresult=True)
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Withdraw capacity that has no machine; answers how much was withdrawn.

        Never removes a machine, not even one that arrived since the last refresh: where that cannot be
        ruled out, answer 0. Raises TargetChanged as above.
        """

    @hookspec(firstresult=True)
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        """Delete exactly these machines and lower the target by as many; answers the ids accepted.

        Accepts what ``instances`` and ``failed_instances`` named (a failure without a machine by its
        ``failure_id``, which lowers the target by its ``count``); an id that is gone already is skipped.
        Raises TargetChanged as above.
        """


class FastFailureHooks(Protocol):
    """FAST_FAILURE_DETECTION: the cloud says which machines could not be created."""

    @hookspec(firstresult=True)
    def failed_instances(self, group_id: str) -> Sequence[FailedInstance]:
        """Return the failures known at the last refresh and not yet deleted.

        A machine that ran is never a failed creation, whatever its status says: it stays in ``instances``.
        """


class AtomicResizeHooks(Protocol):
    """ATOMIC_RESIZE: all of an increase or nothing."""

    @hookspec(firstresult=True)
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        """As ``increase_size``, but the cloud grants every machine or none."""


class GroupOptionsHooks(Protocol):
    """GROUP_OPTIONS: settings of single groups."""

    @hookspec(firstresult=True)
    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        """The options of this group: the defaults, changed or not."""


class PricingHooks(Protocol):
    """PRICING: what machines cost."""

    @hookspec(firstresult=True)
    def node_price(self, group_id: str, start: float, end: float) -> float:
        """USD for one machine of the group from ``start`` to ``end`` (epoch seconds)."""


class ForceDeleteHooks(Protocol):
    """FORCE_DELETE: deletion without the cloud's own courtesies."""

    @hookspec(firstresult=True)
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        """As ``delete_instances``, without a check of the minimum size and without waiting."""


class AutoprovisioningHooks(Protocol):
    """AUTOPROVISIONING: groups made on demand."""

    @hookspec(firstresult=True)
    def machine_types(self) -> Sequence[MachineType]:
        """Kinds of machines from which groups can be made, each name once."""

    @hookspec(firstresult=True)
    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup:
        """Make an empty group under ``spec.group_id``, marked in the cloud as autoprovisioned; ``node_groups`` lists it
        from now on.

        Asked again for a group that it made under that id, as after a restart, it makes no second one and answers the
        first. An id that somebody else's group has is refused.
        """

    @hookspec(firstresult=True)
    def delete_node_group(self, group_id: str) -> bool:
        """Remove an empty group that ``create_node_group`` made; answers whether it is gone.

        A group with machines, also ones that came since the last refresh, and a group without the mark stay.
        """


class GpuHooks(Protocol):
    """GPU: how nodes with accelerators are recognised."""

    @hookspec(firstresult=True)
    def gpu_label(self) -> str:
        """Label key whose value names the accelerator of a node."""

    @hookspec(firstresult=True)
    def gpu_types(self) -> Sequence[str]:
        """Return the values that the label may have, as of the last refresh.

        ``doctor`` warns of a ``--gpu-total`` limit for any other type; ``serve-externalgrpc`` passes them on.
        """

    @hookspec(firstresult=True)
    def gpu_resources(self) -> Sequence[str]:
        """Extended resource names that stand for accelerators."""


class SimilarityHooks(Protocol):
    """SIMILARITY: the labels by which groups are, or are not, compared for balancing."""

    @hookspec(firstresult=True)
    def ignored_labels(self) -> Sequence[str]:
        """Label keys that differ between similar groups of this cloud."""

    @hookspec(firstresult=True)
    def same_group_labels(self) -> Sequence[str]:
        """Label keys whose equal, non-empty value makes two groups similar outright."""


class ProvisioningClassHooks(Protocol):
    """PROVISIONING_CLASSES: classes of ProvisioningRequests that the provider serves itself."""

    @hookspec(firstresult=True)
    def provisioning_classes(self) -> Sequence[CloudProvisioningClass]:
        """The classes by name."""

    @hookspec(firstresult=True)
    def provision(self, request: CloudProvisioningRequest) -> ProvisioningVerdict:
        """Start to serve a request, or say how far it is.

        Asked anew, under the same key, until the answer is accepted, with pauses that grow, and again after
        a restart: nothing is made twice. Machines are of the provider's node groups. Once it is accepted the core
        holds the room for the request's pods.
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
    Capability.DIAGNOSIS: DiagnosisHooks,
    Capability.SIMULATION: SimulationHooks,
}
