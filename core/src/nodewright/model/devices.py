"""Devices of dynamic resource allocation: slices, classes, claims (``resource.k8s.io/v1``)."""

from msgspec import field

from nodewright.model.meta import Int64, Kube, Object, ObjectMeta, Resources
from nodewright.model.pod import NodeSelector
from nodewright.model.quantity import Quantity

DEVICE_API_GROUP = "resource.k8s.io"
# An extended resource with this prefix and the name of a DeviceClass requests devices of the class.
CLASS_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"


class DeviceAttribute(Kube, frozen=True, kw_only=True):
    """One value: exactly one field is set."""

    string: str | None = None
    integer: Int64 | None = field(default=None, name="int")
    boolean: bool | None = field(default=None, name="bool")
    version: str | None = None


class CapacityRange(Kube, frozen=True, kw_only=True):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Kube, frozen=True, kw_only=True):
    """The rounding of requests for a part of a capacity, and the valid requests."""

    default: Quantity | None = None
    valid_range: CapacityRange | None = None
    valid_values: tuple[Quantity, ...] = ()


class DeviceCapacity(Kube, frozen=True, kw_only=True):
    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class Counter(Kube, frozen=True, kw_only=True):
    value: Quantity


class CounterSet(Kube, frozen=True, kw_only=True):
    """Amounts that the devices of a pool share (partitions of one card)."""

    name: str
    counters: dict[str, Counter] = {}


class CounterConsumption(Kube, frozen=True, kw_only=True):
    counter_set: str
    counters: dict[str, Counter] = {}


class DeviceTaint(Kube, frozen=True, kw_only=True):
    key: str
    effect: str = ""
    value: str = ""


class DeviceToleration(Kube, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


class Device(Kube, frozen=True, kw_only=True):
    name: str
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    allow_multiple_allocations: bool = False
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()


class ResourcePool(Kube, frozen=True, kw_only=True):
    """The pool of a slice. It is complete when ``resource_slice_count`` slices of the newest generation exist."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 1


class ResourceSliceSpec(Kube, frozen=True, kw_only=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True, kw_only=True):
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CelSelector(Kube, frozen=True, kw_only=True):
    expression: str = ""


class DeviceSelector(Kube, frozen=True, kw_only=True):
    cel: CelSelector | None = None


class DeviceClassSpec(Kube, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Object, frozen=True, kw_only=True):
    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(Kube, frozen=True, kw_only=True):
    requests: Resources = {}


class DeviceRequest(Kube, frozen=True, kw_only=True):
    """The devices of one request, or of one alternative of ``firstAvailable``. ``name`` is empty within ``exactly``."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: Int64 = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements = CapacityRequirements()


class ClaimRequest(Kube, frozen=True, kw_only=True):
    """One request of a claim: ``exactly`` one thing, or the first of several alternatives that is available."""

    name: str
    exactly: DeviceRequest | None = None
    first_available: tuple[DeviceRequest, ...] = ()


class DeviceConstraint(Kube, frozen=True, kw_only=True):
    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaim(Kube, frozen=True, kw_only=True):
    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(Kube, frozen=True, kw_only=True):
    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(Kube, frozen=True, kw_only=True):
    """A device of a claim; ``share_id`` marks a part of a device that several claims share."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str = field(default="", name="shareID")
    consumed_capacity: Resources = {}

    @property
    def id(self) -> tuple[str, str, str]:
        return self.driver, self.pool, self.device


class AllocatedDevices(Kube, frozen=True, kw_only=True):
    results: tuple[AllocatedDevice, ...] = ()


class ClaimAllocation(Kube, frozen=True, kw_only=True):
    """The devices of a claim, and on which nodes it can be used (None: on all)."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class ClaimConsumer(Kube, frozen=True, kw_only=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Kube, frozen=True, kw_only=True):
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(Object, frozen=True, kw_only=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Kube, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True, kw_only=True):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceTaintSelector(Kube, frozen=True, kw_only=True):
    """The devices that a rule taints; an empty field stands for all."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceTaintRuleSpec(Kube, frozen=True, kw_only=True):
    """A rule without a selector taints nothing; one with an empty selector taints all devices."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint(key="")


class DeviceTaintRule(Object, frozen=True, kw_only=True):
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
