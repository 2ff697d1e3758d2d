"""Machines under way for requests of all or nothing: who is owed what, and whether it all comes (docs/adr/0013)."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import GroupOptions, GroupRef, InstanceState
from nodewright.registry.provisioning import Grant, GrantPart
from nodewright.snapshot.observation import GroupSeen

Grants = Mapping[str, Grant]
Groups = Mapping[GroupRef, GroupSeen]


def opened_grants(grants: Grants, actions: Iterable[object], known: Groups, now: float) -> dict[str, Grant]:
    """``grants`` with a part for every increase that is for a request; ``known`` are groups as they were when it was
    planned.
    """
    found = dict(grants)
    for action in actions:
        if not isinstance(action, IncreaseSize) or action.request is None:
            continue
        request, seen = action.request, known.get(action.group)
        options = seen.options if seen is not None else GroupOptions()
        wait, start = options.max_node_provision_seconds, options.max_node_startup_seconds
        held = found.get(request.id) or Grant(
            key=request.key, started=now, deadline=now + wait, patience=start, nodes=request.nodes
        )
        part = GrantPart(
            provider=action.group.provider,
            group=action.group.group_id,
            expected_target=action.expected_target,
            nodes=action.target - action.expected_target,
            ahead=_ahead(action, seen, found.values()),
        )
        found[request.id] = replace(
            held, parts=(*held.parts, part), deadline=max(held.deadline, now + wait), patience=max(held.patience, start)
        )
    return found


def settled_grants(grants: Grants, seen: Groups, before: Groups, outcomes: Sequence[Outcome], now: float) -> Grants:
    """The grants after what came in: calls that ended, machines that came or went. ``before`` are groups as they were
    in the last loop; of one that cannot be read nothing is concluded.
    """
    asked = [outcome.action for outcome in outcomes]
    found = opened_grants(grants, asked, before, now)
    if not found:
        return found
    for outcome in outcomes:
        _answer(found, outcome)
    for ref in {part.ref for grant in found.values() for part in grant.parts}:
        group = seen.get(ref)
        if group is None:
            _forget(found, ref)
        elif group.is_known:
            _deal(found, group, before.get(ref))
    for name, grant in found.items():
        reason = grant.broken or _overdue(grant, now) or _incomplete(grant)
        found[name] = replace(grant, broken=reason)
    return {name: grant for name, grant in found.items() if not (grant.broken and _is_cleared(grant))}


def _ahead(action: IncreaseSize, seen: GroupSeen | None, grants: Iterable[Grant]) -> int:
    """How many machines that are still to come are neither the increase's nor a grant's."""
    if seen is None or seen.instances is None:
        return 0
    parts = (part for grant in grants for part in grant.parts if part.ref == action.group)
    return max(0, action.expected_target - len(seen.instances) - sum(part.missing for part in parts))


def _answer(found: dict[str, Grant], outcome: Outcome) -> None:
    """What a call's end says of its grant; of one without an answer the group's target tells."""
    action = outcome.action
    if not isinstance(action, IncreaseSize) or action.request is None:
        return
    grant, wanted = found[action.request.id], action.target - action.expected_target
    if isinstance(outcome, Failed):
        answered, broken = 0, outcome.message
    elif isinstance(outcome, Done):
        short = f"group {action.group} accepted {outcome.accepted} of {wanted} machines"
        answered, broken = outcome.accepted, short if outcome.accepted < wanted else ""
    else:
        return
    part = _part(grant, action.group)
    if part is not None:
        found[action.request.id] = _with_part(grant, replace(part, nodes=answered, asked=True), broken)


def _deal(found: dict[str, Grant], group: GroupSeen, before: GroupSeen | None) -> None:
    """Give machines that have come to those that they are for, and see whether as many are still to come as are owed."""
    assert group.instances is not None
    _find_out(found, group)
    failed = {failure.instance_id or failure.failure_id for failure in group.failed or ()}
    there = [one.id for one in group.instances if one.state != InstanceState.DELETING]
    living = [machine for machine in there if machine not in failed]
    known = _known_before(group, before, living)
    owners = sorted((grant.started, name) for name, grant in found.items() if _part(grant, group.ref) is not None)
    parts = {name: part for _, name in owners if (part := _part(found[name], group.ref)) is not None}
    known.update(machine for part in parts.values() for machine in part.machines)
    for machine in living:
        if machine not in known:
            _hand_over(parts, machine)
    unborn = sum(failure.count for failure in group.failed or () if failure.instance_id is None)
    coming = max(0, (group.target or 0) - len(there) - unborn)
    for name, part in parts.items():
        kept, broken = _reconciled(part, set(living), coming)
        coming -= kept.missing
        parts[name] = replace(kept, ahead=min(kept.ahead, coming))
        found[name] = _with_part(found[name], parts[name], broken)


def _known_before(group: GroupSeen, before: GroupSeen | None, living: Sequence[str]) -> set[str]:
    """The machines that were there already. One that was made for a request, and is seen for the first time, had none."""
    if before is not None:
        return {one.id for one in before.instances or ()}
    return set() if group.group.autoprovisioned else set(living)


def _part(grant: Grant, ref: GroupRef) -> GrantPart | None:
    return next((part for part in grant.parts if part.ref == ref), None)


def _with_part(grant: Grant, fresh: GrantPart, broken: str) -> Grant:
    return replace(grant.with_part(fresh), broken=grant.broken or broken)


def _reconciled(part: GrantPart, living: set[str], coming: int) -> tuple[GrantPart, str]:
    """The part without machines that are gone and without those that nobody will send; and why that breaks its grant."""
    lost = [machine for machine in part.machines if machine not in living]
    never = max(0, part.missing - coming)
    kept = tuple(machine for machine in part.machines if machine in living)
    fresh = replace(part, machines=kept, nodes=part.nodes - len(lost) - never)
    if lost:
        return fresh, f"machine {lost[0]} of group {part.ref} failed or went"
    return fresh, f"{never} machines of group {part.ref} are asked for no more" if never else ""


def _forget(found: dict[str, Grant], ref: GroupRef) -> None:
    """The group is no more."""
    for name, grant in found.items():
        part = _part(grant, ref)
        if part is not None:
            gone = replace(part, nodes=0, machines=(), asked=True)
            found[name] = _with_part(grant, gone, f"group {ref} is gone")


def _find_out(found: dict[str, Grant], group: GroupSeen) -> None:
    """Were calls made of which nobody knows? Then the target is above what it was."""
    for name, grant in found.items():
        part = _part(grant, group.ref)
        if part is None or part.asked:
            continue
        made = min(part.nodes, max(0, (group.target or 0) - part.expected_target))
        broken = "" if made == part.nodes else f"group {group.ref} was asked for {made} of {part.nodes} machines"
        found[name] = _with_part(grant, replace(part, nodes=made, asked=True), broken)


def _hand_over(parts: dict[str, GrantPart], machine: str) -> None:
    """The oldest claim first."""
    for name, part in parts.items():
        if part.ahead > 0:
            for other, its in parts.items():
                parts[other] = replace(its, ahead=max(0, its.ahead - 1))
            return
        if part.missing > 0:
            parts[name] = replace(part, machines=(*part.machines, machine))
            return


def _overdue(grant: Grant, now: float) -> str:
    """Why its time is over: machines that did not come, or did not become ready nodes."""
    late = sum(part.missing for part in grant.parts)
    if late and grant.deadline < now:
        return f"{late} of {grant.nodes} machines did not come in time"
    return "not all machines were ready in time" if grant.deadline + grant.patience < now else ""


def _incomplete(grant: Grant) -> str:
    """Why it never was whole: a group that was to take part was not asked."""
    asked = sum(part.nodes for part in grant.parts)
    return f"{asked} of {grant.nodes} machines could be asked for" if asked < grant.nodes else ""


def _is_cleared(grant: Grant) -> bool:
    return not any(part.nodes for part in grant.parts)
