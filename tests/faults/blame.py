"""Whose fault was it? The failures of each group, as the cloud's log tells them, with the scope that the cloud stated."""

from collections.abc import Iterator, Mapping, Sequence

from tests.faults.backoffs import BUSY, FIRST, LONGEST, reached
from tests.faults.facts import SLACK, Facts, unregistered
from tests.faults.history import Loop, Seen


def may_be_left_alone_until(suspect: Sequence[float], now: float) -> float:
    """The longest that a group may be backed off, if each of these moments up to now was a failure."""
    until, doublings, last = float("-inf"), -1, float("-inf")
    for at in suspect:
        if at > now:
            break
        if at >= last + FIRST:  # a backoff doubles only after the one before has ended
            doublings, last = doublings + 1, at
        until = at + min(FIRST * 2.0**doublings, LONGEST) + SLACK
    return until


def suspects(facts: Facts, *, with_busy: bool = True) -> Mapping[str, list[float]]:
    """When each group may have been backed off or, ``with_busy``, deferred because the cloud was busy."""
    found: dict[str, list[float]] = {}
    known: dict[str, Seen] = {}
    looked: dict[str, float] = {}
    for loop in facts.loops:
        known |= loop.seen
        taken_back = [group for group in loop.seen if _is_lower(facts, group, looked.get(group, 0.0), loop.at)]
        for group in {
            *_failed_in(facts, loop, with_busy=with_busy),
            *_overdue_in(facts, loop, known, looked),
            *taken_back,
        }:
            found.setdefault(group, []).append(loop.at)
        looked |= dict.fromkeys(loop.seen, loop.at)
    return found


def _is_lower(facts: Facts, group: str, since: float, until: float) -> bool:
    """May a target have been lowered by somebody since it was read last? What we asked for has then come to nothing."""
    lowered = any(a.group == group and a.count < 0 and since <= a.at <= until for a in facts.history.asked)
    return lowered or facts.has_wrong_size(group, until)


def _failed_in(facts: Facts, loop: Loop, *, with_busy: bool) -> Iterator[str]:
    """The groups that a refusal or a failure of this loop reaches."""
    for write in loop.writes:
        if write.error in BUSY and not with_busy:
            continue
        if write.hook == "increase_size" and (write.error or not write.answered):
            yield from reached(facts, write.group, facts.stated_scope(write))
    for group, seen in loop.seen.items():
        for failure_id, failure in seen.failed.items():
            if facts.first_seen[group, failure_id] == loop.at or facts.resets:
                yield from reached(facts, group, failure.scope.value)


def _overdue_in(facts: Facts, loop: Loop, known: Mapping[str, Seen], looked: Mapping[str, float]) -> Iterator[str]:
    """The groups of which something may be given up in this loop, or is; ``known`` is how each was seen last, ``looked``
    when it was seen before this loop.
    """
    yield from (write.group for write in loop.writes if write.hook != "increase_size")
    yield from (group for group, seen in known.items() if _is_overdue(facts, group, seen, loop, looked.get(group, 0.0)))


def _is_overdue(facts: Facts, group: str, seen: Seen, loop: Loop, looked: float) -> bool:
    """May a machine of the group be out of time?"""
    late = loop.at - facts.patience
    # While the group cannot be read, what others do to it changes nothing of what is known of it.
    asked = [a for a in facts.history.asked if a.group == group and late <= a.at <= loop.at]
    if seen.without_machine > sum(max(0, a.count) for a in asked if a.ours or group in loop.seen):
        return True
    unclear = bool(facts.resets) or facts.has_wrong_size(group, loop.at)
    recent = float("-inf") if unclear else min(looked - facts.patience, late) - SLACK
    if any(recent <= facts.first_seen[group, machine] < late for machine in unregistered(seen, loop)):
        return True
    nodes = (loop.nodes[machine] for machine in seen.there if machine in loop.nodes)
    return any(not node.ready and not node.ever_ready for node in nodes)
