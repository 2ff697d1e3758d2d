"""Checks of races with other writers, and of calls that overlap.

A race lies between a provider's last read of a group and its write. A provider that reads again right before the write
makes this gap smaller, but does not close it. These checks change the cloud inside the gap: after the write arrived at the
cloud and before the cloud handles it. The provider may then accept or refuse, but no machine may end that the write did
not name.

Plugins with ``parallel_calls`` also get calls in one thread while another thread is in the middle of a write.
"""

import threading
from collections.abc import Callable, Sequence

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError, TargetChanged
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, unless_refused
from nodewright.testkit.contract.situations import (
    ask_without_arrival,
    decrease,
    demand_alive,
    demand_target,
    group,
    ids,
    refresh,
    target,
)
from nodewright.testkit.contract.world import ContractWorld, NotDeclared, Touch


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def machine_that_arrives_during_a_decrease_survives(world: ContractWorld) -> None:
    """A machine that arrives between the provider's read and its decrease survives, and the target keeps it."""
    raised = ask_without_arrival(world, 1)
    refresh(world)
    arrived = _arrives_during_the_write(world)
    alive = world.machines(world.group_id)
    decrease(world, raised, raised - 1)
    _demand_kept(world, alive.union(arrived), "decrease_target_size during an arrival")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD, capability=Capability.FAST_FAILURE_DETECTION)
def machine_that_arrives_while_failures_are_deleted_survives(world: ContractWorld) -> None:
    """A machine that arrives between the provider's read and the deletion of a failure survives."""
    raised = ask_without_arrival(world, 2)
    world.fail_creation(world.group_id)
    refresh(world)
    found = world.client.failed_instances(world.group_id) or ()
    arrived = _arrives_during_the_write(world)
    alive = world.machines(world.group_id)
    _delete(world, [failure.instance_id or failure.failure_id for failure in found], raised)
    _demand_kept(world, alive.union(arrived), "delete_instances of a failure during an arrival")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def resize_from_outside_during_a_decrease_kills_nobody(world: ContractWorld) -> None:
    """After an outside resize between the provider's read and its decrease, no machine ends."""
    raised = ask_without_arrival(world, 2)
    refresh(world)
    world.before_write(lambda: world.set_target(world.group_id, raised - 1))
    alive = world.machines(world.group_id)
    decrease(world, raised, raised - 2)
    _demand_kept(world, alive, "decrease_target_size during a resize from outside")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def resize_from_outside_during_an_increase_kills_nobody(world: ContractWorld) -> None:
    """After an outside resize between the provider's read and its increase, no machine ends and the target is not too high."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.before_write(lambda: world.set_target(world.group_id, before + 1))
    unless_refused(lambda: world.client.increase_size(world.group_id, before, before + 2), 0, "increase_size")
    _demand_kept(world, alive, "increase_size during a resize from outside")
    demand(target(world) <= before + 3, f"both resizes together raised the target from {before} to {target(world)}")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def resize_from_outside_during_a_delete_kills_nobody_else(world: ContractWorld) -> None:
    """After an outside resize between the provider's read and a deletion, only the named machine ends."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    victim = min(alive)
    world.before_write(lambda: world.set_target(world.group_id, before + 1))
    _delete(world, [victim], before)
    _demand_kept(world, alive - {victim}, "delete_instances during a resize from outside")


def _arrives_during_the_write(world: ContractWorld) -> Sequence[str]:
    """Let a machine arrive during the next write. Return a list that will then contain the machine's id."""
    arrived: list[str] = []
    world.before_write(lambda: arrived.append(world.arrive(world.group_id)))
    return arrived


def _delete(world: ContractWorld, names: Sequence[str], expected: int) -> None:
    unless_refused(lambda: world.client.delete_instances(world.group_id, names, expected), (), "delete_instances")


def _demand_kept(world: ContractWorld, alive: frozenset[str], what: str) -> None:
    """Raise BrokenPromise unless these machines run and the target is at least the number of machines."""
    demand_alive(world, alive, what)
    refresh(world)
    there = world.machines(world.group_id)
    demand(target(world) >= len(there), f"{what} left the target at {target(world)} for {len(there)} machines")


# In real seconds. A plugin may also lock, so that the second call waits for the first.
_LOCKED_AFTER = 1.0
_HUNG_AFTER = 30.0


@check(Promise.OVERLAP, touches=Touch.OWN_CLOUD)
def reads_during_a_write_are_answered(world: ContractWorld) -> None:
    """A refresh and reads during a write return the state before the write or the state after it."""
    refresh(world)
    before, alive = target(world), ids(world)
    seen: list[tuple[int, frozenset[str]]] = []

    def look() -> None:
        world.client.refresh(frozenset({world.group_id}))
        group(world)
        seen.append((target(world), ids(world)))

    other = _Other(world, look)
    world.client.increase_size(world.group_id, before, before + 1)
    errors = other.end()
    demand(not errors, f"a read during increase_size raised {errors}")
    [(size, machines)] = seen
    demand(size in (before, before + 1), f"target_size during increase_size returned {size}")
    demand(machines >= alive, "instances during increase_size lacks machines that existed before it")
    demand_target(world, before + 1, "increase_size with reads during it")


@check(Promise.OVERLAP, touches=Touch.OWN_CLOUD)
def of_overlapping_increases_one_is_accepted(world: ContractWorld) -> None:
    """Of two increases from the same target at the same time, one is accepted and one raises TargetChanged."""
    refresh(world)
    before = target(world)
    accepted: list[int] = []

    def grow() -> None:
        accepted.append(world.client.increase_size(world.group_id, before, before + 1))

    other = _Other(world, grow)
    errors: list[Exception] = []
    try:
        grow()
    except ProviderError as error:
        errors.append(error)
    errors += other.end()
    demand(accepted == [1], f"of two increases from {before} at the same time {len(accepted)} were accepted")
    refused = [error for error in errors if not isinstance(error, TargetChanged)]
    demand(not refused, f"the second of two increases at the same time raised {refused}, not TargetChanged")
    demand_target(world, before + 1, "one of two increases at the same time")


class _Other:
    """A second thread. It starts when the next write arrives at the cloud."""

    def __init__(self, world: ContractWorld, call: Callable[[], object]) -> None:
        if not world.client.info.parallel_calls:
            raise NotDeclared("parallel_calls is not declared")
        self._call = call
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="contract", daemon=True)
        world.before_write(self._start)

    def end(self) -> list[Exception]:
        """Wait for the thread to end. Return the exceptions that its call raised."""
        demand(self._thread.ident is not None, "no write of a size arrived at the cloud")
        self._thread.join(_HUNG_AFTER)
        demand(not self._thread.is_alive(), f"two calls at the same time did not return within {_HUNG_AFTER:g} s")
        return self._errors

    def _start(self) -> None:
        self._thread.start()
        self._thread.join(_LOCKED_AFTER)

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - the check reports every exception of the thread
            self._errors.append(error)
