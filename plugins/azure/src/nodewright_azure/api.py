"""What the plugin asks of Azure: the narrow, typed face of the SDK. Every method may raise errors of nodewright's tree."""

from collections.abc import Sequence
from typing import Protocol

from nodewright.spec import ApiCalls
from nodewright_azure.shapes import AutoscaleSetting, Lock, Machine, ResourceSku, RolePermissions, ScaleSet, Status


class Api(Protocol):
    """One resource group of one subscription."""

    def made(self) -> Sequence[ApiCalls]:
        """How many calls were made so far, by operation and result."""

    def place(self) -> str:
        """The resource group and subscription, in words."""

    # Reads

    def scale_sets(self) -> Sequence[ScaleSet]:
        """All of the resource group. The listing may lag behind what was written."""

    def pool_sizes(self) -> Sequence[ScaleSet]:
        """Sizes of VM pools of AKS, shown as scale sets are; none if they are not served."""

    def scale_set(self, name: str) -> ScaleSet:
        """The set or size as it is this moment, whatever the budget of calls says; raises NodeGroupNotFound."""

    def machines(self, name: str) -> Sequence[Machine]:
        """Machines of a uniform set, with their instance views."""

    def loose_machines(self) -> Sequence[Machine]:
        """Machines of all flexible sets and VM pools of the resource group, without instance views."""

    def problems(self, name: str) -> Sequence[Status]:
        """How the last operation on the set ended."""

    def skus(self, location: str) -> Sequence[ResourceSku]:
        """Every SKU of the location."""

    # Writes: accepted when they return, not finished

    def resize(self, scale_set: ScaleSet, capacity: int) -> ScaleSet:
        """Asks for so many machines, if nobody wrote the set since it was read; raises Stale otherwise."""

    def delete(self, name: str, numbers: Sequence[str], *, force: bool = False) -> None:
        """Ends these machines and lowers the capacity by as many: all or, if one of them is not there, none."""

    # Who may do what, and who else does

    def grants(self) -> Sequence[RolePermissions]:
        """What the caller may do in the resource group."""

    def cluster_grants(self) -> Sequence[RolePermissions]:
        """What the caller may do in the resource group of the AKS cluster; only asked if VM pools are served."""

    def locks(self) -> Sequence[Lock]:
        """Locks on the resource group, on what is in it and above it."""

    def autoscale_settings(self) -> Sequence[AutoscaleSetting]:
        """Azure's own autoscaler in the resource group."""
