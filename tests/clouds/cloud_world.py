"""The contract suite's world around a test cloud: every cloud is changed through the same methods."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from mishaps import Mishaps
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallTimedOut, InlineRunner, connect_provider
from nodewright.model.node import Node
from nodewright.spec import Taint
from nodewright.testkit import FakeClock, build_node
from nodewright.testkit.contract import CannotHappen, Client, ContractWorld, Trouble

START = 1_780_000_000.0
# The core repeats no call more often in a check.
_MOST_REFUSALS = 12

C = TypeVar("C", bound="Cloud")
R = TypeVar("R")


class Punctual(InlineRunner):
    """Ends a call at its deadline although the time passed in the thread of a test server (``Mishaps.slow``)."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self._clock_of_servers = clock

    def run(self, call: Callable[[], R], deadline_seconds: float) -> R:
        deadline = self._clock_of_servers.now() + deadline_seconds
        try:
            return super().run(call, deadline_seconds)
        finally:
            if self._clock_of_servers.now() >= deadline:
                raise CallTimedOut(f"no answer within {deadline_seconds:g} s")


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


class CloudWorld(ContractWorld, Generic[C]):
    """What is asked for comes when it is told to.

    ``reads`` and ``writes`` are the cloud's names of calls; ``refusals`` and ``failures`` are its words for troubles.
    """

    cloud: C
    clock: FakeClock
    # After so many seconds without an answer the plugin's SDK gives up: the default of the plugin's option.
    patience: ClassVar[float]
    reads: ClassVar[tuple[str, ...]]
    writes: ClassVar[tuple[str, ...]]
    refusals: ClassVar[Mapping[Trouble, tuple[Any, ...]]]
    failures: ClassVar[Mapping[Trouble, tuple[Any, ...]]]

    def connect(self, vendor: str, plugin: object) -> Client:
        return connect_provider(vendor, plugin, clock=self.clock, settings=None, runner=Punctual(self.clock))

    def slow(self, seconds: float) -> None:
        self.cloud.mishaps.slow(seconds, self.patience, self.clock)

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

    def build_node(self, machine: str, offered: Mapping[str, str], labels: Mapping[str, str], *taints: Taint) -> Node:
        """Return the node of a running machine: what its kubelet offers, and its labels and taints."""
        other = {resource: amount for resource, amount in offered.items() if resource not in ("cpu", "memory", "pods")}
        return build_node(
            machine.rpartition("/")[2],
            offered["cpu"],
            offered["memory"],
            int(offered["pods"]),
            provider_id=machine,
            labels=labels,
            taints=taints,
            extended=other,
        )

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)
