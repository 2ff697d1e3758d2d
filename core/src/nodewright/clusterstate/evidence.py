"""Which reports of failed creations are believed: a machine that ran is none (docs/adr/0023-evidence-for-deletions.md)."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from nodewright.clusterstate.state import Memory
from nodewright.model.group import GroupRef, Instance, InstanceState
from nodewright.snapshot.observation import GroupSeen, Observation

Machine = tuple[GroupRef, str]


def with_evidence(seen: Observation, memory: Memory) -> Observation:
    """Return the observation in which every machine that ran is an ordinary machine, whatever the cloud's status says.

    Evidence of having run, any of which is enough: it is a node, for its kubelet has registered; the cloud listed it as
    running in the last loop; this was known of it before. A machine that another group lists is none of this group's
    failed creations either, and stays with that group.
    """
    reported = {ref: group for ref, group in seen.groups.items() if group.failed and group.instances is not None}
    if not reported:
        return seen
    # Ids compare without case: to spare a machine too many harms nothing.
    registered = {node.spec.provider_id.lower() for _, node in seen.snapshot.nodes()}
    owners = {instance.id.lower(): ref for ref, group in seen.groups.items() for instance in group.instances or ()}
    judged = {}
    for ref, group in reported.items():
        named = {failure.instance_id for failure in group.failed or () if failure.instance_id is not None}
        foreign = {one for one in named if owners.get(one.lower(), ref) != ref}
        ran = {one for one in named if one.lower() in registered or (ref, one) in memory.ran}
        ran |= _listed_as_running(memory.last_known.get(ref))
        judged[ref] = _with_machines(group, ran, foreign)
    return replace(seen, groups={**seen.groups, **judged})


def remember_ran(memory: Memory, groups: Mapping[GroupRef, GroupSeen]) -> frozenset[Machine]:
    """Return the machines that ran and are reported as failed creations. A group that cannot be read keeps its own."""
    told = {(ref, one.instance_id) for ref, group in groups.items() for one in group.disputed if one.instance_id}
    unread = {ref for ref, group in groups.items() if not group.is_known}
    return frozenset(told | {(ref, one) for ref, one in memory.ran if ref in unread})


def _listed_as_running(before: GroupSeen | None) -> set[str]:
    instances = before.instances or () if before is not None else ()
    return {instance.id for instance in instances if instance.state == InstanceState.RUNNING}


def _with_machines(group: GroupSeen, ran: Collection[str], foreign: Collection[str]) -> GroupSeen:
    """Return the group with those of its failures that are about machines in ``ran`` or ``foreign`` set aside as disputed;
    the machines in ``ran`` are instances of it.
    """
    instances, failures = group.instances or (), group.failed or ()
    going = {instance.id for instance in instances if instance.state == InstanceState.DELETING}
    spared = {*ran, *foreign} - going
    disputed = tuple(one for one in failures if one.instance_id in spared)
    if not disputed:
        return group
    named = dict.fromkeys(one.instance_id for one in disputed if one.instance_id and one.instance_id not in foreign)
    return replace(
        group,
        instances=(*(one for one in instances if one.id not in named), *(Instance(id=name) for name in named)),
        failed=tuple(one for one in failures if one.instance_id not in spared),
        disputed=disputed,
    )
