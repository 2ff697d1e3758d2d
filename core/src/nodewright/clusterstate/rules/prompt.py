"""The rule prompt (--size-correction=prompt) for one group.

It says what is under way, what is overdue, and whether the group is healthy.
"""

from dataclasses import replace

from nodewright.clusterstate.backoff import failed_to_start, late_machines, not_delivered, refused, without_effect
from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.readiness import is_group_healthy
from nodewright.clusterstate.requests import settled, split_overdue, with_increases, without
from nodewright.clusterstate.state import GroupContext, GroupState, Readiness
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, Done
from nodewright.model.group import InstanceState
from nodewright.snapshot.observation import GroupSeen


def evaluate_prompt(context: GroupContext) -> GroupState:
    """Evaluate a group: arrivals settle the oldest request, and overdue machines are given up in the same loop.

    A machine has arrived when its node registers. An instance without a node is timed from when it was first seen. A
    machine that comes after it was given up is adopted.
    """
    group, readiness = context.seen, context.readiness
    newly_late = tuple(i for i in readiness.long_unregistered if (context.ref, i) not in context.memory.late)
    newly_unready = tuple(name for name in readiness.just_overdue if (context.ref, name) not in context.memory.late)
    given_up = _still_given_up(group, context.memory)
    owed = max(0, _owed(group, readiness) - given_up)
    requests = with_increases(context.requests, context.increases, context.patience)
    requests = without(requests, sum(failure.count for failure in context.new_failures) + len(newly_late))
    withdrawn = {held.key for held in context.memory.provisioning.reservations.values() if held.broken}
    requests, taken_back = settled(requests, owed, context.arrived, context.now, context.patience, withdrawn)
    taken_back = 0 if _lowers_target(context) else taken_back
    requests, out_of_time = split_overdue(requests, len(readiness.unregistered), context.now)
    overdue = sum(request.increase for request in out_of_time)
    asked = min((request.started for request in out_of_time), default=0.0)
    failures = (
        *refused(context),
        *without_effect(context, taken_back),
        *failed_to_start(context),
        *late_machines(context, overdue, [i for i in newly_late if not _was_node(context, i)], newly_unready, asked),
    )
    short = not_delivered(context, failures)
    evaluated = GroupState(
        seen=group,
        readiness=readiness,
        upcoming=max(0, owed - overdue - context.doubtful) + len(readiness.not_started),
        timed_out=overdue,
        time_given=max((request.deadline - request.started for request in out_of_time), default=0.0),
        given_up=given_up + overdue,
        healthy=is_group_healthy(readiness, context.loop),
        requests=requests,
        newly_late=newly_late,
        newly_unready=newly_unready,
        new_failures=context.new_failures,
        newly_disputed=context.newly_disputed,
        taken_back=taken_back,
        shortfall="".join(failure.message for failure in short),
        failures=(*failures, *short),
    )
    return with_withdrawal(evaluated, context)


def _was_node(context: GroupContext, instance_id: str) -> bool:
    """Return whether this process saw the machine's node disappear: then its deletion is not a failure of the group."""
    machine, memory = (context.ref, instance_id), context.memory
    lost_at = memory.unregistered_since.get(machine, 0.0)
    return machine not in memory.never_ran and 0 < memory.scale_down.engine_started < lost_at


def with_withdrawal(group: GroupState, context: GroupContext) -> GroupState:
    """Return the group with when a decrease was last tried, and whether an accepted one had no effect."""
    decreases = [outcome for outcome in context.outcomes if isinstance(outcome.action, DecreaseTargetSize)]
    ineffective = any(
        isinstance(o, Done) and o.accepted and context.target >= o.action.expected_target for o in decreases
    )
    held = context.memory.withdrawn_at.get(context.ref, 0.0)
    tried = (outcome for outcome in decreases if not outcome.is_busy)
    last = max((outcome.started for outcome in tried), default=held)
    may_repeat = group.given_up or any(request.hedged for request in group.requests)
    return replace(group, withdrawn_at=last if may_repeat else 0.0, withdrawal_failed=ineffective)


def _lowers_target(context: GroupContext) -> bool:
    """Return whether our own writes may lower the target.

    Deleted machines may be listed for a while. Machines of a broken reservation are taken back; a crash loses the
    outcome.
    """
    deleting = any(ref == context.ref for ref, _ in context.memory.scale_down.deleting)
    broken = (
        part
        for reservation in context.memory.provisioning.reservations.values()
        if reservation.broken
        for part in reservation.parts
    )
    leaving = any(part.ref == context.ref and part.nodes for part in broken)
    return (
        deleting
        or leaving
        or any(isinstance(outcome.action, (DecreaseTargetSize, DeleteInstances)) for outcome in context.outcomes)
    )


def _still_given_up(group: GroupSeen, memory: Memory) -> int:
    """Return how many given-up machines are still part of the target and have not come."""
    held = memory.given_up.get(group.ref, 0)
    before = memory.last_known.get(group.ref)
    if held and before is not None and before.is_known:
        held = max(0, held - _withdrawn(before, group))
    return min(held, _without_machine(group))


def _withdrawn(before: GroupSeen, now: GroupSeen) -> int:
    """Return by how much the target fell without a machine or failure that disappeared. After a crash no outcome shows it."""
    (ids, nameless), (ids_now, nameless_now) = _places(before), _places(now)
    gone = len(ids - ids_now) + max(0, nameless - nameless_now)
    return max(0, (before.target or 0) - (now.target or 0) - gone)


def _places(group: GroupSeen) -> tuple[set[str], int]:
    """Return what fills the target: ids of machines and failures, and the number of failures without a machine."""
    ids = {instance.id for instance in group.staying}
    ids |= {failure.instance_id for failure in group.failed or () if failure.instance_id is not None}
    return ids, sum(failure.count for failure in group.failed or () if failure.instance_id is None)


def _owed(group: GroupSeen, readiness: Readiness) -> int:
    """Return how many machines are asked for and are not nodes, except failed ones."""
    failed = sum(failure.count for failure in group.failed or ())
    return (group.target or 0) - readiness.registered - len(readiness.long_unregistered) - failed


def _without_machine(group: GroupSeen) -> int:
    """Return how much of the target has no machine behind it."""
    instances = group.instances or ()
    there = len(instances) - [instance.state for instance in instances].count(InstanceState.DELETING)
    nameless = sum(failure.count for failure in group.failed or () if failure.instance_id is None)
    return max(0, (group.target or 0) - there - nameless)
