"""The contract suite's world around nodewright-fake's cloud, for every plugin or server in front of it."""

from collections.abc import Callable

from msgspec.structs import replace

from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractWorld
from nodewright_fake.cloud import FakeCloud
from nodewright_fake.delays import Seconds
from nodewright_fake.options import Interrupt


class FakeCloudWorld(ContractWorld):
    """What is asked for comes when it is told to: groups need a long ``request_delay``."""

    cloud: FakeCloud
    clock: FakeClock

    def machines(self, group_id: str) -> frozenset[str]:
        return self.cloud.living(group_id)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.set_target(group_id, target)

    def arrive(self, group_id: str) -> str:
        return self.cloud.arrive_now(group_id)

    def fail_creation(self, group_id: str) -> None:
        self.cloud.fail_now(group_id)

    def set_minimum(self, group_id: str, size: int) -> None:
        group = self.cloud.group(group_id)
        group.config, group.seen = replace(group.config, min_size=size), None

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def interrupt(self, group_id: str) -> str:
        (instance_id,) = self.cloud.interrupt(Interrupt(group=group_id, start=Seconds(0)))
        return instance_id

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)
