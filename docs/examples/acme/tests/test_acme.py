"""The Acme Cloud plugin keeps the provider contract."""

from collections.abc import Callable

from nodewright.spec import Node, ProviderContext
from nodewright.testkit import FakeClock, build_node
from nodewright.testkit.contract import (
    CannotHappen,
    ContractWorld,
    Level,
    ProviderContract,
    Trouble,
    certify,
    connect,
    reached,
    run_contract,
)
from nodewright_acme import sdk
from nodewright_acme.provider import AcmeProvider

CODES = {
    Trouble.CAPACITY: "SOLD_OUT",
    Trouble.QUOTA: "QUOTA",
    Trouble.THROTTLED: "TOO_MANY_CALLS",
    Trouble.DENIED: "FORBIDDEN",
    Trouble.UNAVAILABLE: "UNAVAILABLE",
    Trouble.CONFLICT: "LOCKED",
    Trouble.OTHER: "BROKEN",
}


class AcmeWorld(ContractWorld):
    page_size = sdk.PAGE

    def __init__(self) -> None:
        self.clock, self.group_id = FakeClock(), "web"
        self.cloud = sdk.CLOUDS["test"] = sdk.Cloud(now=self.clock.now, sleep=self.clock.sleep)
        self.pool = self.cloud.add(sdk.Pool(id="web", cluster="test", desired=2))
        for _ in range(2):
            self.pool.make_vm("running")
        self.reconnect()

    def reconnect(self, *node_group_flags: str) -> None:
        options = {"endpoint": "test", "cluster": "test"}
        context = ProviderContext(clock=self.clock, options=options, node_group_specs=node_group_flags)
        self.client = connect("acme", AcmeProvider(context), self.clock)

    def machines(self, group_id: str) -> frozenset[str]:
        return frozenset(vm.uri for vm in self.cloud.pools[group_id].vms if not vm.error)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.pools[group_id].desired = target

    def arrive(self, group_id: str) -> str:
        return self.cloud.pools[group_id].make_vm("running").uri

    def begin(self, group_id: str) -> str:
        return self.cloud.pools[group_id].make_vm("creating").uri

    def fail_creation(self, group_id: str, kind: Trouble = Trouble.CAPACITY, *, leaves_machine: bool = True) -> None:
        pool = self.cloud.pools[group_id]
        if leaves_machine:
            pool.make_vm(error=CODES[kind])
        else:
            pool.made += 1
            pool.failures[f"failure-{pool.made}"] = CODES[kind]

    def refuse(
        self, group_id: str, kind: Trouble, times: int = 1, *, reads: bool = False, granted: int | None = None
    ) -> None:
        del group_id  # the whole API refuses
        if granted is not None:
            raise CannotHappen("Acme Cloud grants a new size as a whole, or not at all")
        self.cloud.refused["read" if reads else "write"] += [CODES[kind]] * times

    def refuse_later(self, group_id: str, kind: Trouble, answered: int, *, reads: bool = False) -> None:
        del group_id
        self.cloud.refused["read" if reads else "write"] = [""] * answered + [CODES[kind]]

    def lose_answer(self, group_id: str) -> None:
        del group_id
        self.cloud.answers_lost += 1

    def lose(self, machine: str) -> None:
        self.pool.vms = [vm for vm in self.pool.vms if vm.uri != machine]

    def stop(self, machine: str) -> None:
        self._vm(machine).state = "stopped"

    def crowd(self, group_id: str, n: int) -> None:
        pool = self.cloud.pools[group_id]
        pool.desired, pool.max = pool.desired + n, pool.max + n
        for _ in range(n):
            pool.make_vm("running")

    def stranger(self) -> str:
        self.cloud.add(sdk.Pool(id="theirs", cluster="another", desired=1)).make_vm("running")
        return "theirs"

    def sibling(self) -> str:
        self.cloud.add(sdk.Pool(id="another", cluster="test", desired=1)).make_vm("running")
        return "another"

    def node_of(self, machine: str) -> Node:
        pool = self.pool
        return build_node("node", str(pool.vcpus), pool.memory, provider_id=machine, labels=pool.labels)

    def lag(self, seconds: float) -> None:
        self.cloud.lag = seconds

    def slow(self, seconds: float) -> None:
        self.cloud.seconds_per_call = seconds

    def set_limits(self, group_id: str, min_size: int, max_size: int) -> None:
        self.reconnect(f"{min_size}:{max_size}:{group_id}")

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write = happening

    def interrupt(self, group_id: str) -> str:
        vm = self.cloud.pools[group_id].vms[0]
        vm.taken_at = self.clock.now() + 120
        return vm.uri

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def _vm(self, machine: str) -> sdk.Vm:
        return next(vm for vm in self.pool.vms if vm.uri == machine)


class TestAcme(ProviderContract):
    def contract_world(self) -> ContractWorld:
        return AcmeWorld()


def test_the_level_of_the_certificate() -> None:
    assert reached(certify(run_contract(AcmeWorld))) == Level.COMPLETE
