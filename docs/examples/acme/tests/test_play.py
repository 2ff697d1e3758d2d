"""Run the whole engine against Acme Cloud, on virtual time."""

from collections.abc import Mapping

from nodewright.testkit import FakeClock, play
from nodewright_acme import sdk
from nodewright_acme.provider import AcmeProvider

SCENARIO = """
name: three pods on an empty cluster
duration: 30m
settings: {expander: price}
providers:
  acme: {endpoint: play, cluster: test}
deployments:
  - {name: web, replicas: 3, pod: {cpu: 3, memory: 1Gi}}
"""


class PlayedCloud:
    """The fake cloud for a simulation: it starts the VMs that its pools lack, and reports which ones run."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.cloud = sdk.CLOUDS["play"] = sdk.Cloud(lag=5, now=clock.now, sleep=clock.sleep)
        self.cheap = self.cloud.add(sdk.Pool(id="cheap", cluster="test", price=0.1))
        self.dear = self.cloud.add(sdk.Pool(id="dear", cluster="test", price=0.2))
        self.sold_out: set[str] = set()

    def running_machines(self) -> Mapping[str, str]:
        for pool in self.cloud.pools.values():
            for _ in range(pool.desired - len(pool.vms)):
                pool.make_vm("running", error="SOLD_OUT" if pool.id in self.sold_out else "")
        return {vm.uri: pool.id for pool in self.cloud.pools.values() for vm in pool.vms if not vm.error}

    def next_change(self) -> float:
        return self.clock.now() + 10


def test_pods_run_on_the_cheapest_pool() -> None:
    clock = FakeClock()
    fake = PlayedCloud(clock)
    result = play(AcmeProvider, fake, SCENARIO, clock=clock)
    assert result.final.pending == 0
    assert (fake.cheap.desired, fake.dear.desired) == (3, 0)
    assert max(result.pod_waits.values()) < 60


def test_a_pool_that_is_sold_out_costs_one_loop() -> None:
    clock = FakeClock()
    fake = PlayedCloud(clock)
    fake.sold_out.add("cheap")
    result = play(AcmeProvider, fake, SCENARIO, clock=clock)
    assert result.final.pending == 0
    assert (fake.cheap.desired, fake.dear.desired) == (0, 3)
    assert max(result.pod_waits.values()) < 90
