"""Worlds around a provider with an operator's configuration: the suite changes as little in the cloud as possible.

Many checks need a writer from outside. In a live cloud this is a second instance of the same plugin. A cloud in the
provider's own memory has no writer from outside, and the checks may change everything in it.
"""

from typing import NamedTuple

from nodewright.adapters.clocks import VirtualClock
from nodewright.model.clock import Clock
from nodewright.model.errors import ProviderError
from nodewright.model.group import InstanceState
from nodewright.spec.hooks import WRITE_HOOKS
from nodewright.testkit.client import Client
from nodewright.testkit.contract.registry import BrokenPromise
from nodewright.testkit.contract.situations import group, refresh, target
from nodewright.testkit.contract.world import CONTROLS, CannotSteer, ContractWorld, Touch

MOST_ASKED = 2
_TRIES = 24
_PAUSE_SECONDS = 5.0
# Longer than the delay of listings in clouds that do not declare one (``settles_after``).
AGREE_SECONDS = 15.0
_NOT_ALLOWED = "it writes, and --write was not given"


class _Size(NamedTuple):
    target: int
    machines: frozenset[str]


class LeakedMachines:
    """The machines, by id, that checks of one run made in a group and could not remove; shared by their worlds.

    ``agree_seconds`` is how long two instances of the plugin must agree that nothing is left.
    """

    def __init__(self, agree_seconds: float = AGREE_SECONDS) -> None:
        self.agree_seconds = agree_seconds
        self.ids: frozenset[str] = frozenset()
        self.target_off = 0
        self.disagreed = False
        # Why it is unknown what is left: the group could not be read, or the command was interrupted. Empty: it is known.
        self.unknown = ""

    def __bool__(self) -> bool:
        return bool(self.ids) or self.target_off != 0 or bool(self.unknown)


class LiveWorld(ContractWorld):
    """A cloud that is in use. A check resizes a group only if it has all its machines, and restores its size afterwards.

    ``other`` is the second instance of the plugin, the writer from outside. Machines that the check made are recognized by
    their new ids. The check ends when both instances have agreed for a while that none of them is left.
    """

    lacks = dict.fromkeys(CONTROLS, "a cloud in use is not steered")

    def __init__(
        self,
        client: Client,
        other: Client,
        group_id: str,
        *,
        clock: Clock,
        may_write: bool,
        leaked: LeakedMachines | None = None,
    ) -> None:
        self.client = client
        self.group_id = group_id
        self._other = other
        self._clock = clock
        self._may_write = may_write
        self._leaked = leaked if leaked is not None else LeakedMachines()
        self._before: _Size | None = None
        # The machines that the check made, as last seen.
        self._came: frozenset[str] = frozenset()
        self._writes_seen = self._writes()
        self._settled_writes = 0

    def admit(self, touches: Touch) -> None:
        if touches == Touch.READS:
            return
        if touches == Touch.OWN_CLOUD:
            raise CannotSteer("it ends machines or changes the cloud from outside: it needs a cloud made for the test")
        if not self._may_write:
            raise CannotSteer(_NOT_ALLOWED)
        if self._leaked:
            raise CannotSteer("a check before it left something behind")
        if self._leaked.disagreed:
            raise CannotSteer("after a check before it, two instances of the plugin did not agree about the group")
        before = self._read_size()
        if before.target != len(before.machines):
            raise CannotSteer(
                f"{self.group_id} does not have all its machines: {len(before.machines)} of {before.target}"
            )
        refresh(self)
        if touches == Touch.RESIZES and before.target + MOST_ASKED > group(self).max_size:
            raise CannotSteer(f"{self.group_id} has less than {MOST_ASKED} machines left to its maximum")
        self._before = before

    def close(self) -> None:
        """Restore the group's size, and check that it stays. Raise BrokenPromise that names the machines that are left."""
        if self._before is None or self._writes() == self._writes_seen:
            return
        try:
            if not self._restore(self._before):
                self._tell_what_is_left(self._before)
        except KeyboardInterrupt:
            self._leaked.ids |= self._came
            self._leaked.unknown = "the command was interrupted"
            raise

    def _restore(self, was: _Size) -> bool:
        """Remove what the check made. Return whether both instances then agreed for a while that it is gone."""
        restored_at, tries = None, 0
        while tries < _TRIES + self._leaked.agree_seconds / _PAUSE_SECONDS:
            try:
                now = self._read_size()
                self._came = now.machines - was.machines
                is_restored = now.target == was.target and not self._came
                if is_restored and now == self._look_through(self.client):
                    restored_at = self._clock.now() if restored_at is None else restored_at
                    if self._clock.now() >= restored_at + self._leaked.agree_seconds:
                        return True
                else:
                    restored_at = None
                    self._step_back(now, was)
            except ProviderError:
                restored_at = None  # read it again
            if tries:
                self._clock.sleep(_PAUSE_SECONDS)
            tries += 1
        return False

    def machines(self, group_id: str) -> frozenset[str]:
        self._settle()
        return self._machines(self._other, group_id)

    def set_target(self, group_id: str, target: int) -> None:
        lowest = self._before.target if self._before is not None else target + 1
        if not lowest <= target <= lowest + MOST_ASKED:
            raise CannotSteer(f"it would resize {group_id} by more than {MOST_ASKED}")
        try:
            self._resize(self._read_size().target, target)
        except ProviderError as error:
            raise CannotSteer(f"a second instance of the plugin could not resize {group_id}: {error}") from error
        self._settle()

    def _read_size(self) -> _Size:
        return self._look_through(self._other)

    def _look_through(self, client: Client) -> _Size:
        self._settle()
        machines = self._machines(client, self.group_id)
        return _Size(client.target_size(self.group_id), machines)

    def _machines(self, client: Client, group_id: str) -> frozenset[str]:
        client.refresh(frozenset({group_id}))
        client.node_groups()
        there = client.instances(group_id)
        return frozenset(instance.id for instance in there if instance.state != InstanceState.DELETING)

    def _settle(self) -> None:
        """Wait until listings show the writes of both instances. Each instance itself waits only for its own writes."""
        writes = self._writes()
        if writes != self._settled_writes and self.client.info.settles_after:
            self._clock.sleep(self.client.info.settles_after)
        self._settled_writes = writes

    def _writes(self) -> int:
        counted = (client.stats().get(hook) for client in (self.client, self._other) for hook in WRITE_HOOKS)
        return sum(stats.calls for stats in counted if stats is not None)

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

    def _tell_what_is_left(self, was: _Size) -> None:
        try:
            now = self._read_size()
        except ProviderError as error:
            self._leaked.ids |= self._came
            self._leaked.unknown = str(error)
            seen = f" {', '.join(sorted(self._came))} came, and may still exist;" if self._came else ""
            raise BrokenPromise(
                f"{self.group_id} had the target {was.target}, and cannot be read now:{seen} check by hand: {error}"
            ) from error
        self._leaked.ids |= now.machines - was.machines
        self._leaked.target_off = now.target - was.target
        if not self._leaked:
            self._leaked.disagreed = True
            raise BrokenPromise(
                f"the two instances did not agree for {self._leaked.agree_seconds:g} s about {self.group_id}"
            )
        made = f", and {', '.join(sorted(self._leaked.ids))} came" if self._leaked.ids else ""
        by_hand = "remove them" if self._leaked.ids else f"set it to {was.target}"
        raise BrokenPromise(
            f"{self.group_id} had the target {was.target} and has {now.target} now{made}: {by_hand} by hand"
        )


class MemoryWorld(ContractWorld):
    """A cloud in memory that was created for one check."""

    lacks = dict.fromkeys(CONTROLS, "the cloud is in the provider's memory")

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
