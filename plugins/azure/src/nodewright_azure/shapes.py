"""What Azure Resource Manager answers, as frozen values: only the members that are used, under its own names."""

from collections.abc import Mapping

import msgspec
from msgspec import field

# AKS tags all that it makes with the agent pool's name.
_POOL_TAGS = ("aks-managed-poolName", "poolName")


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what is answered; members that are not listed here are passed over."""


class ScaleSetSku(Shape, frozen=True, kw_only=True):
    name: str = ""
    tier: str | None = None
    capacity: int | None = None


class ManagedDisk(Shape, frozen=True, kw_only=True):
    storage_account_type: str = ""


class DiffDisk(Shape, frozen=True, kw_only=True):
    """Its presence says that the disk lives on the host and is lost with it."""

    option: str | None = None


class OsDisk(Shape, frozen=True, kw_only=True):
    disk_size_gb: int | None = field(default=None, name="diskSizeGB")
    diff_disk_settings: DiffDisk | None = None
    managed_disk: ManagedDisk | None = None


class StorageProfile(Shape, frozen=True, kw_only=True):
    os_disk: OsDisk | None = None


class OsProfile(Shape, frozen=True, kw_only=True):
    windows_configuration: dict[str, object] | None = None


class MachineProfile(Shape, frozen=True, kw_only=True):
    """What a scale set's machines are made from."""

    storage_profile: StorageProfile | None = None
    os_profile: OsProfile | None = None


class Mode(Shape, frozen=True, kw_only=True):
    mode: str | None = None


class Switch(Shape, frozen=True, kw_only=True):
    enabled: bool = False


class ScaleSetProperties(Shape, frozen=True, kw_only=True):
    orchestration_mode: str | None = None
    provisioning_state: str = ""
    overprovision: bool | None = None
    upgrade_policy: Mode | None = None
    automatic_repairs_policy: Switch | None = None
    virtual_machine_profile: MachineProfile | None = None


class VmPool(Shape, frozen=True, kw_only=True):
    """The agent pool of AKS that machines of a size belong to, and what it says of its nodes."""

    name: str
    os_type: str = ""
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()


class ScaleSet(Shape, frozen=True, kw_only=True):
    """One virtual machine scale set, or one size of a VM pool. ``etag`` changes with every change of it."""

    id: str
    name: str
    location: str | None = None
    sku: ScaleSetSku | None = None
    tags: dict[str, str | None] | None = None
    zones: tuple[str, ...] | None = None
    etag: str | None = None
    properties: ScaleSetProperties = ScaleSetProperties()
    pool: VmPool | None = None

    @property
    def key(self) -> str:
        """Azure's names differ by more than case."""
        return self.name.lower()

    @property
    def size(self) -> str:
        """Of its machines, by Azure's name; empty if that is not told."""
        return self.sku.name if self.sku is not None else ""

    @property
    def capacity(self) -> int:
        """Machines that are asked for."""
        return (self.sku.capacity or 0) if self.sku is not None else 0

    @property
    def is_uniform(self) -> bool:
        return self.properties.orchestration_mode == "Uniform"

    @property
    def is_flexible(self) -> bool:
        return self.properties.orchestration_mode == "Flexible"

    @property
    def is_loose(self) -> bool:
        """Its machines are listed among all that stand alone in the resource group, without their power states."""
        return self.is_flexible or self.pool is not None

    def owns(self, machine: "Machine") -> bool:
        """Of the machines that stand alone: is this one of its own?"""
        if self.pool is not None:
            return machine.pool == self.pool.name.lower() and machine.size == self.size.lower()
        owner = machine.properties.virtual_machine_scale_set
        return owner is not None and owner.id.lower() == self.id.lower()

    @property
    def is_quiet(self) -> bool:
        """Nothing is being done to it: no machine comes or goes by itself."""
        return self.properties.provisioning_state in ("Succeeded", "Failed", "Canceled")

    @property
    def has_failed(self) -> bool:
        """What was last done to it did not succeed."""
        return self.properties.provisioning_state == "Failed"

    def with_capacity(self, capacity: int) -> "ScaleSet":
        sku = msgspec.structs.replace(self.sku or ScaleSetSku(), capacity=capacity)
        return msgspec.structs.replace(self, sku=sku)


class Status(Shape, frozen=True, kw_only=True):
    """One status of an instance view: ``PowerState/running``, ``ProvisioningState/failed/<why>``."""

    code: str | None = None
    level: str | None = None
    message: str | None = None
    time: str | None = None


class Extension(Shape, frozen=True, kw_only=True):
    name: str | None = None
    statuses: tuple[Status, ...] | None = None


class InstanceView(Shape, frozen=True, kw_only=True):
    statuses: tuple[Status, ...] | None = None
    extensions: tuple[Extension, ...] | None = None


class Reference(Shape, frozen=True, kw_only=True):
    id: str = ""


class HardwareProfile(Shape, frozen=True, kw_only=True):
    vm_size: str | None = None


class MachineProperties(Shape, frozen=True, kw_only=True):
    """``virtual_machine_scale_set`` is told of machines of flexible sets only, ``instance_view`` of uniform ones."""

    provisioning_state: str | None = None
    vm_id: str | None = None
    instance_view: InstanceView | None = None
    virtual_machine_scale_set: Reference | None = None
    hardware_profile: HardwareProfile | None = None


class Machine(Shape, frozen=True, kw_only=True):
    """One virtual machine of a scale set; machines that stand alone have no ``instance_id`` but their name."""

    id: str
    name: str = ""
    instance_id: str | None = None
    tags: dict[str, str | None] | None = None
    properties: MachineProperties = MachineProperties()

    @property
    def pool(self) -> str:
        """The agent pool of AKS, in lower case; empty outside of AKS."""
        return pool_of(self.tags or {}).lower()

    @property
    def size(self) -> str:
        """In lower case."""
        hardware = self.properties.hardware_profile
        return (hardware.vm_size or "").lower() if hardware is not None else ""

    @property
    def number(self) -> str:
        """What a scale set calls it."""
        return self.instance_id or self.id.rpartition("/")[2]

    @property
    def provider_id(self) -> str:
        """What the node's ``spec.providerID`` is, with the resource group's name in lower case."""
        parts = self.id.split("/")
        if len(parts) > 4:
            parts[4] = parts[4].lower()
        return f"azure://{'/'.join(parts)}"


class Named(Shape, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""


class SkuRestriction(Shape, frozen=True, kw_only=True):
    type: str | None = None
    reason_code: str | None = None


class ResourceSku(Shape, frozen=True, kw_only=True):
    """One answer of the list of SKUs: a size of machines, or of something else."""

    name: str = ""
    resource_type: str = ""
    capabilities: tuple[Named, ...] = ()
    restrictions: tuple[SkuRestriction, ...] = ()


class RolePermissions(Shape, frozen=True, kw_only=True):
    """What one role assignment lets the caller do."""

    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()


class LockProperties(Shape, frozen=True, kw_only=True):
    level: str = ""


class Lock(Shape, frozen=True, kw_only=True):
    """``id`` begins with the id of what is locked."""

    id: str = ""
    name: str = ""
    properties: LockProperties = LockProperties()


class AutoscaleProperties(Shape, frozen=True, kw_only=True):
    enabled: bool = True
    target_resource_uri: str = ""


class AutoscaleSetting(Shape, frozen=True, kw_only=True):
    name: str = ""
    properties: AutoscaleProperties = AutoscaleProperties()


def pool_of(tags: Mapping[str, str | None]) -> str:
    """The agent pool of AKS that tags name; empty outside of AKS."""
    return next((name for key in _POOL_TAGS if (name := tags.get(key))), "")
