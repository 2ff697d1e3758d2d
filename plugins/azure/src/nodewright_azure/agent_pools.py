"""AKS agent pools of type VirtualMachines ("VM pools"). Each machine size of a pool is one node group, ``pool/size``.

A size has the form of a scale set, so that the same code serves both. Its capacity is the count in the pool's manual
scale profile; its etag is that of the whole pool.
"""

from collections.abc import Iterator

from msgspec import field

from nodewright_azure.shapes import ScaleSet, ScaleSetProperties, ScaleSetSku, Shape, VmPool

VIRTUAL_MACHINES = "VirtualMachines"


class ManualScale(Shape, frozen=True, kw_only=True):
    """The count of machines of one size."""

    size: str | None = None
    count: int | None = None


class Scale(Shape, frozen=True, kw_only=True):
    manual: tuple[ManualScale, ...] | None = None


class MachinesProfile(Shape, frozen=True, kw_only=True):
    scale: Scale | None = None


class AgentPoolProperties(Shape, frozen=True, kw_only=True):
    etag: str | None = field(default=None, name="eTag")
    type: str | None = None
    os_type: str | None = None
    provisioning_state: str | None = None
    scale_down_mode: str | None = None
    availability_zones: tuple[str, ...] | None = None
    node_labels: dict[str, str | None] | None = None
    node_taints: tuple[str | None, ...] | None = None
    virtual_machines_profile: MachinesProfile | None = None


class AgentPool(Shape, frozen=True, kw_only=True):
    """One agent pool of a cluster, of any type."""

    id: str = ""
    name: str = ""
    properties: AgentPoolProperties = AgentPoolProperties()


def split_name(name: str) -> tuple[str, str] | None:
    """Return pool and size of a group's name; None: it does not have the form ``pool/size``."""
    pool, slash, size = name.partition("/")
    return (pool, size) if pool and slash and "/" not in size else None


def sizes_of(pool: AgentPool, location: str) -> Iterator[ScaleSet]:
    """Yield each manually scaled size of a VM pool; none for other pools and for those that AKS scales itself."""
    told = pool.properties
    scale = told.virtual_machines_profile.scale if told.virtual_machines_profile is not None else None
    if told.type != VIRTUAL_MACHINES or scale is None:
        return
    part = VmPool(
        name=pool.name,
        os_type=(told.os_type or "").lower(),
        labels={key: value or "" for key, value in (told.node_labels or {}).items()},
        taints=tuple(text for text in told.node_taints or () if text),
        deallocates=told.scale_down_mode == "Deallocate",
    )
    for one in scale.manual or ():
        yield ScaleSet(
            id=f"{pool.id}/{one.size}",
            name=f"{pool.name}/{one.size or ''}",
            location=location,
            sku=ScaleSetSku(name=one.size or "", capacity=one.count),
            zones=told.availability_zones,
            etag=told.etag,
            properties=ScaleSetProperties(
                orchestration_mode=VIRTUAL_MACHINES, provisioning_state=told.provisioning_state or ""
            ),
            pool=part,
        )
