"""The contract suite's world around a test cloud: every cloud is changed through the same methods."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractWorld

START = 1_780_000_000.0


class Cloud(Protocol):
    """What all of them can do from outside."""

    def machines(self, group: str, /) -> frozenset[str]: ...

    def set_target(self, group: str, size: int, /) -> None: ...

    def arrive(self, group: str, /) -> str: ...

    def fail(self, group: str, /) -> Any: ...

    def before_write(self, happening: Callable[[], object], /) -> None: ...


C = TypeVar("C", bound=Cloud)


class CloudWorld(ContractWorld, Generic[C]):
    """What is asked for comes when it is told to."""

    cloud: C
    clock: FakeClock

    def machines(self, group_id: str) -> frozenset[str]:
        return self.cloud.machines(group_id)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.set_target(group_id, target)

    def arrive(self, group_id: str) -> str:
        return self.cloud.arrive(group_id)

    def fail_creation(self, group_id: str) -> None:
        self.cloud.fail(group_id)

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)
