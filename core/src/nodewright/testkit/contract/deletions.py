"""Checks of deletions: they delete exactly the named machines and lower the target by their number."""

from collections.abc import Callable, Sequence

from nodewright.model.capability import Capability
from nodewright.model.errors import CloudBusy
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, demand_target_changed
from nodewright.testkit.contract.situations import (
    UNKNOWN_INSTANCE,
    ask_without_arrival,
    demand_alive,
    demand_target,
    group,
    ids,
    refresh,
    target,
)
from nodewright.testkit.contract.world import ContractWorld, Touch

_Delete = Callable[[str, Sequence[str], int], tuple[str, ...]]


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def delete_removes_exactly_the_named(world: ContractWorld) -> None:
    """A deletion ends the named machine and no other, and lowers the target by one."""
    _demand_exact(world, "delete_instances", world.client.delete_instances)


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def delete_of_several_lowers_the_target_by_as_many(world: ContractWorld) -> None:
    """A deletion of two of three machines keeps the third and lowers the target by two."""
    raised = ask_without_arrival(world, 1)
    kept = world.arrive(world.group_id)
    refresh(world)
    victims = sorted(world.machines(world.group_id) - {kept})
    accepted = world.client.delete_instances(world.group_id, victims, raised)
    demand(set(accepted) == set(victims), f"delete_instances of {victims} returned {accepted!r}")
    demand_alive(world, frozenset({kept}), f"delete_instances of {', '.join(victims)}")
    demand_target(world, raised - len(victims), f"delete_instances of {len(victims)} machines")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def delete_leaves_requested_capacity_alone(world: ContractWorld) -> None:
    """A deletion in a group that waits for a machine lowers the target only by the deleted machines."""
    alive = world.machines(world.group_id)
    raised = ask_without_arrival(world, 1)
    refresh(world)
    victims = {min(alive)}
    try:
        world.client.delete_instances(world.group_id, sorted(victims), raised)
    except CloudBusy:
        victims = set()  # a cloud that runs one operation at a time may refuse, but then it must change nothing
    demand_target(world, raised - len(victims), "delete_instances in a group that waits for a machine")
    demand_alive(world, alive - victims, f"delete_instances of {sorted(victims)}")


@check(Promise.DELETION, touches=Touch.REFUSED)
def delete_skips_what_is_gone(world: ContractWorld) -> None:
    """A deletion skips an id that is unknown or gone: the target stays, and no machine ends."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    accepted = world.client.delete_instances(world.group_id, [UNKNOWN_INSTANCE], before)
    demand(accepted == (), f"delete_instances of an unknown id returned {accepted!r}")
    demand_target(world, before, "delete_instances of an unknown id")
    demand_alive(world, alive, "delete_instances of an unknown id")


@check(Promise.ONCE, touches=Touch.OWN_CLOUD)
def repeated_delete_lowers_once(world: ContractWorld) -> None:
    """A second deletion of the same machine does not lower the target again."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    victim = min(alive)
    world.client.delete_instances(world.group_id, [victim], before)
    refresh(world)
    again = world.client.delete_instances(world.group_id, [victim], target(world))
    demand(again == (), f"delete_instances of a machine that is being deleted returned {again!r}")
    demand_target(world, before - 1, "delete_instances sent twice")
    demand_alive(world, alive - {victim}, "delete_instances sent twice")


@check(Promise.EXPECTED_TARGET, touches=Touch.OWN_CLOUD)
def wrong_expected_target_refuses_delete(world: ContractWorld) -> None:
    """A deletion whose expected_target is not the target raises TargetChanged and deletes nothing."""
    _demand_guarded(world, "delete_instances", world.client.delete_instances)


@check(Promise.EXPECTED_TARGET, touches=Touch.OWN_CLOUD)
def resize_from_outside_kills_nobody_else_on_delete(world: ContractWorld) -> None:
    """A deletion after an outside resize, without a refresh between, raises TargetChanged and deletes nothing."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    victim = min(alive)
    world.set_target(world.group_id, before + 1)
    what = "delete_instances after a resize from outside"
    demand_target_changed(lambda: world.client.delete_instances(world.group_id, [victim], before), what)
    demand_alive(world, alive, what)
    refresh(world)
    demand(target(world) == before + 1, f"{what} made the target {target(world)}, not {before + 1}")


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def deleted_machines_leave_the_listing(world: ContractWorld) -> None:
    """A deleted machine is listed as deleting or not at all, and is gone a day later."""
    refresh(world)
    victim = min(world.machines(world.group_id))
    world.client.delete_instances(world.group_id, [victim], target(world))
    refresh(world)
    states = {i.id: i.state.value for i in world.client.instances(world.group_id)}
    demand(states.get(victim, "deleting") == "deleting", f"deleted {victim} is listed as {states.get(victim)}")
    if victim in states:
        world.pass_time(24 * 3600)
        refresh(world)
        demand(victim not in ids(world), f"deleted {victim} is still listed a day later")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD, capability=Capability.FORCE_DELETE)
def force_delete_removes_exactly_the_named(world: ContractWorld) -> None:
    """A forced deletion ends the named machine and no other."""
    _demand_exact(world, "force_delete_instances", world.client.force_delete_instances)


@check(Promise.DELETION, touches=Touch.OWN_CLOUD, capability=Capability.FORCE_DELETE)
def force_delete_goes_below_the_minimum(world: ContractWorld) -> None:
    """A forced deletion ignores the group's minimum size."""
    alive = world.machines(world.group_id)
    world.set_limits(world.group_id, len(alive), 10)
    refresh(world)
    before, least, victim = target(world), group(world).min_size, min(alive)
    demand(least == before, f"node_groups lists a minimum of {least}, but it is {before}")
    accepted = world.client.force_delete_instances(world.group_id, [victim], before)
    demand(accepted == (victim,), f"force_delete_instances at the minimum returned {accepted!r}")
    demand_alive(world, alive - {victim}, "force_delete_instances at the minimum")
    demand_target(world, before - 1, "force_delete_instances at the minimum")


@check(Promise.EXPECTED_TARGET, touches=Touch.OWN_CLOUD, capability=Capability.FORCE_DELETE)
def wrong_expected_target_refuses_force_delete(world: ContractWorld) -> None:
    """A forced deletion whose expected_target is not the target raises TargetChanged and deletes nothing."""
    _demand_guarded(world, "force_delete_instances", world.client.force_delete_instances)


def _demand_exact(world: ContractWorld, hook: str, delete: _Delete) -> None:
    """Raise BrokenPromise unless a deletion ends the named machine and no other."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    victim = min(alive)
    accepted = delete(world.group_id, [victim], before)
    demand(accepted == (victim,), f"{hook} of {victim} returned {accepted!r}")
    demand_alive(world, alive - {victim}, f"{hook} of {victim}")
    demand(victim not in world.machines(world.group_id), f"{hook} accepted {victim} and did not delete it")
    demand_target(world, before - 1, f"{hook} of one machine")


def _demand_guarded(world: ContractWorld, hook: str, delete: _Delete) -> None:
    """Raise BrokenPromise unless a deletion with a wrong expected_target deletes nothing."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    what = f"{hook} with a wrong expected_target"
    demand_target_changed(lambda: delete(world.group_id, sorted(alive)[:1], before + 1), what)
    demand_alive(world, alive, what)
    demand_target(world, before, what)
