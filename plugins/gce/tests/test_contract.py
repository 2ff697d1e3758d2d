"""The gce plugin keeps the provider contract, over real HTTP against a cloud held to Google's own types."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from cloud_world import START, CloudWorld
from environment import only_variables
from gcecloud import GceCloud
from gcecloud.cloud import REGION, ZONE
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
from nodewright_gce.options import Options, load_options
from nodewright_gce.provider import GceProvider
from nodewright_gce.sdk import Sdk

_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
# The budget of calls is full again.
_BETWEEN_WORLDS = 3600.0


class Site(NamedTuple):
    """What all worlds share: making the SDK's clients takes longer than any check."""

    clock: FakeClock
    cloud: GceCloud
    sdk: Sdk


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    clock = FakeClock(START)
    cloud = GceCloud(clock.now)
    key = str(cloud.write_credentials(tmp_path_factory.mktemp("credentials")))
    options = load_options(ProviderContext(clock=clock, options={"endpoints": cloud.endpoints}))
    with only_variables((_KEY_FILE,), {_KEY_FILE: key}):
        yield Site(clock, cloud, Sdk(options, clock))
    cloud.close()
    assert cloud.findings == []


# What GKE 1.25 set for an n2-highmem-4, and what the kubelet then told (2i2c-org/infrastructure, a report).
_VARIABLES = (
    "os=linux;os_distribution=cos;kube_reserved=cpu=80m,memory=3606Mi,ephemeral-storage=41Gi"
    ";evictionHard=memory.available=100Mi,nodefs.available=10%"
    ";node_labels=cloud.google.com/gke-nodepool=pool-1;node_taints=dedicated=contract:NoSchedule"
)
_OFFERED = {"cpu": "3920m", "memory": "29085928Ki", "pods": "110", "ephemeral-storage": "47060071478"}


class GceWorld(CloudWorld[GceCloud]):
    """One group with two machines, beside ``neighbours`` at rest; what is asked for comes when it is told to."""

    impossible = {
        "stop": "a managed group starts again what stops",
        "lag": "Compute Engine's listings show a write that it has answered",
    }
    reads = (
        "instanceGroupManagers.list",
        "instanceGroupManagers.get",
        "regionInstanceGroupManagers.list",
        "regionInstanceGroupManagers.get",
    )
    writes = (
        "instanceGroupManagers.createInstances",
        "instanceGroupManagers.deleteInstances",
        "regionInstanceGroupManagers.createInstances",
        "regionInstanceGroupManagers.deleteInstances",
    )
    refusals = {
        Trouble.CAPACITY: (403, "resourcePoolExhausted", "the zone does not have enough resources"),
        Trouble.QUOTA: (403, "quotaExceeded", "Quota 'CPUS' exceeded. Limit: 24.0"),
        Trouble.THROTTLED: (429, "rateLimitExceeded", "Rate Limit Exceeded"),
        Trouble.DENIED: (403, "forbidden", "Required permission"),
        Trouble.UNAVAILABLE: (503, "backendError", "try later"),
        Trouble.CONFLICT: (400, "resourceNotReady", "The resource is not ready"),
    }
    page_size = 500
    patience = Options().call_timeout
    scopes = {Trouble.QUOTA: FailureScope.ACCOUNT}
    failures = {
        Trouble.CAPACITY: (),
        Trouble.QUOTA: ("QUOTA_EXCEEDED", "Instance 'x' creation failed: Quota 'CPUS' exceeded. Limit: 24.0"),
        Trouble.OTHER: ("INTERNAL_ERROR", "an internal error"),
    }

    def __init__(
        self, site: Site, options: dict[str, Any], *, slow: float = 0.0, neighbours: int = 0, zone: str = ZONE
    ) -> None:
        self.clock, self.cloud, self._sdk = site
        self.clock.sleep(_BETWEEN_WORLDS)
        self.cloud.state.operation_seconds = slow
        template = self.cloud.add_template(machine_type="n2-highmem-4", variables=_VARIABLES)
        self.group_id = self.cloud.add_group(size=2, zone=zone, template=template)
        self._groups = [self.group_id, *(self.cloud.add_group(size=1) for _ in range(neighbours))]
        self.cloud.hold(self.group_id)
        self._options = options
        self._strange: list[str] = []
        self.set_limits(self.group_id, 0, 10)

    def node_of(self, machine: str) -> Node:
        zone = machine.split("/")[3]
        if "/regions/" in self.group_id:
            raise CannotSteer("a regional group has machines in several zones, and the template is in the next one's")
        labels = {
            "beta.kubernetes.io/instance-type": "n2-highmem-4",
            "cloud.google.com/gke-nodepool": "pool-1",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "n2-highmem-4",
            "topology.gke.io/zone": zone,
            "topology.kubernetes.io/region": REGION,
            "topology.kubernetes.io/zone": zone,
        }
        taint = Taint(key="dedicated", value="contract", effect="NoSchedule")
        return self.build_node(machine, _OFFERED, labels, taint)

    def begin(self, group_id: str) -> str:
        return self.cloud.begin(group_id)

    def crowd(self, group_id: str, n: int) -> None:
        self.set_limits(group_id, 0, n + 10)
        self.cloud.set_target(group_id, n + 2)
        for _ in range(n):
            self.cloud.arrive(group_id)

    def interrupt(self, group_id: str) -> str:
        machine = min(self.machines(group_id))
        self.cloud.preempt(machine)
        return machine

    def lose(self, machine: str) -> None:
        self.cloud.vanish(machine)

    def stranger(self) -> str:
        name = self.cloud.add_group(size=1)
        self._strange.append(name)
        return name

    def sibling(self) -> str:
        name = self.cloud.add_group(size=1)
        self._groups.append(name)
        self.reconnect()
        return name

    def reconnect(self) -> None:
        self.set_limits(self.group_id, 0, 10)

    def set_limits(self, group_id: str, min_size: int, max_size: int) -> None:
        context = ProviderContext(
            clock=self.clock,
            random=Random(group_id),  # no two processes send the same request ids
            options={
                "endpoints": self.cloud.endpoints,
                "preemption_interval": 1,
                "atomic_run_duration": 3600,
                **self._options,
            },
            node_group_specs=(f"{min_size}:{max_size}:{group_id}", *(f"0:3:{name}" for name in self._groups[1:])),
        )
        self.client = self.connect("gce", GceProvider(context, self._sdk))

    def close(self) -> None:
        for name in (*self._groups, *self._strange):
            self.cloud.remove_group(name)
        self.cloud.mishaps.forget()


class TestGce(ProviderContract):
    @pytest.fixture(autouse=True)
    def _site(self, site: Site) -> None:
        self.site = site

    def contract_world(self) -> ContractWorld:
        return GceWorld(self.site, {})


def test_the_level_of_the_certificate(site: Site) -> None:
    assert reached(certify(run_contract(lambda: GceWorld(site, {})))) == Level.COMPLETE


@pytest.mark.parametrize(
    ("world", "options"),
    [
        pytest.param({}, {"refresh_interval": 0}, marks=pytest.mark.slow),
        pytest.param({}, {"detect_failures": False}, marks=pytest.mark.slow),
        ({}, {"atomic_run_duration": 0}),
        pytest.param({"slow": 5.0}, {}, marks=pytest.mark.slow),
        ({"neighbours": 6}, {}),
        ({"zone": REGION}, {}),
    ],
    ids=["no interval", "no failures", "no atomic resize", "slow operations", "machines listed in bulk", "regional"],
)
def test_variants_keep_the_contract(site: Site, world: dict[str, Any], options: dict[str, Any]) -> None:
    results = run_contract(lambda: GceWorld(site, options, **world))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
