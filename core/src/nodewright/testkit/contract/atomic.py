"""Demands on atomic resizes and on groups made on demand."""

from nodewright.model.capability import Capability
from nodewright.model.group import MachineType, NewNodeGroup
from nodewright.model.node import Taint
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
    """A group made on demand is listed with its mark, is as was asked for, and can be removed while it is empty."""
    kind, wanted = _wanted(world)
    made = world.client.create_node_group(wanted)
    demand(made is not None and made.max_size == wanted.max_size, f"create_node_group made {made!r}")
    refresh(world)
    listed = [group.autoprovisioned for group in world.client.node_groups() if group.id == wanted.group_id]
    demand(listed == [kind.name], f"node_groups lists {wanted.group_id}, just made of {kind.name}, as made of {listed}")
    demand(world.client.target_size(wanted.group_id) == 0, f"the new group {wanted.group_id} is not empty")
    template = world.client.template_node(wanted.group_id)
    demand(wanted.labels.items() <= template.labels.items(), "the new group's template lacks its labels")
    demand(set(wanted.taints) <= set(template.taints), "the new group's template lacks its taints")
    gone = world.client.delete_node_group(wanted.group_id)
    demand(gone, f"delete_node_group did not remove {wanted.group_id}, which is empty")
    refresh(world)
    demand(wanted.group_id not in _listed(world), f"node_groups lists {wanted.group_id}, which was removed")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_are_made_once(world: ContractWorld) -> None:
    """Asked twice for one group, as after a restart, the provider answers the first and makes no other."""
    _, wanted = _wanted(world)
    before = _listed(world)
    first = world.client.create_node_group(wanted)
    second = world.client.create_node_group(wanted)
    demand(first is not None and first == second, f"create_node_group made {first!r}, and asked again {second!r}")
    refresh(world)
    more = _listed(world) - before
    demand(more == {wanted.group_id}, f"asked twice for one group the provider made {', '.join(sorted(more))}")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_that_are_used_are_not_removed(world: ContractWorld) -> None:
    """A group made on demand can be asked for machines at once, and stays while it is."""
    _, wanted = _wanted(world)
    world.client.create_node_group(wanted)
    demand(world.client.increase_size(wanted.group_id, 0, 1) == 1, "a group made on demand accepts no machine")
    gone = unless_refused(lambda: world.client.delete_node_group(wanted.group_id), False, "delete_node_group")
    demand(not gone, f"delete_node_group removed {wanted.group_id}, which is asked for a machine")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_of_others_are_not_removed(world: ContractWorld) -> None:
    """A group that has machines, or that somebody else made, is never removed, nor taken for one made on demand."""
    kind, wanted = _wanted(world)
    alive = world.machines(world.group_id)
    gone = unless_refused(lambda: world.client.delete_node_group(world.group_id), False, "delete_node_group")
    demand(not gone, f"delete_node_group removed {world.group_id}, which runs {len(alive)} machines")
    demand(world.machines(world.group_id) == alive, "delete_node_group killed machines")
    taken = NewNodeGroup(group_id=world.group_id, machine_type=kind.name, max_size=wanted.max_size)
    refusal(lambda: world.client.create_node_group(taken), "create_node_group under the id of somebody else's group")


def _wanted(world: ContractWorld) -> tuple[MachineType, NewNodeGroup]:
    """A machine type, and a group of it."""
    refresh(world)
    kinds = world.client.machine_types()
    if not kinds:
        raise CannotSteer("this world has no machine types")
    return kinds[0], NewNodeGroup(
        group_id=f"{kinds[0].id_prefix}contract-suite",
        machine_type=kinds[0].name,
        max_size=3,
        labels={"example.com/made-by": "contract-suite"},
        taints=(Taint(key="example.com/made-by", value="contract-suite", effect="NoSchedule"),),
    )


def _listed(world: ContractWorld) -> set[str]:
    return {listed.id for listed in world.client.node_groups()}
