"""The Acme Cloud plugin keeps the provider contract."""

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractWorld, ProviderContract, connect
from nodewright_acme import sdk
from nodewright_acme.provider import AcmeProvider


class AcmeWorld(ContractWorld):
    def __init__(self) -> None:
        self.clock, self.group_id = FakeClock(), "web"
        self.pool = sdk.Pool(id="web", desired=2)
        sdk.CLOUDS["test"] = {"web": self.pool}
        for _ in range(2):
            self.pool.start_vm().state = "running"
        plugin = AcmeProvider(ProviderContext(clock=self.clock, options={"endpoint": "test"}))
        self.client = connect("acme", plugin, self.clock)

    def machines(self, group_id: str) -> frozenset[str]:
        return frozenset(vm.uri for vm in sdk.CLOUDS["test"][group_id].vms if not vm.error)

    def set_target(self, group_id: str, target: int) -> None:
        sdk.CLOUDS["test"][group_id].desired = target

    def arrive(self, group_id: str) -> str:
        vm = sdk.CLOUDS["test"][group_id].start_vm()
        vm.state = "running"
        return vm.uri

    def fail_creation(self, group_id: str) -> None:
        sdk.CLOUDS["test"][group_id].start_vm().error = "SOLD_OUT"

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)


class TestAcme(ProviderContract):
    def contract_world(self) -> ContractWorld:
        return AcmeWorld()
