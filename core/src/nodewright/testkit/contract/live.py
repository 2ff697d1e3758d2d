"""Worlds around a provider as somebody has configured it: the suite touches as little of their cloud as it can.

Somebody else, whom many checks need, is a second instance of the same plugin: what one process writes must not
surprise another. A cloud that lives in the provider's own memory has nobody else, and nothing in it is anybody's.
"""

from typing import NamedTuple

from nodewright.adapters.virtual_clock import VirtualClock
from nodewright.model.clock import Clock
from nodewright.model.errors import ProviderError
from nodewright.model.group import InstanceState
from nodewright.testkit.client import Client
from nodewright.testkit.contract.registry import BrokenPromise
from nodewright.testkit.contract.situations import group, refresh, target
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch

MOST_ASKED = 2
_TRIES = 12
_PAUSE_SECONDS = 10.0
_NOT_ALLOWED = "it writes, and --write was not given"


class _Size(NamedTuple):
    target: int
    machines: frozenset[str]


class LiveWorld(ContractWorld):
    """A cloud that people use. A group is resized only when it is settled, and afterwards has the size that it had."""

    def __init__(self, client: Client, other: Client, group_id: str, *, clock: Clock, may_write: bool) -> None:
        self.client = client
        self.group_id = group_id
        self._other = other
        self._clock = clock
        self._may_write = may_write
        self._before: _Size | None = None

    def admit(self, touches: Touch) -> None:
        if touches == Touch.READS:
            return
        if touches == Touch.OWN_CLOUD:
            raise CannotSteer("it ends machines or steers the cloud from outside: for a cloud of the test's own")
        if not self._may_write:
            raise CannotSteer(_NOT_ALLOWED)
        before = self._look()
        if before.target != len(before.machines):
            raise CannotSteer(f"{self.group_id} is not settled: {len(before.machines)} of {before.target} machines")
        refresh(self)
        if touches == Touch.RESIZES and before.target + MOST_ASKED > group(self).max_size:
            raise CannotSteer(f"{self.group_id} has no room for {MOST_ASKED} more machines")
        self._before = before

    def close(self) -> None:
        """Takes back what the check asked for; raises BrokenPromise if that cannot be done."""
        if self._before is None:
            return
        now = self._look()
        for attempt in range(_TRIES):
            if now.target == self._before.target and now.machines <= self._before.machines:
                return
            if attempt:
                self._clock.sleep(_PAUSE_SECONDS)
            self._step_back(now, self._before)
            now = self._look()
        was, left = self._before.target, now.target
        raise BrokenPromise(f"{self.group_id} was at {was} and is left at {left}: set it right by hand")

    def machines(self, group_id: str) -> frozenset[str]:
        self._other.refresh(frozenset({group_id}))
        there = self._other.instances(group_id)
        return frozenset(instance.id for instance in there if instance.state != InstanceState.DELETING)

    def set_target(self, group_id: str, target: int) -> None:
        lowest = self._before.target if self._before is not None else target + 1
        if not lowest <= target <= lowest + MOST_ASKED:
            raise CannotSteer(f"{group_id} would be resized by more than {MOST_ASKED}")
        try:
            self._resize(self._look().target, target)
        except ProviderError as error:
            raise CannotSteer(f"a second instance of the plugin could not resize {group_id}: {error}") from error

    def _look(self) -> _Size:
        machines = self.machines(self.group_id)
        return _Size(self._other.target_size(self.group_id), machines)

    def _resize(self, now: int, wanted: int) -> None:
        if wanted > now:
            self._other.increase_size(self.group_id, now, wanted)
        elif wanted < now and self._other.decrease_target_size(self.group_id, now, wanted) != now - wanted:
            raise CannotSteer(f"a second instance of the plugin could not lower {self.group_id} to {wanted}")

    def _step_back(self, now: _Size, before: _Size) -> None:
        """Withdraws what has no machine, or deletes machines that came for the check: never one that was there."""
        came = sorted(now.machines - before.machines)[: max(0, now.target - before.target)]
        try:
            if came:
                self._other.delete_instances(self.group_id, came, now.target)
            else:
                self._resize(now.target, before.target)
        except (ProviderError, CannotSteer):
            return  # the next look decides


class MemoryWorld(ContractWorld):
    """A cloud that was made for this check and goes with it."""

    def __init__(self, client: Client, group_id: str, *, clock: VirtualClock, may_write: bool) -> None:
        self.client = client
        self.group_id = group_id
        self._clock = clock
        self._may_write = may_write

    def admit(self, touches: Touch) -> None:
        if touches != Touch.READS and not self._may_write:
            raise CannotSteer(_NOT_ALLOWED)
        refresh(self)
        listed, running = group(self), len(self.machines(self.group_id))
        is_promised = (listed.min_size, target(self), running) == (0, 2, 2) and listed.max_size >= 6
        if touches == Touch.OWN_CLOUD and not is_promised:
            needs = "two running machines, a minimum of 0 and a maximum of 6 or more"
            raise CannotSteer(f"it needs a group with {needs}; {self.group_id} is another")

    def machines(self, group_id: str) -> frozenset[str]:
        return frozenset(start.instance_id for start in self.client.running_machines() if start.group_id == group_id)

    def set_target(self, group_id: str, target: int) -> None:
        del target
        raise CannotSteer(f"in a cloud in memory nobody else can resize {group_id}")

    def pass_time(self, seconds: float) -> None:
        self._clock.sleep(seconds)
