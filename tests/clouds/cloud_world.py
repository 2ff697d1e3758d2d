"""The contract suite's world around a test cloud: every cloud is changed through the same methods."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from mishaps import Mishaps
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CannotHappen, ContractWorld, Trouble

START = 1_780_000_000.0
# The core repeats no call more often in a check.
_MOST_REFUSALS = 12
NO_NODES = "the fake has no nodes: test_templates.py compares templates with nodes that were recorded"


class Cloud(Protocol):
    """What all of them can do from outside."""

    @property
    def mishaps(self) -> Mishaps[Any]: ...

    def machines(self, group: str, /) -> frozenset[str]: ...

    def set_target(self, group: str, size: int, /) -> None: ...

    def arrive(self, group: str, /) -> str: ...

    def fail(self, group: str, /, *words: Any) -> Any: ...

    def refuse_once(self, operation: str, /, *words: Any) -> None: ...

    def lose_answer_once(self, operation: str, /) -> None: ...

    def before_write(self, happening: Callable[[], object], /) -> None: ...


C = TypeVar("C", bound=Cloud)


class CloudWorld(ContractWorld, Generic[C]):
    """What is asked for comes when it is told to.

    ``reads`` and ``writes`` are the cloud's names of calls; ``refusals`` and ``failures`` are its words for troubles.
    """

    cloud: C
    clock: FakeClock
    reads: ClassVar[tuple[str, ...]]
    writes: ClassVar[tuple[str, ...]]
    refusals: ClassVar[Mapping[Trouble, tuple[Any, ...]]]
    failures: ClassVar[Mapping[Trouble, tuple[Any, ...]]]

    def machines(self, group_id: str) -> frozenset[str]:
        return self.cloud.machines(group_id)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.set_target(group_id, target)

    def arrive(self, group_id: str) -> str:
        return self.cloud.arrive(group_id)

    def fail_creation(self, group_id: str, kind: Trouble = Trouble.CAPACITY, *, leaves_machine: bool = True) -> None:
        if not leaves_machine:
            raise CannotHappen("this cloud has one kind of failed creation")
        self.cloud.fail(group_id, *self.failures[kind])

    def refuse(
        self, group_id: str, kind: Trouble, times: int = 1, *, reads: bool = False, granted: int | None = None
    ) -> None:
        if granted is not None or kind not in self.refusals:
            raise CannotHappen(f"this cloud does not refuse a write of {group_id} so")
        for operation in self.reads if reads else self.writes:
            for _ in range(min(times, _MOST_REFUSALS)):
                self.cloud.refuse_once(operation, *self.refusals[kind])

    def refuse_later(self, group_id: str, kind: Trouble, answered: int, *, reads: bool = False) -> None:
        self.cloud.mishaps.forget()
        self.refuse(group_id, kind, reads=reads)
        self.cloud.mishaps.spare(answered)

    def lose_answer(self, group_id: str) -> None:
        del group_id  # the answer to the next write, of whatever group
        for operation in self.writes:
            self.cloud.lose_answer_once(operation)

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)
