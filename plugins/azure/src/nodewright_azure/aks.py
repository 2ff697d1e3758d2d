"""Implements the calls for VM pools of one AKS cluster with azure-mgmt-containerservice, imported at the first call.

Azure Compute lists the machines of a VM pool; AKS creates and deletes them.
"""

from collections.abc import Sequence
from typing import Any

from nodewright.spec import NodeGroupNotFound, ProviderError
from nodewright_azure.account import Cluster
from nodewright_azure.agent_pools import AgentPool, sizes_of, split_name
from nodewright_azure.calls import Calls, convert
from nodewright_azure.errors import INSTANCE_NOT_FOUND, POOLS, Stale
from nodewright_azure.operations import Operations
from nodewright_azure.session import Session
from nodewright_azure.shapes import ScaleSet

# AKS does not document its error for a machine that is gone: after any of these the caller reads the machines again.
_GONE = ("BadRequest", "InvalidParameter", "MachineNotFound", NodeGroupNotFound.code)


class Aks:
    """Sizes of VM pools, in the form of scale sets. Thread-safe."""

    def __init__(self, cluster: Cluster, session: Session, calls: Calls, operations: Operations) -> None:
        self._cluster = cluster
        self._session = session
        self._calls = calls
        self._operations = operations

    def sizes(self) -> Sequence[ScaleSet]:
        """Return all sizes: one call for each page of the cluster's agent pools."""
        pages = self._pools().list(*self._where())
        found = self._calls.listed(f"{POOLS}.list", pages, AgentPool)
        return [one for pool in found for one in sizes_of(pool, self._cluster.location)]

    def size(self, name: str) -> ScaleSet:
        """Return the size; raise NodeGroupNotFound."""
        return self._find(name, self._get(name))

    def resize(self, one: ScaleSet, capacity: int) -> ScaleSet:
        """Write the pool with another count for this size; raise Stale if the pool was written since it was read."""
        from azure.core import MatchConditions  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        pool = self._get(one.name)
        found = self._find(one.name, pool)
        if one.etag is not None and found.etag != one.etag:
            raise Stale(f"{one.name}: its agent pool was written since it was read")
        for profile in pool.properties.virtual_machines_profile.scale.manual:
            if (profile.size or "").lower() == found.key.partition("/")[2]:
                profile.count = capacity
        unchanged: dict[str, Any] = {}
        if found.etag is not None:
            unchanged = {"etag": found.etag, "match_condition": MatchConditions.IfNotModified}

        def start() -> Any:
            followed = self._operations.following(one.name)
            where = self._which(one.name)
            return self._pools().begin_create_or_update(*where, pool, polling=False, **unchanged, **followed).result()

        return self._find(one.name, self._calls.call(f"{POOLS}.createOrUpdate", start, about=one.name, urgent=True))

    def delete(self, name: str, machines: Sequence[str]) -> None:
        """Delete these machines: all, or none if one of them does not exist."""
        body = {"machineNames": list(machines)}

        def start() -> None:
            self._pools().begin_delete_machines(*self._which(name), body, polling=False)

        try:
            self._calls.call(f"{POOLS}.deleteMachines", start, about=name, urgent=True)
        except ProviderError as error:
            if error.code in _GONE:
                raise ProviderError(str(error), code=INSTANCE_NOT_FOUND) from error
            raise

    def _get(self, name: str) -> Any:
        return self._calls.call(f"{POOLS}.get", lambda: self._pools().get(*self._which(name)), about=name, urgent=True)

    def _find(self, name: str, pool: Any) -> ScaleSet:
        """Return the size in a pool of the SDK; raise NodeGroupNotFound."""
        found = sizes_of(convert(pool.as_dict(), AgentPool), self._cluster.location)
        for one in found:
            if one.key == name.lower():
                return one
        raise NodeGroupNotFound(f"{name}: its agent pool has no manual scale profile of that size")

    def _pools(self) -> Any:
        return self._session.aks().agent_pools

    def _where(self) -> tuple[str, str]:
        return self._cluster.resource_group, self._cluster.name

    def _which(self, name: str) -> tuple[str, str, str]:
        split = split_name(name)
        assert split is not None
        return (*self._where(), split[0])
