"""PUBLIC: the provider contract.

A provider plugin is one object whose methods carry ``@hookimpl``. It must implement every hook of
``RequiredHooks``, and every hook of each capability that its ``ProviderInfo`` declares. Import the names of the
contract from this module. Optional helpers are in ``options``, ``meter``, ``cache`` and ``group_options``.
"""

from nodewright.model.capability import Capability
from nodewright.model.clock import Clock
from nodewright.model.devices import (
    Counter,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    ResourcePool,
    ResourceSliceSpec,
)
from nodewright.model.errors import (
    AccessDenied,
    CloudBusy,
    ConfigError,
    NodeGroupNotFound,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    TargetChanged,
    Throttled,
)
from nodewright.model.group import (
    ErrorClass,
    FailedInstance,
    FailureScope,
    GroupOptions,
    Instance,
    InstanceState,
    MachineType,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
)
from nodewright.model.interruption import Interruption, InterruptionKind
from nodewright.model.limits import NodeGroupFlag, parse_node_group_flag
from nodewright.model.node import Node, Taint
from nodewright.model.printable import printable
from nodewright.model.quantity import Quantity
from nodewright.spec.diagnosis import ApiCalls, DiagnosisHooks, Finding, FindingLevel
from nodewright.spec.hooks import (
    CAPABILITY_HOOKS,
    ENTRY_POINT_GROUP,
    SPEC_VERSION,
    AtomicResizeHooks,
    AutoprovisioningHooks,
    CloudProvisioningClass,
    CloudProvisioningRequest,
    FastFailureHooks,
    ForceDeleteHooks,
    GpuHooks,
    GroupOptionsHooks,
    InterruptionHooks,
    PricingHooks,
    ProviderContext,
    ProvisioningClassHooks,
    ProvisioningVerdict,
    RequiredHooks,
    SimilarityHooks,
)
from nodewright.spec.markers import PROJECT, hookimpl
from nodewright.spec.options import decode_options
from nodewright.spec.simulation import NodeStart, SimulationHooks

__all__ = [
    "CAPABILITY_HOOKS",
    "ENTRY_POINT_GROUP",
    "PROJECT",
    "SPEC_VERSION",
    "AccessDenied",
    "ApiCalls",
    "AtomicResizeHooks",
    "AutoprovisioningHooks",
    "Capability",
    "Clock",
    "CloudBusy",
    "CloudProvisioningClass",
    "CloudProvisioningRequest",
    "ConfigError",
    "Counter",
    "CounterConsumption",
    "CounterSet",
    "Device",
    "DeviceAttribute",
    "DeviceCapacity",
    "DiagnosisHooks",
    "ErrorClass",
    "FailedInstance",
    "FailureScope",
    "FastFailureHooks",
    "Finding",
    "FindingLevel",
    "ForceDeleteHooks",
    "GpuHooks",
    "GroupOptions",
    "GroupOptionsHooks",
    "Instance",
    "InstanceState",
    "Interruption",
    "InterruptionHooks",
    "InterruptionKind",
    "MachineType",
    "NewNodeGroup",
    "Node",
    "NodeGroup",
    "NodeGroupFlag",
    "NodeGroupNotFound",
    "NodeStart",
    "NodeTemplate",
    "OperationInProgress",
    "OutOfCapacity",
    "Price",
    "PricingHooks",
    "ProviderContext",
    "ProviderError",
    "ProviderInfo",
    "ProviderUnavailable",
    "ProvisioningClassHooks",
    "ProvisioningVerdict",
    "Quantity",
    "QuotaExceeded",
    "RequiredHooks",
    "ResourcePool",
    "ResourceSliceSpec",
    "Shortage",
    "SimilarityHooks",
    "SimulationHooks",
    "Taint",
    "TargetChanged",
    "Throttled",
    "decode_options",
    "hookimpl",
    "parse_node_group_flag",
    "printable",
]
