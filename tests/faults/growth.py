"""What must hold of growth: enough and in time, never too much, and nothing from a group that just failed."""

from collections.abc import Iterator, Mapping, Sequence

from tests.faults.backoffs import FIRST, LONGEST, expected_backoffs, reached
from tests.faults.facts import SLACK, STARTUP, TOLERATED_UNREADY, Facts, in_time, said, unready, unregistered
from tests.faults.history import Loop, Seen

Findings = Iterator[str]


def check_overbuying(facts: Facts) -> Findings:
    """Never more machines are asked for than pods need beyond those that are surely on their way."""
    for loop in facts.loops:
        asked = _asked_in(loop)
        bought = 0
        for group, count in asked.items():
            limits, seen = facts.groups[group], loop.seen.get(group)
            refill = max(0, limits.least - seen.target) if seen is not None else 0
            if count > refill:
                bought += (count - refill) * limits.slots - (limits.slots - 1)
        on_their_way = sum(_surely_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        needed = max(0, loop.pending - on_their_way)
        if bought > needed:
            yield (
                f"{loop.at:g} s: asked for room for {bought} pods ({dict(asked)}), but {loop.pending} wait"
                f" and there is room for {on_their_way} on its way"
            )


def check_prompt_growth(facts: Facts) -> Findings:
    """While pods wait for which nothing can be on its way, and some group is beyond suspicion, it grows at once."""
    suspects = _suspects(facts)
    for number, loop in enumerate(facts.loops):
        following = facts.loops[number + 1].at if number + 1 < len(facts.loops) else loop.ends_reads
        hindered = facts.is_paused(loop.at) or len(unready(loop)) > TOLERATED_UNREADY
        if hindered or facts.crashed_between(loop.at, following) or len(loop.seen) < len(facts.groups):
            continue
        possible = sum(_perhaps_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        open_groups = [
            group
            for group, seen in loop.seen.items()
            if loop.at > _may_be_left_alone_until(suspects.get(group, ()), loop.at)
            and seen.target < facts.groups[group].most
            and not facts.has_wrong_size(group, loop.at)
        ]
        if loop.pending > possible and open_groups and not _asked_in(loop):
            yield f"{loop.at:g} s: {loop.pending} pods wait, {possible} may find room, and nobody asks {open_groups}"


def check_backoffs(facts: Facts) -> Findings:
    """A group that failed is not asked again for 5 minutes, then 10, 20, 30."""
    for loop, until in expected_backoffs(facts):
        for write in loop.writes:
            if write.hook == "increase_size" and loop.at <= until.get(write.group, float("-inf")):
                yield said(loop, write, f"is to be left alone until {until[write.group]:g} s")


def _may_be_left_alone_until(suspect: Sequence[float], now: float) -> float:
    """The longest that a group may be backed off, if each of these moments up to now was a failure."""
    until, doublings, last = float("-inf"), -1, float("-inf")
    for at in suspect:
        if at > now:
            break
        if at >= last + FIRST:  # a backoff doubles only after the one before has ended
            doublings, last = doublings + 1, at
        until = at + min(FIRST * 2.0**doublings, LONGEST) + SLACK
    return until


def _asked_in(loop: Loop) -> Mapping[str, int]:
    """By how much each group was to grow in one loop, repeated calls counted once."""
    grown: dict[str, tuple[int, int]] = {}
    for write in loop.writes:
        if write.hook == "increase_size":
            low, high = grown.get(write.group, (write.expected, write.target))
            grown[write.group] = (min(low, write.expected), max(high, write.target))
    return {group: high - low for group, (low, high) in grown.items()}


def _surely_coming(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which machines are on their way that nobody can take for lost."""
    if facts.has_wrong_size(group, loop.at):
        return 0
    machines = max(0, min(seen.without_machine, in_time(facts, group, loop.at)))
    for machine in seen.there:
        node = loop.nodes.get(machine)
        if node is None:
            machines += facts.first_seen[group, machine] >= loop.at - facts.patience
        else:
            machines += not node.ever_ready and node.since > loop.at - STARTUP
    return machines * facts.groups[group].slots


def _perhaps_coming(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which there may be machines on their way."""
    since = loop.at - 2 * facts.patience - SLACK
    lately = facts.asked(group, since - facts.hindered(group, since, loop.at), loop.at)
    unclear = facts.last_reset(loop.at) > since or facts.has_wrong_size(group, loop.at)
    missing = seen.without_machine if unclear else min(seen.without_machine, lately)
    missing -= sum(w.expected - w.target for w in loop.writes if w.group == group and w.hook == "decrease_target_size")
    late = loop.at - facts.patience
    idle = 0
    for machine in seen.there:
        since = max(facts.first_seen[group, machine], facts.knows_since(loop.at))
        idle += not loop.nodes[machine].ready if machine in loop.nodes else since >= late
    return (max(0, missing) + idle) * facts.groups[group].slots


def _suspects(facts: Facts) -> Mapping[str, list[float]]:
    """When each group may have been backed off."""
    found: dict[str, list[float]] = {}
    known: dict[str, Seen] = {}
    looked: dict[str, float] = {}
    for loop in facts.loops:
        known |= loop.seen
        taken_back = [group for group in loop.seen if _is_lower(facts, group, looked.get(group, 0.0), loop.at)]
        for group in {*_failed_in(facts, loop), *_overdue_in(facts, loop, known), *taken_back}:
            found.setdefault(group, []).append(loop.at)
        looked |= dict.fromkeys(loop.seen, loop.at)
    return found


def _is_lower(facts: Facts, group: str, since: float, until: float) -> bool:
    """May a target have been lowered by somebody since it was read last? What we asked for has then come to nothing."""
    lowered = any(a.group == group and a.count < 0 and since <= a.at <= until for a in facts.history.asked)
    return lowered or facts.has_wrong_size(group, until)


def _failed_in(facts: Facts, loop: Loop) -> Iterator[str]:
    """The groups that a refusal or a failure of this loop reaches."""
    for write in loop.writes:
        if write.hook == "increase_size" and (write.error or not write.answered):
            yield from reached(facts, write.group, write.scope or "group")
    for group, seen in loop.seen.items():
        for failure_id, failure in seen.failed.items():
            if facts.first_seen[group, failure_id] == loop.at or facts.resets:
                yield from reached(facts, group, failure.scope.value)


def _overdue_in(facts: Facts, loop: Loop, known: Mapping[str, Seen]) -> Iterator[str]:
    """The groups of which something may be given up in this loop, or is; ``known`` is how each was seen last."""
    yield from (write.group for write in loop.writes if write.hook != "increase_size")
    yield from (group for group, seen in known.items() if _is_overdue(facts, group, seen, loop))


def _is_overdue(facts: Facts, group: str, seen: Seen, loop: Loop) -> bool:
    """May a machine of the group be out of time?"""
    late = loop.at - facts.patience
    if seen.without_machine > facts.asked(group, late, loop.at):
        return True
    recent = float("-inf") if facts.resets or facts.has_wrong_size(group, loop.at) else late - SLACK
    if any(recent <= facts.first_seen[group, machine] < late for machine in unregistered(seen, loop)):
        return True
    nodes = (loop.nodes[machine] for machine in seen.there if machine in loop.nodes)
    return any(not node.ready for node in nodes)
