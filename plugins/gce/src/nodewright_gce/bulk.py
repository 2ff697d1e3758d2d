"""Assigns instances to groups, when all instances of a zone are listed with one call.

Only groups at rest are read in this way: the manager's counts must agree with the instances found. Other groups are
read one by one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from nodewright.spec import InstanceState
from nodewright_gce.refs import Ref, parse_instance_url, parse_owner
from nodewright_gce.shapes import Manager, Vm
from nodewright_gce.states import Machine, read_vm_state

_SUFFIX = re.compile(r"(?P<base>.+)-[a-z0-9]{4}")


def assign(groups: Mapping[Ref, Manager], vms: Iterable[Vm]) -> dict[Ref, tuple[Machine, ...]]:
    """Return the machines of groups at rest whose counts agree; leave the other groups out."""
    bases = _owners_by_base(groups)
    found: dict[Ref, list[Machine]] = defaultdict(list)
    for vm in vms:
        machine = read_vm_state(vm)
        if machine is not None:
            owner = owner_of(vm) or _owner_by_name(machine.ref, bases)
            if owner is not None:
                found[owner].append(machine)
    return {
        ref: tuple(sorted(found[ref], key=lambda one: one.ref))
        for ref, manager in groups.items()
        if _agree(manager, found[ref])
    }


def is_at_rest(manager: Manager) -> bool:
    """Return whether the manager has nothing to do and all requested machines exist."""
    return manager.current_actions.none == manager.current_actions.total == manager.target


def owner_of(vm: Vm) -> Ref | None:
    """Return the group that created the instance according to its metadata; None: the metadata do not say."""
    ref = parse_instance_url(vm.self_link)
    return parse_owner(vm.created_by, ref.project) if ref is not None else None


def _owners_by_base(groups: Mapping[Ref, Manager]) -> dict[Ref, Ref | None]:
    """Return groups by zone and base name of their instances; None where several groups share a base name."""
    owners: dict[Ref, Ref | None] = {}
    for ref, manager in groups.items():
        base = Ref(ref.project, ref.zone, manager.base_instance_name or ref.name)
        owners[base] = None if base in owners else ref
    return owners


def _owner_by_name(machine: Ref, bases: Mapping[Ref, Ref | None]) -> Ref | None:
    """Return the group by the instance's name: managers append a dash and four characters to the base name."""
    found = _SUFFIX.fullmatch(machine.name)
    return bases.get(Ref(machine.project, machine.zone, found["base"])) if found is not None else None


def _agree(manager: Manager, machines: Iterable[Machine]) -> bool:
    states = [one.state for one in machines]
    return is_at_rest(manager) and len(states) == manager.target and set(states) <= {InstanceState.RUNNING}
