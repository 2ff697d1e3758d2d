"""Checks of listings and templates: all machines, only the provider's own, and like the nodes that they become."""

from nodewright.model.capability import Capability
from nodewright.model.errors import CloudBusy, ProviderError
from nodewright.model.group import InstanceState, NodeTemplate
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, unless_refused
from nodewright.testkit.contract.situations import (
    ask_without_arrival,
    demand_alive,
    demand_deleted,
    demand_target,
    group,
    ids,
    refresh,
    some_machine,
    target,
)
from nodewright.testkit.contract.world import ContractWorld, Touch

_CLOSE = 0.05
# Labels by which pods choose nodes, and which the core compares.
_WELL_KNOWN = (
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def every_page_is_read(world: ContractWorld) -> None:
    """Of a group with more machines than a page of the cloud's listing holds, every machine is listed."""
    world.crowd(world.group_id, 3 * world.page_size + 1)
    refresh(world)
    there, seen = world.machines(world.group_id), ids(world)
    demand(seen == there, f"the cloud has {len(there)} machines, instances lists {len(seen & there)} of them")


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def starting_machines_are_listed(world: ContractWorld) -> None:
    """A machine that exists and does not run yet is listed, as creating."""
    ask_without_arrival(world, 1)
    begun = world.begin(world.group_id)
    refresh(world)
    states = {one.id: one.state for one in world.client.instances(world.group_id)}
    demand(begun in states, f"{begun} is starting, and instances does not list it")
    demand(states[begun] == InstanceState.CREATING, f"{begun} is starting, and instances lists it as {states[begun]}")


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def a_stopped_machine_is_listed(world: ContractWorld) -> None:
    """A machine that was stopped and not deleted still exists: it is listed, and can be deleted."""
    refresh(world)
    stopped = some_machine(world)
    world.stop(stopped)
    refresh(world)
    if stopped not in world.machines(world.group_id):
        return  # this cloud deletes what stops
    demand(
        stopped in ids(world),
        f"{stopped} was stopped, and instances does not list it, so the engine would never delete it",
    )
    before = target(world)
    accepted = world.client.delete_instances(world.group_id, [stopped], before)
    demand(accepted == (stopped,), f"delete_instances of {stopped}, which was stopped, returned {accepted!r}")
    demand_target(world, before - 1, "delete_instances of a stopped machine")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def deletion_among_machines_that_are_gone_is_exact(world: ContractWorld) -> None:
    """If one of two named machines has vanished, the other is deleted, and the target falls by one."""
    ask_without_arrival(world, 1)
    world.arrive(world.group_id)
    refresh(world)
    lost, victim, kept = sorted(world.machines(world.group_id))
    world.lose(lost)
    refresh(world)
    demand(lost not in ids(world), f"{lost} has vanished, and instances still lists it")
    before = target(world)
    try:
        accepted = world.client.delete_instances(world.group_id, [lost, victim], before)
    except CloudBusy:  # a cloud that replaces what vanished, and runs one operation at a time
        demand_alive(world, frozenset({victim, kept}), "delete_instances, which the busy cloud refused,")
        demand_target(world, before, "delete_instances, which the busy cloud refused,")
        return
    demand(accepted == (victim,), f"delete_instances of {victim} and of {lost}, which is gone, returned {accepted!r}")
    demand_alive(world, frozenset({kept}), f"delete_instances of {victim} and of one that is gone")
    demand(victim not in world.machines(world.group_id), f"delete_instances accepted {victim} and did not delete it")
    demand_target(world, before - 1, "delete_instances of a machine that is there and one that is gone")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def a_machine_that_vanishes_before_a_deletion_moves_it_to_no_other(world: ContractWorld) -> None:
    """A machine vanishes after the refresh; a deletion of another one then ends that one, or nothing."""
    raised = ask_without_arrival(world, 1)
    world.arrive(world.group_id)
    refresh(world)
    lost, victim, *_ = [one.id for one in world.client.instances(world.group_id)]
    world.lose(lost)
    world.set_target(world.group_id, raised)  # if the number of servers is the target, this requests another one
    alive = world.machines(world.group_id)
    accepted: tuple[str, ...] = unless_refused(
        lambda: world.client.delete_instances(world.group_id, [victim], raised), (), "delete_instances"
    )
    what = f"delete_instances of {victim}, after {lost} had vanished,"
    demand_alive(world, alive - {victim}, what)
    demand_deleted(world, alive, accepted, what)
    demand_target(world, raised - len(accepted), what)


@check(Promise.STRANGERS, touches=Touch.OWN_CLOUD)
def strangers_are_not_listed(world: ContractWorld) -> None:
    """Groups and machines that are not the provider's are not listed."""
    strange = world.stranger()
    refresh(world)
    listed = [one.id for one in world.client.node_groups()]
    demand(strange not in listed, f"node_groups lists {strange}, which is not the provider's")
    found = {one.id for name in listed for one in world.client.instances(name)} & world.machines(strange)
    demand(not found, f"instances lists {', '.join(sorted(found))}, which belongs to {strange}")


@check(Promise.STRANGERS, touches=Touch.OWN_CLOUD)
def strangers_are_not_deleted(world: ContractWorld) -> None:
    """A deletion that names a machine of another group, or of another owner, ends nothing and leaves the target."""
    strange = world.stranger()
    refresh(world)
    before, theirs = target(world), world.machines(strange)
    accepted: tuple[str, ...] = ()
    try:
        accepted = world.client.delete_instances(world.group_id, sorted(theirs), before)
    except ProviderError as error:
        demand(error.code != "unexpectedError", f"delete_instances of a machine of another owner crashed: {error}")
    alive = world.machines(strange)
    demand(alive == theirs, f"delete_instances in {world.group_id} ended {sorted(theirs - alive)} of {strange}")
    demand(not accepted, f"delete_instances in {world.group_id} accepted {accepted!r} of {strange}")
    demand_target(world, before, "delete_instances of a machine of another owner")


@check(Promise.IDENTITY, touches=Touch.OWN_CLOUD)
def own_groups_are_told_apart(world: ContractWorld) -> None:
    """A group that is added while the provider runs is listed, with its own machines and size and no failures of others."""
    refresh(world)
    group(world)
    other = world.sibling()
    raised = ask_without_arrival(world, 1)
    tells = world.client.supports(Capability.FAST_FAILURE_DETECTION, world.group_id)
    if tells and type(world).fail_creation is not ContractWorld.fail_creation:
        world.fail_creation(world.group_id)
    refresh(world)
    listed = [one.id for one in world.client.node_groups()]
    demand(other in listed, f"node_groups does not list {other}, which was added")
    for name in (world.group_id, other):
        there, seen = world.machines(name), {one.id for one in world.client.instances(name)}
        demand(there <= seen, f"instances of {name} lacks {', '.join(sorted(there - seen))}")
    mixed = {one.id for one in world.client.instances(other)} - world.machines(other)
    demand(not mixed, f"instances of {other} lists {', '.join(sorted(mixed))}, which is not of it")
    demand_target(world, raised, f"adding {other}")
    _demand_alone(world, other, "was added")
    failed = world.client.failed_instances(other) or ()
    demand(not failed, f"a creation failed in {world.group_id}, and failed_instances of {other} tells of it: {failed}")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def writes_to_a_group_leave_other_own_groups_alone(world: ContractWorld) -> None:
    """An increase, a deletion, and a deletion of a machine of another group, change nothing in that other group."""
    other = world.sibling()
    refresh(world)
    before, theirs = target(world), world.machines(other)
    world.client.increase_size(world.group_id, before, before + 1)
    _demand_alone(world, other, f"stood by when {world.group_id} was raised")
    victims = [*theirs, some_machine(world)]
    for victim in victims:
        refresh(world)
        deleted: tuple[str, ...] = unless_refused(
            lambda victim=victim: world.client.delete_instances(world.group_id, [victim], target(world)),  # type: ignore[misc]  # mypy cannot type a lambda with a default
            (),
            "delete_instances",
        )
        strange = theirs & set(deleted)
        demand(not strange, f"delete_instances in {world.group_id} accepted {', '.join(strange)} of {other}")
        _demand_alone(world, other, f"stood by when {victim} was to be deleted in {world.group_id}")
    demand(world.machines(other) == theirs, f"writes to {world.group_id} ended machines of {other}")


@check(Promise.LIMITS, touches=Touch.OWN_CLOUD)
def the_configured_limits_are_kept(world: ContractWorld) -> None:
    """The limits that the operator sets with --nodes are listed, and no increase goes beyond the maximum."""
    world.set_limits(world.group_id, 1, 5)
    refresh(world)
    found, before = group(world), target(world)
    demand(found.min_size == 1, f"the minimum is set to 1, and node_groups lists {found.min_size}")
    demand(found.max_size == 5, f"the maximum is set to 5, and node_groups lists {found.max_size}")
    unless_refused(lambda: world.client.increase_size(world.group_id, before, 6), 0, "increase_size beyond the maximum")
    refresh(world)
    demand(target(world) <= 5, f"the maximum is set to 5, and increase_size went to {target(world)}")


@check(Promise.NODES, touches=Touch.OWN_CLOUD)
def ids_are_the_nodes_provider_ids(world: ContractWorld) -> None:
    """The id of a machine is the providerID of its node."""
    refresh(world)
    expected = {world.node_of(machine).spec.provider_id for machine in sorted(world.machines(world.group_id))}
    seen = ids(world)
    demand(expected == seen, f"nodes have the providerIDs {sorted(expected)}, instances lists {sorted(seen)}")


@check(Promise.NODES, touches=Touch.OWN_CLOUD)
def templates_offer_what_nodes_offer(world: ContractWorld) -> None:
    """Every amount that the template offers is within 5 % of what the node offers."""
    template, node = _both(world)
    for resource in sorted({*template.allocatable, *node.status.allocatable}):
        offered, real = template.allocatable.get(resource), node.status.allocatable.get(resource)
        told, is_ = (float(one.nano) if one is not None else 0.0 for one in (offered, real))
        said = f"the template offers {resource} {offered}, the node {real}"
        demand(abs(told - is_) <= _CLOSE * max(told, is_), said)


@check(Promise.NODES, touches=Touch.OWN_CLOUD)
def templates_have_the_nodes_labels(world: ContractWorld) -> None:
    """The node has the template's labels; the template has the node's architecture, system, type, zone and region."""
    template, node = _both(world)
    labels = node.metadata.labels
    for key, value in template.labels.items():
        has = labels.get(key)
        demand(key == HOSTNAME_LABEL or has == value, f"the template has the label {key}={value}, the node {has}")
    for key in _WELL_KNOWN:
        has = template.labels.get(key)
        demand(
            key not in labels or has == labels[key],
            f"the node has the label {key}={labels.get(key)}, the template {has}",
        )


@check(Promise.NODES, touches=Touch.OWN_CLOUD)
def templates_have_the_nodes_taints(world: ContractWorld) -> None:
    """The template has exactly the taints with which the node comes."""
    template, node = _both(world)
    told = {(one.key, one.value, one.effect) for one in template.taints}
    real = {(one.key, one.value, one.effect) for one in node.spec.taints}
    demand(told == real, f"the template has the taints {sorted(told)}, the node {sorted(real)}")


def _demand_alone(world: ContractWorld, other: str, what: str) -> None:
    """Demand that the sibling has the one machine with which it was made."""
    refresh(world)
    size = world.client.target_size(other)
    demand(size == 1, f"{other}, a group with one machine, {what}, and has the target {size}")


def _both(world: ContractWorld) -> tuple[NodeTemplate, Node]:
    """Return the group's template, and the node of a machine of the group."""
    refresh(world)
    return world.client.template_node(world.group_id), world.node_of(some_machine(world))
