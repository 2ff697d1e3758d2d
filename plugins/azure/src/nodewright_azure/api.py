"""The calls to Azure that the plugin needs, typed. Every method may raise errors of nodewright's tree."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from nodewright.spec import ApiCalls
from nodewright_azure.shapes import (
    AutoscaleSetting,
    InstanceView,
    Lock,
    Machine,
    ResourceSku,
    RetailPrice,
    RolePermissions,
    ScaleSet,
    Status,
)


class Api(Protocol):
    """One resource group of one subscription."""

    def made(self) -> Sequence[ApiCalls]:
        """Return the number of calls so far, by operation and result."""

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Let this thread begin no call later than ``seconds`` from now; raise ProviderUnavailable instead."""

    def place(self) -> str:
        """Return the resource group and subscription, for messages."""

    # Reads

    def scale_sets(self) -> Sequence[ScaleSet]:
        """Return all scale sets of the resource group. The listing may lag behind writes."""

    def pool_sizes(self) -> Sequence[ScaleSet]:
        """Return the sizes of AKS VM pools, in the form of scale sets; none if VM pools are not served."""

    def scale_set(self, name: str) -> ScaleSet:
        """Read the set or size now; the budget of calls does not apply. Raise NodeGroupNotFound."""

    def machines(self, name: str) -> Sequence[Machine]:
        """Return the machines of a uniform set, with their instance views."""

    def loose_machines(self) -> Sequence[Machine]:
        """Return the machines of all flexible sets and VM pools of the resource group, without instance views."""

    def machine_view(self, name: str) -> InstanceView:
        """Return the instance view of a machine of a flexible set or a VM pool."""

    def problems(self, name: str) -> Sequence[Status]:
        """Return how the last operation on the set ended: our own, if it is known, otherwise what the set tells."""

    def skus(self, location: str) -> Sequence[ResourceSku]:
        """Return every SKU of the location."""

    def retail_prices(self, location: str, sizes: Sequence[str]) -> Sequence[RetailPrice]:
        """Return what the public price list has of these sizes in the location."""

    # Writes: accepted when they return, not finished

    def resize(self, scale_set: ScaleSet, capacity: int) -> ScaleSet:
        """Request this capacity; raise Stale if another writer has written the set since it was read."""

    def delete(self, name: str, numbers: Sequence[str], *, force: bool = False) -> None:
        """Delete these machines and lower the capacity by as many: all, or none if one of them does not exist."""

    # Permissions and other writers

    def probe_operations(self, service: str, location: str) -> None:
        """Ask about an operation that never was; raise AccessDenied if we may read none, else another ProviderError."""

    def grants(self) -> Sequence[RolePermissions]:
        """Return our permissions in the resource group."""

    def cluster_grants(self) -> Sequence[RolePermissions]:
        """Return our permissions in the resource group of the AKS cluster; called only if VM pools are served."""

    def locks(self) -> Sequence[Lock]:
        """Return the locks on the resource group, on its resources and above it."""

    def autoscale_settings(self) -> Sequence[AutoscaleSetting]:
        """Return the settings of Azure's own autoscaler in the resource group."""
