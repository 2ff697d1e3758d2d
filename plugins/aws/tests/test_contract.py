"""The aws plugin keeps the provider contract, over real HTTP against moto."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from awscloud import AwsCloud, MotoServer
from awscloud.cloud import REGION
from cloud_world import START, CloudWorld
from nodewright.model.node import Node
from nodewright.spec import FailureScope, ProviderContext, Taint
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import (
    ContractOutcome,
    ContractWorld,
    Level,
    ProviderContract,
    Trouble,
    certify,
    reached,
    run_contract,
)
from nodewright_aws.options import Options, load_options
from nodewright_aws.provider import AwsProvider
from nodewright_aws.sdk import Sdk

# The budget of calls is full again.
_BETWEEN_WORLDS = 3600.0


class Account(NamedTuple):
    """What all worlds share: making the SDK's clients takes longer than any check."""

    clock: FakeClock
    cloud: AwsCloud
    sdk: Sdk


@pytest.fixture(scope="module")
def account(moto: MotoServer) -> Iterator[Account]:
    clock = FakeClock(START)
    cloud = AwsCloud(moto.port, clock.now)
    yield Account(clock, cloud, Sdk(load_options(ProviderContext(clock=clock, options=cloud.options)), clock))
    cloud.close()


# What the kubelet told on a t3.medium of EKS with a disk of 20 GiB.
_OFFERED = {"cpu": "1930m", "memory": "3412472Ki", "pods": "17", "ephemeral-storage": "18242267924"}
_NODE_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
_TAGS = {
    f"{_NODE_TEMPLATE}/resources/ephemeral-storage": "17Gi",
    f"{_NODE_TEMPLATE}/label/team": "contract",
    f"{_NODE_TEMPLATE}/taint/dedicated": "contract:NoSchedule",
}


class AwsWorld(CloudWorld[AwsCloud]):
    """One group with two machines; what is asked for comes when it is told to."""

    impossible = {
        "stop": "a group ends what stops, and starts another in its place",
        "crowd": "a group's machines come with the group, on no page of their own; test_discovery.py reads pages of groups",
    }
    patience = Options().read_timeout
    reads = ("DescribeAutoScalingGroups",)
    writes = ("SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup")
    refusals = {
        Trouble.QUOTA: ("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit", 400),
        Trouble.THROTTLED: ("Throttling", "Rate exceeded", 400),
        Trouble.DENIED: ("AccessDenied", "User is not authorized to perform this action", 403),
        Trouble.UNAVAILABLE: ("ServiceUnavailable", "try later", 503),
        Trouble.CONFLICT: ("ScalingActivityInProgress", "a scaling activity is in progress", 400),
    }
    scopes = {Trouble.CAPACITY: FailureScope.ZONE, Trouble.QUOTA: FailureScope.INSTANCE_TYPE}
    failures = {
        Trouble.CAPACITY: (),
        Trouble.QUOTA: ("You have requested more vCPU capacity than your current vCPU limit allows.",),
        Trouble.OTHER: ("Client.InternalError: Client error on launch.",),
    }

    def __init__(self, account: Account, group: dict[str, Any], options: dict[str, Any]) -> None:
        self.clock, self.cloud, self._sdk = account
        self.clock.sleep(_BETWEEN_WORLDS)
        template = {"LaunchTemplateName": self.cloud.add_template("t3.medium"), "Version": "$Latest"}
        self.group_id = self.cloud.add_group(size=2, tags=_TAGS, LaunchTemplate=template, **group)
        self._siblings: list[str] = []
        self.cloud.hold(self.group_id)
        self.cloud.add_queue(self.group_id)
        self._options = {
            **self.cloud.options,
            "prices_per_hour": {"m5.large": 0.096, "t3.medium": 0.0416},
            "eks_nodes": {"apply": "always"},
            "cluster": self.group_id,
            "interruption_queue": self.group_id,
            "autoprovisioning": {"like": self.group_id, "instance_types": ["m5.large"], "labels_from_tags": True},
            **options,
        }
        self.reconnect()

    def reconnect(self) -> None:
        self.set_limits(self.group_id, 0, 10)

    def set_limits(self, group_id: str, min_size: int, max_size: int) -> None:
        specs = (f"{min_size}:{max_size}:{group_id}", *(f"0:3:{name}" for name in self._siblings))
        context = ProviderContext(clock=self.clock, random=Random(1), options=self._options, node_group_specs=specs)
        self.client = self.connect("aws", AwsProvider(context, self._sdk))

    def lose(self, machine: str) -> None:
        self.cloud.vanish(machine)

    def stranger(self) -> str:
        return self.cloud.add_group(size=1)

    def sibling(self) -> str:
        name = self.cloud.add_group(size=1)
        self._siblings.append(name)
        self.reconnect()
        return name

    def lag(self, seconds: float) -> None:
        self.cloud.lag(seconds)

    def node_of(self, machine: str) -> Node:
        zone = machine.split("/")[3]
        labels = {
            "beta.kubernetes.io/instance-type": "t3.medium",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "t3.medium",
            "team": "contract",
            "topology.ebs.csi.aws.com/zone": zone,
            "topology.kubernetes.io/region": REGION,
            "topology.kubernetes.io/zone": zone,
        }
        taint = Taint(key="dedicated", value="contract", effect="NoSchedule")
        return self.build_node(machine, _OFFERED, labels, taint)

    def begin(self, group_id: str) -> str:
        return self.cloud.begin(group_id)

    def interrupt(self, group_id: str) -> str:
        instance_id = min(self.machines(group_id))
        self.cloud.interrupt(self.group_id, instance_id.rpartition("/")[2])
        return instance_id

    def close(self) -> None:
        self.cloud.mishaps.forget()
        self.cloud.lag(0.0)
        self.cloud.clear()


class TestAws(ProviderContract):
    @pytest.fixture(autouse=True)
    def _account(self, account: Account) -> None:
        self.account = account

    def contract_world(self) -> ContractWorld:
        return AwsWorld(self.account, {}, {})


def test_the_level_of_the_certificate(account: Account) -> None:
    assert reached(certify(run_contract(lambda: AwsWorld(account, {}, {})))) == Level.COMPLETE


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ({"NewInstancesProtectedFromScaleIn": True}, {}),
        pytest.param({}, {"refresh_interval": 0}, marks=pytest.mark.slow),
        pytest.param({}, {"detect_failures": False}, marks=pytest.mark.slow),
    ],
    ids=["protected", "no interval", "no failures"],
)
def test_variants_keep_the_contract(account: Account, group: dict[str, Any], options: dict[str, Any]) -> None:
    results = run_contract(lambda: AwsWorld(account, group, options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
