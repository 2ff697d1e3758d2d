"""Worlds around a provider with an operator's configuration: the suite changes as little in the cloud as possible.

Many checks need a writer from outside. In a live cloud this is a second instance of the same plugin. A cloud in the
provider's own memory has no writer from outside, and the checks may change everything in it.
"""

from typing import NamedTuple

from nodewright.adapters.clocks import VirtualClock
from nodewright.model.clock import Clock
from nodewright.model.errors import ProviderError
from nodewright.model.group import InstanceState
from nodewright.testkit.client import Client
from nodewright.testkit.contract.registry import BrokenPromise
from nodewright.testkit.contract.situations import group, refresh, target
from nodewright.testkit.contract.world import HANDS, CannotSteer, ContractWorld, Touch

MOST_ASKED = 2
_TRIES = 12
_PAUSE_SECONDS = 10.0
_NOT_ALLOWED = "it writes, and --write was not given"


class _Size(NamedTuple):
    target: int
    machines: frozenset[str]


class LiveWorld(ContractWorld):
    """A cloud that is in use. A check resizes a group only if it has all its machines, and restores its size afterwards.

    ``other`` is the second instance of the plugin, the writer from outside.
    """

    lacks = dict.fromkeys(HANDS, "a cloud in use is not steered")

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
            raise CannotSteer("it ends machines or changes the cloud from outside: it needs a cloud made for the test")
        if not self._may_write:
            raise CannotSteer(_NOT_ALLOWED)
        before = self._look()
        if before.target != len(before.machines):
            raise CannotSteer(
                f"{self.group_id} does not have all its machines: {len(before.machines)} of {before.target}"
            )
        refresh(self)
        if touches == Touch.RESIZES and before.target + MOST_ASKED > group(self).max_size:
            raise CannotSteer(f"{self.group_id} has less than {MOST_ASKED} machines left to its maximum")
        self._before = before

    def close(self) -> None:
        """Restore the group's size. Raise BrokenPromise if this fails."""
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
        raise BrokenPromise(f"{self.group_id} had the target {was} and has {left} now: set it to {was} by hand")

    def machines(self, group_id: str) -> frozenset[str]:
        self._other.refresh(frozenset({group_id}))
        there = self._other.instances(group_id)
        return frozenset(instance.id for instance in there if instance.state != InstanceState.DELETING)

    def set_target(self, group_id: str, target: int) -> None:
        lowest = self._before.target if self._before is not None else target + 1
        if not lowest <= target <= lowest + MOST_ASKED:
            raise CannotSteer(f"it would resize {group_id} by more than {MOST_ASKED}")
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
        """Delete machines that arrived during the check, or else resize. Never delete a machine that was there before."""
        came = sorted(now.machines - before.machines)[: max(0, now.target - before.target)]
        try:
            if came:
                self._other.delete_instances(self.group_id, came, now.target)
            else:
                self._resize(now.target, before.target)
        except (ProviderError, CannotSteer):
            return  # ``close`` reads the group again and decides


class MemoryWorld(ContractWorld):
    """A cloud in memory that was created for one check."""

    lacks = dict.fromkeys(HANDS, "the cloud is in the provider's memory")

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
            raise CannotSteer(f"it needs a group with {needs}; {self.group_id} differs")

    def machines(self, group_id: str) -> frozenset[str]:
        return frozenset(start.instance_id for start in self.client.running_machines() if start.group_id == group_id)

    def set_target(self, group_id: str, target: int) -> None:
        del target
        raise CannotSteer(f"{group_id} cannot be resized from outside: the cloud is in the provider's memory")

    def pass_time(self, seconds: float) -> None:
        self._clock.sleep(seconds)
