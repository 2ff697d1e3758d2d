"""Azure Resource Manager's responses as frozen values: only the members that are used, with its names."""

from collections.abc import Mapping

import msgspec
from msgspec import field

# AKS tags everything that it creates with the agent pool's name.
_POOL_TAGS = ("aks-managed-poolName", "poolName")


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of responses; members that are not listed here are ignored."""


class ScaleSetSku(Shape, frozen=True, kw_only=True):
    name: str = ""
    tier: str | None = None
    capacity: int | None = None


class ManagedDisk(Shape, frozen=True, kw_only=True):
    storage_account_type: str = ""


class DiffDisk(Shape, frozen=True, kw_only=True):
    """If it is there, the disk is on the host and is lost with it."""

    option: str | None = None


class OsDisk(Shape, frozen=True, kw_only=True):
    disk_size_gb: int | None = field(default=None, name="diskSizeGB")
    diff_disk_settings: DiffDisk | None = None
    managed_disk: ManagedDisk | None = None


class ImageReference(Shape, frozen=True, kw_only=True):
    """An image of a gallery or of one's own (``id``), or one of Azure's (the other fields)."""

    id: str = ""
    publisher: str = ""
    offer: str = ""
    sku: str = ""
    version: str = ""


class StorageProfile(Shape, frozen=True, kw_only=True):
    image_reference: ImageReference | None = None
    os_disk: OsDisk | None = None

    @property
    def made_from(self) -> str:
        """The image with its version; "": Azure does not report it, or means the latest one."""
        image = self.image_reference or ImageReference()
        named = f"{image.publisher}/{image.offer}/{image.sku}/{image.version}" if image.publisher else ""
        is_latest = image.version == "latest" or "/versions/latest" in image.id.lower()
        name = (image.id or named).lower()
        return f"image {name}" if name and not is_latest else ""


class OsProfile(Shape, frozen=True, kw_only=True):
    windows_configuration: dict[str, object] | None = None


class MachineProfile(Shape, frozen=True, kw_only=True):
    """The model of a scale set's machines."""

    storage_profile: StorageProfile | None = None
    os_profile: OsProfile | None = None
    priority: str | None = None
    eviction_policy: str | None = None


class Mode(Shape, frozen=True, kw_only=True):
    mode: str | None = None


class Switch(Shape, frozen=True, kw_only=True):
    enabled: bool = False


class MixedSize(Shape, frozen=True, kw_only=True):
    """One size of an instance mix. ``rank``: the lower, the sooner Azure takes it; None: Azure decides by itself."""

    name: str = ""
    rank: int | None = None


class SkuProfile(Shape, frozen=True, kw_only=True):
    """The sizes of an instance mix, whose SKU is called Mix."""

    vm_sizes: tuple[MixedSize, ...] = ()


class ScaleSetProperties(Shape, frozen=True, kw_only=True):
    orchestration_mode: str | None = None
    provisioning_state: str = ""
    overprovision: bool | None = None
    upgrade_policy: Mode | None = None
    automatic_repairs_policy: Switch | None = None
    virtual_machine_profile: MachineProfile | None = None
    sku_profile: SkuProfile | None = None


class VmPool(Shape, frozen=True, kw_only=True):
    """The agent pool of AKS to which machines of a size belong, with the data of its nodes.

    ``deallocates``: AKS's own autoscaler would deallocate its machines in the place of deleting them.
    """

    name: str
    os_type: str = ""
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    deallocates: bool = False


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
        """The name in lower case: Azure's names ignore case."""
        return self.name.lower()

    @property
    def size(self) -> str:
        """The size of its machines, by Azure's name; of an instance mix the first by rank. "": Azure does not report it."""
        if self.is_mixed:
            return min(self.mixed_sizes, key=lambda one: one.rank or 0).name if self.mixed_sizes else ""
        return self.sku.name if self.sku is not None else ""

    @property
    def is_mixed(self) -> bool:
        """Whether Azure chooses among several sizes (instance mix)."""
        return self.sku is not None and self.sku.name.lower() == "mix"

    @property
    def mixed_sizes(self) -> tuple[MixedSize, ...]:
        """The sizes of an instance mix."""
        profile = self.properties.sku_profile
        return profile.vm_sizes if profile is not None else ()

    @property
    def region(self) -> str:
        """The location as lists name it (eastus), also where Azure gives its display name (East US)."""
        return (self.location or "").lower().replace(" ", "")

    @property
    def capacity(self) -> int:
        """The number of requested machines."""
        return (self.sku.capacity or 0) if self.sku is not None else 0

    @property
    def is_uniform(self) -> bool:
        return self.properties.orchestration_mode == "Uniform"

    @property
    def is_flexible(self) -> bool:
        return self.properties.orchestration_mode == "Flexible"

    @property
    def is_loose(self) -> bool:
        """Whether its machines are listed with all single machines of the resource group, without power states."""
        return self.is_flexible or self.pool is not None

    @property
    def has_known_mode(self) -> bool:
        """Whether it is known how its machines are listed."""
        return self.is_uniform or self.is_loose

    @property
    def is_spot(self) -> bool:
        """Whether its machines are spot machines."""
        profile = self.properties.virtual_machine_profile
        return profile is not None and profile.priority in ("Spot", "Low")

    @property
    def keeps_evicted(self) -> bool:
        """Whether Azure stops spot machines that it evicts and keeps them in the set, which is its default."""
        profile = self.properties.virtual_machine_profile
        return self.is_spot and profile is not None and profile.eviction_policy != "Delete"

    @property
    def is_windows(self) -> bool:
        """Whether its machines run Windows, which is part of their price."""
        if self.pool is not None:
            return self.pool.os_type == "windows"
        profile = self.properties.virtual_machine_profile
        system = profile.os_profile if profile is not None else None
        return system is not None and system.windows_configuration is not None

    @property
    def made_from(self) -> str:
        """The image of new machines, in the words of ``Machine.made_from``; "": it is not known."""
        profile = self.properties.virtual_machine_profile
        storage = profile.storage_profile if profile is not None else None
        return storage.made_from if storage is not None else ""

    def owns(self, machine: "Machine") -> bool:
        """Return whether this single machine belongs to the set."""
        if self.pool is not None:
            return machine.pool == self.pool.name.lower() and machine.size == self.size.lower()
        owner = machine.properties.virtual_machine_scale_set
        return owner is not None and owner.id.lower() == self.id.lower()

    @property
    def is_quiet(self) -> bool:
        """Whether the set is at rest: Azure neither adds nor removes a machine."""
        return self.properties.provisioning_state in ("Succeeded", "Failed", "Canceled")

    @property
    def has_failed(self) -> bool:
        """Whether the last operation on it failed."""
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
    """``virtual_machine_scale_set`` exists for machines of flexible sets only; lists have ``instance_view`` for uniform ones."""

    provisioning_state: str | None = None
    vm_id: str | None = None
    instance_view: InstanceView | None = None
    virtual_machine_scale_set: Reference | None = None
    hardware_profile: HardwareProfile | None = None
    storage_profile: StorageProfile | None = None


class Machine(Shape, frozen=True, kw_only=True):
    """One virtual machine of a scale set; single machines have a name but no ``instance_id``."""

    id: str
    name: str = ""
    zones: tuple[str, ...] | None = None
    instance_id: str | None = None
    tags: dict[str, str | None] | None = None
    properties: MachineProperties = MachineProperties()

    @property
    def pool(self) -> str:
        """The agent pool of AKS, in lower case; "" outside of AKS."""
        return pool_of(self.tags or {}).lower()

    @property
    def size(self) -> str:
        """The size in lower case; "": Azure does not report it."""
        hardware = self.properties.hardware_profile
        return (hardware.vm_size or "").lower() if hardware is not None else ""

    @property
    def made_from(self) -> str:
        """The image it was made from; "": it is not known."""
        storage = self.properties.storage_profile
        return storage.made_from if storage is not None else ""

    @property
    def number(self) -> str:
        """The machine's number in its scale set."""
        return self.instance_id or self.id.rpartition("/")[2]

    @property
    def provider_id(self) -> str:
        """The ``spec.providerID`` of its node, with the resource group's name in lower case."""
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
    """One entry of the list of SKUs: a machine size, or the size of another resource.

    ``family`` names the quota of cores on which the size draws.
    """

    name: str = ""
    resource_type: str = ""
    family: str = ""
    capabilities: tuple[Named, ...] = ()
    restrictions: tuple[SkuRestriction, ...] = ()


class OperationError(Shape, frozen=True, kw_only=True):
    """Why an operation failed. ``details``: the errors of single machines, if several of them failed."""

    code: str = ""
    message: str = ""
    details: tuple["OperationError", ...] | None = None

    @property
    def all(self) -> tuple["OperationError", ...]:
        """The error and all those that it is made of."""
        return (self, *(inner for one in self.details or () for inner in one.all))


class Operation(Shape, frozen=True, kw_only=True):
    """How an operation is going; ``error`` is there if it failed."""

    status: str = ""
    error: OperationError | None = None


class RolePermissions(Shape, frozen=True, kw_only=True):
    """The permissions of one role assignment."""

    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()


class LockProperties(Shape, frozen=True, kw_only=True):
    level: str = ""


class Lock(Shape, frozen=True, kw_only=True):
    """A lock; its ``id`` begins with the id of the locked resource."""

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
    """Return the agent pool of AKS in the tags; "" outside of AKS."""
    return next((name for key in _POOL_TAGS if (name := tags.get(key))), "")


class RetailPrice(Shape, frozen=True, kw_only=True):
    """One meter of Azure's public price list."""

    retail_price: float
    currency_code: str
    arm_sku_name: str
    product_name: str = ""
    sku_name: str = ""
    unit_of_measure: str = ""
    type: str = ""

    @property
    def is_hourly(self) -> bool:
        """Whether it is the price of a machine for an hour, without a commitment and not one of Azure Batch or Cloud Services."""
        odd = self.sku_name.endswith(" Low Priority") or "Cloud" in self.product_name
        return self.unit_of_measure == "1 Hour" and self.type == "Consumption" and not odd

    @property
    def is_spot(self) -> bool:
        return self.sku_name.endswith(" Spot")

    @property
    def is_windows(self) -> bool:
        return self.product_name.endswith(" Windows")
