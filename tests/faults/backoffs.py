"""How long each group must be left alone, worked out from its failures as they were seen from outside."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.faults.facts import STARTUP, Facts, hedged_lately, unregistered
from tests.faults.history import Loop, Write

FIRST, LONGEST, FORGOTTEN = 300.0, 1800.0, 3 * 3600.0
# A group that only shares the scope of a failure is left alone for so long, and not again while that is remembered.
SHARED = FIRST / 2
# Errors after which the call certainly had no effect.
_CLEAR = ("OutOfCapacity", "QuotaExceeded", "AccessDenied")
# A cloud that asks to come back later. No group fails by that.
BUSY = ("Throttled", "OperationInProgress")


@dataclass(frozen=True)
class _Failure:
    """One reason to leave a group alone; ``settles`` with the loop of that number at the earliest.

    ``shared``: it was another group that failed, of something that the cloud said both share.
    """

    at: float
    group: str
    settles: int
    written_in: float | None = None
    shared: bool = False


@dataclass
class _Backoff:
    until: float
    duration: float
    last: float
    shared: bool = False


def expected_backoffs(facts: Facts) -> Iterator[tuple[Loop, dict[str, float]]]:
    """Each loop, and until when every group is backed off at least."""
    held: dict[str, _Backoff] = {}
    doubtful: set[str] = set()
    failures = _failures(facts)
    previous = 0.0
    for number, loop in enumerate(facts.loops):
        if any(previous <= at <= loop.at for at in facts.resets):
            held.clear()
            doubtful |= facts.groups.keys()
        doubtful |= {a.group for a in facts.history.asked if a.count < 0 and a.at <= loop.at}
        due = [failure for failure in failures if failure.settles == number]
        for group in facts.groups:
            doubtful |= {group} if _may_have_timed_out(facts, group, loop) else set()
            mine = [failure for failure in due if failure.group == group]
            lost = [f for f in mine if f.written_in is not None and facts.crashed_between(f.written_in, loop.at)]
            doubtful |= {group} if lost else set()
            known = [failure.at for failure in mine if failure not in lost and not failure.shared]
            shared = [failure.at for failure in mine if failure not in lost and failure.shared]
            if known:
                held[group] = _after(held.get(group), max(known), sure=group not in doubtful)
            elif shared and group not in held and group not in doubtful:
                held[group] = _Backoff(min(shared) + SHARED, FIRST, min(shared), shared=True)
        yield loop, {group: backoff.until for group, backoff in held.items()}
        doubtful |= {write.group for write in loop.writes if _is_doubtful(write)}
        previous = loop.at


def _after(held: _Backoff | None, at: float, *, sure: bool) -> _Backoff:
    """5, 10, 20, 30 minutes; where a failure may have gone unseen, no more than the first is certain."""
    if held is None or held.shared or at > held.last + FORGOTTEN or not sure:
        duration = FIRST
    elif held.until < at:
        duration = min(2 * held.duration, LONGEST)
    else:
        duration = held.duration
    return _Backoff(at + duration, duration, at)


def _failures(facts: Facts) -> list[_Failure]:
    found: list[_Failure] = []
    for number, loop in enumerate(facts.loops):
        for write in loop.writes:
            if write.hook == "increase_size" and (_is_refused(write) or _is_read_as_before(facts, number, write)):
                failure = _Failure(_first_try(loop, write), write.group, number + 1, loop.at)
                scope = facts.stated_scope(write) if _is_refused(write) else "group"
                found += (failure, *_shared(facts, failure, scope))
        for group, seen in loop.seen.items():
            for failure_id, told in seen.failed.items():
                if facts.first_seen[group, failure_id] == loop.at:
                    failure = _Failure(loop.at, group, number)
                    found += (failure, *_shared(facts, failure, told.scope.value))
            if _fails_by_age(facts, group, number):
                found.append(_Failure(loop.at, group, number))
    return found


def _is_refused(write: Write) -> bool:
    return write.error in _CLEAR or write.answered == 0


def _is_read_as_before(facts: Facts, number: int, write: Write) -> bool:
    """Was the write refused because the size had changed, while the next loop reads the size that it expected?"""
    if write.error != "TargetChanged" or number + 1 == len(facts.loops):
        return False
    seen = facts.loops[number + 1].seen.get(write.group)
    return seen is not None and seen.target == write.expected


def _shared(facts: Facts, failure: _Failure, scope: str) -> Iterator[_Failure]:
    for peer in reached(facts, failure.group, scope, sure=True) - {failure.group}:
        yield replace(failure, group=peer, shared=True)


def _first_try(loop: Loop, write: Write) -> float:
    """When the call began of which this is the last repeat."""
    return min(other.at for other in loop.writes if (other.hook, other.group) == (write.hook, write.group))


def _fails_by_age(facts: Facts, group: str, number: int) -> bool:
    """Is a machine found to be too late in just this loop: the first that withdraws it, or sees it out of time?"""
    if not number or facts.resets:
        return False
    loop, before = facts.loops[number], facts.loops[number - 1]
    seen, earlier = loop.seen[group], before.seen.get(group)
    if earlier is None or facts.has_wrong_size(group, loop.at):
        return False
    # A machine whose node was deleted by hand has joined long ago.
    late = (machine for machine in unregistered(seen, loop) if machine not in before.nodes)
    due = (facts.first_seen[group, machine] + facts.patience for machine in late)
    if any(before.at <= at < loop.at for at in due):
        return True
    hindered = facts.hindered(group, before.at - 2 * facts.patience, loop.at) > 0
    lately = [other for other in facts.loops[:number] if other.at > loop.at - 2 * FIRST]
    tried = any(write.group == group and write.hook != "increase_size" for other in lately for write in other.writes)
    withdraws = any(write.group == group and write.hook == "decrease_target_size" for write in loop.writes)
    is_hedge = hedged_lately(facts, group, loop.at) > 0
    return withdraws and not (hindered or tried or facts.asks_for_all_or_nothing or is_hedge)


def reached(facts: Facts, group: str, scope: str, *, sure: bool = False) -> frozenset[str]:
    """The groups that share what the cloud said is short: those that may or, if ``sure``, those that always did.

    One account has many quotas: its other groups are asked.
    """
    own = facts.groups[group]
    match scope:
        case "zone":
            zones = {name: other.zones for name, other in facts.groups.items()}
            if sure:
                return frozenset(name for name, theirs in zones.items() if len(theirs | own.zones) == 1)
            return frozenset(name for name, theirs in zones.items() if theirs & own.zones)
        case "instance_type":
            return frozenset(name for name, other in facts.groups.items() if other.instance_type == own.instance_type)
        case _:
            return frozenset([group])


def _is_doubtful(write: Write) -> bool:
    """May the engine take this for a failure, or not?"""
    return write.hook == "increase_size" and bool(write.error) and write.error not in (*_CLEAR, *BUSY)


def _may_have_timed_out(facts: Facts, group: str, loop: Loop) -> bool:
    """May a machine have been given up by its age by now?"""
    seen = loop.seen.get(group)
    if seen is None or facts.has_wrong_size(group, loop.at):
        return True
    late = loop.at - facts.patience
    if seen.without_machine > facts.asked(group, late + 1, loop.at):
        return True
    if any(facts.first_seen[group, machine] <= late for machine in unregistered(seen, loop)):
        return True
    nodes = (loop.nodes[machine] for machine in seen.there if machine in loop.nodes)
    return any(not node.ready and node.since <= loop.at - STARTUP for node in nodes)
