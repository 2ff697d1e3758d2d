"""Situations that several checks begin with, and what must hold after them."""

from nodewright.model.group import NodeGroup
from nodewright.testkit.contract.registry import BrokenPromise, demand, unless_refused
from nodewright.testkit.contract.world import CannotSteer, ContractWorld

UNKNOWN_GROUP = "no-such-group-of-the-contract-suite"
UNKNOWN_INSTANCE = "no-such-instance-of-the-contract-suite"


def refresh(world: ContractWorld) -> None:
    """Read the cloud past every cache, and list the groups as a loop does."""
    world.client.refresh(frozenset({world.group_id}))
    world.client.node_groups()


def target(world: ContractWorld) -> int:
    return world.client.target_size(world.group_id)


def ids(world: ContractWorld) -> frozenset[str]:
    return frozenset(instance.id for instance in world.client.instances(world.group_id))


def group(world: ContractWorld) -> NodeGroup:
    """The group of the world, as the provider lists it."""
    for listed in world.client.node_groups():
        if listed.id == world.group_id:
            return listed
    raise BrokenPromise(f"node_groups does not list {world.group_id}")


def some_machine(world: ContractWorld) -> str:
    """A machine that exists, the same each time."""
    there = world.machines(world.group_id)
    if not there:
        raise CannotSteer(f"{world.group_id} has no machine")
    return min(there)


def ask_without_arrival(world: ContractWorld, more: int) -> int:
    """Somebody asks for machines that do not come yet; answers the new target."""
    before = world.machines(world.group_id)
    refresh(world)
    raised = target(world) + more
    world.set_target(world.group_id, raised)
    if world.machines(world.group_id) != before:
        raise CannotSteer("in this cloud machines are there as soon as they are asked for")
    return raised


def ask_and_fail(world: ContractWorld, failures: int = 1) -> int:
    """Machines are asked for and fail; answers the new target."""
    raised = ask_without_arrival(world, failures)
    for _ in range(failures):
        world.fail_creation(world.group_id)
    refresh(world)
    return raised


def decrease(world: ContractWorld, expected: int, wanted: int) -> int:
    """What the provider accepted of a decrease: nothing where it refuses."""
    return unless_refused(
        lambda: world.client.decrease_target_size(world.group_id, expected, wanted), 0, "decrease_target_size"
    )


def demand_alive(world: ContractWorld, before: frozenset[str], after_what: str) -> None:
    """Raise BrokenPromise if a machine of ``before`` is gone or going."""
    lost = sorted(before - world.machines(world.group_id))
    demand(not lost, f"{after_what} killed {', '.join(lost)}")


def demand_target(world: ContractWorld, expected: int, after_what: str) -> None:
    """Raise BrokenPromise unless the target is that, before and after a refresh."""
    at_once = target(world)
    demand(at_once == expected, f"{after_what} left target_size at {at_once} until the next refresh, not {expected}")
    refresh(world)
    later = target(world)
    demand(later == expected, f"{after_what} made the target {later}, not {expected}")


def errors(world: ContractWorld, hook: str) -> int:
    """How often the hook has failed so far."""
    stats = world.client.stats().get(hook)
    return stats.errors if stats is not None else 0


def demand_answered(world: ContractWorld, hook: str, errors_before: int) -> None:
    """The plugin itself answered: what ProviderClient found out by reading again is no answer of the plugin."""
    silent = errors(world, hook) > errors_before
    demand(not silent, f"{hook} changed the size and did not answer how much was accepted")
