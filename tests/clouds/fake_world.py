"""The contract suite's world around nodewright-fake's cloud, for every plugin or server in front of it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any

from msgspec.structs import replace

from nodewright.model.group import ErrorClass, FailureScope
from nodewright.model.node import Node
from nodewright.spec import AccessDenied, ProviderContext, ProviderError, ProviderUnavailable
from nodewright.testkit import FakeClock, build_node
from nodewright.testkit.contract import CannotSteer, Client, ContractWorld, Trouble, connect
from nodewright_fake import FakeProvider
from nodewright_fake.cloud import FakeCloud
from nodewright_fake.delays import Seconds, fixed
from nodewright_fake.faults import Fault, Faults, InProgress, Partial, Refuse, Slow, Throttle
from nodewright_fake.options import GroupConfig, Interrupt, OldRead, load_options
from nodewright_fake.supply import BROKEN, OVER_QUOTA, Shortage

_WRITES = ("increase_size", "decrease_target_size", "delete_instances", "atomic_increase_size")
_SLOW = (
    "refresh",
    *_WRITES,
    "force_delete_instances",
    "create_node_group",
    "delete_node_group",
    "provision",
    "diagnose",
)
# The plugin's own SDK would give up after this.
_PATIENCE_SECONDS = 30.0
_SOLD_OUT = Shortage(
    error_class=ErrorClass.OUT_OF_RESOURCES,
    scope=FailureScope.GROUP,
    code="SOLD_OUT",
    message="no machine of this type is left",
    delay=fixed(0),
)
# A quota of the group alone, as the refusals of this cloud have it.
_QUOTA = replace(OVER_QUOTA, scope=FailureScope.GROUP)
_FAILURES = {Trouble.CAPACITY: _SOLD_OUT, Trouble.QUOTA: _QUOTA, Trouble.OTHER: BROKEN}
_REFUSALS = {
    Trouble.CAPACITY: "out_of_capacity",
    Trouble.QUOTA: "quota",
    Trouble.DENIED: "access_denied",
    Trouble.UNAVAILABLE: "unavailable",
    Trouble.OTHER: "other",
}


class _CountedFaults(Faults):
    """Faults, one read that is refused after others were answered, and one write whose answer is lost."""

    def __init__(self, clock: FakeClock, faults: tuple[Fault, ...]) -> None:
        super().__init__(clock, faults)
        self._until_refused: int | None = None
        self._refused: ProviderError = ProviderUnavailable()
        self._loses_answer_of = ""

    def refuse_read(self, answered: int, refused: ProviderError) -> None:
        self._until_refused, self._refused = answered, refused

    def lose_answer(self, group_id: str) -> None:
        self._loses_answer_of = group_id

    def around(self, hook: str, group_id: str = "") -> AbstractContextManager[None]:
        if hook == "refresh" and self._until_refused is not None:
            self._until_refused -= 1
            if self._until_refused < 0:
                self._until_refused = None
                raise self._refused
        if hook in _WRITES and group_id and group_id == self._loses_answer_of:
            self._loses_answer_of = ""
            return self._reset_after(super().around(hook, group_id))
        return super().around(hook, group_id)

    @contextmanager
    def _reset_after(self, write: AbstractContextManager[None]) -> Iterator[None]:
        with write:
            yield
        raise ProviderUnavailable("the connection was reset")


class FakeCloudWorld(ContractWorld):
    """What is asked for comes when it is told to: groups need a long ``request_delay``."""

    cloud: FakeCloud
    clock: FakeClock

    def connect_to(self, plugin: Callable[[ProviderContext], FakeProvider], options: Mapping[str, Any]) -> None:
        """Make a cloud of these options, with a provider of this class; ``reconnect`` makes further ones."""
        context = ProviderContext(clock=self.clock, random=Random(1), options=options)
        self.take(FakeCloud(load_options(options), self.clock, Random(1)))

        def make() -> Client:
            provider = plugin(context)
            provider.cloud = self.cloud
            return connect("fake", provider, self.clock)

        self._make, self.client = make, make()

    def take(self, cloud: FakeCloud) -> None:
        """Make this the world's cloud."""
        self.cloud = cloud
        self._faults = cloud.faults = _CountedFaults(self.clock, cloud.options.faults)

    def reconnect(self) -> None:
        self.client = self._make()

    def machines(self, group_id: str) -> frozenset[str]:
        return self.cloud.living(group_id)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.set_target(group_id, target)

    def arrive(self, group_id: str) -> str:
        return self.cloud.arrive_now(group_id)

    def begin(self, group_id: str) -> str:
        return self.cloud.begin_now(group_id)

    def fail_creation(self, group_id: str, kind: Trouble = Trouble.CAPACITY, *, leaves_machine: bool = True) -> None:
        self.cloud.fail_now(group_id, _FAILURES[kind], placeholder=None if leaves_machine else True)

    def refuse(
        self, group_id: str, kind: Trouble, times: int = 1, *, reads: bool = False, granted: int | None = None
    ) -> None:
        if granted is not None:
            self.cloud.faults.inject(Partial(hook="increase_size", group=group_id, at_most=granted, times=times))
            return
        for hook in ("refresh",) if reads else _WRITES:
            self.cloud.faults.inject(_fault(kind, hook, "*" if reads else group_id, times))

    def refuse_later(self, group_id: str, kind: Trouble, answered: int, *, reads: bool = False) -> None:
        """A write of this cloud takes many machines: one that is refused later is one that is granted in part."""
        if reads:
            error = AccessDenied if kind == Trouble.DENIED else ProviderUnavailable
            self._faults.refuse_read(answered, error("refused by the fake cloud"))
            return
        for hook in ("decrease_target_size", "delete_instances"):
            self.cloud.faults.inject(Partial(hook=hook, group=group_id, at_most=answered, times=1))

    def lose_answer(self, group_id: str) -> None:
        self._faults.lose_answer(group_id)

    def lose(self, machine: str) -> None:
        self.cloud.lose(machine)

    def stop(self, machine: str) -> None:
        self.cloud.stop(machine)

    def crowd(self, group_id: str, n: int) -> None:
        group = self.cloud.group(group_id)
        group.config = replace(group.config, max_size=group.config.max_size + n)
        self.cloud.set_target(group_id, group.target + n)
        for _ in range(n):
            self.cloud.arrive_now(group_id)

    def stranger(self) -> str:
        made = self.cloud.add_group(GroupConfig(name="of-somebody-else", size=1))
        made.is_listed = False
        return made.name

    def sibling(self) -> str:
        return self.cloud.add_group(GroupConfig(name="sibling", size=1)).name

    def node_of(self, machine: str) -> Node:
        for name in self.cloud.group_names():
            view = self.cloud.view(name)
            if any(start.instance_id == machine for start in view.running):
                offered = {str(key): str(amount) for key, amount in view.template.allocatable.items()}
                cpu, memory, pods = (offered.pop(key) for key in ("cpu", "memory", "pods"))
                return build_node(
                    machine.rpartition("/")[2],
                    cpu,
                    memory,
                    int(pods),
                    provider_id=machine,
                    labels=view.template.labels,
                    taints=view.template.taints,
                    extended=offered,
                )
        raise CannotSteer(f"{machine} does not run")

    def lag(self, seconds: float) -> None:
        views = [self.cloud.view(name) for name in self.cloud.group_names()]
        self.cloud.old_reads.add(OldRead(lag=Seconds(seconds)), views, self.clock.now())

    def slow(self, seconds: float) -> None:
        for hook in _SLOW:
            self.cloud.faults.inject(Slow(hook=hook, seconds=Seconds(min(seconds, _PATIENCE_SECONDS))))
            if seconds > _PATIENCE_SECONDS:
                self.cloud.faults.inject(Refuse(hook=hook, error="unavailable"))

    def set_limits(self, group_id: str, min_size: int, max_size: int) -> None:
        group = self.cloud.group(group_id)
        group.config, group.seen = replace(group.config, min_size=min_size, max_size=max_size), None

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def interrupt(self, group_id: str) -> str:
        (instance_id,) = self.cloud.interrupt(Interrupt(group=group_id, start=Seconds(0)))
        return instance_id

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)


def _fault(kind: Trouble, hook: str, group_id: str, times: int) -> Fault:
    if kind == Trouble.THROTTLED:
        return Throttle(hook=hook, group=group_id, times=times)
    if kind == Trouble.CONFLICT:
        return InProgress(hook=hook, group=group_id, times=times)
    return Refuse(hook=hook, group=group_id, times=times, error=_REFUSALS[kind])
