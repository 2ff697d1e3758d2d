"""Steps and demands that several checks share."""

from collections.abc import Sequence

from nodewright.model.group import MachineType, NewNodeGroup, NodeGroup
from nodewright.model.node import Taint
from nodewright.testkit.contract.registry import BrokenPromise, demand, unless_refused
from nodewright.testkit.contract.world import CannotHappen, CannotSteer, ContractWorld, Trouble

UNKNOWN_GROUP = "no-such-group-of-the-contract-suite"
UNKNOWN_INSTANCE = "no-such-instance-of-the-contract-suite"


def refresh(world: ContractWorld) -> None:
    """Refresh without caches for the world's group, and list the groups, as a control loop does."""
    world.client.refresh(frozenset({world.group_id}))
    world.client.node_groups()


def target(world: ContractWorld) -> int:
    return world.client.target_size(world.group_id)


def ids(world: ContractWorld) -> frozenset[str]:
    return frozenset(instance.id for instance in world.client.instances(world.group_id))


def group(world: ContractWorld) -> NodeGroup:
    """Return the world's group as the provider lists it."""
    for listed in world.client.node_groups():
        if listed.id == world.group_id:
            return listed
    raise BrokenPromise(f"node_groups does not list {world.group_id}")


def new_group(world: ContractWorld) -> tuple[MachineType, NewNodeGroup]:
    """Return a machine type and the specification of a group of this type."""
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


def some_machine(world: ContractWorld) -> str:
    """Return the id of one existing machine, the same each time."""
    there = world.machines(world.group_id)
    if not there:
        raise CannotSteer(f"{world.group_id} has no machine")
    return min(there)


def ask_without_arrival(world: ContractWorld, more: int) -> int:
    """Raise the target from outside by ``more`` machines that do not arrive yet. Return the new target."""
    before = world.machines(world.group_id)
    refresh(world)
    raised = target(world) + more
    world.set_target(world.group_id, raised)
    if world.machines(world.group_id) != before:
        raise CannotHappen("in this cloud machines exist as soon as they are requested")
    return raised


def ask_and_fail(
    world: ContractWorld, failures: int = 1, kind: Trouble = Trouble.CAPACITY, *, leaves_machine: bool = True
) -> int:
    """Raise the target from outside by machines whose creation then fails. Return the new target."""
    raised = ask_without_arrival(world, failures)
    for _ in range(failures):
        world.fail_creation(world.group_id, kind, leaves_machine=leaves_machine)
    refresh(world)
    return raised


def decrease(world: ContractWorld, expected: int, wanted: int) -> int:
    """Return how much of a decrease the provider accepted; 0 if it refuses."""
    return unless_refused(
        lambda: world.client.decrease_target_size(world.group_id, expected, wanted), 0, "decrease_target_size"
    )


def demand_alive(world: ContractWorld, before: frozenset[str], after_what: str) -> None:
    """Raise BrokenPromise if a machine of ``before`` is gone or being deleted."""
    lost = sorted(before - world.machines(world.group_id))
    demand(not lost, f"{after_what} ended {', '.join(lost)}")


def demand_target(world: ContractWorld, expected: int, after_what: str) -> None:
    """Raise BrokenPromise unless the target is ``expected``, before and after a refresh."""
    at_once = target(world)
    demand(at_once == expected, f"{after_what} left target_size at {at_once} until the next refresh, not {expected}")
    refresh(world)
    later = target(world)
    demand(later == expected, f"{after_what} made the target {later}, not {expected}")


def demand_deleted(world: ContractWorld, before: frozenset[str], accepted: Sequence[str], what: str) -> None:
    """Raise BrokenPromise unless exactly the accepted machines of ``before`` are gone."""
    gone = before - world.machines(world.group_id)
    demand(gone == set(accepted), f"{what} returned {tuple(accepted)!r}, and it ended {sorted(gone)}")


def errors(world: ContractWorld, hook: str) -> int:
    """Return how often the hook has failed so far."""
    stats = world.client.stats().get(hook)
    return stats.errors if stats is not None else 0


def demand_answered(world: ContractWorld, hook: str, errors_before: int) -> None:
    """Raise BrokenPromise if the hook failed, although the client found out by a refresh how much was accepted."""
    silent = errors(world, hook) > errors_before
    why = world.client.stats()[hook].last_error if silent else ""
    demand(not silent, f"{hook} changed the size and did not return how much was accepted: {why}")
