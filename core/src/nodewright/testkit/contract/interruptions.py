"""Checks of providers whose clouds give notice before they take a machine."""

from nodewright.model.capability import Capability
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand
from nodewright.testkit.contract.situations import ids, refresh, some_machine
from nodewright.testkit.contract.world import ContractWorld, Touch

_LONG_SECONDS = 1.0


@check(Promise.INTERRUPTIONS, capability=Capability.INTERRUPTION)
def notices_are_told_of_machines_that_exist(world: ContractWorld) -> None:
    """Notices have unique ids, and each names a machine; without an interruption there is none about the group's machines."""
    refresh(world)
    some_machine(world)
    told = {notice.instance_id for notice in world.client.interruptions() or ()} & ids(world)
    demand(not told, f"interruptions tells of {', '.join(sorted(told))}, which nothing interrupts")


@check(Promise.INTERRUPTIONS, touches=Touch.OWN_CLOUD, capability=Capability.INTERRUPTION)
def a_notice_names_its_machine_until_it_is_gone(world: ContractWorld) -> None:
    """A notice of the cloud is told under the id that ``instances`` has, in every refresh until the machine is gone."""
    refresh(world)
    interrupted = world.interrupt(world.group_id)
    for _ in range(2):
        refresh(world)
        told = [notice for notice in world.client.interruptions() or () if notice.instance_id == interrupted]
        demand(bool(told), f"interruptions does not tell of {interrupted}, of which the cloud gave notice")
        demand(interrupted in ids(world), f"instances does not list {interrupted}, which runs until its deadline")
    expected = world.client.target_size(world.group_id)
    world.client.delete_instances(world.group_id, [interrupted], expected)
    world.pass_time(3600.0)
    refresh(world)
    left = [notice.id for notice in world.client.interruptions() or () if notice.instance_id == interrupted]
    demand(not left, f"interruptions still tells of {interrupted}, which is gone")


@check(Promise.INTERRUPTIONS, touches=Touch.OWN_CLOUD, capability=Capability.INTERRUPTION)
def waiting_ends_when_a_notice_comes(world: ContractWorld) -> None:
    """A provider that can wait for notices returns True once for a new notice, and False without one."""
    refresh(world)
    idle = world.client.await_interruption(_LONG_SECONDS)
    demand(not idle, "await_interruption returned True although the cloud gave no notice")
    world.interrupt(world.group_id)
    came = world.client.await_interruption(_LONG_SECONDS)
    demand(came is not False, "await_interruption returned False although the cloud had given notice")
    again = world.client.await_interruption(_LONG_SECONDS)
    demand(not again, "await_interruption returned True twice for one notice")
