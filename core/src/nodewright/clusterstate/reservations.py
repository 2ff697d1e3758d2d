"""Reservations: which groups owe an all-or-nothing request machines (docs/adr/0013-provisioning-requests.md)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from nodewright.clusterstate.backoff import (
    FEWER_ACCEPTED,
    MACHINE_LOST,
    NEVER_READY,
    NEVER_REGISTERED,
    NO_ANSWER,
    TIMEOUT,
)
from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Memory, Reservation, ReservationPart, Shortfall
from nodewright.clusterstate.readiness import class_of, is_up, was_never_ready
from nodewright.model.action import DecreaseTargetSize, Done, Failed, IncreaseSize, Outcome, Unknown
from nodewright.model.group import GroupOptions, GroupRef, Machine
from nodewright.model.node import Node
from nodewright.model.policy import Policy
from nodewright.model.settings import TemplateSettings
from nodewright.snapshot.observation import GroupSeen

Reservations = Mapping[str, Reservation]
Groups = Mapping[GroupRef, GroupSeen]

# Seconds after its deadline for which a broken reservation is cleaned up. Afterwards its machines are ordinary ones.
_LEFTOVER_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class FoldContext:
    """The facts that one fold has before it settles reservations and evaluates groups.

    ``seen``: the groups as read now. ``groups``: the groups with their provision times. ``since``: when each instance
    without a node was first seen.
    """

    seen: Groups
    groups: Groups
    members: Membership
    since: Mapping[Machine, float]
    memory: Memory
    templates: TemplateSettings
    policy: Policy
    now: float

    @property
    def before(self) -> Groups:
        """Return the groups as they were in the last loop."""
        return self.memory.last_known


@dataclass(frozen=True, kw_only=True)
class SettledReservations:
    """The reservations, and what was found about groups.

    ``shortfalls``: what groups failed to deliver for good. ``late``: machines of reservations that should be nodes by
    now.
    """

    reservations: Reservations
    shortfalls: Mapping[GroupRef, Shortfall] = field(default_factory=dict)
    late: frozenset[Machine] = frozenset()


def open_reservations(
    reservations: Reservations, asked: Iterable[tuple[object, float]], known: Groups, options: Groups
) -> dict[str, Reservation]:
    """Return ``reservations`` with a part for each increase that is for a request.

    ``asked``: increases and when they were made (epoch seconds). ``known``: the groups when it was planned.
    ``options``: the groups with their provision times.
    """
    found = dict(reservations)
    for action, at in asked:
        if not isinstance(action, IncreaseSize) or action.request is None:
            continue
        request, timed = action.request, options.get(action.group)
        times = timed.options if timed is not None else GroupOptions()
        deadline, start = at + times.max_node_provision_seconds, times.max_node_startup_seconds
        held = found.get(request.id)
        if held is None:
            held = Reservation(key=request.key, started=at, deadline=deadline, patience=start, nodes=request.nodes)
        part = ReservationPart(
            provider=action.group.provider,
            group=action.group.group_id,
            expected_target=action.expected_target,
            nodes=action.target - action.expected_target,
            ahead=_ahead(action, known.get(action.group), found.values()),
            deadline=deadline,
        )
        found[request.id] = replace(
            held,
            parts=(*held.parts, part),
            deadline=max(held.deadline, deadline),
            patience=max(held.patience, start),
        )
    return found


def settle_reservations(context: FoldContext, outcomes: Sequence[Outcome]) -> SettledReservations:
    """Return the reservations after calls ended, machines came or went, and time passed.

    Nothing is concluded about an unreadable group.
    """
    asked = [(outcome.action, outcome.started) for outcome in outcomes]
    found = open_reservations(context.memory.provisioning.reservations, asked, context.before, context.groups)
    return _Settlement(context, found).settle(outcomes) if found else SettledReservations(reservations=found)


class _Settlement:
    """Settles reservations. A group is blamed only for what breaks a reservation that was whole."""

    def __init__(self, context: FoldContext, found: dict[str, Reservation]) -> None:
        self._context = context
        self._found = found
        self._whole = {name for name, reservation in found.items() if not reservation.broken}
        self._shortfalls: dict[GroupRef, Shortfall] = {}
        self._late: set[Machine] = set()
        self._nodes: dict[GroupRef, dict[str, Node]] = {}

    def settle(self, outcomes: Sequence[Outcome]) -> SettledReservations:
        context, found = self._context, self._found
        for outcome in outcomes:
            self._answer(outcome)
        unanswered = {outcome.action.group for outcome in outcomes if isinstance(outcome, Unknown)}
        for ref in {part.ref for reservation in found.values() for part in reservation.parts}:
            group = context.seen.get(ref)
            if group is None:
                _forget(found, ref)
            elif group.is_known:
                self._find_out(group, is_unanswered=ref in unanswered)
                self._deal(group)
        for name, reservation in found.items():
            reason = reservation.broken or self._overdue(name, reservation) or _incomplete(reservation)
            found[name] = replace(reservation, broken=reason)
        kept = {name: reservation for name, reservation in found.items() if not self._is_over(reservation)}
        return SettledReservations(reservations=kept, shortfalls=self._shortfalls, late=frozenset(self._late))

    def _blame(self, name: str, ref: GroupRef, shortfall: Shortfall) -> None:
        if name in self._whole:
            self._shortfalls.setdefault(ref, shortfall)

    def _answer(self, outcome: Outcome) -> None:
        """Apply the result of a call. Without an answer the group's target shows it later."""
        action = outcome.action
        if isinstance(action, DecreaseTargetSize) and not outcome.is_busy:
            self._note_withdrawal(outcome, action)
        if not isinstance(action, IncreaseSize) or action.request is None:
            return
        name, wanted = action.request.id, action.target - action.expected_target
        reservation = self._found[name]
        if isinstance(outcome, Failed):
            accepted, broken = 0, outcome.message
        elif isinstance(outcome, Done):
            short = f"group {action.group} accepted {outcome.accepted} of {wanted} machines"
            accepted, broken = outcome.accepted, short if outcome.accepted < wanted else ""
            if broken and not self._was_limited(action.group, action.target):
                self._blame(name, action.group, Shortfall(FEWER_ACCEPTED, broken))
        else:
            return
        part = _part(reservation, action.group)
        if part is not None:
            self._found[name] = _with_part(reservation, replace(part, nodes=accepted, asked=True), broken)

    def _note_withdrawal(self, outcome: Outcome, action: DecreaseTargetSize) -> None:
        """Remember a withdrawal that failed or had no effect: it is repeated after a pause."""
        group = self._context.seen.get(action.group)
        is_unchanged = group is not None and (group.target or 0) >= action.expected_target
        failed = is_unchanged or not isinstance(outcome, Done)
        for name, reservation in self._found.items():
            part = _part(reservation, action.group)
            if part is not None and reservation.broken:
                tried = outcome.started if failed else 0.0
                self._found[name] = reservation.with_part(replace(part, withdrawn_at=tried))

    def _was_limited(self, ref: GroupRef, target: int) -> bool:
        """Return whether an operator lowered the group's maximum below ``target``: then the group is not at fault."""
        group = self._context.seen.get(ref)
        return group is not None and group.group.max_size < target

    def _find_out(self, group: GroupSeen, *, is_unanswered: bool) -> None:
        """Conclude from the target whether calls without a known result were made.

        A group is at fault if its cloud did not answer and did not raise the target in full. After a crash no group is.
        """
        for name, reservation in self._found.items():
            part = _part(reservation, group.ref)
            if part is None or part.asked:
                continue
            made = min(part.nodes, max(0, (group.target or 0) - part.expected_target))
            broken = "" if made == part.nodes else f"group {group.ref} was asked for {made} of {part.nodes} machines"
            if broken and is_unanswered and not self._was_limited(group.ref, part.expected_target + part.nodes):
                said = f"its cloud did not answer, and {made} of {part.nodes} machines are asked for"
                self._blame(name, group.ref, Shortfall(NO_ANSWER, said))
            self._found[name] = _with_part(reservation, replace(part, nodes=made, asked=True), broken)

    def _deal(self, group: GroupSeen) -> None:
        """Assign new machines to reservations, and check that as many are still to come as are owed.

        Older reservations come first, and broken ones last: what is withdrawn for them, others are still owed.
        """
        assert group.instances is not None
        found = self._found
        failed = {failure.instance_id or failure.failure_id for failure in group.failed or ()}
        there = [one.id for one in group.staying]
        living = [machine for machine in there if machine not in failed]
        known = _known_before(group, self._context.before.get(group.ref), living)
        owners = sorted(
            (bool(reservation.broken), reservation.started, name)
            for name, reservation in found.items()
            if _part(reservation, group.ref) is not None
        )
        parts = {name: part for *_, name in owners if (part := _part(found[name], group.ref)) is not None}
        known.update(machine for part in parts.values() for machine in part.machines)
        for machine in living:
            if machine not in known:
                _hand_over(parts, machine)
        listed = {one.id for one in group.instances}
        unborn = sum(one.count for one in group.failed or () if one.instance_id not in listed)
        coming = max(0, (group.target or 0) - len(there) - unborn)
        ordinary = self._count_ordinary(group, parts.values(), living)
        for name, part in parts.items():
            # What was withdrawn already must not be taken again from other requests.
            due = max(0, coming - ordinary) if found[name].broken else coming
            kept, lost, broken = _reconciled(part, set(living), due)
            coming -= kept.missing
            parts[name] = replace(kept, ahead=min(kept.ahead, coming))
            found[name] = _with_part(found[name], parts[name], broken)
            if any((group.ref, machine) in self._context.memory.unregistered_since for machine in lost):
                self._blame(name, group.ref, Shortfall(MACHINE_LOST, f"{broken} before it was a node"))

    def _count_ordinary(self, group: GroupSeen, parts: Iterable[ReservationPart], living: Sequence[str]) -> int:
        """Return how many machines without an instance ordinary scale-up requests are owed."""
        requests = self._context.memory.requests.get(group.ref, ())
        owed = sum(request.increase for request in requests if not request.atomic)
        claimed = {machine for part in parts for machine in part.machines}
        starting = sum((group.ref, one) in self._context.since and one not in claimed for one in living)
        return max(0, owed - starting)

    def _overdue(self, name: str, reservation: Reservation) -> str:
        """Return why the reservation's time is over; empty if it is not."""
        reasons = [reason for part in reservation.parts for reason in self._find_overdue(name, reservation, part)]
        if reasons:
            return reasons[0]
        if not reservation.deadline + reservation.patience < self._context.now:
            return ""
        reason = "not all machines were ready in time"
        for part in reservation.parts:
            if not all(self._is_ready(part, machine) for machine in part.machines):
                self._blame(name, part.ref, Shortfall(NEVER_READY, reason))
        return reason

    def _find_overdue(self, name: str, reservation: Reservation, part: ReservationPart) -> Iterator[str]:
        """Yield why a group is late with its part.

        The group has one provision time, and each of its nodes one startup time.
        """
        context, deadline = self._context, part.deadline or reservation.deadline
        if part.missing and deadline < context.now:
            reason = f"{part.missing} of {reservation.nodes} machines did not come in time"
            self._blame(name, part.ref, Shortfall(TIMEOUT, reason, reservation.started))
            yield reason
        group = context.groups.get(part.ref)
        if not context.policy.blames_groups_for_reservations or group is None:
            return
        nodes = [(machine, self._node(part, machine)) for machine in part.machines]
        late = [machine for machine, node in nodes if node is None and self._is_late(part, machine, deadline)]
        if late:
            self._late |= {(part.ref, machine) for machine in late}
            reason = f"{len(late)} of {reservation.nodes} machines did not become nodes in time"
            self._blame(name, part.ref, Shortfall(NEVER_REGISTERED, reason))
            yield reason
        unready = sum(node is not None and self._started_in_vain(node, group) for _, node in nodes)
        if unready:
            reason = f"{unready} of {reservation.nodes} machines did not become ready in time"
            self._blame(name, part.ref, Shortfall(NEVER_READY, reason))
            yield reason

    def _is_late(self, part: ReservationPart, machine: str, deadline: float) -> bool:
        """Return whether a machine is late by the reservation's deadline or by its own."""
        context, key = self._context, (part.ref, machine)
        if key not in context.since:
            return False  # it failed or is being deleted
        patience = context.groups[part.ref].options.max_node_provision_seconds
        return deadline < context.now or context.since[key] + patience < context.now or key in context.memory.late

    def _started_in_vain(self, node: Node, group: GroupSeen) -> bool:
        context = self._context
        startup_seconds = group.options.max_node_startup_seconds
        found = class_of(node, context.templates, startup_seconds, context.now, context.members.accelerators)
        return found == "unready" and was_never_ready(node)

    def _is_ready(self, part: ReservationPart, machine: str) -> bool:
        node = self._node(part, machine)
        return node is not None and is_up(node, self._context.templates, self._context.members.accelerators)

    def _node(self, part: ReservationPart, machine: str) -> Node | None:
        if part.ref not in self._nodes:
            nodes = self._context.members.nodes.get(part.ref, ())
            self._nodes[part.ref] = {node.spec.provider_id.lower(): node for node in nodes}
        return self._nodes[part.ref].get(machine.lower())

    def _is_over(self, reservation: Reservation) -> bool:
        """Return whether nothing is left of a broken reservation, or it has been cleaned up for long enough."""
        if not reservation.broken:
            return False
        given_up = reservation.deadline + reservation.patience + _LEFTOVER_SECONDS < self._context.now
        return given_up or not any(part.nodes for part in reservation.parts)


def _ahead(action: IncreaseSize, seen: GroupSeen | None, reservations: Iterable[Reservation]) -> int:
    """Return how many machines that are still to come belong neither to the increase nor to a reservation."""
    if seen is None or seen.instances is None:
        return 0
    parts = (part for reservation in reservations for part in reservation.parts if part.ref == action.group)
    return max(0, action.expected_target - len(seen.instances) - sum(part.missing for part in parts))


def _known_before(group: GroupSeen, before: GroupSeen | None, living: Sequence[str]) -> set[str]:
    """Return the machines that existed before. An autoprovisioned group that is seen for the first time had none."""
    if before is not None:
        return {one.id for one in before.instances or ()}
    return set() if group.group.autoprovisioned else set(living)


def _part(reservation: Reservation, ref: GroupRef) -> ReservationPart | None:
    return next((part for part in reservation.parts if part.ref == ref), None)


def _with_part(reservation: Reservation, fresh: ReservationPart, broken: str) -> Reservation:
    return replace(reservation.with_part(fresh), broken=reservation.broken or broken)


def _reconciled(part: ReservationPart, living: set[str], coming: int) -> tuple[ReservationPart, list[str], str]:
    """Return the part without lost machines and those that will not come, the lost machines, and why that breaks it."""
    lost = [machine for machine in part.machines if machine not in living]
    never = max(0, part.missing - coming)
    kept = tuple(machine for machine in part.machines if machine in living)
    fresh = replace(part, machines=kept, nodes=part.nodes - len(lost) - never)
    if lost:
        return fresh, lost, f"machine {lost[0]} of group {part.ref} failed or disappeared"
    return fresh, lost, f"{never} machines of group {part.ref} are no longer asked for" if never else ""


def _forget(found: dict[str, Reservation], ref: GroupRef) -> None:
    """Break the parts of a group that no longer exists."""
    for name, reservation in found.items():
        part = _part(reservation, ref)
        if part is not None:
            gone = replace(part, nodes=0, machines=(), asked=True)
            found[name] = _with_part(reservation, gone, f"group {ref} is gone")


def _hand_over(parts: dict[str, ReservationPart], machine: str) -> None:
    """Assign a new machine to the oldest claim."""
    for name, part in parts.items():
        if part.ahead > 0:
            for other, its in parts.items():
                parts[other] = replace(its, ahead=max(0, its.ahead - 1))
            return
        if part.missing > 0:
            parts[name] = replace(part, machines=(*part.machines, machine))
            return


def _incomplete(reservation: Reservation) -> str:
    """Return why a reservation never was whole: not all its machines could be asked for. Empty if it was."""
    asked = sum(part.nodes for part in reservation.parts)
    return f"{asked} of {reservation.nodes} machines could be asked for" if asked < reservation.nodes else ""
