"""Checks of single values (templates, options, prices, names) and of undeclared capabilities."""

from contextlib import suppress
from typing import Any

import msgspec

from nodewright.model.capability import Capability
from nodewright.model.group import GroupOptions, MachineType, NodeGroup, Price
from nodewright.model.node import ZONE_LABEL
from nodewright.model.quantity import Quantity
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import BrokenPromise, check, demand
from nodewright.testkit.contract.situations import group, refresh, some_machine, target
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch


@check(Promise.VALUES)
def templates_parse(world: ContractWorld) -> None:
    """Every group has a template with cpu, memory and pods above zero; all its fields have valid types."""
    refresh(world)
    for listed in world.client.node_groups():
        template = world.client.template_node(listed.id)
        _demand_types(template, f"template_node of {listed.id}")
        for resource in ("cpu", "memory", "pods"):
            demand(template.allocatable[resource].nano > 0, f"template_node of {listed.id} offers no {resource}")


@check(Promise.VALUES, touches=Touch.OWN_CLOUD)
def empty_groups_have_a_template(world: ContractWorld) -> None:
    """A group without machines has a template."""
    _empty(world)
    _demand_types(world.client.template_node(world.group_id), "template_node of an empty group")


@check(Promise.VALUES, touches=Touch.OWN_CLOUD)
def empty_groups_stay_listed(world: ContractWorld) -> None:
    """A group without machines is listed with the same limits and the target 0, also by a new provider object."""
    refresh(world)
    before = group(world)
    _empty(world)
    _demand_empty(world, before, "once its last machine is deleted")
    with suppress(CannotSteer):
        world.reconnect()
        refresh(world)
    _demand_empty(world, before, "by a new provider object, without machines")


@check(Promise.VALUES, touches=Touch.OWN_CLOUD)
def templates_do_not_depend_on_machines(world: ContractWorld) -> None:
    """The template of a group is the same without machines as while some run: amounts, labels but the zone's, and taints."""
    refresh(world)
    some_machine(world)
    before = world.client.template_node(world.group_id)
    _empty(world)
    after = world.client.template_node(world.group_id)
    # The next machine of a group in several zones goes to the zone that has the fewest.
    of_zones = {ZONE_LABEL, *(world.client.ignored_labels() or ())}
    for field in ("allocatable", "capacity", "labels", "taints"):
        full, empty = getattr(before, field), getattr(after, field)
        if field == "labels":
            full, empty = ({key: told[key] for key in told.keys() - of_zones} for told in (full, empty))
        demand(full == empty, f"template_node says {field} {full} while machines run, and {empty} without machines")


@check(Promise.VALUES)
def values_have_valid_types_throughout(world: ContractWorld) -> None:
    """Groups, instances and provider_info have valid types in every field."""
    refresh(world)
    _demand_types(world.client.info, "provider_info")
    for listed in world.client.node_groups():
        _demand_types(listed, f"node_groups about {listed.id}")
        for instance in world.client.instances(listed.id):
            _demand_types(instance, f"instances about {instance.id}")


@check(Promise.CAPABILITIES)
def undeclared_capabilities_are_absent(world: ContractWorld) -> None:
    """A group offers only declared capabilities, and switches off only declared capabilities."""
    refresh(world)
    declared = world.client.info.capabilities
    for listed in world.client.node_groups():
        strange = sorted(set(listed.switched_off) - declared)
        demand(not strange, f"group {listed.id} switches off {', '.join(strange)}, which is not declared")
    offered = world.client.capabilities(group(world))
    demand(offered <= declared, f"group {world.group_id} offers {sorted(offered - declared)}, which is not declared")


@check(Promise.OPTIONS, capability=Capability.GROUP_OPTIONS)
def group_options_start_from_the_defaults(world: ContractWorld) -> None:
    """group_options returns the defaults for options that the group does not set."""
    refresh(world)
    one = GroupOptions(max_node_provision_seconds=1234.0, max_node_startup_seconds=2345.0)
    other = GroupOptions(max_node_provision_seconds=3456.0, max_node_startup_seconds=4567.0)
    first = world.client.group_options(world.group_id, one)
    second = world.client.group_options(world.group_id, other)
    _demand_types(first, "group_options")
    for field in ("max_node_provision_seconds", "max_node_startup_seconds"):
        own = getattr(first, field) == getattr(second, field)
        kept = getattr(first, field) == getattr(one, field) and getattr(second, field) == getattr(other, field)
        demand(own or kept, f"group_options returns neither the default nor a fixed value for {field}")


@check(Promise.PRICES, capability=Capability.PRICING)
def machines_cost_something(world: ContractWorld) -> None:
    """The price of a machine is above zero, and its fields have valid types."""
    refresh(world)
    price = _price(world)
    _demand_types(price, "node_price")
    demand(price.per_hour > 0, "node_price says that a machine costs nothing")


@check(Promise.PRICES, capability=Capability.PRICING)
def prices_change_only_with_a_refresh(world: ContractWorld) -> None:
    """Without a refresh the price of a machine is the same ten minutes later."""
    refresh(world)
    before = _price(world)
    world.pass_time(600)
    later = _price(world)
    demand(later == before, f"node_price says {before.per_hour} and without a refresh ten minutes later {later}")


@check(Promise.ACCELERATORS, capability=Capability.GPU)
def gpu_names_are_told(world: ContractWorld) -> None:
    """gpu_label returns a label and gpu_resources at least one resource."""
    label, resources = world.client.gpu_label(), world.client.gpu_resources()
    demand(bool(label), "gpu_label is empty")
    demand(bool(resources), "gpu_resources is empty: no resource would ever count as an accelerator")
    demand(world.client.gpu_types() is not None, "gpu_types returns None")


@check(Promise.SIMILARITY, capability=Capability.SIMILARITY)
def similarity_labels_are_keys(world: ContractWorld) -> None:
    """Each list of the similarity hooks has non-empty label keys, each once. A key may be in both lists."""
    for labels in (world.client.ignored_labels() or (), world.client.same_group_labels() or ()):
        demand(all(labels), "a label of the similarity hooks has an empty key")
        demand(len(set(labels)) == len(labels), f"one of the labels {', '.join(sorted(labels))} is named twice")


@check(Promise.AUTOPROVISIONING, capability=Capability.AUTOPROVISIONING)
def machine_types_are_complete(world: ContractWorld) -> None:
    """Machine types have unique names, and templates with cpu, memory and pods."""
    kinds = world.client.machine_types() or ()
    names = [kind.name for kind in kinds]
    demand(len(set(names)) == len(names), "machine_types names a type twice")
    for kind in kinds:
        _demand_types(kind, f"machine type {kind.name}")
        _demand_complete(kind)


@check(Promise.SIMULATION, capability=Capability.SIMULATION)
def simulated_machines_are_the_running_ones(world: ContractWorld) -> None:
    """running_machines lists the machines that exist, and next_change is not negative."""
    refresh(world)
    starts = [start for start in world.client.running_machines() if start.group_id == world.group_id]
    strange = {start.instance_id for start in starts} ^ world.machines(world.group_id)
    demand(not strange, f"running_machines and the cloud disagree about {', '.join(sorted(strange))}")
    demand(world.client.next_change() >= 0, "next_change is negative")


def _empty(world: ContractWorld) -> None:
    """Delete all machines of the group, and wait until they are gone."""
    refresh(world)
    alive = sorted(world.machines(world.group_id))
    world.client.delete_instances(world.group_id, alive, world.client.target_size(world.group_id))
    world.pass_time(24 * 3600)
    refresh(world)
    left = world.client.instances(world.group_id)
    demand(not left, f"{len(left)} machines are still listed a day after the last one was deleted")


def _demand_empty(world: ContractWorld, before: NodeGroup, when: str) -> None:
    """Raise BrokenPromise unless the group is listed with the limits of ``before`` and the target 0."""
    listed, size = group(world), target(world)
    limits, wanted = (listed.min_size, listed.max_size), (before.min_size, before.max_size)
    demand(limits == wanted, f"{when}, {world.group_id} is listed with the limits {limits}, not {wanted}")
    demand(size == 0, f"{when}, {world.group_id} has the target {size}, not 0")


def _price(world: ContractWorld) -> Price:
    price = world.client.node_price(world.group_id)
    if price is None:
        raise BrokenPromise(f"pricing is declared, but switched off for {world.group_id}")
    return price


def _demand_complete(kind: MachineType) -> None:
    missing = [name for name in ("cpu", "memory", "pods") if name not in kind.template.allocatable]
    demand(not missing, f"machine type {kind.name} lacks {', '.join(missing)}")


def _demand_types(value: object, what: str) -> None:
    """Raise BrokenPromise unless the fields of a value that a plugin returned have the declared types."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_encode)
        msgspec.convert(plain, type(value), dec_hook=_decode)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BrokenPromise(f"{what} holds a value of a wrong type: {error}") from error


def _encode(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"{value!r} of type {type(value).__name__} is no part of the contract")


def _decode(kind: type, raw: Any) -> Any:
    if kind is Quantity:
        return Quantity.of(raw)
    raise TypeError(f"{kind.__name__} is no part of the contract")
