"""The azure plugin keeps the provider contract, over TLS against a resource group of our own."""

import os
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from azurecloud import Authority, AzureCloud
from azurecloud.sets import Trouble as Words
from cloud_world import START, CloudWorld
from nodewright.model.node import Node
from nodewright.spec import FailureScope, ProviderContext, Taint
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import (
    CannotSteer,
    ContractOutcome,
    ContractWorld,
    Level,
    ProviderContract,
    Trouble,
    certify,
    reached,
    run_contract,
)
from nodewright_azure.account import load_account
from nodewright_azure.options import Options, load_options
from nodewright_azure.provider import AzureProvider
from nodewright_azure.sdk import Sdk

# The budget of calls is full again.
_BETWEEN_WORLDS = 3600.0


class Site(NamedTuple):
    """What all worlds share: logging in and shaking hands take longer than any check."""

    clock: FakeClock
    cloud: AzureCloud
    sdk: Sdk


@pytest.fixture(scope="module")
def site(authority: Authority) -> Iterator[Site]:
    clock = FakeClock(START)
    cloud = AzureCloud(authority, clock.now)
    options = load_options(ProviderContext(clock=clock, options=cloud.pool_options))
    yield Site(clock, cloud, Sdk(load_account(options, os.environ), options, clock))
    cloud.close()


# What the kubelet told on a Standard_D8_v3 of aks-engine (as a user of Azure/aks-engine reported), with a disk of 128 GB.
_OFFERED = {"cpu": "8", "memory": "32150428Ki", "pods": "110", "ephemeral-storage": "119703055367"}
_NODE_TEMPLATE = "k8s.io_cluster-autoscaler_node-template"
_TAGS = {
    f"{_NODE_TEMPLATE}_resources_ephemeral-storage": "119703055367",
    f"{_NODE_TEMPLATE}_label_team": "contract",
    f"{_NODE_TEMPLATE}_taint_dedicated": "contract:NoSchedule",
}


class AzureWorld(CloudWorld[AzureCloud]):
    """One set with two machines; what is asked for comes when it is told to."""

    impossible = {"interrupt": "Azure tells a machine itself that it will be evicted, and nobody else"}
    page_size = 100
    patience = Options().read_timeout
    reads = ("list", "get", "machines", "pools", "pool")
    writes = ("update", "delete", "put", "deleteMachines")
    refusals = {
        Trouble.CAPACITY: ("AllocationFailed", "We do not have sufficient capacity for the requested VM size", 409),
        Trouble.QUOTA: ("OperationNotAllowed", "Operation could not be completed: exceeding approved cores quota", 409),
        Trouble.THROTTLED: ("TooManyRequests", "slow down", 429),
        Trouble.DENIED: ("AuthorizationFailed", "The client does not have authorization", 403),
        Trouble.UNAVAILABLE: ("ServiceUnavailable", "try later", 503),
        Trouble.CONFLICT: ("AnotherOperationInProgress", "Another operation is in progress", 409),
    }
    scopes = {Trouble.QUOTA: FailureScope.INSTANCE_TYPE}
    failures = {
        Trouble.CAPACITY: (),
        Trouble.QUOTA: (Words("OperationNotAllowed", "exceeding approved standardDSv3Family Cores quota"),),
        Trouble.OTHER: (Words("InternalExecutionError", "An internal execution error occurred"),),
    }

    def __init__(self, site: Site, options: dict[str, Any], delete_seconds: float = 30.0) -> None:
        self.clock, self.cloud, self._sdk = site
        self.clock.sleep(_BETWEEN_WORLDS)
        self._siblings: list[str] = []
        self.group_id, place = self.add_group()
        self.cloud.hold(self.group_id)
        self.cloud.set(self.group_id).delete_seconds = delete_seconds
        self._options = {**place, "prices_per_hour": {"Standard_D2s_v3": 0.096, "Standard_D8_v3": 0.4}, **options}
        self.set_limits(self.group_id, 0, 10)

    def add_group(self) -> tuple[str, dict[str, Any]]:
        """Its name, and the options that lead to it."""
        self.cloud.add_sku("Standard_D8_v3", vCPUs="8", MemoryGB="32")
        return self.cloud.add_set(capacity=2, size="Standard_D8_v3", tags=_TAGS), self.cloud.options

    def lag(self, seconds: float) -> None:
        self.pass_time(seconds)  # what was there before is listed
        self.cloud.lag(seconds)

    def node_of(self, machine: str) -> Node:
        labels = {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/instance-type": "Standard_D8_v3",
            "beta.kubernetes.io/os": "linux",
            "failure-domain.beta.kubernetes.io/region": "eastus",
            "failure-domain.beta.kubernetes.io/zone": "eastus-1",
            "kubernetes.azure.com/storageprofile": "managed",
            "kubernetes.azure.com/storagetier": "Premium_LRS",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "Standard_D8_v3",
            "storageprofile": "managed",
            "storagetier": "Premium_LRS",
            "team": "contract",
            "topology.disk.csi.azure.com/zone": "eastus-1",
            "topology.kubernetes.io/region": "eastus",
            "topology.kubernetes.io/zone": "eastus-1",
        }
        taint = Taint(key="dedicated", value="contract", effect="NoSchedule")
        return self.build_node(machine, _OFFERED, labels, taint)

    def begin(self, group_id: str) -> str:
        return self.cloud.begin(group_id)

    def lose(self, machine: str) -> None:
        self.cloud.vanish(self.group_id, machine)

    def stop(self, machine: str) -> None:
        self.cloud.stop(self.group_id, machine)

    def crowd(self, group_id: str, n: int) -> None:
        self.set_limits(group_id, 0, n + 10)
        self.cloud.set_target(group_id, n + 2)
        for _ in range(n):
            self.cloud.arrive(group_id)

    def stranger(self) -> str:
        return self.cloud.add_set(capacity=1)

    def sibling(self) -> str:
        name = self.add_sibling()
        self._siblings.append(name)
        self.reconnect()
        return name

    def add_sibling(self) -> str:
        return self.cloud.add_set(capacity=1)

    def reconnect(self) -> None:
        self.set_limits(self.group_id, 0, 10)

    def set_limits(self, group_id: str, min_size: int, max_size: int) -> None:
        specs = (f"{min_size}:{max_size}:{group_id}", *(f"0:3:{name}" for name in self._siblings))
        context = ProviderContext(clock=self.clock, random=Random(1), options=self._options, node_group_specs=specs)
        self.client = self.connect("azure", AzureProvider(context, self._sdk))

    def close(self) -> None:
        self.cloud.empty()
        self.cloud.lag(0.0)


class PoolWorld(AzureWorld):
    """One size of a VM pool of AKS with two machines, beside another that stays as it is."""

    def add_group(self) -> tuple[str, dict[str, Any]]:
        name = self.cloud.add_pool("pool1", {"Standard_D2s_v3": 2, "Standard_D4s_v3": 1})
        return name, self.cloud.pool_options

    def node_of(self, machine: str) -> Node:
        del machine
        raise CannotSteer("the template of a VM pool has all that the machine has, and AKS reserves a part of it")

    def add_sibling(self) -> str:
        return self.cloud.add_pool("pool2", {"Standard_D2s_v3": 1})


class TestAzure(ProviderContract):
    @pytest.fixture(autouse=True)
    def _site(self, site: Site) -> None:
        self.site = site

    def contract_world(self) -> ContractWorld:
        return AzureWorld(self.site, {})


class TestVmPools(ProviderContract):
    @pytest.fixture(autouse=True)
    def _site(self, site: Site) -> None:
        self.site = site

    def contract_world(self) -> ContractWorld:
        return PoolWorld(self.site, {})


def test_the_level_of_the_certificate(site: Site) -> None:
    assert reached(certify(run_contract(lambda: AzureWorld(site, {})))) == Level.COMPLETE


def test_the_level_of_vm_pools(site: Site) -> None:
    # No further: the template of a VM pool does not know what AKS reserves.
    assert reached(certify(run_contract(lambda: PoolWorld(site, {})))) == Level.FAILURES


@pytest.mark.parametrize(
    ("delete_seconds", "options"),
    [
        (30.0, {"force_delete": True}),
        pytest.param(0.0, {"refresh_interval": 0}, marks=pytest.mark.slow),
        pytest.param(30.0, {"detect_failures": False}, marks=pytest.mark.slow),
    ],
    ids=["forced deletions", "no interval", "no failures"],
)
def test_variants_keep_the_contract(site: Site, delete_seconds: float, options: dict[str, Any]) -> None:
    results = run_contract(lambda: AzureWorld(site, options, delete_seconds))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
