"""Checks of atomic resizes and of groups created on demand."""

from nodewright.model.capability import Capability
from nodewright.model.group import NewNodeGroup
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, demand_target_changed, refusal, unless_refused
from nodewright.testkit.contract.situations import demand_target, group, new_group, refresh, target
from nodewright.testkit.contract.world import ContractWorld, Touch


@check(Promise.ATOMIC, touches=Touch.OWN_CLOUD, capability=Capability.ATOMIC_RESIZE)
def atomic_increase_is_all_or_nothing(world: ContractWorld) -> None:
    """An atomic increase grants all machines, or raises an error and changes nothing."""
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
    """A created group is listed as autoprovisioned, is as requested, and can be deleted while it is empty."""
    kind, wanted = new_group(world)
    made = world.client.create_node_group(wanted)
    demand(made is not None and made.max_size == wanted.max_size, f"create_node_group created {made!r}")
    refresh(world)
    listed = [group.autoprovisioned for group in world.client.node_groups() if group.id == wanted.group_id]
    demand(
        listed == [kind.name],
        f"{wanted.group_id} was created from {kind.name}, but node_groups lists it with the machine types {listed}",
    )
    demand(world.client.target_size(wanted.group_id) == 0, f"the new group {wanted.group_id} is not empty")
    template = world.client.template_node(wanted.group_id)
    demand(wanted.labels.items() <= template.labels.items(), "the new group's template lacks its labels")
    demand(set(wanted.taints) <= set(template.taints), "the new group's template lacks its taints")
    gone = world.client.delete_node_group(wanted.group_id)
    demand(gone, f"delete_node_group did not delete {wanted.group_id}, which is empty")
    refresh(world)
    demand(wanted.group_id not in _listed(world), f"node_groups lists {wanted.group_id}, which was deleted")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_are_made_once(world: ContractWorld) -> None:
    """A second call to create the same group, as after a restart, returns the first group and creates no other."""
    _, wanted = new_group(world)
    before = _listed(world)
    first = world.client.create_node_group(wanted)
    second = world.client.create_node_group(wanted)
    demand(
        first is not None and first == second, f"create_node_group returned {first!r}, and when called again {second!r}"
    )
    refresh(world)
    more = _listed(world) - before
    demand(more == {wanted.group_id}, f"two calls to create one group created {', '.join(sorted(more))}")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_that_are_used_are_not_removed(world: ContractWorld) -> None:
    """A created group can be increased at once, and is not deleted while machines are requested from it."""
    _, wanted = new_group(world)
    world.client.create_node_group(wanted)
    demand(
        world.client.increase_size(wanted.group_id, 0, 1) == 1,
        "increase_size by 1 in a newly created group accepted no machine",
    )
    gone = unless_refused(lambda: world.client.delete_node_group(wanted.group_id), False, "delete_node_group")
    demand(not gone, f"delete_node_group deleted {wanted.group_id}, although a machine was requested from it")


@check(Promise.AUTOPROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def groups_of_others_are_not_removed(world: ContractWorld) -> None:
    """A group that has machines, or that this provider did not create, is neither deleted nor taken over."""
    kind, wanted = new_group(world)
    alive = world.machines(world.group_id)
    gone = unless_refused(lambda: world.client.delete_node_group(world.group_id), False, "delete_node_group")
    demand(not gone, f"delete_node_group deleted {world.group_id}, which has {len(alive)} machines")
    demand(world.machines(world.group_id) == alive, "delete_node_group deleted machines")
    taken = NewNodeGroup(group_id=world.group_id, machine_type=kind.name, max_size=wanted.max_size)
    refusal(
        lambda: world.client.create_node_group(taken),
        "create_node_group with the id of a group that the provider did not create",
    )


def _listed(world: ContractWorld) -> set[str]:
    return {listed.id for listed in world.client.node_groups()}
