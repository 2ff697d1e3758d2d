"""Checks of races between a provider's last read of a group and its write.

A provider that reads again right before the write makes this gap smaller, but does not close it. These checks change
the cloud inside the gap: after the write arrived at the cloud and before the cloud handles it. The provider may then
accept or refuse, but no machine may end that the write did not name.
"""

from collections.abc import Sequence

from nodewright.model.capability import Capability
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, unless_refused
from nodewright.testkit.contract.situations import ask_without_arrival, decrease, demand_alive, refresh, target
from nodewright.testkit.contract.world import ContractWorld, Touch


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
