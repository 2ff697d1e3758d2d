"""Checks of reads: they are stable, correct, and return the state of the last refresh."""

from collections.abc import Callable

from nodewright.model.capability import Capability
from nodewright.model.errors import NodeGroupNotFound, ProviderError
from nodewright.model.group import GroupOptions, InstanceState
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, refusal
from nodewright.testkit.contract.situations import (
    UNKNOWN_GROUP,
    UNKNOWN_INSTANCE,
    ask_without_arrival,
    group,
    ids,
    refresh,
    target,
)
from nodewright.testkit.contract.world import ContractWorld, Touch, Trouble

OPTIONAL_GROUP_HOOKS = {
    Capability.FAST_FAILURE_DETECTION: "failed_instances",
    Capability.GROUP_OPTIONS: "group_options",
    Capability.PRICING: "node_price",
    Capability.ATOMIC_RESIZE: "atomic_increase_size",
    Capability.FORCE_DELETE: "force_delete_instances",
}


@check(Promise.VALUES, touches=Touch.OWN_CLOUD)
def world_is_as_promised(world: ContractWorld) -> None:
    """The world starts with two running machines, target 2, minimum 0 and a maximum of 6 or more."""
    refresh(world)
    listed = group(world)
    demand(listed.min_size == 0, f"this world's group has minimum {listed.min_size}, not 0")
    demand(listed.max_size >= 6, f"this world's group has maximum {listed.max_size}, below 6")
    demand(target(world) == 2, f"this world's group starts with target {target(world)}, not 2")
    running = {i.id for i in world.client.instances(world.group_id) if i.state == InstanceState.RUNNING}
    demand(len(running) == 2, f"this world's group starts with {len(running)} running machines, not 2")


@check(Promise.IDENTITY)
def instances_are_the_machines_of_the_cloud(world: ContractWorld) -> None:
    """After a refresh, instances lists exactly the machines that exist; others only as deleting."""
    refresh(world)
    listed = world.client.instances(world.group_id)
    seen = {instance.id for instance in listed if instance.state != InstanceState.DELETING}
    there = world.machines(world.group_id)
    demand(seen == there, f"instances lists {sorted(seen)}, the cloud has {sorted(there)}")


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def placeholders_are_not_listed(world: ContractWorld) -> None:
    """A requested machine is in the target. If instances lists it before it exists, then as creating, with its final id."""
    raised = ask_without_arrival(world, 2)
    refresh(world)
    demand(target(world) == raised, f"two machines were requested, and the target is {target(world)}, not {raised}")
    early = _not_there(world)
    states = {one.id: one.state for one in world.client.instances(world.group_id)}
    wrong = sorted(name for name in early if states[name] != InstanceState.CREATING)
    demand(not wrong, f"instances lists {', '.join(wrong)}, which is only requested, and not as creating")
    arrived = world.arrive(world.group_id)
    refresh(world)
    promised = not early or arrived in early
    demand(promised, f"instances listed {', '.join(sorted(early))} for requested machines, and {arrived} arrived")
    demand(
        _not_there(world) <= early, f"instances lists {', '.join(sorted(_not_there(world)))}: no such machine exists"
    )


def _not_there(world: ContractWorld) -> frozenset[str]:
    """Return the ids that are listed, not as deleting, and that no machine of the cloud has."""
    listed = world.client.instances(world.group_id)
    alive = frozenset(one.id for one in listed if one.state != InstanceState.DELETING)
    return alive - world.machines(world.group_id)


@check(Promise.IDENTITY)
def ids_are_stable_over_refreshes(world: ContractWorld) -> None:
    """Group and instance ids and their order do not change when nothing changed."""
    refresh(world)
    groups, seen = world.client.node_groups(), ids(world)
    refresh(world)
    demand(world.client.node_groups() == groups, "node_groups changed over a refresh although nothing happened")
    demand(ids(world) == seen, f"instance ids changed over a refresh from {sorted(seen)} to {sorted(ids(world))}")


@check(Promise.VALUES)
def target_is_within_limits(world: ContractWorld) -> None:
    """The target lies between minimum and maximum."""
    refresh(world)
    for listed in world.client.node_groups():
        size = world.client.target_size(listed.id)
        demand(
            listed.min_size <= size <= listed.max_size,
            f"target_size of {listed.id} is {size}, outside {listed.min_size} to {listed.max_size}",
        )


@check(Promise.REFRESH, touches=Touch.RESIZES)
def reads_answer_from_the_last_refresh(world: ContractWorld) -> None:
    """Between refreshes, reads return the same values, even if the cloud changes."""
    refresh(world)
    before = target(world), ids(world)
    world.set_target(world.group_id, before[0] + 1)
    demand((target(world), ids(world)) == before, "a read changed without a refresh: it calls the cloud itself")


@check(Promise.REFRESH, touches=Touch.OWN_CLOUD)
def reads_call_no_cloud(world: ContractWorld) -> None:
    """While the cloud refuses to be read, every read but refresh returns what it returned before."""
    refresh(world)
    before = {hook: _answer(call) for hook, call in _group_reads(world, world.group_id).items()}
    world.refuse(world.group_id, Trouble.UNAVAILABLE, 100, reads=True)
    for hook, call in _group_reads(world, world.group_id).items():
        after = _answer(call)
        same = after == before[hook]
        demand(
            same,
            f"{hook} returned {str(after)[:120]} while the cloud refuses reads: it calls the cloud, as only refresh may",
        )


@check(Promise.REFRESH, touches=Touch.RESIZES)
def refresh_bypasses_caches_for_wanted_groups(world: ContractWorld) -> None:
    """A refresh with the group in ``wanted`` sees a change that was made just before."""
    refresh(world)
    changed = target(world) + 1
    world.set_target(world.group_id, changed)
    refresh(world)
    demand(target(world) == changed, f"refresh of a wanted group kept the target {target(world)}, not {changed}")


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def arriving_machines_are_listed(world: ContractWorld) -> None:
    """After the next refresh, instances lists a machine that arrived, with the cloud's id."""
    ask_without_arrival(world, 1)
    arrived = world.arrive(world.group_id)
    refresh(world)
    demand(arrived in ids(world), f"machine {arrived} arrived, but instances does not list it")


@check(Promise.REFUSALS)
def unknown_groups_are_refused_in_reads(world: ContractWorld) -> None:
    """Every read of an unknown group raises NodeGroupNotFound."""
    refresh(world)
    for hook, call in _group_reads(world, UNKNOWN_GROUP).items():
        _demand_not_found(hook, refusal(call, f"{hook} of an unknown group"))


@check(Promise.REFUSALS, touches=Touch.REFUSED)
def unknown_groups_are_refused_in_writes(world: ContractWorld) -> None:
    """Every write to an unknown group raises NodeGroupNotFound."""
    refresh(world)
    client, some = world.client, [UNKNOWN_INSTANCE]
    calls: dict[str, Callable[[], object]] = {
        "increase_size": lambda: client.increase_size(UNKNOWN_GROUP, 0, 1),
        "decrease_target_size": lambda: client.decrease_target_size(UNKNOWN_GROUP, 1, 0),
        "delete_instances": lambda: client.delete_instances(UNKNOWN_GROUP, some, 2),
        "atomic_increase_size": lambda: client.atomic_increase_size(UNKNOWN_GROUP, 0, 1),
        "force_delete_instances": lambda: client.force_delete_instances(UNKNOWN_GROUP, some, 2),
    }
    _drop_unsupported(world, calls)
    for hook, call in calls.items():
        _demand_not_found(hook, refusal(call, f"{hook} of an unknown group"))


def _group_reads(world: ContractWorld, group_id: str) -> dict[str, Callable[[], object]]:
    client = world.client
    calls: dict[str, Callable[[], object]] = {
        "target_size": lambda: client.target_size(group_id),
        "instances": lambda: client.instances(group_id),
        "template_node": lambda: client.template_node(group_id),
        "failed_instances": lambda: client.failed_instances(group_id),
        "group_options": lambda: client.group_options(group_id, GroupOptions()),
        "node_price": lambda: client.node_price(group_id),
    }
    _drop_unsupported(world, calls)
    return calls


def _answer(call: Callable[[], object]) -> object:
    """Return the result of a read, or the text of its error: a price may be unknown."""
    try:
        return call()
    except ProviderError as error:
        return str(error)


def _demand_not_found(hook: str, error: ProviderError) -> None:
    kind = type(error).__name__
    demand(
        isinstance(error, NodeGroupNotFound),
        f"{hook} of an unknown group raised {kind}, not NodeGroupNotFound: {error}",
    )


def _drop_unsupported(world: ContractWorld, calls: dict[str, Callable[[], object]]) -> None:
    """Remove the hooks of capabilities that the provider does not declare."""
    for capability, hook in OPTIONAL_GROUP_HOOKS.items():
        if capability not in world.client.info.capabilities:
            calls.pop(hook, None)
