"""Which group is at fault: the failures of each group from the cloud's log, with the scope that the cloud stated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tests.faults.backoffs import BUSY, FIRST, LONGEST, SHARED, reached
from tests.faults.facts import SLACK, Facts, unregistered
from tests.faults.history import CLOSE, Loop, Seen

# A busy cloud is asked again after what it asked for, or after a pause that grows up to this.
LONGEST_PAUSE = 120.0


@dataclass
class Suspicions:
    """When each group may have failed, when it shared another's failure, and until when its cloud was busy.

    A group shares once; an engine that forgot everything may count it once more.
    """

    failed: dict[str, list[float]] = field(default_factory=dict)
    shared: dict[str, list[float]] = field(default_factory=dict)
    busy: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def backed_off_until(self, group: str, now: float) -> float:
        """The longest that a group may be backed off by now, if each of these moments was a failure."""
        until, doublings, last = float("-inf"), -1, float("-inf")
        for at in self.failed.get(group, ()):
            if at > now:
                break
            if at >= last + FIRST:  # a backoff doubles only after the one before has ended
                doublings, last = doublings + 1, at
            until = at + min(FIRST * 2.0**doublings, LONGEST) + SLACK
        shared = [at for at in self.shared.get(group, ()) if at <= now]
        return max(until, shared[-1] + SHARED + SLACK) if shared else until

    def left_alone_until(self, group: str, now: float) -> float:
        """The longest that a group may be asked for nothing by now: backed off, or while its cloud is busy."""
        busy = (until for at, until in self.busy.get(group, ()) if at <= now)
        return max(self.backed_off_until(group, now), max(busy, default=float("-inf")))


@lru_cache(maxsize=1)
def suspect(facts: Facts) -> Suspicions:
    """Return what may count against each group in one run."""
    found = Suspicions()
    known: dict[str, Seen] = {}
    looked: dict[str, float] = {}
    for loop in facts.loops:
        known |= loop.seen
        taken_back = [group for group in loop.seen if _is_lower(facts, group, looked.get(group, 0.0), loop)]
        failures = list(_failed_in(facts, loop))
        failed = {group for group, _ in failures}
        for group in {*failed, *_overdue_in(facts, loop, known, looked), *taken_back}:
            found.failed.setdefault(group, []).append(loop.at)
        for peer in {peer for group, scope in failures for peer in reached(facts, group, scope)} - failed:
            before = found.shared.setdefault(peer, [])
            if not before or before[-1] <= facts.last_reset(loop.at):
                before.append(loop.at)
        for write in loop.writes:
            if write.error in BUSY:
                pause = max(LONGEST_PAUSE, facts.told_pause(write)) + SLACK
                found.busy.setdefault(write.group, []).append((loop.at, loop.at + pause))
        for group in {group for machine, group in facts.small_nodes.items() if machine in loop.nodes}:
            found.busy.setdefault(group, []).append((loop.at, float("inf")))  # it is no place for pods
        looked |= dict.fromkeys(loop.seen, loop.at)
    return found


def _is_lower(facts: Facts, group: str, since: float, loop: Loop) -> bool:
    """May another writer have lowered a target since it was read last? What we asked for has then come to nothing."""
    lowered = any(a.group == group and a.count < 0 and since <= a.at <= loop.ends_reads for a in facts.history.asked)
    return lowered or facts.has_wrong_size(group, loop.at)


def _failed_in(facts: Facts, loop: Loop) -> Iterator[tuple[str, str]]:
    """The groups that fail in this loop, each with how far the cloud said that it reaches."""
    for write in loop.writes:
        if write.hook != "increase_size" or write.error in BUSY:
            continue
        # Another writer wrote between, unless old reads are to blame, which have no effect in the end.
        if write.error == "TargetChanged" and not facts.has_wrong_size(write.group, loop.at):
            continue
        if not write.is_granted:
            yield write.group, facts.stated_scope(write)
        elif (
            facts.asks_for_all_or_nothing and write.accepted < write.target - write.expected
        ):  # it may have been for all or nothing
            yield write.group, "group"
    for group, seen in loop.seen.items():
        for failure_id, failure in seen.failed.items():
            if facts.first_seen[group, failure_id] == loop.at or facts.resets:
                yield group, failure.scope.value


def _overdue_in(facts: Facts, loop: Loop, known: Mapping[str, Seen], looked: Mapping[str, float]) -> Iterator[str]:
    """The groups of which something may be given up in this loop, or is; ``known`` is how each was seen last, ``looked``
    when it was seen before this loop.
    """
    yield from (write.group for write in loop.writes if write.hook != "increase_size")
    yield from (group for group, seen in known.items() if _is_overdue(facts, group, seen, loop, looked.get(group, 0.0)))


def _is_overdue(facts: Facts, group: str, seen: Seen, loop: Loop, looked: float) -> bool:
    """May a machine of the group be out of time?"""
    if facts.is_misled(loop.at) and seen.there:  # in an old list its machines may not have joined
        return True
    late = loop.at - facts.patience
    mine = [a for a in facts.history.asked if a.group == group and a.at <= loop.at]
    missing, is_read = seen.without_machine, group in loop.seen
    if not is_read:  # what others do to it is not known then, and what we asked for may have come
        missing += sum(a.count for a in mine if a.ours and a.at >= looked)
    awaited = sum(a.count for a in mine if (a.ours or is_read) and a.at >= late)
    if missing > awaited - facts.withdrawn(group, late, loop.at):
        return True
    unclear = bool(facts.resets) or facts.has_wrong_size(group, loop.at)
    recent = float("-inf") if unclear else min(looked - facts.patience, late) - SLACK
    # The time of a reservation begins when it is asked for, and it ends where one of its machines is lost.
    asked_before = SLACK if facts.asks_for_all_or_nothing else 0.0
    is_old = any(a.ours and recent <= a.at < late + asked_before for a in mine)
    if facts.asks_for_all_or_nothing and is_old and unregistered(seen, loop):
        return True
    if any(recent <= facts.first_seen[group, machine] < late + asked_before for machine in unregistered(seen, loop)):
        return True
    if facts.asks_for_all_or_nothing and any(
        a.group == group and not a.ours and looked <= a.at <= loop.at for a in facts.history.asked
    ):
        return True
    nodes = (loop.nodes[machine] for machine in seen.there if machine in loop.nodes)
    # One that was Ready only when it was new looks as if it never had been to an engine that forgot.
    return any(not node.ever_ready or (facts.resets and node.last_ready <= node.since + CLOSE) for node in nodes)
