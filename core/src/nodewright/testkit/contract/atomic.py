"""Demands on atomic resizes and on groups made on demand."""

from nodewright.model.capability import Capability
from nodewright.spec.hooks import GroupSpec
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, demand_target_changed, refusal, unless_refused
from nodewright.testkit.contract.situations import demand_target, group, refresh, target
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch


@check(Promise.ATOMIC, touches=Touch.OWN_CLOUD, capability=Capability.ATOMIC_RESIZE)
def atomic_increase_is_all_or_nothing(world: ContractWorld) -> None:
    """An atomic increase grants every machine, or refuses and changes nothing."""
    refresh(world)
    before = target(world)
    accepted = unless_refused(
        lambda: world.client.atomic_increase_size(world.group_id, before, before + 3), 0, "atomic_increase_size"
    )
    demand(accepted in (0, 3), f"atomic_increase_size by 3 accepted {accepted}")
    demand_target(world, before + accepted, f"atomic_increase_size by 3, {accepted} accepted,")


@check(Promise.ATOMIC, touches=Touch.REFUSED, capability=Capability.ATOMIC_RESIZE)
def atomic_increase_beyond_the_maximum_is_refused(world: ContractWorld) -> None:
    """An atomic increase beyond the maximum changes nothing."""
    refresh(world)
    before, most = target(world), group(world).max_size
    what = "atomic_increase_size beyond the maximum"
    refusal(lambda: world.client.atomic_increase_size(world.group_id, before, most + 1), what)
    demand_target(world, before, what)


@check(Promise.EXPECTED_TARGET, touches=Touch.REFUSED, capability=Capability.ATOMIC_RESIZE)
def wrong_expected_target_refuses_atomic_increase(world: ContractWorld) -> None:
    """An atomic increase whose expected_target is not the target raises TargetChanged and changes nothing."""
    refresh(world)
    before = target(world)
    what = "atomic_increase_size with a wrong expected_target"
    demand_target_changed(lambda: world.client.atomic_increase_size(world.group_id, before + 1, before + 2), what)
    demand_target(world, before, what)


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_can_be_made_and_removed(world: ContractWorld) -> None:
    """A group made on demand is listed, empty, has a template, and can be removed while it is empty."""
    refresh(world)
    kinds = world.client.machine_types()
    if not kinds:
        raise CannotSteer("this world has no machine types")
    made = world.client.create_node_group(GroupSpec(machine_type=kinds[0].name, max_size=3))
    demand(made is not None and made.max_size == 3, f"create_node_group made {made!r}")
    if made is None:
        return
    refresh(world)
    demand(made.id in _listed(world), f"node_groups does not list {made.id}, which was just made")
    demand(world.client.target_size(made.id) == 0, f"the new group {made.id} is not empty")
    world.client.template_node(made.id)
    demand(world.client.delete_node_group(made.id), f"delete_node_group did not remove {made.id}, which is empty")
    refresh(world)
    demand(made.id not in _listed(world), f"node_groups lists {made.id}, which was removed")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_of_others_are_not_removed(world: ContractWorld) -> None:
    """A group that has machines, or that somebody else made, is never removed."""
    refresh(world)
    alive = world.machines(world.group_id)
    gone = unless_refused(lambda: world.client.delete_node_group(world.group_id), False, "delete_node_group")
    demand(not gone, f"delete_node_group removed {world.group_id}, which runs {len(alive)} machines")
    demand(world.machines(world.group_id) == alive, "delete_node_group killed machines")


def _listed(world: ContractWorld) -> set[str]:
    return {listed.id for listed in world.client.node_groups()}
